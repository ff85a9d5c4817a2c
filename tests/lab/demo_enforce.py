"""The second half of `make demo`: what Sluice's gates gain, on two slow storage targets.

Each case of enforce_cases.py runs in `observe` and then in `enforce`; tables and a picture
show what changed, and where Sluice rightly changed nothing.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from enforce_cases import EQUAL, WIDE, Outcome, Prediction, Run
from enforce_lab import EnforceLab
from enforce_plot import plot
from measured_programs import STREAM, VICTIM

from sluice.cli.common import show_table
from sluice.policies import core
from sluice.slurm.views.formatting import NOTHING

COLUMNS = ("Job", "Nodes", "Class", "Mode", "Lane", "Decision", "Wait", "Run", "I/O", "Lost")
WAYS = {"colocate": "share both targets", "disjoint": "keep it to one", "delay": "wait"}
NOTICED = 1.0  # seconds by which a time differs noticeably; Slurm passes over its queue that often


def show(place: Path, picture: Path, say: Callable[[str], None], *, kinds: Sequence[str]) -> None:
    """Run everything below place, print it, save the picture. say prints a heading; kinds
    are those of the targets, of which the first that works here is taken."""
    say("9. Two storage targets, and what two programs do to each other there")
    print("Each program runs alone, then both together: half a minute …", flush=True)
    place.mkdir()
    with EnforceLab(place, kinds=kinds) as lab:
        show_lesson(lab)
        runs: list[Run] = []
        predictions: list[Prediction] = []
        for number, case in enumerate((WIDE, EQUAL), start=10):
            say(f"{number}. {case.name.capitalize()}: {case.why}")
            print("In observe, then in enforce …", flush=True)
            runs += [lab.run(case, mode) for mode in ("observe", "enforce")]
            predictions.append(lab.prediction(runs[-1]))
            show_case(*runs[-2:], predictions[-1])
            print(
                "Servers that shared fairly between the two would lose about "
                f"{lab.lost_if_fair(runs[-1]):.0f} node-seconds without any waiting (computed)."
            )
        plot(picture, runs, predictions[0], lab.targets.label)
    print(f"\nPicture of both: {picture.resolve()}")


def show_lesson(lab: EnforceLab) -> None:
    lesson = lab.lesson
    print(f"Targets: {len(lab.targets.lanes)}, each a {lab.targets.label}.")
    if lab.targets.why:
        print(f"Nothing better here: {lab.targets.why}.")
    print(
        f"Alone, {VICTIM.name} (creates files, flushes each, computes between) takes "
        f"{lesson.alone[VICTIM.name]:.1f} s and {STREAM.name} (one stream) "
        f"{lesson.alone[STREAM.name]:.1f} s.\n"
        f"Alongside the stream, {VICTIM.name} keeps {lesson.kept:.0%} of its rate, the stream "
        f"{lesson.stream_kept:.0%}. The published figures, from a Lustre, would have said "
        f"{lesson.published_kept:.0%},\nso the model in the bundle is the measured one."
    )


def show_case(observed: Run, enforced: Run, prediction: Prediction) -> None:
    pairs = list(zip(observed.jobs, enforced.jobs, strict=True))
    show_table(
        COLUMNS,
        [
            _cells(job, run.mode)
            for pair in pairs
            for job, run in zip(pair, (observed, enforced), strict=True)
        ],
    )
    print("\nSeconds; Lost: node-seconds, those of waiting included. What changed:")
    for before, after in pairs:
        print(f"  {before.name}: {_change(before, after)}")
    print(f"  together: {observed.lost:.0f} node-seconds lost, then {enforced.lost:.0f}")
    decision = enforced.job(STREAM.name)
    print(
        f"Why: {STREAM.name} {core.sentence('action', decision.action)}; "
        f"{core.sentence('reason', decision.reason)}."
    )
    costs = [
        f"{name} {observed.job(STREAM.name).costs[action]:.0f}"
        for action, name in WAYS.items()
        if action in observed.job(STREAM.name).costs
    ]
    print(f"Weighed, in node-seconds at the model's 0.9 quantile: {', '.join(costs)}.")
    if decision.action == "delay":
        print(
            f"Predicted: {prediction.expected:.0f} node-seconds fewer "
            f"({prediction.low:.0f} to {prediction.high:.0f}); "
            f"measured: {observed.lost - enforced.lost:.0f}."
        )


def _cells(job: Outcome, mode: str) -> tuple[object, ...]:
    lane = "+".join(job.lanes) or "any"
    return (
        job.name,
        job.nodes,
        job.klass if job.writes else NOTHING,
        mode,
        lane if job.writes else NOTHING,
        f"{job.action}: {job.reason}",
        f"{job.wait:.1f}",
        f"{job.run:.1f}",
        f"{job.io:.1f}" if job.writes else NOTHING,
        f"{job.lost:.1f}",
    )


def _change(before: Outcome, after: Outcome) -> str:
    changes = [
        f"{verb} {abs(by):.1f} s {'longer' if by > 0 else 'shorter'}"
        for verb, by in (("waits", after.wait - before.wait), ("runs", after.run - before.run))
        if abs(by) > NOTICED
    ]
    text = " and ".join(changes) or "nothing"
    return f"{text} (tokens taken off: {after.released})" if after.released else text
