"""Many logs, as they arrive: found, read side by side, believed or not, kept in the history."""
