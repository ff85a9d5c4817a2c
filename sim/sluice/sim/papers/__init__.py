"""Figures of published papers, asked of the request-level world: `sluice lab reproduce`."""
