"""`sluice lab synthesise`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from sluice.cli.common import json_option, show_json
from sluice.cli.progress import progress

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sluice.darshan.synthetic.corpus import Truth


@click.command("synthesise", short_help="Make Darshan logs of known patterns, for tests and load.")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), metavar="DIR")
@click.option("--logs", type=click.IntRange(1), default=100, show_default=True, help="How many.")
@click.option(
    "--seed",
    type=click.IntRange(0),
    default=1,
    show_default=True,
    help="Which corpus: another seed gives other logs.",
)
@click.option(
    "--first",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Number of the first one: parts of a corpus can be made apart.",
)
@click.option(
    "--pattern",
    "patterns",
    multiple=True,
    help="Only these patterns: owc, ws, aw, read, metadata, none, mixed.",
)
@json_option
def command(
    *,
    folder: Path,
    logs: int,
    seed: int,
    first: int,
    patterns: tuple[str, ...],
    as_json: bool,
) -> None:
    """Make Darshan logs of known patterns, for tests and load.

    Genuine logs of the format 3.41, over patterns, programs, libraries, layouts, processes,
    chunks and noise; DIR/labels.csv says what each one is. Log number i of a seed has the same
    bytes whenever it is made, and by whom.

    \b
        sluice lab synthesise corpus --logs 1000
        sluice history ingest corpus --labels corpus/labels.csv
        sluice lab synthesise more --logs 5000 --first 1000 --pattern owc --pattern aw
    """
    from sluice.darshan.synthetic.corpus import PATTERNS, synthesise, write_labels

    if wrong := set(patterns) - set(PATTERNS):
        raise click.BadParameter(
            f"no pattern {', '.join(sorted(wrong))}; there are {', '.join(PATTERNS)}",
            param_hint="--pattern",
        )
    folder.mkdir(parents=True, exist_ok=True)
    with progress("logs", lambda: logs) as (_, advance):

        def made() -> Iterator[Truth]:
            truths = synthesise(folder, logs, seed=seed, first=first, patterns=patterns or PATTERNS)
            for truth in truths:
                advance(1)
                yield truth

        count = write_labels(made(), folder / "labels.csv")
    if as_json:
        show_json({"logs": count, "labels": str(folder / "labels.csv")})
    else:
        click.echo(f"made {count} logs; what they are stands in {folder / 'labels.csv'}")
