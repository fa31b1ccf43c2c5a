"""The fair tree: availability summaries, the tree that keeps them, and its compiled nodes."""
