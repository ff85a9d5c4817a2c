"""`sluice why JOBID`: the whole story of one job, in words."""

from __future__ import annotations

import click

from sluice.cli.common import (
    Files,
    aligned,
    answer,
    coverage_text,
    files_options,
    json_option,
    show_json,
)


@click.command()
@click.argument("job")
@click.option("--cluster", help="Where several clusters share a history.")
@click.option(
    "--replay",
    is_flag=True,
    help="Decide again from the stored bundle and snapshot and compare every bit.",
)
@files_options
@json_option
def command(job: str, cluster: str | None, files: Files, *, replay: bool, as_json: bool) -> None:
    """Explain all that is known of one job.

    Which earlier runs it was judged by, what was predicted and how surely, which jobs wrote at
    the time, what each choice would have cost, what was decided and why, what Slurm did, which of
    its bursts were held in turns and for which jobs, and what the job then did to storage,
    compared with what was predicted, and how its owner could write less or in larger pieces.

    JOB is a number as sbatch prints it, 4711_3 for a task of an array, or 4711+1 for a component
    of a heterogeneous job.

    Without read access to the history you see only the jobs that PrivateData permits.

    \b
    Examples:
        sluice why 4711
        sluice why 4711 --replay
        sluice why 4711 --json | jq .record.decision.reason
    """
    from sluice.history_db.records import Coverage
    from sluice.slurm.slurm_commands import PING
    from sluice.slurm.views.job_explanation import Heading, Rows, story
    from sluice.slurm.views.job_report import JobNumber
    from sluice.slurm.views.query_replies import why
    from sluice.slurm.visibility import OWNER

    if JobNumber.parse(job) is None:
        raise click.BadParameter(
            f"{job} is no job number; write 4711, 4711_3 or 4711+1", param_hint="JOB"
        )
    replay_with = files.settings() if replay else None
    try:
        facts = answer(
            files,
            lambda store: why(store, OWNER, job=job, cluster=cluster, replay_with=replay_with),
            None if replay else "why",  # sluiced decides nothing again for users
            job=job,
            cluster=cluster,
        )
    finally:
        if PING.silence:
            click.echo(f"sluice: {PING.silence}", err=True)
    if as_json:
        show_json(facts)
        return
    if facts["coverage"]:
        click.echo(coverage_text(Coverage(**facts["coverage"])))
    for part in story(facts):
        if isinstance(part, Heading):
            click.echo(f"\n{click.style(part.text, bold=True)}")
        elif isinstance(part, Rows):
            for line in aligned(part.columns, part.rows):
                click.echo(part.indent * " " + line)
        else:
            click.echo(part)
