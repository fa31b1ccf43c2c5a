"""The experiments of Celaya and Marchal on the fair tree."""
