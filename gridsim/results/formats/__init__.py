"""Results as job logs and traces of other tools."""
