"""`sluice serve`: the pages on which a site reads, questions and overrules Sluice.

The front knows logins (`access.py`), speaks HTTP (`app.py`, `server.py`), and asks for each page
(`wire.py`) what runs as SlurmUser: `backend.py`, a child of sluiced. `pages.py` is the table of all
pages: a module for each collects its facts from `site.py` and lays them out (`tables.py`). No page
asks Slurm. `files.py` writes pages of the same templates for reports of other commands.
"""
