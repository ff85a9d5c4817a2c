"""`sluice model evaluate`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sluice.cli.common import (
    CommandError,
    Files,
    bounded_lines,
    coverage_text,
    files_options,
    json_option,
    show_json,
    show_table,
)
from sluice.slurm.texts import NOTHING, share_text

if TYPE_CHECKING:
    from sluice.patterns.classifier import PatternClassifier
    from sluice.patterns.examples import Example
    from sluice.patterns.training import Card

IMPORTANT = 8  # features shown


@click.command("evaluate", short_help="Judge the classifier of patterns on what it has not seen.")
@click.argument(
    "labels",
    required=False,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="[LABELS.csv]",
)
@click.option(
    "--logs",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="Where the labelled logs are.  [default: next to the labels]",
)
@click.option(
    "--as-is",
    is_flag=True,
    help="Judge the classifier in use; the logs must not have been in its training.",
)
@click.option("--uncertain", is_flag=True, help="Count logs whose label is not certain, too.")
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Save the card here: card.json, card.html and pictures.",
)
@files_options
@json_option
def command(
    *,
    labels: Path | None,
    logs: Path | None,
    as_is: bool,
    uncertain: bool,
    output: Path | None,
    files: Files,
    as_json: bool,
) -> None:
    """Judge the classifier of patterns on what it has not seen.

    Trains one without each application among the labelled logs, and one without each library,
    and asks them about what they have not seen: accuracy, macro-F1 with an interval, confusion,
    calibration, errors of the chunk size, abstentions, importance of the features, and the same
    for two baselines. The labels come from LABELS.csv (columns file, pattern; app, label_quality
    and chunk_bytes where there are any), else from the history.

    \b
        sluice model evaluate tests/data/darshan/index.csv --output card
        sluice model evaluate --as-is unseen.csv --logs /archive/darshan
        sluice model evaluate
    """
    from sluice.darshan.log import DarshanLogError
    from sluice.patterns.examples import synthesised_examples
    from sluice.patterns.training import SYNTHESISED_PER_PATTERN, cross_examined
    from sluice.patterns.training import as_is as judged_as_is

    try:
        examples, classifier = _examples(labels, logs, files, uncertain=uncertain)
    except (DarshanLogError, OSError) as error:
        raise CommandError(str(error)) from error
    if len({example.application for example in examples}) < (1 if as_is else 2):
        raise CommandError(
            "too few labelled logs of different applications; name more in LABELS.csv, "
            "or ingest them with `sluice history ingest PATH… --labels LABELS.csv`"
        )
    synthesised = synthesised_examples(SYNTHESISED_PER_PATTERN)
    if as_is:
        card = judged_as_is(examples, classifier, synthesised)
    else:
        card = cross_examined(examples, synthesised)
    if output is not None:
        from sluice.cli.pages import save_card

        save_card(card, output)
    coverage = files.coverage()
    if as_json:
        show_json({"coverage": asdict(coverage) if coverage else None, **card})
    else:
        click.echo(coverage_text(coverage))
        _print(card, output)


def _examples(
    labels: Path | None, logs: Path | None, files: Files, *, uncertain: bool
) -> tuple[list[Example], PatternClassifier]:
    """Return labelled logs and the classifier in use."""
    from sluice.history_db.intake import read_labels
    from sluice.patterns.classifier import packaged_classifier, site_classifier
    from sluice.patterns.examples import history_examples, labelled_examples

    if labels is None:
        with files.open_history(read_only=True) as store:
            return history_examples(store, weak_labels=False), site_classifier(store)
    with labels.open(newline="", encoding="utf-8-sig") as file:
        lines = bounded_lines(file, str(labels))
        rows = [row for row in read_labels(lines, name=str(labels)) if row.certain or uncertain]
    return labelled_examples(logs or labels.parent, rows), packaged_classifier()


def _print(card: Card, output: Path | None) -> None:
    from sluice.cli.pages import how_text, quality_table

    click.echo(how_text(card))
    quality = quality_table(card)
    show_table(quality.titles, quality.rows)
    click.echo()
    _print_confusion(card["unseen_applications"]["confusion"])
    click.echo()
    _print_abstentions(card["unseen_applications"]["abstentions"])
    click.echo()
    for title, name in (("labelled", "chunk"), ("synthesised", "chunk_synthesised")):
        if found := card.get(name):
            click.echo(
                f"chunk size of {found['logs']} {title} logs: "
                f"{share_text(found['within_factor_two'])} within a factor of two, "
                f"half within {found['median_octaves']:.2f} octaves, "
                f"95 % within {found['percentile_95_octaves']:.2f}"
            )
    shown = list(card["importance"].items())[:IMPORTANT]
    lost = ", ".join(f"{name} {loss:.3f}" for name, loss in shown)
    click.echo(f"accuracy lost when a feature is shuffled: {lost or NOTHING}")
    if output is not None:
        click.echo(f"saved in {output}: card.html, card.json and pictures")


def _print_confusion(table: dict[str, dict[str, int]]) -> None:
    answers = list(next(iter(table.values())))
    show_table(
        ("truth \\ answer", *answers),
        [
            (truth, *(count or NOTHING for count in counts.values()))
            for truth, counts in table.items()
        ],
    )


def _print_abstentions(rows: list[tuple[float, float, float | None]]) -> None:
    show_table(
        ("confidence from", "answered", "of those right"),
        [
            (threshold, share_text(said), NOTHING if right is None else share_text(right))
            for threshold, said, right in rows
        ],
    )
