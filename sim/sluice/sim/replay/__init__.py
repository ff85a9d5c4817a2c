"""Replays: one, many side by side, and what they say."""
