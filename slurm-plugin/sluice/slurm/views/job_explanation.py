"""The explanation of one job, from the facts of `job_report.gather`: for terminal and page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.policies.control import release_text
from sluice.policies.core import sentence, takes_turns
from sluice.slurm.views.formatting import (
    NOTHING,
    amount_text,
    bytes_text,
    count_text,
    duration_text,
    one_line,
    rate_text,
    share_text,
    time_text,
    times_text,
    with_range,
)
from sluice.slurm.views.reviews import line_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Facts = dict[str, Any]

HELD_SHOWN = 10
"""Bursts."""
RELEASED = {
    "turn": "its turn came",
    "budget": "its budget was used up",
    "stretch": "no hold lasts for longer at a stretch",
    "trial": "it went on trial, to see whether its hold helped",
    "no_help": "holds were seen not to help there",
    "off": "turns were switched off",
    "burst": "the burst ended",
}


class Heading(NamedTuple):
    """What the parts after it are about."""

    text: str


class Rows(NamedTuple):
    """A table."""

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    indent: int = 2
    """On a terminal."""
    caption: str = ""


Part = Heading | Rows | str
"""A text is a paragraph; what it begins with says how far it is indented on a terminal."""


def story(facts: Facts) -> Iterator[Part]:
    """Tell the facts that `gather` collected, line by line."""
    yield from _introduction(facts)
    record = facts["record"]
    if record is None:
        yield from _no_decision()
    else:
        decision = record["decision"]
        yield from _what_was_known(decision, facts["evidence"])
        for review in facts["reviews"]:
            yield f"  Review: {line_of(review)}."
        yield from _who_was_writing(decision)
        yield from _choices(decision, facts["lanes"])
        for lane, speed in facts["slow_lanes"].items():
            yield f"  Lane {lane} was slow, at {share_text(speed)} of its peers' rate."
        yield from _decision(record, facts)
        yield from _decided_again(facts)
    yield from _what_slurm_did(facts["slurm"])
    yield from _held_bursts(facts["turns"], facts["lanes"])
    yield from _what_it_did(facts["outcome"])
    yield from _advice(facts["outcome"])
    if "replay" in facts:
        yield Heading("Replay")
        yield f"  {facts['replay']['text']}"


def _introduction(facts: Facts) -> Iterator[Part]:
    job = facts["job"]
    nodes = f" on {count_text(job['nodes'], 'node')}" if job["nodes"] else ""
    yield (
        f"Job {job['job']} {one_line(job['name'] or '(no name)')} of "
        f"{job['user'] or 'an unknown user'}{nodes}, "
        f"submitted {time_text(job['submitted'])} on cluster {job['cluster'] or NOTHING}."
    )
    if facts["array"] is not None:
        yield f"It is a task of array {facts['array']}, which was decided as a whole."
    if facts["tied_with"] > 1:
        yield (
            f"Note: {facts['tied_with']} decisions were made for this user and job name in that "
            "second, and nothing tells which is this job's. One of them follows."
        )
    for other in facts["other_jobs_with_this_number"]:
        yield (
            f"Note: {one_line(other['name'] or '(no name)')}, submitted "
            f"{time_text(other['submitted'])} on cluster {other['cluster'] or NOTHING}, had this "
            "number too. This is the latest."
        )


def _no_decision() -> Iterator[Part]:
    yield Heading("No decision")
    yield (
        "  The plugin has no record of this submission: it was not loaded or in Mode=off, its\n"
        "  ring was full, or the job's name was changed before sluiced saw it. See `sluice doctor`."
    )


def _what_was_known(decision: Facts, evidence: Facts) -> Iterator[Part]:
    prediction = decision["prediction"]
    yield Heading("What was known before it ran")
    if prediction["evidence"] == "none":
        yield "  Nothing: no earlier run resembles it."
        return
    profile = prediction["profile"]
    runs = f", {count_text(profile['runs'], 'run')}" if profile["runs"] else ""
    yield f"  Evidence: {sentence('evidence', prediction['evidence'])}{runs}."
    if evidence["logs"]:
        yield from _logs(evidence)
    if profile["pattern"] != "unknown":
        yield (
            f"  Prediction: {sentence('pattern', profile['pattern'])} ({profile['pattern']}), "
            f"{share_text(profile['confidence'])} certain of the pattern."
        )
    elif profile["write_bytes"] is not None or profile["read_bytes"] is not None:
        yield f"  Prediction: {sentence('reason', 'volume_only')} (unknown)."
    else:
        yield f"  Prediction: {sentence('pattern', 'unknown')} (unknown)."
    yield f"    {_profile(profile)}"
    klass = prediction["klass"]
    if klass != "none" or decision["action"] == "leave":
        yield f"    Class {klass}: {sentence('class', klass)}."


def _logs(evidence: Facts) -> Iterator[Part]:
    rows = [
        (
            time_text(run["started"]),
            Path((run["exe"] or NOTHING).split()[0]).name,
            run["pattern"],
            bytes_text(run["write_bytes"]),
            bytes_text(run["read_bytes"]),
            bytes_text(run["chunk_bytes"]),
            run["nprocs"] or NOTHING,
            Path(run["log"]).name,
        )
        for run in evidence["logs"]
    ]
    columns = ("Run", "Program", "Pattern", "Written", "Read", "Chunk", "Processes", "Darshan log")
    yield Rows(columns, rows, indent=4)
    more = evidence["runs"] - len(rows)
    if more > 0:
        yield f"    and {count_text(more, 'earlier run')}."


def _profile(profile: Facts) -> str:
    """Put the numbers of a profile that say something into one line."""
    known = (
        ("chunks of {}", bytes_text, "chunk_bytes"),
        ("{} processes", _whole, "nprocs"),
        ("{} written", bytes_text, "write_bytes"),
        ("{} read", bytes_text, "read_bytes"),
        ("reads of {}", bytes_text, "read_chunk_bytes"),
        ("{} of them in order", share_text, "read_sequential_share"),
        ("{} from the node's cache", share_text, "read_cached_share"),
        ("{} files", _whole, "files"),
        ("{} alone", rate_text, "rate"),
        ("{} of its run time is I/O", share_text, "io_share"),
        ("in bursts of {}", duration_text, "burst_seconds"),
        ("every {}", duration_text, "period_seconds"),
    )
    parts = [
        template.format(with_range(profile, name, text))
        for template, text, name in known
        if profile[name]
    ]
    return " · ".join(parts) or "No number is known."


def _who_was_writing(decision: Facts) -> Iterator[Part]:
    if not decision["alternatives"]:
        return  # it was not weighed
    yield Heading("Running jobs with I/O at the time")
    if not decision["coruns"]:
        yield "  None with I/O that matters."
    for corun in decision["coruns"]:
        if corun["job_id"] is None:  # PrivateData
            name, size = "another user's job", ""
        else:
            name = f"job {corun['job_id']}"
            size = f" ({count_text(corun['nodes'], 'node')})"
        yield (
            f"  {name[0].upper()}{name[1:]}{size}: together for "
            f"{duration_text(corun['together'])}; this job would take "
            f"{times_text(corun['own_slowdown'])} as long, {name} "
            f"{times_text(corun['other_slowdown'])}."
        )
    more = decision["corunner_count"] - len(decision["coruns"])
    if more > 0:
        yield f"  {count_text(more, 'other job')} with less effect."


def _choices(decision: Facts, lanes: list[str]) -> Iterator[Part]:
    if not decision["alternatives"]:
        return
    yield Heading("What could be done, in lost node-seconds")
    rows = [
        (
            ("→ " if i == decision["chosen"] else "  ") + _choice(alternative, lanes),
            amount_text(alternative["own"]),
            amount_text(alternative["caused"]),
            amount_text(alternative["confined"]),
            duration_text(alternative["wait"]) if alternative["wait"] else NOTHING,
            amount_text(alternative["cost"]),
            times_text(alternative["slowdown"]),
        )
        for i, alternative in enumerate(decision["alternatives"])
    ]
    targets = "Cost of fewer or slower targets"
    yield Rows(("  Choice", "Own", "Caused", targets, "Wait", "Cost", "This job takes"), rows)


def _lane_names(mask: int, lanes: list[str]) -> list[str]:
    return [
        lanes[bit] if bit < len(lanes) else f"lane {bit}"
        for bit in range(mask.bit_length())
        if mask >> bit & 1
    ]


def _tokens(tokens: Facts, lanes: list[str]) -> str:
    """Name the tokens that a decision asks for, as Slurm shows them."""
    names = _lane_names(tokens["lane_mask"], lanes or ["all"])
    if not names:
        return ""
    return ": " + ", ".join(f"{lane}_{tokens['klass']}" for lane in names)


def _choice(alternative: Facts, lanes: list[str]) -> str:
    if alternative["action"] == "delay":
        return "wait, then share"
    mask = alternative["lane_mask"]
    if not mask:
        in_turns = ", in turns" if alternative["action"] == "turns" else ""
        return f"share everything{in_turns}"
    return f"only {', '.join(_lane_names(mask, lanes))}"


def _decision(record: Facts, facts: Facts) -> Iterator[Part]:
    decision = record["decision"]
    yield Heading("Decision")
    yield f"  {decision['action']}: {sentence('action', decision['action'])}."
    yield f"  Because {sentence('reason', decision['reason'])} ({decision['reason']})."
    effect = {
        "advise": "at most a note went into the admin comment, nothing else was touched",
        "enforce": f"{sentence('grant', record['grant']['outcome'])}"
        f"{_tokens(record['grant']['tokens'], facts['lanes'])}",
    }.get(record["mode"], "the job was not touched")
    yield f"  Mode was {record['mode']}{_rule(record)}: {effect}."
    if record["turns"] != "off":
        yield f"  {_takes_turns(record)}"
    if place := record.get("place"):
        yield f"  {_place_text(place, record, facts['lanes'])}"
    how = {
        "mark": "by the note on the job",
        "key": "by user, name and submit time",
        "tie": "only up to its equals",
    }.get(facts["joined_by"] or "", "not yet")
    yield (
        f"  Record {record['boot']}-{record['number']}, found {how}; bundle "
        f"{record['bundle_checksum']}, snapshot {record['snapshot_checksum']}."
    )
    if name := facts["interference_model"]["name"]:
        yield f"  Interference by {name}."
    if facts["reads_measured"] is False:
        yield "  What its reads lose is by published figures: none was measured here."


def _rule(record: Facts) -> str:
    """Say which rule gave the mode, where it was not Mode itself."""
    if not record["mode_rule"]:
        return ""
    grounds = " and ".join(sentence("mode_by", word) for word in record["mode_by"])
    return f" by rule {record['mode_rule']} of ModeOf, for {grounds}"


def _takes_turns(record: Facts) -> str:
    in_turns = record["grant"]["in_turns"]
    takes = "takes" if takes_turns(in_turns) else "does not take"
    return f"It {takes} turns: {sentence('in_turns', in_turns)} ({in_turns})."


def _place_text(place: Facts, record: Facts, lanes: list[str]) -> str:
    """Say on which targets of its lane its output goes, and why there."""
    (lane,) = _lane_names(1 << place["job"]["lane"], lanes)
    choice, first = place["choice"], place["job"]["block"]["first"]
    if "array" in record["submission"]["flags"]:
        return f"Output: all targets of {lane}; tasks of an array get no targets of their own."
    if not place["need"]:
        return f"Output: all targets of {lane}; it is not known that it needs at most half of them."
    needs = f"it needs {count_text(place['need'], 'target')}"
    if not choice["considered"]:
        return f"Output: all targets of {lane}; {needs}, and no such block is open."
    last = first + choice["block"]["count"] - 1
    on = f"target {first}" if first == last else f"targets {first} to {last}"
    return (
        f"Output: {on} of {lane}; {needs}. Of {choice['considered']} such blocks it loses least "
        f"there: {amount_text(choice['cost'])} node-seconds a second, by chance "
        f"{amount_text(choice['mean_cost'])}."
    )


def _decided_again(facts: Facts) -> Iterator[Part]:
    """Tell what sluiced decided near the start or at it, and when it took tokens off."""
    if facts["decided_again"] or facts["releases"]:
        yield Heading("Near its start")
    for record in facts["decided_again"]:
        decision = record["decision"]
        yield (
            f"  {time_text(record['now'])} decided again: {decision['action']}, because "
            f"{sentence('reason', decision['reason'])} ({decision['reason']})"
            f"{_tokens(record['grant']['tokens'], facts['lanes'])}."
        )
        if record["mode"] != "enforce":
            yield "  So enforce would have, with those that came before it; nothing was touched."
        yield from _who_was_writing(decision)
        yield from _choices(decision, facts["lanes"])
    for release in facts["releases"]:
        yield (
            f"  {time_text(release['released'])} tokens taken off ({release['tokens']}) after "
            f"waiting {duration_text(release['waited'])}: {release_text(release['reason'])} "
            f"({release['reason']})."
        )


def _what_slurm_did(slurm: Facts | None) -> Iterator[Part]:
    yield Heading("What Slurm did")
    if slurm is None:
        yield "  Not known: sluiced has not seen the job, and Slurm does not know it (any more)."
        return
    if slurm["started"] is None:
        reason = f" ({slurm['reason']})" if slurm["reason"] else ""
        yield f"  {slurm['state']}{reason}; not started."
    else:
        yield (
            f"  {slurm['state']}: started {time_text(slurm['started'])} after waiting "
            f"{duration_text(slurm['waited_seconds'])}"
            + (
                f", ran {duration_text(slurm['ran_seconds'])}, exit code {slurm['exit_code']}."
                if slurm["ended"]
                else "."
            )
        )
    if slurm["restarts"]:
        yield f"  Requeued {count_text(slurm['restarts'], 'time')}."
    if not slurm["is_live"] and slurm["ended"] is None:
        yield "  (As sluiced saw it last; Slurm cannot be asked or does not know it any more.)"


def _held_bursts(bursts: list[Facts], lanes: list[str]) -> Iterator[Part]:
    """Describe each burst that was held behind another job's, or would have been."""
    if not bursts:
        return
    yield Heading("Its bursts in turns")
    was = "" if bursts[-1]["is_held"] else " would have been"
    known = [burst["saving"] for burst in bursts if burst["saving"] is not None]
    yield (
        f"  {count_text(len(bursts), 'burst')}{was} held, for "
        f"{duration_text(sum(burst['held'] for burst in bursts))} in all: "
        f"{amount_text(sum(burst['node_seconds'] for burst in bursts))} node-seconds, where "
        f"{amount_text(sum(known))} were expected to be saved."
    )
    for burst in bursts[-HELD_SHOWN:]:
        yield f"  {_held_burst(burst, lanes)}"
    if len(bursts) > HELD_SHOWN:
        yield f"  and {count_text(len(bursts) - HELD_SHOWN, 'earlier one')}, in --json."


def _held_burst(burst: Facts, lanes: list[str]) -> str:
    place = f" on {', '.join(_lane_names(burst['lane_mask'], lanes))}" if burst["lane_mask"] else ""
    first = "others"
    if burst["first_job"] is not None:
        first = f"job {burst['first_job']} ({count_text(burst['first_nodes'], 'node')})"
    saving = "not known" if burst["saving"] is None else f"{amount_text(burst['saving'])} node-s"
    return (
        f"{time_text(burst['began'])}{place}: "
        f"{'held' if burst['is_held'] else 'would have been held'} "
        f"{duration_text(burst['held'])} of {duration_text(burst['lasted'])} "
        f"for {first}; expected saving {saving}; released because "
        f"{RELEASED.get(burst['ended'], burst['ended'])}."
    )


def _what_it_did(outcome: Facts | None) -> Iterator[Part]:
    """Lay what the job did alongside what was predicted of it."""
    if outcome is None:
        return  # it has not ended, as far as is known
    yield Heading("What it did to storage")
    if outcome["source"] is None:
        yield "  Not known: it left no log (yet), and the accounting counted no bytes."
        return
    logs = outcome["logs"]
    if logs:
        more = f" and {len(logs) - 1} more" if len(logs) > 1 else ""
        yield f"  By {one_line(logs[0])}{more}:"
    else:
        yield "  By the accounting, as it left no log:"
    predicted = outcome["predicted"]
    yield f"  {sentence('pattern', outcome['pattern'])} ({outcome['pattern']})."
    rows = [
        (
            f"  {title}",
            text(outcome[name]),
            text(outcome[name] / factor) if factor else NOTHING,
            times_text(factor) if factor else NOTHING,
            _inside(predicted, name),
        )
        for title, name, text in (
            ("written", "write_bytes", bytes_text),
            ("read", "read_bytes", bytes_text),
            ("chunk", "chunk_bytes", bytes_text),
            ("bytes a read", "read_chunk_bytes", bytes_text),
            ("read in order", "read_sequential_share", share_text),
            ("read from the cache", "read_cached_share", share_text),
            ("rate", "rate", rate_text),
            ("burst", "burst_seconds", duration_text),
            ("I/O share", "io_share", share_text),
            ("run time", "runtime_seconds", duration_text),
        )
        if outcome[name]
        for factor in ((predicted or {"factors": {}})["factors"].get(name),)
    ]
    columns = ("  ", "Did", "Predicted", "Did ÷ predicted", "Within its interval")
    yield Rows(columns, rows)
    if predicted is None:
        yield "  Nothing had been predicted of it."
        return
    yield f"  {_verdict(predicted)}"
    yield from _alongside_alone(predicted)


def _advice(outcome: Facts | None) -> Iterator[Part]:
    if outcome is None or not outcome.get("advice"):
        return  # it left no log, or has little I/O
    yield Heading("What its owner could change")
    for one in outcome["advice"]:
        yield f"  It {one['finding']}."
        yield f"    → {one['remedy']}"


def _inside(predicted: Facts | None, name: str) -> str:
    inside = predicted["in_interval"].get(name) if predicted else None
    return NOTHING if inside is None else "yes" if inside else "no"


def _verdict(predicted: Facts) -> str:
    certain = f"{share_text(predicted['confidence'])} certain of the pattern"
    if predicted["came_true"] is None:
        return f"Whether the prediction, {certain}, came true is not known."
    if predicted["came_true"]:
        return f"The prediction, {certain}, came true."
    what = "pattern" if predicted["pattern_right"] is False else "volume"
    return (
        f"The prediction, {certain}, failed in its {what}: the next training lowers the "
        "confidence of this program."
    )


def _alongside_alone(predicted: Facts) -> Iterator[Part]:
    if predicted["slowdown"] is not None:
        yield (
            f"  Alone its run was estimated at {duration_text(predicted['alone_seconds'])}: "
            f"it took {times_text(predicted['slowdown'])} as long."
        )
    if predicted["io_slowdown"] is not None:
        yield (
            f"  Alone its I/O was estimated at {rate_text(predicted['alone_rate'])}: it took "
            f"{times_text(predicted['io_slowdown'])} as long."
        )


def _whole(number: float | None) -> str:
    return NOTHING if number is None else f"{number:.0f}"
