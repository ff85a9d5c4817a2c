"""What is replayed: jobs from a trace or a history, their I/O, and the machine they run on."""
