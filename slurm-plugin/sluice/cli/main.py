"""The `sluice` command: a table of verbs, each loaded only when it is asked for.

`sluice --help` imports no command, so it answers at once although some verbs need
scikit-learn. What a library raises becomes one line here and nowhere else.
"""

from __future__ import annotations

import atexit
import errno
import gc
import itertools
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from sluice.cli.common import VERSION, CommandError, library_errors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from click.formatting import HelpFormatter

# The kernel frees everything at the end: looking for garbage then takes a tenth of a short command.
atexit.register(gc.freeze)
# The jobs of a history are millions of objects without a cycle: to go through them again and again
# for garbage takes a fifth of a long one.
gc.set_threshold(100_000, 20, 20)


@dataclass(frozen=True, slots=True)
class Verb:
    """Where a command lives: attribute `attribute` of the module `sluice.cli.<module>`."""

    name: str
    help: str
    """The first sentence of the command's own help; a test compares them."""
    module: str = ""
    """Empty: named like the verb."""
    attribute: str = "command"


DAILY = (
    Verb("status", "Say whether all is well, what waits, and what Sluice did today."),
    Verb("why", "Explain all that is known of one job."),
    Verb("report", "Say what Sluice would have done, and whether to go one step up."),
    Verb("decisions", "List what Sluice decided, the latest last."),
    Verb("predict", "Say what is known of a job before it runs."),
    Verb("profile", "Say what a Darshan log does to storage."),
    Verb(
        "gates",
        "Show tokens released, held and waited for, and bursts in turns.",
    ),
    Verb("top", "Show the jobs, users or programs with most I/O, live."),
    Verb("serve", "Serve the pages on which a site reads and questions Sluice."),
    Verb("doctor", "Check that everything works, and say how to repair it.", "status", "doctor"),
    Verb("review", "Approve, reject or overrule predictions."),
    Verb("off", "Switch Sluice off at once.", "switch", "off"),
    Verb("on", "Switch Sluice on again.", "switch", "on"),
    Verb("audit", "List all changes of settings, reviews and models, the latest last."),
    Verb("init", "Write the first configuration of a site, for observe."),
    Verb("config", "Show, check and explain the settings."),
)
MODEL = (
    Verb("train", "Learn from the history what jobs will do.", "model.train"),
    Verb("publish", "Write the bundle that slurmctld loads.", "model.train", "publish"),
    Verb("list", "List what was trained and published.", "model.models", "list_"),
    Verb("bundle", "Look into a model bundle.", "model.models", "bundle_"),
    Verb("score", "Compare predictions with what the jobs then did.", "model.score"),
)
HISTORY = (
    Verb("show", "Say what the history holds.", "history", "show"),
    Verb("ingest", "Read Darshan logs and accounting into the history."),
    Verb(
        "top", "Rank applications by what they do to storage and to each other.", "history", "top"
    ),
    Verb("prune", "Forget runs, jobs and decisions of long ago.", "history", "prune"),
    Verb(
        "export", "Write all runs into FILE, one row each: .csv or .parquet.", "history", "export"
    ),
    Verb("backup", "Write a copy of the history to FILE, at any moment.", "history", "backup"),
    Verb("restore", "Put the copy FILE in the history's place.", "history", "restore"),
)
SITE = (
    Verb("assess", "Say what interference costs this site, from its history.", "site.assess"),
    Verb("calibrate", "Measure which programs disturb each other here.", "site.calibrate"),
    Verb("interference", "Show how much programs lose alongside each other.", "site.interference"),
    Verb("targets", "Say which storage targets are slow.", "site.targets"),
    Verb("replay", "Say how a trace of jobs would have been scheduled.", "site.trace_replay"),
    Verb("sweep", "Compare policies over a grid of parameters.", "site.sweep"),
)


class Verbs(click.Group):
    """A group whose commands come from a table."""

    def __init__(self, *args: Any, verbs: Sequence[Verb], default: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.verbs = verbs
        self.default = default
        """The verb that is meant where none is named."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        is_option = not args or args[0].startswith("-")
        if self.default and is_option and args[:1] not in ([n] for n in ctx.help_option_names):
            self.refuse_verb_after_options(ctx, args)
            args = [self.default, *args]
        return super().parse_args(ctx, args)

    def refuse_verb_after_options(self, ctx: click.Context, args: list[str]) -> None:
        """Nobody shall forget another history than the one named in the wrong place."""
        for before, word in itertools.pairwise(args):
            if word in self.list_commands(ctx) and not before.startswith("-"):
                where = f"{ctx.command_path} {word} {args[0]}"
                raise click.UsageError(f"{args[0]} belongs after the verb: {where}", ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return [verb.name for verb in self.verbs]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        for verb in self.verbs:
            if verb.name == cmd_name:
                module = import_module(f"sluice.cli.{verb.module or verb.name}")
                command = getattr(module, verb.attribute)
                return command if isinstance(command, click.Command) else None
        return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in self.list_commands(ctx) and not ctx.resilient_parsing:
            self.refuse(ctx, args[0])
        return super().resolve_command(ctx, args)

    def refuse(self, ctx: click.Context, word: str) -> None:
        meant = close(
            word, {name: f"{ctx.command_path} {name}" for name in self.list_commands(ctx)}
        )
        raise click.UsageError(f"{ctx.command_path} has no command {word!r}.{meant}", ctx)

    def format_commands(self, ctx: click.Context, formatter: HelpFormatter) -> None:
        """List the verbs from the table: asking each for its help would import it."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(verb.name, verb.help) for verb in self.verbs])


def close(word: str, paths: dict[str, str]) -> str:
    """Ask whether a word that is close to the wrong one was meant; nothing where none is."""
    names = [paths[name] for name in get_close_matches(word, paths)]
    return f" Did you mean {' or '.join(f'`{name}`' for name in names)}?" if names else ""


GROUPS = {
    str(group.name): group
    for group in (
        Verbs("model", help="Train, publish and judge what predicts jobs.", verbs=MODEL),
        Verbs(
            "history",
            help="Fill the history of runs, ask it, and keep it small.",
            verbs=HISTORY,
            default="show",
        ),
        Verbs("site", help="Measure interference here, and what scheduling would do.", verbs=SITE),
    )
}
FOR_REPORTS = ("jinja2", "matplotlib")
"""What a site installs only if it wants pages with pictures,"""
FOR_STATISTICS = "scipy"
"""and who only assesses one does not."""


class Sluice(Verbs):
    """The verbs of every day, and the groups of the others."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*super().list_commands(ctx), *GROUPS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return GROUPS.get(cmd_name) or super().get_command(ctx, cmd_name)

    def refuse(self, ctx: click.Context, word: str) -> None:
        """Name what was meant in whatever group it is."""
        paths = {name: f"sluice {name}" for name in self.list_commands(ctx)}
        for name, group in GROUPS.items():
            paths |= {verb.name: f"sluice {name} {verb.name}" for verb in group.verbs}
        raise click.UsageError(f"There is no command {word!r}.{close(word, paths)}", ctx)

    def format_commands(self, ctx: click.Context, formatter: HelpFormatter) -> None:
        super().format_commands(ctx, formatter)
        with formatter.section("Groups, each with its own --help"):
            formatter.write_dl(
                [(name, group.get_short_help_str(100)) for name, group in GROUPS.items()]
            )

    def invoke(self, ctx: click.Context) -> Any:
        from sluice.slurm.slurm_commands import PING

        try:
            with PING.asked_first():
                return super().invoke(ctx)
        except library_errors() as error:
            raise CommandError(str(error)) from error
        except ModuleNotFoundError as error:
            library = (error.name or "").partition(".")[0]
            if library == FOR_STATISTICS:
                raise CommandError(
                    "calibration and holdouts need scipy: install python3-scipy, or the package "
                    "`sluice`"
                ) from error
            if library not in FOR_REPORTS:
                raise
            raise CommandError(
                f"pages with pictures need {error.name}: install python3-jinja2 and "
                "python3-matplotlib, or the extra `reports` of the Python package"
            ) from error
        except OSError as error:
            if error.filename is None and error.errno != errno.ENOSPC:
                raise
            where = "standard output" if error.filename is None else error.filename
            raise CommandError(f"{where}: {error.strerror}") from error


def _show_version(ctx: click.Context, _parameter: click.Parameter, wanted: bool) -> None:  # noqa: FBT001 - click's signature
    if wanted and not ctx.resilient_parsing:
        click.echo(f"sluice {VERSION}")
        ctx.exit()


@click.command(
    "sluice",
    cls=Sluice,
    verbs=DAILY,
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

    Every command has --help; most have --json, one object with the `version` of Sluice.
    Exit code: 0 all is well, 1 something failed or was found, 2 wrong usage.

    \b
    Is all well, what was decided, and why:
        sluice status; sluice decisions; sluice why 4711
    Completion: eval "$(_SLUICE_COMPLETE=bash_source sluice)" (or zsh_source, …)
    """
