"""Comparisons over a grid of parameters, and which MaxDelay pays.

The file is a whole JSON document at any time: after each case it is replaced. So whatever stops a
sweep, the same one goes on where it was.

Which MaxDelay pays, by a sweep over several. Setting it trades waits for losses, so both count in
slot-hours, and a slot-hour of waiting costs WaitPrice of one that is lost, as in the decisions
themselves. Counted are the waits that the policy itself imposes; those of jobs behind go up and
down by chance far more.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, replace
from importlib.metadata import version
from itertools import groupby, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sluice.policies.container import write_atomically
from sluice.sim.engine import SweepError, scheduler_defaults
from sluice.sim.policies.policies import POLICIES, Options
from sluice.sim.replay.compare import PLAIN, compare_each
from sluice.sim.replay.experiment import Experiment, checksum
from sluice.sim.replay.figures import FIGURES
from sluice.sim.storage.mean_field import NAMES as STORAGE_NUMBERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from sluice.sim.replay.compare import Comparison


FORMAT = "sluice sweep 2"
NUMBERS = {
    "io_share": float,
    "load": float,
    "seed": int,
    "slots": int,
    "lanes": int,
    "targets": int,
    "spread": float,
    "generate": int,
}
WORDS = ("sharing", "mix")
"""Members of an Experiment that may vary, alongside those of its tables."""
TABLES = {
    "options": tuple(one.name for one in fields(Options) if one.name != "seed"),
    "settings": tuple(scheduler_defaults()),
    "storage": STORAGE_NUMBERS,
}
"""Names that may vary in the tables of an Experiment."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """What is compared, and over which grid."""

    experiment: Experiment
    policies: tuple[str, ...]
    grid: Mapping[str, tuple[str, ...]]
    """Values by name of a parameter; the last one varies fastest."""
    repeats: int = 0

    def cases(self) -> list[dict[str, str]]:
        """Return the parameters of each case."""
        return [
            dict(zip(self.grid, values, strict=True)) for values in product(*self.grid.values())
        ]

    def head(self) -> dict[str, Any]:
        """Return all that the answers depend on."""
        return {
            "format": FORMAT,
            "version": version("sluice"),
            "inputs": {path: checksum(path) for path in self.experiment.inputs},
            "experiment": self.experiment.plain(),
            "policies": list(self.policies),
            "grid": {name: list(values) for name, values in self.grid.items()},
            "repeats": self.repeats,
        }


def parameters() -> tuple[str, ...]:
    """Return the names of all that a grid may vary."""
    return (*NUMBERS, *WORDS, *(name for names in TABLES.values() for name in names))


def varied(experiment: Experiment, case: Mapping[str, str]) -> Experiment:
    """Return the experiment with these parameters."""
    for name, text in case.items():
        experiment = _with(experiment, name, text)
    return experiment


def _with(experiment: Experiment, name: str, text: str) -> Experiment:
    changed: dict[str, Any] = {}
    if name in NUMBERS:
        try:
            changed[name] = NUMBERS[name](text)
        except ValueError:
            raise SweepError(f"{name}={text}: give a number") from None
    elif name in WORDS:
        changed[name] = text
    for table, names in TABLES.items():
        if name in names:
            members = {**dict(getattr(experiment, table)), name: text}
            changed[table] = tuple(members.items())
    if not changed:
        raise SweepError(f"nothing called {name} can vary; there are {', '.join(parameters())}")
    return replace(experiment, **changed)


def read_sweep(path: Path) -> tuple[Sweep, dict[str, Any]]:
    """Return a sweep from its file, and the document.

    Raises SweepError where the file is no sweep.
    """
    document = _read(path)
    try:
        sweep = Sweep(
            Experiment.of(document["experiment"]),
            tuple(document["policies"]),
            {name: tuple(values) for name, values in document["grid"].items()},
            int(document["repeats"]),
        )
        dict(document["inputs"]), list(document["cases"]), str(document["command"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise SweepError(f"{path}: not a whole sweep ({error!r:.80}); name another file") from error
    return sweep, document


def _read(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_bytes())
    except ValueError as error:
        raise SweepError(f"{path}: not a sweep ({error}); name another file") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise SweepError(f"{path}: not a file of `sluice site sweep`; name another one")
    return document


def check_inputs(path: Path, document: Mapping[str, Any]) -> None:
    """See to it that the inputs are those that the sweep in a file was made of."""
    for name, digest in document["inputs"].items():
        if not Path(name).exists():
            raise SweepError(f"{path} was made of {name}, which is not there; bring it back")
        if digest is not None and checksum(name) != digest:
            raise SweepError(f"{name} has changed since {path} was made; bring back the old one")


def begin(sweep: Sweep, path: Path, command: str) -> dict[str, Any]:
    """Return the document of a sweep, with the cases that the file at path already holds.

    Raises SweepError where it holds another sweep.
    """
    head = sweep.head()
    if not path.exists():
        return {**head, "command": command, "cases": []}
    _, document = read_sweep(path)
    for name, value in head.items():
        if document[name] != value:
            raise SweepError(
                f"{path} holds another sweep: its {name} differ; remove it or name another file"
            )
    return document


def run(
    sweep: Sweep,
    document: dict[str, Any],
    path: Path,
    *,
    workers: int = 1,
    advance: Callable[[int], object] = lambda _: None,
) -> None:
    """Compute the cases that the document lacks, and replace the file after each of them."""
    missing = sweep.cases()[len(document["cases"]) :]
    write_atomically(
        path, as_bytes(document), mode=0o644
    )  # where that fails, nothing was computed in vain
    questions = [varied(sweep.experiment, case).draw for case in missing]
    answers = compare_each(
        questions, sweep.policies, repeats=sweep.repeats, workers=workers, advance=advance
    )
    for case, comparison in zip(missing, answers, strict=True):
        document["cases"].append({"parameters": case, **_answer(comparison)})
        _write(path, document)


def _write(path: Path, document: Mapping[str, Any]) -> None:
    write_atomically(path, as_bytes(document), mode=0o644)


def as_bytes(document: Mapping[str, Any]) -> bytes:
    return (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode()


def _answer(comparison: Comparison) -> dict[str, Any]:
    bound = comparison.bound
    return {
        "bound_slot_hours": bound.gain / 3600,
        "forced_slot_hours": bound.forced / 3600,
        "is_anything_to_gain": bound.is_anything_to_gain,
        "policies": {
            policy: {name: comparison.answer(policy, name) for name in FIGURES}
            for policy in comparison.policies
        },
    }


def flat_rows(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a row a case and policy: parameters, policy, figures and the ends of intervals."""
    for case in document["cases"]:
        for policy, figures in case["policies"].items():
            row = {**case["parameters"], "policy": policy}
            row["bound_slot_hours"] = case["bound_slot_hours"]
            for name, figure in figures.items():
                row[name] = figure["value"]
                for end in ("low", "high") if document["repeats"] else ():
                    row[f"{name}_{end}"] = (figure["interval"] or {}).get(end)
            yield row


VARIED = "max_delay"


@dataclass(frozen=True, slots=True)
class Wait:
    """What became of one case of a sweep under one policy; slot-hours and seconds."""

    max_delay: str
    """As the sweep has it."""
    saved: float
    """Lost less than without the policy, the median of all draws."""
    least_saved: float
    """Of further draws, at the lower end of the interval; without any, `saved`."""
    held: float
    """For which it delayed jobs: an upper bound of the waits that it imposed."""
    wait_price: float
    """Lost slot-hours that one of those is worth."""
    held_mean: float
    """Seconds for which those were delayed that were."""
    wait_mean: float
    """Seconds that jobs wait without the policy."""

    @property
    def price(self) -> float:
        """What these waits cost."""
        return self.wait_price * self.held

    @property
    def net(self) -> float:
        return self.saved - self.price

    @property
    def break_even(self) -> float:
        """The WaitPrice at which it would save just what its waits cost."""
        return self.saved / self.held if self.held else 0.0

    @property
    def is_fair(self) -> bool:
        """Whether no group that pays waits, in the mean, over twice as long as jobs do anyhow."""
        return self.held_mean <= self.wait_mean

    @property
    def saves(self) -> bool:
        """Whether it loses less, by the whole interval."""
        return self.least_saved > 0


@dataclass(frozen=True, slots=True)
class Advice:
    """On one policy, where all but MaxDelay is the same."""

    policy: str
    parameters: Mapping[str, str]
    """Of the sweep's other ones."""
    waits: tuple[Wait, ...]

    @property
    def best(self) -> Wait | None:
        """The one that gains most of those that save, fairly, more than they cost; None: none."""
        good = [wait for wait in self.waits if wait.saves and wait.is_fair and wait.net > 0]
        return max(good, key=lambda wait: wait.net, default=None)

    @property
    def nearest(self) -> Wait | None:
        """The one that would pay at the highest WaitPrice; None: no fair one saves anything."""
        good = [wait for wait in self.waits if wait.saves and wait.is_fair]
        return max(good, key=lambda wait: wait.break_even, default=None)


def advice(document: Mapping[str, Any]) -> Iterator[Advice]:
    """Yield one for each policy that delays jobs, and each value of what else the sweep varies.

    Nothing where it does not vary MaxDelay. document: of sweep.py.
    """
    if len(document["grid"].get(VARIED, ())) < 2:
        return
    policies = [name for name in document["policies"] if name in POLICIES and POLICIES[name].delays]

    def others(case: Mapping[str, Any]) -> list[tuple[str, str]]:
        return [pair for pair in case["parameters"].items() if pair[0] != VARIED]

    for parameters, cases in groupby(sorted(document["cases"], key=others), others):
        alike = list(cases)
        for policy in policies:
            waits = tuple(_wait(document, case, policy) for case in alike)
            yield Advice(policy, dict(parameters), waits)


def _wait(document: Mapping[str, Any], case: Mapping[str, Any], policy: str) -> Wait:
    parameters, figures = case["parameters"], case["policies"][policy]
    given = {**document["experiment"]["options"], **parameters}
    more = figures["lost_slot_hours"]["above_none"]
    most_lost = (figures["lost_slot_hours"]["above_none_interval"] or {"high": more})["high"]
    return Wait(
        parameters[VARIED],
        saved=-more,
        least_saved=-most_lost,
        held=figures["held_slot_hours"]["value"],
        wait_price=float(given.get("wait_price", Options().wait_price)),
        held_mean=figures["held_mean_s"]["value"] or 0.0,
        wait_mean=case["policies"][PLAIN]["wait_mean_s"]["value"] or 0.0,
    )
