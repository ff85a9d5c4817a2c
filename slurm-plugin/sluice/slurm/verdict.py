"""Whether a site should stay where it is, or go one step up or down, by the facts of a report."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from sluice.slurm.texts import amount_text, duration_text, share_text

if TYPE_CHECKING:
    from collections.abc import Iterator

Facts = dict[str, Any]

STAY, UP, DOWN, TOO_LITTLE = "stay", "up", "down", "too_little"
STEPS = ("off", "observe", "advise", "enforce")

LEAST_COVERAGE = 0.3
"""Of the node-hours that logs have to tell of."""
LEAST_SPAN = 7 * 86400
"""Seconds from the first decision to the last: a week has all the days there are."""
LEAST_CHECKED = 30
"""Predictions that could be checked."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to do, and why."""

    advice: str
    """STAY, UP, DOWN or TOO_LITTLE."""
    mode: str
    """The one to be in."""
    because: tuple[str, ...]

    def as_json(self) -> Facts:
        return asdict(self)


def verdict(facts: Facts) -> Verdict:
    """Judge the facts that `report.gather` collected, with what levers would bring."""
    mode = _mode(facts)
    if mode == "enforce":
        return _of_enforce(facts)
    missing = tuple(_missing(facts))
    if missing:
        return Verdict(TOO_LITTLE, mode, missing)
    if not facts["stake"]["is_anything_at_stake"]:
        return Verdict(STAY, mode, ("nothing is at stake: no policy could recover anything here",))
    against = tuple(_against(facts, mode))
    if against:
        return Verdict(STAY, mode, against)
    return Verdict(UP, STEPS[STEPS.index(mode) + 1], tuple(_for(facts)))


def _mode(facts: Facts) -> str:
    """Return the mode that the site is in: `off` where nothing has been decided."""
    return str(facts["mode"]) if facts["decisions"]["jobs"] else "off"


def _missing(facts: Facts) -> Iterator[str]:
    """Say which evidence is missing."""
    if facts["stake"] is None:
        yield "the history holds no Darshan log of this time"
        return
    covered = _covered(facts["coverage"])
    if covered is not None and covered < LEAST_COVERAGE:
        yield (
            f"logs tell of {share_text(covered)} of the node-hours; "
            f"{share_text(LEAST_COVERAGE)} are needed"
        )
    decisions = facts["decisions"]
    if not decisions["jobs"]:
        if facts["stake"]["is_anything_at_stake"] and facts["levers"] is None:
            yield f"nothing was decided yet, and nothing replayed: {facts['no_levers']}"
        return
    span = decisions["last"] - decisions["first"]
    if span < LEAST_SPAN:
        yield (
            f"decisions span {duration_text(span)}; {duration_text(LEAST_SPAN)} have all days of "
            "a week"
        )
    checked = _checked(facts)
    if checked < LEAST_CHECKED:
        yield f"{checked} predictions could be checked; {LEAST_CHECKED} are needed"


def _covered(coverage: Facts) -> float | None:
    """Return the share of the node-seconds; None without accounting."""
    whole = coverage["node_seconds"]
    return coverage["logged_node_seconds"] / whole if whole else None


def _checked(facts: Facts) -> int:
    whole = facts["predictions"]["all"]
    return 0 if whole["came_true"] is None else round(whole["jobs"] * whole["answered"])


def _against(facts: Facts, mode: str) -> Iterator[str]:
    """Say what speaks against the next step."""
    if mode == "off":
        if not facts["levers_that_pay"]:
            yield "in replays of the last jobs no lever saves more than its waits cost"
        return
    true, promised = facts["predictions"]["all"]["came_true"], facts["least_confidence"]
    if true < promised:
        yield f"{share_text(true)} of the predictions came true; {share_text(promised)} should"
    acted_on = {(row["user"], row["program"]) for row in facts["effects"]["by_program"]}
    wrong = [
        row["program"]
        for row in facts["predictions"]["wrong"]
        if (row["user"], row["program"]) in acted_on
    ]
    if wrong:
        yield f"predictions went wrong of programs that it would act on: {', '.join(wrong)}"
    saved, price = _saved(facts)
    if saved <= 0:
        yield "Sluice would have touched no job"
    elif saved > facts["stake"]["interval"][1]:
        yield (
            f"decisions promise to save {amount_text(saved)} node-hours, more than jobs lost: the "
            "model exaggerates"
        )
    elif saved <= price:
        yield (
            f"waits would cost {amount_text(price)} node-hours at the price of waits, and save "
            f"{amount_text(saved)}"
        )


def _saved(facts: Facts) -> tuple[float, float]:
    """Return the node-hours that decisions would save, and what their waits cost."""
    rows = facts["effects"]["by_action"].values()
    waited = sum(row["waited_node_hours"] for row in rows)
    return sum(row["saved_node_hours"] for row in rows), facts["effects"]["wait_price"] * waited


def _for(facts: Facts) -> Iterator[str]:
    """Say what speaks for the next step."""
    lost = facts["stake"]["lost"]
    yield f"jobs lost {amount_text(lost)} node-hours to each other"
    if not facts["decisions"]["jobs"]:
        yield f"worth it by replays of the last jobs: {'; '.join(facts['levers_that_pay'])}"
        return
    true = facts["predictions"]["all"]["came_true"]
    yield f"{share_text(true)} of {_checked(facts)} predictions that could be checked came true"
    saved, price = _saved(facts)
    yield (
        f"decisions would have saved {amount_text(saved)} node-hours, and waits cost "
        f"{amount_text(price)}"
    )


def _of_enforce(facts: Facts) -> Verdict:
    """Judge what is enforced by the holdout, which alone can tell."""
    holdout = facts["holdout"]
    if holdout is None:
        return Verdict(
            STAY, "enforce", ("without a holdout nobody can tell what it gains: set Holdout=0.1",)
        )
    lost, wait = holdout["effects"]["lost_share"], holdout["effects"]["wait"]
    if lost["low"] > 0:
        return Verdict(
            DOWN,
            "advise",
            ("jobs that Sluice acts on lose more to others than those of the holdout",),
        )
    if wait["low"] > 0 and lost["high"] >= 0:
        return Verdict(
            DOWN,
            "advise",
            ("they wait longer than those of the holdout, and are not known to lose less",),
        )
    if lost["high"] < 0:
        return Verdict(
            STAY,
            "enforce",
            (f"jobs lose {share_text(-lost['mean'])} of their time less than the holdout",),
        )
    return Verdict(
        STAY, "enforce", ("the holdout shows neither gain nor harm yet: its interval holds 0",)
    )
