"""Build the site of documentation: `python docs/site.py DIRECTORY`, in which it lies then.

It has the pages of guide, reference and evidence, every manual page, and a search that works from
files. It needs Sphinx with myst-parser and furo, and groff; a warning of Sphinx is an error.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
PAGES = ("conf.py", "index.md", "guide", "reference", "evidence")
MANUAL = "# {title}\n\n```text\n{text}\n```\n"
INDEX = """\
# Manual pages

```{{toctree}}
:maxdepth: 1

{pages}
```
"""


def manual(page: Path) -> str:
    """Return a manual page, as a terminal shows it, as a page of the site."""
    command = ("groff", "-man", "-Tutf8", "-P-cbou", "-rLL=92n", str(page))
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return MANUAL.format(title=f"{page.stem}({page.suffix[1:]})", text=text.strip("\n"))


def gather(source: Path) -> None:
    """Copy the pages to `source`, and write the manual pages beside them."""
    for name in PAGES:
        copy = shutil.copytree if (HERE / name).is_dir() else shutil.copy
        copy(HERE / name, source / name)
    (source / "man").mkdir()
    pages = sorted((HERE / "man").iterdir(), key=lambda page: (page.suffix, page.name))
    for page in pages:
        (source / "man" / f"{page.name}.md").write_text(manual(page))
    (source / "man/index.md").write_text(INDEX.format(pages="\n".join(p.name for p in pages)))


def main() -> int:
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        print(__doc__.strip())
        return 0 if sys.argv[1:] == ["--help"] else 2
    with tempfile.TemporaryDirectory() as folder:
        source, built = Path(folder, "source"), Path(folder, "html")
        source.mkdir()
        gather(source)
        options = ("-q", "-W", "--keep-going", "-d", str(Path(folder, "doctrees")))
        command = (sys.executable, "-m", "sphinx", *options, str(source), str(built))
        status = subprocess.run(command, check=False).returncode
        if status == 0:
            shutil.rmtree(sys.argv[1], ignore_errors=True)
            shutil.copytree(built, sys.argv[1], ignore=shutil.ignore_patterns(".buildinfo"))
    return status


if __name__ == "__main__":
    sys.exit(main())
