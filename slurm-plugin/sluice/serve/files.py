"""Pages in one file, by the templates of `sluice serve`. The only importer of jinja2."""

from __future__ import annotations

import re
from base64 import b64encode
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from sluice.serve.tables import parts_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sluice.serve.tables import Part

FOLDER = Path(__file__).parent
NUMBER = re.compile(r"[-+<>≤≥]?\d.*|–|not known|")
"""Cells of a column of numbers."""


def prepare(jinja: Environment) -> None:
    """Set up an environment as the templates expect it."""
    jinja.undefined = StrictUndefined
    jinja.trim_blocks = jinja.lstrip_blocks = True
    jinja.filters["base64"] = lambda content: b64encode(content).decode()
    jinja.filters["numbers"] = _numbers


def _numbers(rows: Sequence[Sequence[Any]]) -> set[int]:
    """Return the places of columns that hold only numbers; the first names the rows."""
    columns = enumerate(zip(*rows, strict=False))
    return {i for i, cells in columns if i and all(NUMBER.fullmatch(str(one)) for one in cells)}


def file_page(title: str, parts: Iterable[Part]) -> bytes:
    """Return a page that needs no other file; equal parts give equal bytes."""
    jinja = Environment(loader=FileSystemLoader(FOLDER / "templates"), autoescape=True)
    prepare(jinja)
    style = Markup((FOLDER / "static" / "serve.css").read_text())  # noqa: S704 - ours
    facts = {"title": title, "style": style, "parts": parts_json(parts)}
    return jinja.get_template("file.html").render(facts).encode()
