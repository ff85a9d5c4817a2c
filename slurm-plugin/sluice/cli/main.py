"""The `sluice` command: a table of verbs, each loaded only when it is asked for.

`sluice --help` imports no command, so it answers at once although some verbs need
scikit-learn. What a library raises becomes one line here and nowhere else.
"""

from __future__ import annotations

import atexit
import errno
import gc
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from sluice.cli.common import CommandError, library_errors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from click.formatting import HelpFormatter

# The kernel frees everything at the end: looking for garbage then takes a tenth of a short command.
atexit.register(gc.freeze)


@dataclass(frozen=True, slots=True)
class Verb:
    """Where a command lives: attribute `attribute` of the module `sluice.cli.<module>`."""

    name: str
    help: str
    """The first sentence of the command's own help; a test compares them."""
    module: str = ""
    """Empty: named like the verb."""
    attribute: str = "command"


SECTIONS: dict[str, tuple[Verb, ...]] = {
    "Learn": (
        Verb("ingest", "Read Darshan logs and accounting into the history."),
        Verb("profile", "Say what a Darshan log does to storage."),
        Verb("train", "Learn from the history what jobs will do."),
        Verb("evaluate", "Judge the classifier of patterns on what it has not seen."),
        Verb("synthesise", "Make Darshan logs of known patterns, for tests and load."),
        Verb("predict", "Say what is known of a job before it runs."),
        Verb("publish", "Write the bundle that slurmctld loads."),
        Verb("calibrate", "Measure which programs disturb each other here."),
        Verb("model", "Judge the model in use."),
        Verb("models", "List what was trained and published."),
        Verb("backtest", "Predict the past: how good prediction at submission is."),
        Verb("history", "Say what the history holds."),
        Verb("attribute", "Find which applications slow each other in production."),
    ),
    "Review": (
        Verb("decisions", "List what Sluice decided, the latest last."),
        Verb("interference", "Say who loses how much beside whom."),
        Verb("why", "Tell the whole story of one job."),
        Verb("targets", "Say which storage targets are slow."),
        Verb("assess", "Say what interference costs this site, from its history."),
        Verb("decide", "Replay a trace of submissions through the decision core."),
        Verb("reproduce", "Print published figures beside what the model makes of them."),
        Verb("replay", "Say how a trace of jobs would have been scheduled.", "trace_replay"),
        Verb("sweep", "Compare policies over a grid of parameters."),
    ),
    "Operate": (
        Verb("doctor", "Check that everything works, and say how to mend it."),
        Verb("status", "Say how far behind learning is, and why."),
        Verb("gates", "Show the gates: tokens let out, held and waited for."),
        Verb("bundle", "Look into a model bundle."),
        Verb("config", "Show, check and explain the settings."),
        Verb("off", "Switch Sluice off at once.", "switch", "off"),
        Verb("on", "Switch Sluice on again.", "switch", "on"),
    ),
}


class Verbs(click.Group):
    """A group whose commands come from SECTIONS."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return [verb.name for verb in _verbs()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        for verb in _verbs():
            if verb.name == cmd_name:
                module = import_module(f"sluice.cli.{verb.module or verb.name}")
                command = getattr(module, verb.attribute)
                return command if isinstance(command, click.Command) else None
        return None

    def format_commands(self, ctx: click.Context, formatter: HelpFormatter) -> None:
        """List the verbs from the table: asking each for its help would import it."""
        del ctx
        for title, verbs in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(verb.name, verb.help) for verb in verbs])

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except library_errors() as error:
            raise CommandError(str(error)) from error
        except OSError as error:
            if error.filename is None and error.errno != errno.ENOSPC:
                raise
            where = "standard output" if error.filename is None else error.filename
            raise CommandError(f"{where}: {error.strerror}") from error


def _verbs() -> Iterator[Verb]:
    for verbs in SECTIONS.values():
        yield from verbs


def _show_version(ctx: click.Context, _parameter: click.Parameter, wanted: bool) -> None:  # noqa: FBT001 - click's signature
    if wanted and not ctx.resilient_parsing:
        from importlib.metadata import version

        click.echo(f"sluice {version('sluice')}")
        ctx.exit()


@click.command(
    cls=Verbs,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_show_version,
    help="Show the version and exit.",
)
def main() -> None:
    """Keep jobs that ruin each other's I/O apart, inside an unmodified Slurm.

    \b
    Learn from finished jobs and publish a model:
        sluice ingest /var/log/darshan
        sluice train && sluice publish
    See what Sluice thinks of the jobs of today:
        sluice decisions
        sluice why 4711

    Every command has --help with examples; most have --json for programs.

    \b
    Completion in bash (also zsh_source, fish_source):
        eval "$(_SLUICE_COMPLETE=bash_source sluice)"
    """
