"""Published figures, and the coefficients of the interference model that they give.

The core has these coefficients as its defaults (`policies/core/interference.h`), and
`tests/policies/test_published.py` compares both.

Source: Shah, Kuo, Nomura, Matsuoka, Wolf, "How file-access patterns influence the
degree of I/O interference between cluster applications" (SuperFrI 2019; first CLUSTER
2014): TSUBAME 2.5, Lustre (8 OSS x 13 OST) and GPFS, two write programs of 256
processes each. Figures that the paper prints as numbers are marked TABLE, those read
from its plots or put into words TEXT (about +-5 points of degradation).

The model's formulas are in `policies/core/interference.h`. Where two programs saturate
the targets, rho_probe / rho_signal = w_probe / w_signal and rho_probe + rho_signal = K,
so K follows from the sums and everything else from a linear least-squares fit of ln w.
Only differences of ln w show in measurements; the smallest solution is taken.
It is a prior: file systems differ, and a site's own measurements replace it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

MIB = 1024.0 * 1024.0
PROCESSES = 256.0
TABLE = 1.0
TEXT = 0.5


@dataclass(frozen=True, slots=True)
class Program:
    """One of the paper's write patterns (`owc`, `ws`, `aw`) with its chunk and processes."""

    pattern: str
    chunk_bytes: float
    processes: float = PROCESSES


@dataclass(frozen=True, slots=True)
class Figure:
    """What a probe, and where the paper tells a signal, kept of their rates alone."""

    probe: Program
    signal: Program
    probe_rho: float
    signal_rho: float | None
    weight: float
    source: str


def _owc(mib: float, processes: float = PROCESSES) -> Program:
    return Program("owc", mib * MIB, processes)


def _ws(mib: float) -> Program:
    return Program("ws", mib * MIB)


def _aw(mib: float, processes: float = PROCESSES) -> Program:
    return Program("aw", mib * MIB, processes)


_KIB = 1 / 1024
LUSTRE = (
    Figure(_owc(1), _owc(1), 16.3 / 28.4, 16.1 / 28.4, TABLE, "S1: OWC alongside OWC"),
    Figure(_owc(1), _ws(1), 16.8 / 28.4, 19.8 / 31.6, TABLE, "S1: OWC alongside WS"),
    Figure(_owc(1), _aw(1), 9.6 / 28.4, 38.0 / 42.2, TABLE, "S1: OWC alongside AW"),
    Figure(_aw(1), _aw(1), 0.60, 0.60, TEXT, "S2: AW loses about 40 % to itself"),
    Figure(_owc(256), _ws(256), 0.40, None, TEXT, "S3: WS takes over 60 % at 256 MiB"),
    Figure(_aw(256), _ws(256), 0.40, None, TEXT, "S3: WS takes over 60 % at 256 MiB"),
    Figure(_owc(256), _aw(256), 0.60, 0.60, TEXT, "S4: OWC and AW break even at 256 MiB"),
    Figure(_ws(16), _aw(16), 0.60, 0.60, TEXT, "S4: WS and AW break even at 16 MiB"),
    Figure(_owc(1), _aw(1, 64), 0.50, None, TEXT, "S6: OWC loses heavily to 64 processes of AW"),
    Figure(_owc(4 * _KIB), _aw(1), 0.20, None, TEXT, "S7: OpenFOAM loses over 80 % to AW"),
    Figure(_owc(4 * _KIB), _aw(2 * _KIB), 0.30, None, TEXT, "S7: and 70 % to AW at 2 KiB"),
)
"""Break-even at K / 2 each; "over" and "heavily" are taken at their bound."""

_GPFS_OWC_ALONGSIDE_AW = (0.20, 0.95)
"""S2: on GPFS, AW at 1 MiB takes more than 80 % from OWC and loses little itself."""

_UNKNOWNS = (
    *("stream_level", "rewrite_level"),
    *("create_exponent", "rewrite_exponent", "process_exponent"),
)


def _row(program: Program) -> np.ndarray:
    """Return the coefficients of ln w of a program, in the order of `_UNKNOWNS`."""
    chunk = math.log(program.chunk_bytes / MIB)
    own = {"aw": (1, 0, 0, 0), "owc": (0, 0, chunk, 0), "ws": (0, 1, 0, chunk)}[program.pattern]
    return np.array([*own, math.log(program.processes)])


def _log_ratio(figure: Figure, capacity: float) -> float:
    """Return ln (w_probe / w_signal) that the figure says."""
    if figure.signal_rho is not None:
        return math.log(figure.probe_rho / figure.signal_rho)
    return math.log(figure.probe_rho / (capacity - figure.probe_rho))


def fitted_interference(figures: Sequence[Figure] = LUSTRE) -> dict[str, float]:
    """Return the coefficients of struct sluice_interference, fitted to figures of Lustre.

    `log_sd` is what the fit leaves, together with half of what Lustre and GPFS differ by
    where the paper gives both: how far a file system that nobody measured may be off.
    """
    sums = [f.probe_rho + f.signal_rho for f in figures if f.signal_rho and f.weight == TABLE]
    capacity = sum(sums) / len(sums)
    design = np.array([f.weight * (_row(f.probe) - _row(f.signal)) for f in figures])
    wanted = np.array([f.weight * _log_ratio(f, capacity) for f in figures])
    solution = np.linalg.lstsq(design, wanted, rcond=None)[0]
    residual = float(np.sqrt(np.mean((design @ solution - wanted) ** 2)))

    lustre = next(f for f in LUSTRE if f.source == "S1: OWC alongside AW")
    gpfs = math.log(_GPFS_OWC_ALONGSIDE_AW[0] / _GPFS_OWC_ALONGSIDE_AW[1])
    between = abs(gpfs - _log_ratio(lustre, capacity)) / 2
    return {
        **dict(zip(_UNKNOWNS, map(float, solution), strict=True)),
        # no figure says what a flush costs
        **dict.fromkeys(("create_overhead", "rewrite_overhead"), 0.0),
        "capacity": capacity,
        "pooling": 0.0,  # no figure has two streams alongside one that flushes
        "log_sd": math.hypot(residual, between),
    }
