"""The recommendation for a site: by its losses and levers alone, and with its decisions.

`assess` gives the first, from logs alone; the verdict of `report` follows from the same.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from sluice.slurm.views.formatting import amount_text, count_text, duration_text, share_text

if TYPE_CHECKING:
    from collections.abc import Iterator

Facts = dict[str, Any]

STAY, UP, DOWN, TOO_LITTLE = "stay", "up", "down", "too_little"
STEPS = ("off", "observe", "advise", "enforce")

NOTHING, UNKNOWN, NONE_PAYS, CAP_PAYS, PAYS = "nothing", "unknown", "none", "cap", "pays"
"""What logs and replays say of the levers."""

LEVER_OF = {"delay": "delays", "disjoint": "lanes", "turns": "turns"}
"""By an action of decisions: the lever (sim.replay.levers.LEVERS) that it pulls."""

LEAST_COVERAGE = 0.3
"""Of the node-hours that logs have to tell of."""
LEAST_SPAN = 7 * 86400
"""Seconds from the first decision to the last: a week has all the days there are."""
LEAST_CHECKED = 30
"""Predictions that could be checked."""


@dataclass(frozen=True, slots=True)
class LeverAdvice:
    """What logs and replays say of the levers, without any decision."""

    kind: str
    """NOTHING, UNKNOWN, NONE_PAYS, CAP_PAYS or PAYS."""
    text: str
    """Without a capital and a full stop."""

    def as_json(self) -> Facts:
        return asdict(self)


def lever_advice(facts: Facts) -> LeverAdvice:
    """Judge a site by its coverage, what is at stake, and the levers (cli.levers.levers_json)."""
    if unknown := _unknown(facts):
        return LeverAdvice(UNKNOWN, unknown)
    if not facts["stake"]["is_anything_at_stake"]:
        return LeverAdvice(NOTHING, "nothing is at stake here: no policy could recover anything")
    if facts["levers_of_sluice_that_pay"]:
        paying = "; ".join(facts["levers_that_pay"])
        return LeverAdvice(PAYS, f"worth it here, by replays of the last jobs: {paying}")
    if facts["levers_that_pay"]:
        return LeverAdvice(
            CAP_PAYS,
            f"only {'; '.join(facts['levers_that_pay'])} is worth it here, by replays of the last "
            "jobs, which needs no Sluice",
        )
    return LeverAdvice(
        NONE_PAYS,
        "no lever is worth it here: in replays of the last jobs none saves more than its waits "
        "cost in every case",
    )


def _unknown(facts: Facts) -> str:
    """Say why logs and replays do not tell; empty: they do."""
    if facts["stake"] is None:
        return "the history holds no Darshan log of this time"
    covered = _covered(facts["coverage"])
    if covered is not None and covered < LEAST_COVERAGE:
        return (
            f"logs tell of {share_text(covered)} of the node-hours; "
            f"{share_text(LEAST_COVERAGE)} are needed to advise"
        )
    if facts["stake"]["is_anything_at_stake"] and facts["levers"] is None:
        return f"what levers would bring is not known: {facts['no_levers']}"
    return ""


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
    advice = lever_advice(facts)
    missing = tuple(_missing(facts))
    if advice.kind == UNKNOWN:
        return Verdict(TOO_LITTLE, mode, (advice.text, *missing))
    if advice.kind != PAYS:
        return Verdict(STAY, mode, (advice.text,))
    if missing:
        return Verdict(TOO_LITTLE, mode, missing)
    if mode != "off" and (against := tuple(_against(facts))):
        return Verdict(STAY, mode, against)
    return Verdict(UP, STEPS[STEPS.index(mode) + 1], (*_for(facts), advice.text))


def _mode(facts: Facts) -> str:
    """Return the mode that the site is in: `off` where nothing has been decided."""
    return str(facts["mode"]) if facts["decisions"]["jobs"] else "off"


def _missing(facts: Facts) -> Iterator[str]:
    """Say which evidence of decisions is missing; without any, replays stand in."""
    decisions = facts["decisions"]
    if not decisions["jobs"]:
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


def _against(facts: Facts) -> Iterator[str]:
    """Say which decisions speak against the next step, where levers pay."""
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
    in_vain = [
        f"act on {count_text(row['jobs'], 'job')} by {LEVER_OF[action]}"
        for action, row in facts["effects"]["by_action"].items()
        if action in LEVER_OF and LEVER_OF[action] not in facts["levers_that_pay"]
    ]
    if in_vain:
        yield (
            f"decisions {' and '.join(in_vain)}, which replays do not find worth it; worth it is: "
            f"{'; '.join(facts['levers_that_pay'])}"
        )
    saved, price = _saved(facts)
    if saved <= 0:
        yield "levers pay in replays, but its decisions would have touched no job"
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
        return
    true = facts["predictions"]["all"]["came_true"]
    yield f"{share_text(true)} of {_checked(facts)} predictions that could be checked came true"
    saved, price = _saved(facts)
    yield (
        f"by the interference model, decisions would have saved {amount_text(saved)} node-hours, "
        f"and waits cost {amount_text(price)}"
    )


def _of_enforce(facts: Facts) -> Verdict:
    """Judge what is enforced by the holdout, which alone can tell."""
    holdout = facts["holdout"]
    if holdout is None:
        return Verdict(
            STAY, "enforce", ("without a holdout the gain is not known: set Holdout=0.1",)
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
