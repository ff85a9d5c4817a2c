"""Shah, Kuo, Nomura, Matsuoka, Wolf (SuperFrI 2019): facts S1 to S7.

Two programs of 256 processes on 64 nodes each, one file a process. OWC creates, writes and
flushes a chunk; WS rewrites and flushes one; AW appends without waiting. Degradation is the
part of the rate alone that is lost, counted until the first has written 90 % (S8).
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from itertools import permutations
from typing import TYPE_CHECKING

from papers.figure import Figure, Row, about, between
from papers.platforms import KIB, PLATFORMS, Scenario
from papers.remedies import balanced_files, outcomes

from sluice.sim.storage.discrete_event import MIB, ProgramOutcome, simulate

if TYPE_CHECKING:
    from collections.abc import Iterator

ANY = 1e9
POINTS = 10.0
"""Of degradation: reading a plot costs 5, and two such are compared."""
ENOUGH = 200 * MIB
"""Bytes a process writes: many windows of what is written behind, so that tails count little."""
CHUNKS = 6
"""That a process writes at least."""
PAPER_ENDS = 0.9

Program = dict[str, float | str]


def program(pattern: str, chunk: float, processes: float = 256, volume: float = 0.0) -> Program:
    """Return one of the paper's write patterns."""
    total = volume or max(ENOUGH, CHUNKS * chunk)
    return {
        "processes": processes,
        "nodes": max(1.0, processes / 4),
        "operation_bytes": chunk,
        "operations": max(1.0, total // chunk),
        "sync": "behind" if pattern == "aw" else "flush",
        "creates": float(pattern == "owc"),
        "rewrites": float(pattern == "ws"),
    }


def _on(name: str, writer: Program) -> Program:
    """Spread files over all devices where the file system does (GPFS)."""
    if name != "gpfs":
        return writer
    platform = PLATFORMS[name].storage()
    return {
        **writer,
        "stripe_bytes": platform["unit_bytes"],
        "stripe_targets": platform["targets"],
    }


def _run(name: str, *programs: Program) -> list[ProgramOutcome]:
    writers = [_on(name, writer) for writer in programs]
    return simulate(PLATFORMS[name].storage(), writers, stop_share=PAPER_ENDS)


@cache
def alone(name: str, pattern: str, mib: float) -> float:
    """Return the rate of a program alone in B/s, with chunks of so many MiB."""
    return _run(name, program(pattern, mib * MIB))[0].rate


@cache
def together(name: str, probe: str, signal: str, mib: float) -> tuple[float, float]:
    """Return the rates of two programs together in B/s."""
    both = _run(name, program(probe, mib * MIB), program(signal, mib * MIB))
    return both[0].rate, both[1].rate


def lost(name: str, probe: str, signal: str, mib: float) -> float:
    """Return the degradation of the probe in %."""
    return 100 * (1 - together(name, probe, signal, mib)[0] / alone(name, probe, mib))


def _table() -> Iterator[Row]:
    rates = {"owc": 28.4, "ws": 31.6, "aw": 42.2}
    for pattern, published in rates.items():
        model = alone("lustre", pattern, 1) / 1e9
        yield about(f"{pattern.upper()} alone, GB/s", published, model, 0.1 * published)
    losses = {"owc": (42.6, 43.3), "ws": (40.9, 35.8), "aw": (66.2, 10.0)}
    for signal, (probe_loss, signal_loss) in losses.items():
        loss = lost("lustre", "owc", signal, 1)
        yield about(f"OWC alongside {signal.upper()}, % lost", probe_loss, loss, POINTS)
        loss = lost("lustre", signal, "owc", 1) if signal != "owc" else loss
        yield about(f"{signal.upper()} alongside OWC, % lost", signal_loss, loss, POINTS)
    for signal, published in (("owc", 32.4), ("ws", 36.6), ("aw", 47.6)):
        total = sum(together("lustre", "owc", signal, 1)) / 1e9
        yield about(f"OWC and {signal.upper()} together, GB/s", published, total, 0.1 * published)


def _appenders() -> Iterator[Row]:
    yield about("Lustre, AW alongside AW, % lost", 40, lost("lustre", "aw", "aw", 1), POINTS)


def _gpfs_small() -> Iterator[Row]:
    for mib in (1, 16):
        for probe, signal in (("owc", "ws"), ("ws", "owc")):
            loss = lost("gpfs", probe, signal, mib)
            name = f"{mib} MiB: {probe.upper()} alongside {signal.upper()}, % lost"
            yield between(name, "45–55", loss, 45 - POINTS, 55 + POINTS)
        loss = lost("gpfs", "aw", "aw", mib)
        yield between(
            f"{mib} MiB: AW alongside AW, % lost", "50–60", loss, 50 - POINTS, 60 + POINTS
        )


def _gpfs_appender(mib: float) -> Iterator[Row]:
    for probe in ("owc", "ws"):
        loss = lost("gpfs", probe, "aw", mib)
        yield between(f"{probe.upper()} alongside AW, % lost", "over 80", loss, 75, 100)
        loss = lost("gpfs", "aw", probe, mib)
        yield between(f"AW alongside {probe.upper()}, % lost", "little", loss, -5, 25)


def _gpfs_large() -> Iterator[Row]:
    for probe, signal in permutations(("owc", "ws", "aw"), 2):
        loss = lost("gpfs", probe, signal, 256)
        name = f"256 MiB: {probe.upper()} alongside {signal.upper()}, % lost"
        yield between(name, "about even", loss, 50 - 1.5 * POINTS, 50 + 1.5 * POINTS)


def _gpfs_serialised() -> Iterator[Row]:
    for mib in (16, 256):
        first, later = together("gpfs", "owc", "owc", mib)
        share = max(first, later) / (first + later)
        yield between(f"{mib} MiB: the faster one's share", "nearly all", share, 0.8, 1)


def _rewriters_win() -> Iterator[Row]:
    for probe in ("owc", "aw"):
        loss = lost("lustre", probe, "ws", 256)
        yield between(f"256 MiB: {probe.upper()} alongside WS, % lost", "over 60", loss, 60, 100)


def _power_falls() -> Iterator[Row]:
    for probe in ("owc", "ws"):
        losses = [lost("lustre", probe, "aw", mib) for mib in (1, 16, 256)]
        name = f"{probe.upper()} alongside AW: % lost at 1 less at 256 MiB"
        yield between(name, "falls", losses[0] - losses[-1], POINTS, 100)
        yield between(f"{probe.upper()} alongside AW at 16 MiB", "between", losses[1],
                      losses[-1] - 2, losses[0] + 2)  # fmt: skip
        gains = [lost("lustre", "aw", probe, mib) for mib in (1, 256)]
        name = f"AW alongside {probe.upper()}: % lost at 256 less at 1 MiB"
        yield between(name, "rises", gains[1] - gains[0], POINTS, 100)


def _gap(name: str, pattern: str, mib: float) -> float:
    """Return how much more a pattern loses to AW than AW to it, in points."""
    return lost(name, pattern, "aw", mib) - lost(name, "aw", pattern, mib)


def _break_even_gpfs() -> Iterator[Row]:
    near = 2 * POINTS
    yield between("OWC less AW at 256 MiB, points", "even", _gap("gpfs", "owc", 256), -near, near)
    yield between("WS less AW at 256 MiB, points", "even", _gap("gpfs", "ws", 256), -near, near)
    change = _gap("gpfs", "ws", 16) - _gap("gpfs", "ws", 32)
    yield between("WS: gap closes from 16 to 32 MiB, points", "converges", change, POINTS, 100)


def _break_even_lustre() -> Iterator[Row]:
    near = 2 * POINTS
    gap = _gap("lustre", "owc", 256)
    yield between("OWC less AW at 256 MiB, points", "even", gap, -near, near)
    for mib in (64, 256):
        gap = _gap("lustre", "ws", mib)
        yield between(f"WS less AW at {mib} MiB, points", "WS dominates", gap, -100, -near)


def _break_even_rewriters() -> Iterator[Row]:
    near = 2 * POINTS
    yield between("WS less AW at 16 MiB", "even", _gap("lustre", "ws", 16), -near, near)


PERIOD = 24.0


def _periodic() -> Iterator[Row]:
    """Compare bursts of half the period with writing throughout."""
    losses = []
    for pattern in ("owc", "ws", "aw"):
        volume = alone("lustre", pattern, 1) * PERIOD / 2 / 256 / 24
        burst = program(pattern, MIB, volume=volume)
        signal: Program = {**burst, "bursts": 40, "period": PERIOD / 24, "noise": 1}
        probe = _run("lustre", program("owc", MIB, volume=400 * MIB), signal)[0]
        losses.append(100 * (1 - probe.rate / alone("lustre", "owc", 1)))
        steady = lost("lustre", "owc", pattern, 1)
        name = f"OWC alongside a periodic {pattern.upper()}, share of the steady loss"
        yield between(name, "weaker", losses[-1] / steady, 0.1, 0.97)
    yield between("the most from AW, points over the others", "the same order",
                  losses[2] - max(losses[:2]), 0, 100)  # fmt: skip


def _few_appenders() -> Iterator[Row]:
    owc = program("owc", MIB)
    both = _run("lustre", owc, program("aw", MIB, processes=64, volume=4 * ENOUGH))
    loss = 100 * (1 - both[0].rate / alone("lustre", "owc", 1))
    yield between("OWC of 256 alongside AW of 64, % lost", "heavily", loss, 40, 100)


def _openfoam(name: str, chunk: float, signal: Program) -> float:
    owc = program("owc", chunk, volume=300 * chunk)
    one = _run(name, owc)[0].rate
    return 100 * (1 - _run(name, owc, signal)[0].rate / one)


def _openfoam_small() -> Iterator[Row]:
    aw = program("aw", MIB)
    gpfs, lustre = (_openfoam(name, 4 * KIB, aw) for name in ("gpfs", "lustre"))
    yield between("GPFS, AW of 1 MiB: % lost", "over 90", gpfs, 85, 100)
    yield between("Lustre, AW of 1 MiB: % lost", "over 80", lustre, 75, 100)


def _openfoam_tiny() -> Iterator[Row]:
    aw = program("aw", 2 * KIB, volume=ENOUGH)
    gpfs, lustre = (_openfoam(name, 2 * KIB, aw) for name in ("gpfs", "lustre"))
    yield about("GPFS, AW of 2 KiB: % lost", 90, gpfs, POINTS)
    yield about("Lustre, AW of 2 KiB: % lost", 70, lustre, POINTS)


def _creators() -> Iterator[Row]:
    owc = program("owc", 2 * KIB, volume=300 * 2 * KIB)
    gpfs, lustre = (_openfoam(name, 2 * KIB, owc) for name in ("gpfs", "lustre"))
    yield about("GPFS, OWC of 2 KiB: % lost", 60, gpfs, POINTS)
    yield about("Lustre, OWC of 2 KiB: % lost", 60, lustre, POINTS)


_WINDOWS = "A writer that waits has one request at a target, one that appends a window of them; "


def _imbalance() -> Iterator[Row]:
    """Files as they come, two or three on a target, and striped until all have as much."""
    writer = program("aw", MIB, volume=64 * MIB)
    placed = Scenario(PLATFORMS["lustre"].storage(), (writer,))
    ends, shares = [], []
    for scenario in (placed, balanced_files(placed)):
        ends.append(outcomes(scenario)[0].end)
        shares.append(outcomes(replace(scenario, stop_share=PAPER_ENDS))[0].share_time)
    yield between("first 90 %: time balanced over unbalanced", "as fast", shares[1] / shares[0],
                  0.95, 1.05)  # fmt: skip
    tails = [end - share for end, share in zip(ends, shares, strict=True)]
    yield between("last 10 %: time balanced over unbalanced", "shorter", tails[1] / tails[0],
                  0.0, 0.95)  # fmt: skip


FIGURES = (
    Figure(
        "S1",
        "Lustre, 1 MiB, probe OWC: rates alone and degradation",
        f"{_WINDOWS}a target serves in order of arrival. Totals depend on the mix because syncs "
        "and creates take time of targets and metadata server, and appends do not.",
        ("lustre",),
        _table,
    ),
    Figure(
        "S2a",
        "Lustre: AW alongside itself",
        "256 files on 104 targets are two or three on each, 512 are almost five: the targets with "
        "fewer files end early alone, so two programs reach more in all.",
        ("lustre",),
        _appenders,
    ),
    Figure(
        "S2b",
        "GPFS, 1 and 16 MiB: OWC and WS about even, AW alongside itself",
        "Equal numbers of requests are outstanding, and one program fills the devices alone.",
        ("gpfs",),
        _gpfs_small,
    ),
    Figure(
        "S2c",
        "GPFS, 1 MiB: AW takes over 80 %",
        f"{_WINDOWS}on GPFS that window is 18 blocks of 4 MiB: by default 72 threads of a node "
        "write behind, for four processes here.",
        ("gpfs",),
        partial(_gpfs_appender, 1),
    ),
    Figure(
        "S2d",
        "GPFS, 16 MiB: AW takes over 80 %",
        "A chunk is four blocks outstanding, against a window of 18.",
        ("gpfs",),
        partial(_gpfs_appender, 16),
    ),
    Figure(
        "S2e",
        "GPFS, 256 MiB: shared about evenly",
        "A chunk larger than the window keeps as much outstanding as an appender.",
        ("gpfs",),
        _gpfs_large,
    ),
    Figure(
        "S2f",
        "GPFS: OWC alongside itself at 16 and 256 MiB is serialised",
        "Both keep the same number of requests at every device, which serves in order of arrival, "
        "so equal programs end together. Nothing but a lock that a whole program holds from create "
        "to close would let one of them wait, and which lock of GPFS that is the paper does not "
        "say.",
        ("gpfs",),
        _gpfs_serialised,
    ),
    Figure(
        "S3a",
        "Lustre: at 256 MiB WS takes over 60 % from the others",
        "Writes to blocks that exist allocate nothing, so more of them are under way.",
        ("lustre",),
        _rewriters_win,
    ),
    Figure(
        "S3b",
        "Lustre: AW's power falls as the chunk grows",
        "A larger chunk is more requests outstanding for those that wait; an appender's window "
        "stays.",
        ("lustre",),
        _power_falls,
    ),
    Figure(
        "S4a",
        "GPFS: break-even of OWC and WS with AW",
        "Even once a chunk fills the window, which 32 MiB half do.",
        ("gpfs",),
        _break_even_gpfs,
    ),
    Figure(
        "S4b",
        "Lustre: OWC even with AW at 256 MiB, WS dominates beyond 16 MiB",
        "Both allocate new blocks in the same windows; WS does not allocate.",
        ("lustre",),
        _break_even_lustre,
    ),
    Figure(
        "S4c",
        "Lustre: WS even with AW at 16 MiB",
        "WS has twice the window of an appender, but a chunk is no more than three windows, and "
        "its last requests and the flush leave the target to the other one.",
        ("lustre",),
        _break_even_rewriters,
    ),
    Figure(
        "S5",
        "Lustre: a periodic signal does the same, weaker",
        "Half of the time nobody else writes. (A period of 1 s stands for 24 s: only the share "
        "matters.)",
        ("lustre",),
        _periodic,
    ),
    Figure(
        "S6",
        "Lustre: 256 processes of OWC lose heavily to 64 of AW",
        "64 windows are as many requests as 256 writers that wait.",
        ("lustre",),
        _few_appenders,
    ),
    Figure(
        "S7a",
        "OpenFOAM (OWC of a few KiB) alongside AW of 1 MiB",
        "Small synchronous writes queue behind full requests, while alone a file costs only its "
        "create and round trips.",
        ("gpfs", "lustre"),
        _openfoam_small,
    ),
    Figure(
        "S7b",
        "OWC of 2 KiB alongside AW of 2 KiB",
        "A cache joins appends of 2 KiB to full requests, so AW hurts as much as with large "
        "chunks.",
        ("gpfs", "lustre"),
        _openfoam_tiny,
    ),
    Figure(
        "S7c",
        "OWC of 2 KiB alongside OWC of 2 KiB",
        "Creators share the metadata server by halves, and its work for a create grows with the "
        "number of creates under way, so both lose a little more than half.",
        ("gpfs", "lustre"),
        _creators,
    ),
    Figure(
        "S8",
        "The imbalance of files over targets affects only the tail",
        "256 files on 104 targets are two or three on each. Striped over 13 targets each they "
        "are as fast at first, and the tail of the fuller targets is gone.",
        ("lustre",),
        _imbalance,
    ),
)
