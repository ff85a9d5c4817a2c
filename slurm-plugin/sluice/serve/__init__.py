"""`sluice serve`: the pages on which a site reads, questions and overrules Sluice.

They read the history, the bundle, the snapshot and what the daemons leave next to them, and never
ask Slurm. `site.py` opens these, `access.py` says who asks, a module a page collects its facts and
lays them out as tables (`tables.py`), and `app.py` answers them as HTML, JSON or CSV.
"""
