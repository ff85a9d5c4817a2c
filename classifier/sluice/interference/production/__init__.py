"""Interference between production jobs: seen in their own logs."""
