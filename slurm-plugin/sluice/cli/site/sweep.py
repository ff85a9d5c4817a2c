"""`sluice site sweep`: policies compared over a grid of parameters."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sluice.cli.common import CommandError, Words, json_option, options, show_json, show_table
from sluice.cli.listing import progress
from sluice.cli.site.replay_options import (
    ASKED,
    experiment_of,
    known_policies,
    pairs,
    repeat,
    written,
)
from sluice.slurm.views.formatting import amount_text, duration_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sluice.sim.replay.sweep import Advice, Sweep, Wait

SHOWN = ("lost_slot_hours", "share_of_bound", "io_slowdown_p99", "wait_mean_s", "wait_p99_s")


@click.command("sweep", short_help="Compare policies over a grid of parameters.")
@options(*ASKED)
@click.option(
    "--policy",
    "policies",
    type=Words(),
    multiple=True,
    metavar="NAME,…",
    help="Policies to compare with plain Slurm.",
)
@click.option(
    "--vary",
    multiple=True,
    callback=pairs,
    metavar="NAME=V1,V2,…",
    help="A parameter and its values: io-share, load, max-delay, wrong, lanes, targets, sharing, "
    "seed, slots; an option of a policy, a setting of the scheduler, a number of the storage.",
)
@repeat("More draws of each case, for intervals.")
@click.option(
    "--again",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Compute the sweep in FILE once more, into --output.",
)
@written(
    "--output",
    required=True,
    text="Results; a stopped sweep goes on there.",
)
@written(
    "--table",
    endings=(".csv", ".parquet"),
    text="Also a row a case and policy: .csv or .parquet.",
)
@json_option
@click.pass_context
def command(
    context: click.Context,
    /,
    *,
    policies: tuple[tuple[str, ...], ...],
    vary: Mapping[str, str],
    repeats: int,
    again: Path | None,
    output: Path,
    table: Path | None,
    as_json: bool,
    **asked: Any,
) -> None:
    """Compare policies over a grid of parameters.

    Each combination of the values is a case: a comparison as that of `sluice site replay
    --compare`. FILE holds the inputs' checksums, seeds, version, command and all answers, and is a
    whole document after each case. The same command goes on with it where it was stopped, and
    --again computes it once more: with the same inputs, the same bytes. A sweep over max-delay says
    which MaxDelay pays.

    \b
    Examples:
        sluice site sweep KTH-SP2.swf.gz --policy sluice-auto,class-lanes \\
            --vary io-share=0.1,0.3,0.6 --vary max-delay=600,inf --output kth.json
        sluice site sweep --again kth.json --output kth-again.json
    """
    from sluice.cli.site.replay_words import coverage_told
    from sluice.sim.replay import sweep as sweeping

    if again is not None:
        _refuse_others(context)
        sweep, old = sweeping.read_sweep(again)
        sweeping.check_inputs(again, old)
        document = sweeping.begin(sweep, output, old["command"])
    else:
        sweep = _sweep_of(policies, vary, repeats, asked)
        document = sweeping.begin(sweep, output, shlex.join(["sluice", *sys.argv[1:]]))
    _run(sweep, document, output)
    if table is not None:
        _write_table(document, table)
    if as_json:
        show_json(document)
    else:
        for line in coverage_told(sweep.experiment)[0]:
            click.echo(line)
        _show(document)


def _refuse_others(context: click.Context) -> None:
    """Say which parameters were given with --again, which has its own."""
    given = click.core.ParameterSource.COMMANDLINE
    allowed = ("again", "output", "table", "as_json")
    for name in context.params:
        if name not in allowed and context.get_parameter_source(name) is given:
            raise click.UsageError(f"--again has its parameters in the file; leave out {name}")


def _sweep_of(
    policies: tuple[tuple[str, ...], ...],
    vary: Mapping[str, str],
    repeats: int,
    asked: Mapping[str, Any],
) -> Sweep:
    from sluice.sim.replay.sweep import Sweep, varied

    names = known_policies([name for group in policies for name in group])
    if not names:
        raise click.UsageError("give a --policy, or several: --policy sluice-auto,class-lanes")
    grid = {name.replace("-", "_"): tuple(text.split(",")) for name, text in vary.items()}
    sweep = Sweep(experiment_of(asked), names, grid, repeats)
    for case in sweep.cases():  # a wrong value of the last case is told before the first is run
        varied(sweep.experiment, case).policy_options()
    return sweep


def _run(sweep: Sweep, document: dict[str, Any], output: Path) -> None:
    from sluice.cli.site.replay_words import cores
    from sluice.sim.replay import sweep as sweeping
    from sluice.sim.replay.compare import PLAIN

    count = len(sweep.cases())
    each = (1 + sweep.repeats) * len({PLAIN, *sweep.policies})
    missing = count - len(document["cases"])
    try:
        with progress("replays", lambda: each * missing) as (_, advance):
            sweeping.run(sweep, document, output, workers=cores(), advance=advance)
    except KeyboardInterrupt:
        raise CommandError(f"stopped; {_kept(output, count)}") from None
    except OSError as error:
        raise CommandError(f"{output}: {error.strerror}; {_kept(output, count)}") from error


def _kept(output: Path, count: int) -> str:
    from sluice.sim.replay.sweep import read_sweep

    if not output.exists():
        return "nothing was written"
    done = len(read_sweep(output)[1]["cases"])
    return f"{output} holds {done} of {count} cases, and the same command goes on with it"


def _write_table(document: Mapping[str, Any], path: Path) -> None:
    from sluice.cli.site.replay_words import write
    from sluice.history_db.export import NoParquetError, table_bytes
    from sluice.history_db.records import Column
    from sluice.sim.replay.sweep import flat_rows

    rows = list(flat_rows(document))
    texts = {"policy", *document["grid"]}
    columns = [Column(name, "TEXT" if name in texts else "REAL") for name in rows[0]]
    try:
        write(path, table_bytes(path.suffix, columns, [[tuple(row.values()) for row in rows]]))
    except NoParquetError as error:
        raise CommandError(str(error)) from error


def _show(document: Mapping[str, Any]) -> None:
    from sluice.cli.site.replay_words import value_text
    from sluice.sim.replay.figures import FIGURES
    from sluice.sim.replay.sweep import advice, flat_rows

    grid = list(document["grid"])
    titles = [FIGURES[name].title for name in SHOWN]
    show_table(
        (*grid, "policy", *titles),
        [
            (
                *(row[name] for name in grid),
                row["policy"],
                *(value_text(row[name], FIGURES[name].unit) for name in SHOWN),
            )
            for row in flat_rows(document)
        ],
    )
    nothing = sum(not case["is_anything_to_gain"] for case in document["cases"])
    if nothing:
        click.echo(f"In {nothing} of {len(document['cases'])} cases nothing remains to be gained.")
    for one in advice(document):
        click.echo(advice_text(one))


def advice_text(advice: Advice) -> str:
    """Say which MaxDelay pays, or why none does."""
    where = ", ".join(f"{name}={value}" for name, value in advice.parameters.items())
    whom = f"{advice.policy}{f' at {where}' if where else ''}"
    if best := advice.best:
        return f"{whom}: MaxDelay={best.max_delay} pays: {_saved_text(best)}."
    if nearest := advice.nearest:
        return (
            f"{whom}: none of these MaxDelays pays at WaitPrice={nearest.wait_price:g}. Nearest "
            f"is {nearest.max_delay}, which would at {nearest.break_even:.2g}: "
            f"{_saved_text(nearest)}."
        )
    if any(wait.saves for wait in advice.waits):
        return (
            f"{whom}: none of these MaxDelays pays fairly: those that save delay jobs for "
            "longer, on average, than jobs wait anyhow."
        )
    return f"{whom}: none of these MaxDelays pays: none loses less in nearly every draw."


def _saved_text(wait: Wait) -> str:
    return (
        f"{amount_text(wait.saved)} slot-hours less are lost, and jobs are delayed for "
        f"{amount_text(wait.held)}, those that are for {duration_text(wait.held_mean)} on "
        f"average alongside a mean wait of {duration_text(wait.wait_mean)}"
    )
