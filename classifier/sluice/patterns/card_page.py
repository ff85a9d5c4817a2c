"""A model card as one HTML page with its pictures in it, and as files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from sluice.patterns.page import document, heading, image, paragraph, table
from sluice.patterns.plots import draw

if TYPE_CHECKING:
    from pathlib import Path

    from sluice.patterns.model_card import Card

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
        "the interval is that of 95 %, over resampled logs. By chance: the calibration error "
        "that so few logs would show if every confidence were right."
    )
    return document(
        "Model card: patterns",
        [
            heading("Model card: patterns of I/O", 1),
            paragraph(how),
            table(
                ("", "logs", "accuracy", "macro-F1", "interval", "calibration error", "by chance"),
                [(title, *_cells(found)) for title, found in quality_rows(card)],
            ),
            _chunk_table(card),
            *(image(name, png) for name, png in pictures.items()),
        ],
    )


def _cells(found: dict[str, Any]) -> tuple[str, ...]:
    low, high = found["macro_f1_interval"]
    return (
        str(found["logs"]),
        f"{found['accuracy']:.1%}",
        f"{found['macro_f1']:.3f}",
        f"{low:.3f} to {high:.3f}",
        f"{found['calibration_error']:.3f}",
        f"{found['calibration_error_by_chance']:.3f}",
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
    titles = ("chunk size", "logs", "within a factor of two", "median octaves", "95 % below")
    return table(titles, rows) if rows else ""
