"""Many logs, as they arrive: found, read side by side, trusted or not, stored in the history."""
