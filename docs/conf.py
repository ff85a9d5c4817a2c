"""What Sphinx is told: the pages of docs/, with a search, and nothing from elsewhere.

`python docs/site.py` adds the manual pages and builds.
"""

project = "Sluice"
extensions = ["myst_parser"]
html_theme = "furo"
html_title = "Sluice"
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
myst_heading_anchors = 4
# Debian 12's Sphinx and myst-parser say so of every option of `toctree` that they do not know.
suppress_warnings = ["myst.domains"]
