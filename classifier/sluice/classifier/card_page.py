"""A model card as one HTML page with its pictures in it, and as files."""

from __future__ import annotations

import base64
import json
from html import escape
from typing import TYPE_CHECKING, Any

from sluice.classifier.plots import draw

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from sluice.classifier.model_card import Card

STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse;margin:1rem 0}td,th{padding:.2rem .8rem;text-align:right;"
    "border-bottom:1px solid #ddd}td:first-child,th:first-child{text-align:left}"
    "img{max-width:32rem;width:100%}"
)
TITLES = {
    "unseen_applications": "applications not seen",
    "unseen_libraries": "libraries not seen",
}


def save_card(card: Card, folder: Path) -> list[Path]:
    """Write card.json, card.html and the pictures into a folder; return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    pictures = draw(card)
    contents: dict[str, bytes] = {
        "card.json": (json.dumps(card, indent=2) + "\n").encode(),
        "card.html": _page(card, pictures).encode(),
        **{f"{name}.png": image for name, image in pictures.items()},
    }
    paths = []
    for name, content in contents.items():
        paths.append(folder / name)
        paths[-1].write_bytes(content)
    return paths


def quality_rows(card: Card) -> list[tuple[str, dict[str, Any]]]:
    """Return what was judged, by its title: the classifier first, the baselines last."""
    rows = [(title, card[name]) for name, title in TITLES.items() if name in card]
    return [*rows, *((f"baseline: {name}", found) for name, found in card["baselines"].items())]


def _page(card: Card, pictures: dict[str, bytes]) -> str:
    kinds = ", ".join(f"{count} {kind}" for kind, count in card["examples"].items())
    tested = ", ".join(f"{name} ({count})" for name, count in card["applications"].items())
    how = (
        f"{card['how'].capitalize()}. Learned from {kinds} logs; asked about {tested}. "
        f"Best guesses count, also those below the threshold of {card['min_confidence']}; "
        "the interval is that of 95 %, over resampled logs."
    )
    return "\n".join(
        [
            "<!doctype html><html lang=en><meta charset=utf-8>",
            f"<title>Model card: patterns</title><style>{STYLE}</style>",
            "<h1>Model card: patterns of I/O</h1>",
            f"<p>{escape(how)}</p>",
            _table(
                ("", "logs", "accuracy", "macro-F1", "interval", "calibration error"),
                [(title, *_cells(found)) for title, found in quality_rows(card)],
            ),
            _chunk_table(card),
            *(_image(name, image) for name, image in pictures.items()),
            "</html>",
            "",
        ]
    )


def _cells(found: dict[str, Any]) -> tuple[str, ...]:
    low, high = found["macro_f1_interval"]
    return (
        str(found["logs"]),
        f"{found['accuracy']:.1%}",
        f"{found['macro_f1']:.3f}",
        f"{low:.3f} to {high:.3f}",
        f"{found['calibration_error']:.3f}",
    )


def _chunk_table(card: Card) -> str:
    rows = [
        (
            title,
            str(found["logs"]),
            f"{found['within_factor_two']:.1%}",
            f"{found['median_octaves']:.2f}",
            f"{found['percentile_95_octaves']:.2f}",
        )
        for title, name in (("labelled", "chunk"), ("synthesised", "chunk_synthesised"))
        if (found := card.get(name))
    ]
    heading = ("chunk size", "logs", "within a factor of two", "median octaves", "95 % below")
    return _table(heading, rows) if rows else ""


def _table(heading: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    head = "".join(f"<th>{escape(cell)}" for cell in heading)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}" for cell in row) for row in rows)
    return f"<table><tr>{head}{body}</table>"


def _image(name: str, content: bytes) -> str:
    data = base64.b64encode(content).decode()
    return f'<img alt="{escape(name)}" src="data:image/png;base64,{data}">'
