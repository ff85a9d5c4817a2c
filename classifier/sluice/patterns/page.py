"""An HTML page in one file: no script, nothing from elsewhere, readable without its pictures."""

from __future__ import annotations

import base64
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem;"
    "color:#1b1b1b;background:#fff}"
    "table{border-collapse:collapse;margin:1rem 0}td,th{padding:.2rem .8rem;text-align:right;"
    "border-bottom:1px solid #ddd;font-variant-numeric:tabular-nums}"
    "td:first-child,th:first-child{text-align:left}th{font-weight:600}"
    "caption{text-align:left;font-weight:600;padding:.2rem 0}"
    ".wide{overflow-x:auto}img{max-width:32rem;width:100%}figure{margin:1rem 1rem 1rem 0}"
    "figure{display:inline-block;vertical-align:top;width:32rem;max-width:100%}"
    "figure.wide,figure.wide img{width:64rem;max-width:100%}figcaption{color:#444}"
    "pre{background:#f4f4f4;padding:.8rem;overflow-x:auto;white-space:pre-wrap}"
)


def document(title: str, parts: Iterable[str]) -> str:
    """Return a page of these pieces of HTML."""
    return "\n".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title><style>{STYLE}</style></head><body><main>",
            *parts,
            "</main></body></html>",
            "",
        ]
    )


def table(heading: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> str:
    """Return a table whose first column names the rows."""
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in heading)
    body = "".join(
        f'<tr><th scope="row">{escape(row[0])}</th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in row[1:])
        + "</tr>"
        for row in rows
    )
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    return (
        f'<div class="wide"><table>{title}<thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def image(alt: str, png: bytes) -> str:
    """Return a picture; alt says what it shows to who cannot see it."""
    data = base64.b64encode(png).decode()
    return f'<img alt="{escape(alt)}" src="data:image/png;base64,{data}">'


def paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>"


def heading(text: str, level: int = 2) -> str:
    return f"<h{level}>{escape(text)}</h{level}>"
