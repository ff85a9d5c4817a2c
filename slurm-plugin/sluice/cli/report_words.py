"""What a report says, in sections: for a mail and for a page alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.cli.common import coverage_text
from sluice.cli.site.levers import (
    LEVERS,
    lever_rows,
    levers_sentence,
    placement_sentences,
)
from sluice.slurm.views.formatting import (
    NOTHING,
    amount_text,
    count_text,
    duration_text,
    one_line,
    rate_text,
    share_text,
    time_text,
    times_text,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sluice.sim.replay.levers import Levers

Facts = dict[str, Any]


class Table(NamedTuple):
    """A table whose first column names the rows."""

    caption: str
    titles: Sequence[str]
    rows: Sequence[Sequence[str]]


class Section(NamedTuple):
    """A heading, sentences, and tables below them."""

    heading: str
    sentences: Sequence[str]
    tables: Sequence[Table] = ()


SHOWN = 10
"""Rows of a table."""
ADVICE = {
    "stay": "Stay in {mode}",
    "up": "Go one step up, to {mode}",
    "down": "Go one step down, to {mode}",
    "too_little": "Too little evidence; stay in {mode}",
}
UNDECIDED = {"stay": "Stay as it is", "too_little": "Too little evidence; stay as it is"}
"""Where nothing was decided yet, whatever Mode says."""


def sections(facts: Facts, levers: Levers | str | None) -> Iterator[Section]:
    """Tell the facts of `report.gather`, with what levers would bring."""
    if "verdict" in facts:
        yield Section("Verdict", list(_verdict(facts)))
    yield Section("What it is about", list(_subject(facts)))
    if facts.get("stake"):
        yield _at_stake(facts["stake"])
    if facts["decisions"]["jobs"]:
        yield _decided(facts)
        yield _right(facts)
        if facts.get("holdout"):
            yield _compared(facts["holdout"])
        if facts.get("held_out_in_vain"):
            yield Section("What the holdout does not show", [_in_vain(facts["held_out_in_vain"])])
    if "stake" in facts:
        yield from _replayed(levers)
    if facts.get("stake"):
        yield Section("What placement would bring", list(placement_sentences(levers)))


def advice_text(verdict: Facts) -> str:
    advice, mode = verdict["advice"], verdict["mode"]
    said = UNDECIDED.get(advice) if mode == "off" else None
    return said or ADVICE[advice].format(mode=mode)


def _verdict(facts: Facts) -> Iterator[str]:
    found = facts["verdict"]
    yield f"{advice_text(found)}, because:"
    yield from (f"- {reason}." for reason in found["because"])


def _subject(facts: Facts) -> Iterator[str]:
    from sluice.history_db.records import Coverage

    decisions = facts["decisions"]
    yield f"From {time_text(facts['since'])} to {time_text(facts['until'])}."
    if facts.get("coverage"):
        yield f"{coverage_text(Coverage(**facts['coverage']))}."
    if not decisions["jobs"]:
        yield "No decision was made in this time: replays of the last jobs stand in."
        return
    modes = ", ".join(f"{count} in {mode}" for mode, count in decisions["modes"].items())
    yield (
        f"{decisions['jobs']} jobs were decided on ({modes}); Sluice knew enough of "
        f"{share_text(decisions['answered'])}."
    )
    if decisions["unreadable"]:
        yield f"{decisions['unreadable']} decisions are of another version, and left out."
    if decisions["lost_records"]:
        yield f"{decisions['lost_records']} records were lost before they reached the history."


def _at_stake(stake: Facts) -> Section:
    low, high = stake["interval"]
    model = stake["interference_model"]["name"]
    return Section(
        "What jobs lost to each other",
        [
            (
                f"{amount_text(stake['lost'])} node-hours ({amount_text(low)} to "
                f"{amount_text(high)}) of {amount_text(stake['node_hours'])}, as `sluice site "
                "assess` has it."
            ),
            (
                f"Storage writes {rate_text(stake['bandwidth'])} ({stake['bandwidth_from']}); "
                f"interference by {model}."
            ),
        ],
    )


def _decided(facts: Facts) -> Section:
    enforced = facts["mode"] == "enforce"
    would = "" if enforced else " would"
    effects = facts["effects"]
    delays = effects["by_action"].get("delay")
    sentences = []
    if delays:
        sentences.append(
            f"Sluice{would or ' did'} delay {count_text(delays['jobs'], 'job')}, the longest by "
            f"{duration_text(delays['longest_wait'])}: {amount_text(delays['waited_node_hours'])} "
            f"node-hours of waiting to save {amount_text(delays['saved_node_hours'])}."
        )
    else:
        sentences.append("It delayed no job." if enforced else "It would have delayed no job.")
    for action, what in (("disjoint", "to a lane of its own"), ("turns", "in turns")):
        if found := effects["by_action"].get(action):
            sentences.append(
                f"{count_text(found['jobs'], 'job')}{would} run {what}, which saves "
                f"{amount_text(found['saved_node_hours'])} node-hours."
            )
    if "turns" in facts:
        sentences += _held(facts["turns"])
    if facts.get("released"):
        sentences.append(_released(facts["released"]))
    if effects["by_user"]:
        sentences.append(_worst_off(effects))
    if "verdict" in facts and effects["by_action"]:
        sentences.append(
            "These savings are what the interference model predicted at submission; what levers "
            "bring, and the verdict, are of replays."
        )
    rows = [row for row in effects["by_program"] if row["delayed"]][:SHOWN]
    spared = sorted(effects["by_program"], key=lambda row: -row["spared_node_hours"])[:SHOWN]
    return Section(
        "What Sluice did" if enforced else "What Sluice would have done",
        sentences,
        [
            table
            for table in (
                Table(
                    "Jobs by action",
                    ("action", "jobs"),
                    [(name, str(n)) for name, n in facts["decisions"]["actions"].items()],
                ),
                Table(
                    "What became of decisions",
                    ("grant", "jobs"),
                    [
                        (name, str(n))
                        for name, n in facts["decisions"]["grants"].items()
                        if name != "none"
                    ],
                ),
                Table(
                    "Delays",
                    ("user", "program", "delayed", "mean wait", "longest", "node-hours", "for"),
                    [_delayed(row) for row in rows],
                ),
                Table(
                    "Losses avoided",
                    ("user", "program", "node-hours spared"),
                    [
                        (_user(row), _program(row), amount_text(row["spared_node_hours"]))
                        for row in spared
                        if row["spared_node_hours"] > 0
                    ],
                ),
                Table(
                    "Gains and costs by user, in node-hours, the worst off first",
                    ("user", "jobs", "waited", "own gain", "spared by others", "net"),
                    [
                        (
                            _user(row),
                            str(row["jobs"]),
                            amount_text(row["waited_node_hours"]),
                            _signed(row["saved_node_hours"]),
                            amount_text(row["spared_node_hours"]),
                            _signed(row["net_node_hours"]),
                        )
                        for row in effects["by_user"][:SHOWN]
                    ],
                ),
            )
            if table.rows
        ],
    )


def _released(reasons: dict[str, int]) -> str:
    told = ", ".join(f"{count} {reason}" for reason, count in reasons.items())
    return f"Tokens were taken off {count_text(sum(reasons.values()), 'waiting job')}: {told}."


def _held(turns: Facts) -> Iterator[str]:
    for name, words in (("held", "were held"), ("in_thought", "would have been held")):
        if turns[name]["bursts"]:
            yield (
                f"{count_text(turns[name]['bursts'], 'burst')} {words} in turns, expected to save "
                f"{amount_text(turns[name]['saving'] / 3600)} node-hours."
            )


def _worst_off(effects: Facts) -> str:
    price = effects["wait_price"]
    if effects["by_user"][0]["net_node_hours"] >= 0:
        return f"No user is worse off, at a price of {price:g} for each node-hour of waiting."
    worst = effects["by_user"][0]
    return (
        f"Worst off is {_user(worst)}: {count_text(worst['delayed'], 'job')} delayed, "
        f"{duration_text(worst['longest_wait'])} at most; {_signed(worst['net_node_hours'])} "
        f"node-hours in all, at a price of {price:g} for each node-hour of waiting."
    )


def _delayed(row: Facts) -> tuple[str, ...]:
    sakes = [
        f"{one_line(one['program'] or one['user'])} ({amount_text(one['node_hours'])})"
        for one in row["for"][:3]
        if one["node_hours"] > 0
    ]
    return (
        _user(row),
        _program(row),
        str(row["delayed"]),
        duration_text(row["mean_wait"]),
        duration_text(row["longest_wait"]),
        amount_text(row["waited_node_hours"]),
        ", ".join(sakes) or "itself",
    )


def _right(facts: Facts) -> Section:
    found = facts["predictions"]
    whole = found["all"]
    sentences = []
    if whole["came_true"] is None:
        sentences.append("No prediction could be checked yet: no job of them has ended with a log.")
    else:
        volume = whole["within_2"].get("moved")
        sentences.append(
            f"Of {whole['jobs']} jobs that ended, Sluice was certain enough of "
            f"{share_text(whole['answered'])}; of these predictions "
            f"{share_text(whole['came_true'])} came true. The pattern was right in "
            f"{share_text(whole['pattern_right'])}, the volume "
            f"within a factor of two in {share_text(volume)}: as last time it would have been "
            f"in {share_text(whole['last_within_2'])}, as the application's mean in "
            f"{share_text(whole['mean_within_2'])}."
        )
    slowdown = facts.get("slowdown")
    if slowdown and slowdown["checked"]:
        sentences.append(
            f"Of {count_text(slowdown['checked'], 'job')} that shared, "
            f"{share_text(slowdown['at_most'])} were slowed by no more than predicted "
            f"({share_text(slowdown['quantile'])} should be): predicted in the mean "
            f"{times_text(slowdown['predicted_mean'])}, measured "
            f"{times_text(slowdown['measured_mean'])}."
        )
    wait = found["wait"]
    if wait["checked"]:
        sentences.append(
            f"Of {count_text(wait['checked'], 'conflict')} to wait for, "
            f"{share_text(wait['within_2'])} lasted as long as predicted within a factor of two; "
            f"the median {times_text(wait['median_factor'])} as long."
        )
    wrong = found["wrong"][:SHOWN]
    if wrong:
        sentences.append(
            "Programs with wrong predictions lose confidence at the next training, so that "
            "they are left alone until predictions come true again."
        )
    titles = (
        "program",
        "user",
        "jobs",
        "came true",
        "pattern right",
        "bytes within 2×",
        "as last time",
    )
    rows = [
        (
            one_line(row["program"]),
            one_line(row["user"]),
            str(row["jobs"]),
            share_text(row["came_true"]),
            share_text(row["pattern_right"]),
            share_text(row["within_2"].get("moved")),
            share_text(row["last_within_2"]),
        )
        for row in wrong
    ]
    tables = [Table("Programs with wrong predictions", titles, rows)] if rows else []
    return Section("How right it was", sentences, tables)


def _compared(holdout: Facts) -> Section:
    titles = ("", "jobs acted on", "held out", "acted on, mean", "held out, mean", "effect", "95 %")
    lost, wait = holdout["effects"]["lost_share"], holdout["effects"]["wait"]
    cap = holdout["wait_cap"]
    rows = [
        ("time lost to others", *_effect(lost, lambda one: f"{one:.1%}")),
        ("wait for the start", *_effect(wait, lambda one: _seconds(one * cap))),
    ]
    certain = 1 - holdout["false_alarms"]
    return Section(
        "What the holdout shows",
        [
            (
                f"A random draw left {share_text(holdout['share'])} of the jobs alone that "
                f"Sluice would have acted on: {holdout['held_out']} of {holdout['drawn']}."
            ),
            (
                f"With probability {certain:.0%} no interval is wrong, however often one looks. "
                f"Compared are jobs submitted before {time_text(holdout['until'])}; a wait beyond "
                f"{duration_text(cap)} counts as that."
            ),
        ],
        [Table("Jobs acted on, less those held out", titles, rows)],
    )


def _in_vain(jobs: int) -> str:
    return (
        f"{count_text(jobs, 'job')} that the draw left alone cannot be compared: the bundle of the "
        "decision, which says what share is held out, is not in this history, or of another "
        "version of Sluice."
    )


def _effect(found: Facts, text: Any) -> tuple[str, ...]:
    means = (found["acted_on_mean"], found["held_out_mean"])
    return (
        str(found["units"] - found["held_out"]),
        str(found["held_out"]),
        *(NOTHING if one is None else text(one) for one in means),
        text(found["mean"]),
        f"{text(found['low'])} to {text(found['high'])}",
    )


def _seconds(seconds: float) -> str:
    return f"{'-' if seconds < 0 else ''}{duration_text(abs(seconds))}"


def _replayed(levers: Levers | str | None) -> Iterator[Section]:
    if levers is None:
        return
    heading = "What each lever would bring"
    if isinstance(levers, str):
        yield Section(heading, [f"Not known: {levers}."])
        return
    users = [
        (
            one_line(row["user"]),
            str(row["jobs"]),
            duration_text(row["held_mean_s"]),
            duration_text(row["held_max_s"]),
            amount_text(row["lost_plain_slot_hours"]),
            amount_text(row["lost_slot_hours"]),
        )
        for row in levers.users[:SHOWN]
    ]
    titles = ("user", "jobs", "mean delay", "longest", "lost without", "lost with delays")
    yield Section(
        heading,
        [levers_sentence(levers)],
        [
            Table("Levers", LEVERS, lever_rows(levers)),
            Table("Delays by user, in the replay", titles, users),
        ],
    )


def _user(row: Facts) -> str:
    return one_line(row["user"])


def _program(row: Facts) -> str:
    return one_line(row["program"] or NOTHING)


def _signed(amount: float) -> str:
    return f"{'-' if amount < 0 else ''}{amount_text(abs(amount))}"
