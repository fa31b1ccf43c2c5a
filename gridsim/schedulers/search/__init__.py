"""Four methods to search for idle hosts."""
