"""Pictures as PNG, and those of a model card. The only module of the classifier that draws."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sluice.patterns.model_card import Card

SIZE = (5.2, 4.2)  # inches
SHOWN = 15  # features
BLUE, GREY = "#2f6f9f", "#9a9a9a"


def draw(card: Card) -> dict[str, bytes]:
    """Return PNG images by name; the same card gives the same bytes."""
    found = card["unseen_applications"]
    pictures = {
        "confusion": picture(_confusion, found["confusion"]),
        "reliability": picture(reliability_plot, found),
        "abstentions": picture(_abstentions, found["abstentions"]),
    }
    if card["chunk"]:
        pictures["chunks"] = picture(_chunks, card["chunk"]["errors"])
    if card["importance"]:
        pictures["importance"] = picture(_importance, card["importance"])
    return pictures


def picture(paint: Any, data: Any, *, size: tuple[float, float] = SIZE, rows: int = 1) -> bytes:
    """Return what paint(axes, data) draws, size in inches; rows above each other share x.

    axes is one, or an array of `rows`. Equal data give equal bytes.
    """
    figure = Figure(figsize=size, dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    paint(figure.subplots(rows, sharex=rows > 1), data)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()


def _confusion(axes: Axes, table: dict[str, dict[str, int]]) -> None:
    truths, answers = list(table), list(next(iter(table.values())))
    counts = np.array([[table[truth][answer] for answer in answers] for truth in truths])
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    for row, column in np.argwhere(counts > 0):
        colour = "white" if shares[row, column] > 0.6 else "black"
        axes.text(column, row, str(counts[row, column]), ha="center", va="center", color=colour)
    axes.set_xticks(range(len(answers)), answers, rotation=45, ha="right")
    axes.set_yticks(range(len(truths)), truths)
    axes.set(xlabel="answer", ylabel="truth", title="What was said of what")


def reliability_plot(axes: Axes, found: dict[str, Any]) -> None:
    """Paint how often answers of each class of confidence were right; found is `quality`."""
    axes.plot([0, 1], [0, 1], color=GREY, linewidth=1)
    for confidence, right, count in found["reliability"]:
        axes.scatter(confidence, right, s=20 + 200 * count / found["logs"], color=BLUE)
        axes.annotate(str(count), (confidence, right), textcoords="offset points", xytext=(6, -10))
    error = found["calibration_error"]
    axes.set(xlim=(0, 1.03), ylim=(0, 1.03), xlabel="confidence", ylabel="share that is right")
    axes.set_title(f"Reliability; expected calibration error {error:.3f}")


def _abstentions(axes: Axes, rows: list[tuple[float, float, float | None]]) -> None:
    known = [(said, right, threshold) for threshold, said, right in rows if right is not None]
    axes.plot([said for said, _, _ in known], [right for _, right, _ in known], "o-", color=BLUE)
    for said, right, threshold in known:
        axes.annotate(f"≥ {threshold}", (said, right), textcoords="offset points", xytext=(4, 5))
    axes.set(xlim=(0, 1.05), ylim=(0, 1.05), xlabel="share answered", ylabel="accuracy of those")
    axes.set_title("Abstentions")


def _chunks(axes: Axes, errors: list[float]) -> None:
    axes.hist(np.clip(errors, -4, 4), bins=np.arange(-4.25, 4.5, 0.5).tolist(), color=BLUE)
    axes.axvspan(-1, 1, color=GREY, alpha=0.2)
    axes.set(xlabel="octaves: log2 (found / true)", ylabel="logs", title="Chunk size")


def _importance(axes: Axes, losses: dict[str, float]) -> None:
    names = list(losses)[:SHOWN][::-1]
    axes.barh(names, [losses[name] for name in names], color=BLUE)
    axes.set(xlabel="accuracy lost when shuffled", title="Importance of the features")
