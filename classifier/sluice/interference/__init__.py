"""Interference of programs on a site's storage: the fit of its law, and the evidence."""
