"""Links between nodes: messages in flight, and interfaces that send them one after another."""
