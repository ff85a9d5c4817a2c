"""`sluice serve`: the pages on which a site reads, questions and overrules Sluice.

They read the history, the bundle, the snapshot and the status files of the daemons, and never ask
Slurm. `access.py` knows users and `app.py` answers them as HTML, JSON or CSV. `pages.py` is the
table of all pages: a module for each collects its facts from `site.py` and lays them out
(`tables.py`). `files.py` writes pages of the same templates for reports of other commands.
"""
