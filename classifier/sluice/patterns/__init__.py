"""Measurement -> pattern: what a run's I/O is called, and how sure that is."""
