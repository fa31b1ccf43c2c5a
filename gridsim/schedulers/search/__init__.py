"""Four decentralized methods to search for idle hosts."""
