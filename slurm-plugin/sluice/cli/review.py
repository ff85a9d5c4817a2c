"""`sluice review`: what administrators rule on predictions and pairs."""

from __future__ import annotations

import os
import pwd
import time
from typing import TYPE_CHECKING, Any

import click

from sluice.cli.common import (
    Files,
    bundle_line,
    files_options,
    json_option,
    options,
    published,
    show_json,
    show_table,
)
from sluice.policies.core import PATTERNS
from sluice.policies.review import (
    CLASS_PATTERNS,
    RULED,
    TREATMENTS,
    Review,
    Selector,
    day_text,
    end_of,
    selector,
)
from sluice.slurm.views.formatting import NOTHING, time_text

if TYPE_CHECKING:
    from collections.abc import Callable

TERMS = {
    "user": "Jobs of this user, a name or uid.",
    "account": "Jobs of this account.",
    "partition": "Jobs that ask only for this partition.",
    "name": "Jobs of this name; numbers in it do not count.",
    "script": "Jobs with this script, by its signature as `sluice why --json` shows it.",
    "program": "Jobs with earlier runs of this program, by user and job name.",
}


def _terms(prefix: str, side: str) -> Callable[[Any], Any]:
    """Options that select jobs."""
    return options(
        *(
            click.option(f"--{prefix}{term}", f"{side}_{term}", default="", help=text)
            for term, text in TERMS.items()
        )
    )


_made_options = options(
    _terms("", "of"),
    _terms("with-", "with"),
    click.option(
        "--until",
        default="",
        metavar="DAY",
        help="Until the end of this day (2027-03-01), or this moment.  [default: no end]",
    ),
    click.option("--comment", default="", help="Why; kept, and shown by `sluice why`."),
    click.option("--publish", "is_published", is_flag=True, help="Write the bundle at once, too."),
    files_options,
    json_option,
)


@click.group()
def command() -> None:
    """Approve, reject or overrule predictions.

    A review says what holds for the jobs of a user, account, partition, job name, script or
    program, or for a pair of them, until a day or without an end. It takes effect with the next
    bundle: sluice-learn publishes it by itself, --publish at once.

    \b
    never-delay   they never wait for I/O reasons; others still take them into account
    ignore        what is predicted of them does not count (what `reject` says)
    treat         they are treated as a pattern or class (what `approve` says)
    apart         the two are kept apart, as far as MaxDelay allows
    together      the two may run together, whatever is predicted

    Of several reviews that are about a job, the one with the most conditions counts.
    Run this as root or as the user of sluice-learn.

    \b
    Examples:
        sluice review approve 4711 --comment "looked at its logs"
        sluice review reject 4711 --until 2027-03-01
        sluice review pin treat --as aw --account climate --name era5_#
        sluice review pin never-delay --user alice --publish
        sluice review pin apart --name ior --with-name mdtest
        sluice review undo 3fa9c210
    """


@command.command()
@click.argument("job", required=False)
@_made_options
def approve(job: str | None, **options: Any) -> None:
    """Say that a prediction is right.

    The jobs of that user and name are treated as what was predicted of JOB, however sure that was.
    For a pair (JOB or options, and --with-…): the two are kept apart.

    \b
    Examples:
        sluice review approve 4711
        sluice review approve 4711 --with-program mdtest
    """
    from sluice.slurm.views.reviews import approved

    _rule(job, options, approved)


@command.command()
@click.argument("job", required=False)
@_made_options
def reject(job: str | None, **options: Any) -> None:
    """Say that a prediction is wrong.

    What is predicted of such jobs does not count any more: Sluice leaves them alone, and no job
    waits for them. For a pair (JOB or options, and --with-…): the two may run together.

    \b
    Examples:
        sluice review reject 4711 --comment "read the wrong log"
        sluice review reject --name ior --with-name mdtest
    """
    from sluice.slurm.views.reviews import rejected

    _rule(job, options, lambda of, other, _pattern: rejected(of, other))


@command.command()
@click.argument("ruling", type=click.Choice([word.replace("_", "-") for word in RULED]))
@click.argument("job", required=False)
@click.option(
    "--as",
    "treat_as",
    default="",
    type=click.Choice(["", *PATTERNS[1:], *CLASS_PATTERNS]),
    metavar="|".join(TREATMENTS),
    help="For treat: the pattern, or the class.",
)
@_made_options
def pin(ruling: str, job: str | None, treat_as: str, **options: Any) -> None:
    """Rule how jobs are treated.

    \b
    Examples:
        sluice review pin never-delay --user alice --until 2027-03-01
        sluice review pin treat 4711 --as flush
        sluice review pin together --program lmp --with-program ior --publish
    """

    def pinned(of: Selector, other: Selector, _pattern: str) -> Review:
        return Review(ruling.replace("-", "_"), of, other, treat_as=treat_as)

    _rule(job, options, pinned)


def _rule(
    job: str | None,
    options: dict[str, Any],
    rule: Callable[[Selector, Selector, str], Review],
) -> None:
    """Make a review of the options that all commands have."""
    from dataclasses import replace

    from sluice.slurm.views.job_report import prediction_of
    from sluice.slurm.views.reviews import make, text_of

    files: Files = options["files"]
    of, other = (
        selector(**{term: options[f"{side}_{term}"] for term in TERMS}) for side in ("of", "with")
    )
    until = end_of(options["until"])
    with files.open_history() as store:
        pattern = ""
        if job is not None:
            predicted, pattern = prediction_of(store, job)
            of = of or predicted
        review = make(
            store,
            replace(rule(of, other, pattern), until=until, comment=options["comment"]),
            source="command",
            by=_who(),
            now=int(time.time()),
        )
    if options["as_json"]:
        show_json({"review": review.to_json()})
    else:
        end = f", until {day_text(review.until)}" if review.until else ""
        click.echo(f"{review.name}  {text_of(review)}{end}")
    _publish_or_say(files, is_published=options["is_published"], quiet=options["as_json"])


def _publish_or_say(files: Files, *, is_published: bool, quiet: bool = False) -> None:
    if is_published:
        made = published(files, None)
        if not quiet:
            click.echo(bundle_line(made))
    elif not quiet:
        click.echo("It counts from the next bundle on: sluice-learn publishes it, or --publish.")


def _who() -> str:
    """Who rules: behind sudo, the one who typed it."""
    return os.environ.get("SUDO_USER") or pwd.getpwuid(os.getuid()).pw_name


@command.command("list")
@click.option("--all", "show_all", is_flag=True, help="Also those that ended or were undone.")
@files_options
@json_option
def list_(*, show_all: bool, files: Files, as_json: bool) -> None:
    """List the reviews, the latest last.

    \b
    Examples:
        sluice review list
        sluice review list --all --json | jq '.reviews[] | select(.by == "alice")'
    """
    from sluice.slurm.views.reviews import listed

    with files.open_history(read_only=True) as store:
        rows = listed(store, int(time.time()))
    shown = [row for row in rows if show_all or row["state"] == "stands"]
    if as_json:
        show_json({"reviews": shown})
        return
    if not shown:
        click.echo("no review; see `sluice review --help`")
        return
    show_table(
        ("id", "what holds", "until", "by", "made", "state", "comment"),
        [
            (
                row["id"],
                row["text"],
                day_text(row["until"]) if row["until"] else NOTHING,
                row["by"],
                time_text(row["made_at"]) if row["made_at"] else NOTHING,
                row["state"],
                row["comment"],
            )
            for row in shown
        ],
        least=("comment", "made", "state"),
    )


@command.command()
@click.argument("name", metavar="ID")
@files_options
@json_option
def show(name: str, *, files: Files, as_json: bool) -> None:
    """Show one review, with all that became of it.

    \b
    Examples:
        sluice review show 3fa9c210
    """
    from sluice.slurm.views.reviews import line_of, listed

    with files.open_history(read_only=True) as store:
        rows = [
            row for row in listed(store, int(time.time())) if row["id"].startswith(name.lower())
        ]
    if not rows:
        raise click.BadParameter(
            f"no review is called {name}; `sluice review list --all` shows them", param_hint="ID"
        )
    if as_json:
        show_json({"reviews": rows})
        return
    for row in rows:
        click.echo(line_of(row))
        click.echo(f"  made {time_text(row['made_at'])}, source: {row['source']}; {row['state']}")
        if row["undone_at"]:
            click.echo(f"  undone {time_text(row['undone_at'])} by {row['undone_by']}")


@command.command()
@click.argument("name", metavar="ID")
@click.option("--publish", "is_published", is_flag=True, help="Write the bundle at once, too.")
@files_options
def undo(name: str, *, is_published: bool, files: Files) -> None:
    """Take a review back; it stays in the list as undone.

    \b
    Examples:
        sluice review undo 3fa9c210 --publish
    """
    from sluice.slurm.views.reviews import text_of
    from sluice.slurm.views.reviews import undo as take_back

    with files.open_history() as store:
        review = take_back(store, name, by=_who(), now=int(time.time()))
    click.echo(f"undone: {review.name}  {text_of(review)}")
    _publish_or_say(files, is_published=is_published)
