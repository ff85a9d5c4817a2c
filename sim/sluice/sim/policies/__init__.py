"""What decides about jobs in a replay."""
