"""What a run gives: tables, metrics, files and other formats."""
