"""Conversion of results to and from the job logs and traces of other tools."""
