#!/usr/bin/env python3
"""What Sluice learned of programs with co-runners, alongside what is so.

    tests/loop/comparison.py /tmp/loop

Reads what `loop.py` kept: the history and the bundle that Sluice made of the runs with co-runners,
and the truth (truth.py). Each line is one of the things that must hold.
"""

import json
import math
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lab"))

import core_calls
from programs import READERS
from truth import SLUICE, Alone, Truth, read_truth

from sluice.history_db.store import Store
from sluice.policies import core
from sluice.policies.bundle import Bundle
from sluice.policies.record import Record
from sluice.policies.structs import View
from sluice.prediction.submission_features import predicted_in

FACTOR = 1.5  # within which a rate is right
POINTS = 0.15  # likewise a share of I/O
LOSES_A_THIRD = 1.5  # slowdown
LEARNED_AFTER = 3  # runs


@dataclass(frozen=True)
class Finding:
    """One thing that must hold, and what was found."""

    name: str
    value: float | None
    """None: there is nothing to judge."""
    least: float = -math.inf
    most: float = math.inf
    detail: str = ""

    @property
    def holds(self) -> bool:
        return self.value is None or self.least <= self.value <= self.most

    def __str__(self) -> str:
        return f"{'ok  ' if self.holds else 'FAIL'} {self.measured}"

    @property
    def measured(self) -> str:
        """What was found, without a verdict."""
        goal = [f"at least {self.least:g}"] if self.least > -math.inf else []
        goal += [f"at most {self.most:g}"] if self.most < math.inf else []
        value = "nothing to judge" if self.value is None else f"{self.value:.2f}"
        bounds = f" ({' and '.join(goal)})" if goal else ""
        return f"{self.name}: {value}{bounds} {self.detail}".rstrip()


@dataclass(frozen=True)
class Learned:
    """What the bundle says of a program, and what is so."""

    program: str
    profile: View
    alone: Alone

    def factor(self, name: str) -> float | None:
        """Learned over true; None where either is unknown or nothing."""
        said, true = getattr(self.profile, name), self.alone.middle.get(name)
        return said / true if said and true else None

    def covers(self, name: str) -> bool | None:
        """Whether the 90 % interval holds the truth; None where either is unknown."""
        factor = self.factor(name)
        if factor is None:
            return None
        spread = _spread(self.profile, name)
        return spread is None or abs(math.log(factor)) <= core.Z90 * spread

    def tells(self, name: str) -> bool | None:
        """Whether it is right, or known to be uncertain; None where either is unknown."""
        factor = self.factor(name)
        if factor is None:
            return None
        return 1 / FACTOR <= factor <= FACTOR or bool(self.is_vague(name) and self.covers(name))

    def is_vague(self, name: str, bound: float = core.WIDE) -> bool:
        """Whether nobody can say it, or not within this spread."""
        spread = _spread(self.profile, name)
        return spread is None or spread > bound


def _spread(profile: View, name: str) -> float | None:
    """Return the deviation of ln (value); None: nobody can say, so any value would do."""
    spread: float | None = getattr(profile, "spread", {name: 0.0}).get(name)
    return spread


def compare(place: Path) -> list[Finding]:
    """Return all that must hold, as it was found below the place."""
    truth = read_truth(place)
    bundle = Bundle.read(place / "sluice" / "model.bundle")
    known = list(_learned(bundle, truth))
    return [
        *_of_programs([one for one in known if one.alone.matters]),
        *_of_pairs(bundle, {one.program: one for one in known}, truth),
        *_of_losses(place, truth),
        *_of_predictions(place, truth),
    ]


def _learned(bundle: Bundle, truth: Truth) -> Iterator[Learned]:
    for name, alone in truth.programs.items():
        request = {**alone.submission, "submit_line": alone.submit_line}
        prediction = bundle.predict(core.submission_of(request))
        yield Learned(name, prediction.profile, alone)


def _share(hits: Iterable[bool]) -> float | None:
    found = list(hits)
    return sum(found) / len(found) if found else None


def _of_programs(known: Sequence[Learned]) -> Iterator[Finding]:
    rates = {one.program: factor for one in known if (factor := one.factor("rate"))}
    yield Finding(
        f"rate alone within a factor of {FACTOR:g}, or known to be uncertain",
        _share(told for one in known if (told := one.tells("rate")) is not None),
        least=0.8,
        detail=_worst(rates, lambda factor: abs(math.log(factor)), "×"),
    )
    shares = {
        one.program: one.profile.io_share - one.alone.middle["io_share"]
        for one in known
        if one.profile.io_share is not None and "io_share" in one.alone.middle
    }
    yield Finding(
        f"share of I/O within {POINTS:.0%}",
        _share(abs(off) <= POINTS for off in shares.values()),
        least=0.8,
        detail=_worst(shares, abs, ""),
    )
    for name in ("rate", "io_share"):
        covered = [hit for one in known if (hit := one.covers(name)) is not None]
        yield Finding(f"90 % intervals of {name} hold the truth", _share(covered), least=0.8)


def _worst(values: Mapping[str, float], badness: Callable[[float], float], unit: str) -> str:
    worst = sorted(values, key=lambda name: -badness(values[name]))[:4]
    return "; worst " + ", ".join(f"{name} {values[name]:.2f}{unit}" for name in worst)


def _of_pairs(bundle: Bundle, known: Mapping[str, Learned], truth: Truth) -> Iterator[Finding]:
    errors, missed, lost = [], [], 0
    for pair in truth.pairs:
        victim, other = known.get(pair.program), known.get(pair.alongside)
        if victim is None or other is None:
            continue
        errors.append(abs(math.log(_slowdown(bundle, victim, other, 0.0) / pair.slowdown)))
        if pair.slowdown >= LOSES_A_THIRD:
            lost += 1
            z = core.normal_quantile(core.QUANTILE)
            is_abstained = victim.is_vague("rate", core_calls.UNKNOWN_RATE)
            if not is_abstained and (_slowdown(bundle, victim, other, z) <= core.HARMLESS_SLOWDOWN):
                missed.append(f"{pair.program} alongside {pair.alongside} ({pair.slowdown:.1f}×)")
    yield Finding(
        "median error of log slowdown of pairs", median(errors) if errors else None, most=0.2
    )
    yield Finding(
        "pairs that lose a third and are called harmless",
        float(len(missed)) if lost else None,
        most=0,
        detail=f"of {lost}: {', '.join(missed)}",
    )


def _slowdown(bundle: Bundle, victim: Learned, other: Learned, z: float) -> float:
    """The victim's slowdown by the model, at the median or z deviations above it."""
    model, policy = bundle.interference, bundle.policy
    its, others = (core.pressure_of(one.profile, model, policy) for one in (victim, other))
    return core.job_slowdown(its, core.io_factor(its, [others], model, z))


def _of_losses(place: Path, truth: Truth) -> Iterator[Finding]:
    config = place / "sluice" / "sluice.conf"
    done = subprocess.run(
        [SLUICE, "site", "assess", "--json", "--config", config],
        check=True,
        capture_output=True,
        text=True,
    )
    found = json.loads(done.stdout)
    said, true = found["lost"] * 3600, truth.lost_seconds
    low, high = (end * 3600 for end in found["interval"])
    yield Finding(
        "what assess finds lost, over the loss by the clock",
        said / true if true > 0 else None,
        least=1 / FACTOR,
        most=FACTOR,
        detail=f"{said:.0f} s ({low:.0f} to {high:.0f}) against {true:.0f} s",
    )
    of_readers = [one for one in found["parties"] if one["name"] in READERS]
    suffered = math.fsum(one["suffered"] for one in of_readers) * 3600
    by_clock = math.fsum(truth.lost.get(name, 0.0) for name in READERS)
    yield Finding(
        "of that, what programs that read lost, over their loss by the clock",
        suffered / by_clock if by_clock > 0 else None,
        detail=f"{suffered:.0f} s against {by_clock:.0f} s",
    )
    yield Finding("the interval of assess holds its point", float(low <= said <= high), least=1)


def _of_predictions(place: Path, truth: Truth) -> Iterator[Finding]:
    """Live predictions of jobs after a program's first runs, alongside their own logs.

    Answered is what names a pattern with confidence; decided, what was not abstained from too.
    """
    answered, patterns, volumes, surprising = [], [], [], []
    abstained: Counter[str] = Counter()
    for record, outcome in _live(place, truth):
        predicted = predicted_in(record)
        answered.append(predicted is not None and predicted.is_answered)
        if record.decision.action == "abstain":
            abstained[record.decision.reason] += 1
        if not answered[-1] or outcome is None:
            continue
        patterns.append(predicted.pattern == outcome.profile.pattern)
        did = outcome.profile.numbers
        name = max("write_bytes", "read_bytes", key=lambda way, did=did: did.get(way, 0.0))
        factor = predicted.factor(outcome.profile, name)
        if factor is None:
            continue
        is_near = 0.5 <= factor <= 2
        is_flagged = predicted.spread.get(name, math.inf) >= core.WIDE
        volumes.append(is_near)
        surprising.append(not is_near and not is_flagged)
    yield Finding(
        "submissions after three runs that are answered",
        _share(answered),
        least=0.9,
    )
    yield Finding(
        "submissions after three runs that are decided on",
        1 - abstained.total() / len(answered) if answered else None,
        detail="; ".join(f"{count} {reason}" for reason, count in abstained.most_common()),
    )
    yield Finding("of those, pattern right", _share(patterns), least=0.95)
    yield Finding("bytes within a factor of two", _share(volumes), least=0.9)
    # of all: hardly any are further off, and of one or two no share can be judged
    yield Finding(
        "bytes further off, and their spread did not say so", _share(surprising), most=0.02
    )


def _live(place: Path, truth: Truth) -> Iterator[tuple[Record, Any]]:
    seen: dict[str, int] = defaultdict(int)
    with Store(place / "sluice" / "history.db", read_only=True) as store:
        for run in sorted(truth.contended, key=lambda run: run.job_id):
            seen[run.program] += 1
            if seen[run.program] > LEARNED_AFTER and run.has_log:
                for row in store.decisions.decisions_for_job(run.job_id)[:1]:
                    yield Record.parse(row.record), truth.logged.get(run.job_id)


def main(place: str) -> int:
    findings = compare(Path(place))
    for finding in findings:
        print(finding)
    return 0 if all(finding.holds for finding in findings) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
