"""Pictures of a calibration. The only module that imports matplotlib."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from sluice.interference.programs import MIB, size_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sluice.interference.calibrate.analysis import BreakEven, DeltaPoint, Matrix

DPI = 110


def _png(figure: Figure) -> bytes:
    FigureCanvasAgg(figure)
    buffer = io.BytesIO()
    # Without the version of the library, equal data give equal files.
    figure.savefig(buffer, format="png", dpi=DPI, metadata={"Software": None})
    return buffer.getvalue()


def heat_maps(matrices: Sequence[Matrix]) -> bytes:
    """Draw one matrix a chunk size: the loss of the row's program beside the column's."""
    figure = Figure(figsize=(2.6 * len(matrices) + 0.8, 3.2), layout="constrained")
    axes = figure.subplots(1, len(matrices), squeeze=False)[0]
    image = None
    for axis, matrix in zip(axes, matrices, strict=True):
        loss = np.array(
            [[np.nan if x is None else 100 * x for x in row] for row in matrix.loss], dtype=float
        )
        image = axis.imshow(loss, vmin=0, vmax=100, cmap="YlOrRd")
        names = [name.upper() for name in matrix.patterns]
        axis.set_xticks(range(len(names)), names)
        axis.set_yticks(range(len(names)), names)
        axis.set_title(f"{size_text(matrix.chunk_bytes)}, {matrix.processes} processes", size=9)
        for (i, j), value in np.ndenumerate(loss):
            text = "–" if np.isnan(value) else f"{round(value)}"  # without -0
            axis.text(j, i, text, ha="center", va="center", color="k" if value < 60 else "w")
    axes[0].set_ylabel("probe")
    figure.supxlabel("signal", size=10)
    if image is not None:
        figure.colorbar(image, ax=list(axes), label="% of its rate that the probe loses")
    return _png(figure)


def delta_graph(members: Sequence[str], points: Sequence[DeltaPoint]) -> bytes:
    """Draw the I/O time of two programs over the offset of the second one's start."""
    figure = Figure(figsize=(5, 3.2), layout="constrained")
    axis = figure.subplots()
    offsets = [point.offset for point in points]
    axis.plot(offsets, [point.first for point in points], "o-", label=members[0])
    axis.plot(offsets, [point.second for point in points], "s--", label=members[1])
    axis.axhline(1.0, color="0.7", linewidth=1)
    axis.set_xlabel("second program starts later by, s")
    axis.set_ylabel("I/O time over I/O time alone")
    axis.legend()
    return _png(figure)


def chunk_curves(
    curves: Mapping[tuple[int, str, str], tuple[Sequence[float], Sequence[float]]],
    even: Sequence[BreakEven],
) -> bytes:
    """Draw the loss of each first pattern beside each second one over the chunk size.

    curves: chunks in bytes and losses 0..1, by processes of each, probe and signal.
    """
    figure = Figure(figsize=(7, 3.8), layout="constrained")
    axis = figure.subplots()
    for (processes, probe, signal), (chunks, losses) in curves.items():
        axis.plot(
            [chunk / MIB for chunk in chunks],
            [100 * loss for loss in losses],
            "o-",
            label=f"{probe} beside {signal}, {processes} each",
        )
    for item in even:
        if item.chunk_bytes is not None:
            axis.axvline(item.chunk_bytes / MIB, color="0.8", linewidth=1)
    axis.set_xscale("log", base=2)
    axis.set_xlabel("chunk, MiB")
    axis.set_ylabel("loss, %")
    axis.legend(ncols=3, fontsize="x-small")
    return _png(figure)
