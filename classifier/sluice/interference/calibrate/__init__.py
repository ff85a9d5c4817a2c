"""Measure which programs disturb each other on a site's own storage, and learn from it."""
