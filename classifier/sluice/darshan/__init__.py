"""Darshan log -> measurement: what a run did to storage, in numbers."""
