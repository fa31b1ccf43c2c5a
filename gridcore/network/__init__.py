"""Links between nodes: messages under way, and interfaces that send one after the other."""
