"""`sluice status`: how far behind sluice-learn is."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from sluice.cli.common import (
    NOTHING,
    config_option,
    duration_text,
    history_option,
    history_path,
    json_option,
    one_line,
    open_history,
    show_json,
    time_text,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Facts = dict[str, Any]


@click.command("status", short_help="Say how far behind learning is, and why.")
@config_option
@history_option
@json_option
def command(*, config: Path | None, history: Path | None, as_json: bool) -> None:
    """Say how far behind learning is, and why.

    The last log and the last job of the accounting that were taken up, the model in use and the
    last job that it knows, when the bundle was published, and what keeps sluice-learn from going
    on: what fails and since when, or that it rests to stay within 1 % of a core.

    \b
    Examples:
        sluice status
        sluice status --json | jq .behind_seconds
    """
    from sluice.slurm.learning import learning_state

    with open_history(config, history, read_only=True) as store:
        found = learning_state(store, history_path(config, history), int(time.time()))
    if as_json:
        show_json(found)
        return
    for title, text in _lines(found):
        click.echo(f"{click.style(f'{title:<13}', bold=True)} {text}")


def _lines(found: Facts) -> Iterator[tuple[str, str]]:
    now = found["now"]
    yield "sluice-learn", _service(found)
    yield "last log", _when(found["last_log"], now, "of a run that ended")
    yield (
        "accounting",
        (
            _when(found["last_accounting"], now, "the last job ended")
            + (
                f"; asked {_ago(found['accounting_asked'], now)}"
                if found["accounting_asked"]
                else ""
            )
        ),
    )
    if found["logs_waiting"]:
        yield "", f"{found['logs_waiting']} logs wait for the accounting of their jobs"
    yield "model", _model(found["model"])
    yield "published", _when(found["published"], now, "") if found["published"] else "nothing yet"
    yield "behind", _behind(found)
    for reason in found["reasons"]:
        yield "why", one_line(reason)


def _service(found: Facts) -> str:
    now = found["now"]
    if not found["is_running"]:
        polled = f"; polled last {_ago(found['polled'], now)}" if found["polled"] else ""
        return f"does not run{polled}"
    share = found["core_share"]
    taken = NOTHING if share is None else f"{100 * share:.2g} %"
    return f"runs, polled {_ago(found['polled'], now)}, has taken {taken} of a core"


def _when(moment: int | None, now: int, what: str) -> str:
    if moment is None:
        return "none yet"
    return f"{what} {time_text(moment)}, {_ago(moment, now)}".strip()


def _ago(moment: int | None, now: int) -> str:
    return "never" if moment is None else f"{duration_text(max(0, now - moment))} ago"


def _model(model: Facts | None) -> str:
    if model is None:
        return "none yet"
    return (
        f"{model['id']}, fitted {time_text(model['fitted'])} to {model['jobs']} jobs; knows those "
        f"that ended until {time_text(model['until'])}"
    )


def _behind(found: Facts) -> str:
    behind = found["behind_seconds"]
    if behind is None:
        return NOTHING
    if behind == 0:
        return "not at all: it knows every run"
    return f"{duration_text(behind)}: {found['unknown_runs']} runs that the model does not know"
