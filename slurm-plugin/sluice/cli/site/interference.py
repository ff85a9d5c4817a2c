"""`sluice site interference`: losses of pairs of programs, and learning them from production."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from sluice.cli.common import (
    CommandError,
    Files,
    coverage_text,
    files_options,
    grounds_line,
    json_option,
    show_json,
    show_pairs,
    show_table,
    usage_errors,
)
from sluice.cli.listing import Since, progress, working
from sluice.slurm.views.formatting import NOTHING, amount_text, count_text, one_line, share_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sluice.history_db.store import Store
    from sluice.interference.cost import NamedModel
    from sluice.interference.observations import Observation
    from sluice.interference.pairs import Pair, SiteEvidence
    from sluice.interference.programs import Program
    from sluice.interference.site_model import SiteModel
    from sluice.prediction.jobs import FinishedJob

    Rates = Mapping[Program, float]  # B/s alone, of those that were measured

CURVE_EXPONENTS = range(16, 29, 2)  # chunks of 64 KiB to 256 MiB
MATRIX_EXPONENTS = (16, 20, 24)
MATRIX_PATTERNS = ("owc", "ws", "aw", "read")
NEAR = 0.1
"""Likeness below which a measurement hardly moves the answer."""
TELLS_NOTHING = 0.9
"""Width of an interval of a loss, 0 to 1, from which on the loss counts as not known."""
METADATA = "metadata"  # a pattern that is not predicted
LONGEST_NUMBER = 18  # digits that the history takes


@click.command("interference", short_help="Show how much programs lose alongside each other.")
@click.argument("first", required=False)
@click.argument("second", required=False)
@click.option(
    "--learn",
    type=Since(),
    metavar="TIME",
    help="First learn pairs from the confirmed runs since then: 30d, 12w or a date.",
)
@files_options
@json_option
def command(
    first: str | None, second: str | None, learn: int | None, files: Files, *, as_json: bool
) -> None:
    """Show how much programs lose alongside each other.

    FIRST and SECOND are programs as `sluice site calibrate` knows them (owc:1M:4), jobs of the
    history (job:4711), or applications by the name of their jobs (app:cfd; digits do not count).
    The loss is the share of its I/O rate that one loses while both write all the time, with an
    interval that should contain 90 % of measurements. Named alongside it are the measurements here
    that are most like the two, and what production showed of them; and the same over chunk sizes.
    Of programs that were measured, what they get alone counts, too. Metadata are not in the model.

    Without names: the site's matrix, the ten pairs of applications that cost each other most in
    the history, in node-hours as in `sluice site assess`, and the pairs learned from production.

    --learn compares the rate of each run while another was writing with its rate while none was,
    by the heatmaps of runs that system counters confirm. Of the pairs called slowed, at most 5 %
    are expected to be false. The history stores all pairs tested, and the model learns from them.

    The model is that of the published bundle, else a fit to the history's measurements and
    production, else published figures; which of these is said.

    Jobs of the newest 50,000 logs count, and are all among which app: looks for a name.

    \b
        sluice site interference
        sluice site interference owc:1M:4 aw:1M:4
        sluice site interference app:cfd job:4711 --json
        sluice site interference --learn 30d
    """
    if first is not None and second is None:
        raise click.UsageError("Name two, or none for the whole site.")
    if learn is not None:
        _learn(learn, files)
    if first is None or second is None:
        _show_site(files, as_json=as_json)
    else:
        _show_pair(first, second, files, as_json=as_json)


@dataclass(frozen=True, slots=True)
class _Party:
    text: str
    names: frozenset[str]
    """Of its jobs, and of what they run, which is all that production knows; none of a program."""
    profile: Mapping[str, Any]
    """Members of struct sluice_profile, while it writes: how often it does is not asked."""
    program: Program | None = None


def _show_pair(first: str, second: str, files: Files, *, as_json: bool) -> None:
    from sluice.interference.cost import default_model
    from sluice.interference.pairs import site_evidence
    from sluice.prediction.solo_estimate import latest_undisturbed

    with files.open_history(read_only=True) as store:
        named = any(text.startswith(("app:", "job:")) for text in (first, second))
        jobs = latest_undisturbed(store) if named else None
        known = site_evidence(store, jobs=jobs)
        named_model = default_model(store, files.settings(), evidence=known)
        rates = known.rates_alone
        parties = [_party(store, text, jobs or [], rates) for text in (first, second)]
        coverage = store.jobs.coverage()
    model = named_model.site
    orders = (parties, parties[::-1])
    rows = [_loss(model, a, b, known.measured, known.pairs) for a, b in orders]
    curve = _curve(model, parties, rates)
    if as_json:
        evidence = {"coverage": asdict(coverage), "interference_model": named_model.as_json()}
        show_json(evidence | {"losses": rows, "by_chunk": curve})
    else:
        click.echo(coverage_text(coverage))
        _print_pair(parties, rows, curve, named_model)
        _print_news(known, named_model)


def _party(store: Store, text: str, finished: Sequence[FinishedJob], rates: Rates) -> _Party:
    from sluice.history_db.records import program_name
    from sluice.interference.programs import CalibrationError, Program
    from sluice.policies.core import name_stem
    from sluice.prediction.expectation import expected
    from sluice.prediction.jobs import LATEST_RUNS, profile_members

    kind, _, name = text.partition(":")
    if kind not in ("job", "app"):
        with usage_errors(CalibrationError):
            program = Program.parse(text)
        if METADATA in program.parts:
            raise _not_predicted(text)
        return _Party(text, frozenset(), program.profile(rates.get(program)), program)
    if kind == "job":
        is_number = name.isdecimal() and len(name) <= LONGEST_NUMBER
        runs = store.runs.runs_of_job(int(name)) if is_number else []
        logs = {run.log_id for run in runs}
        jobs = [job for job in finished if logs.intersection(job.logs)][-1:]
    else:
        jobs = [job for job in finished if name_stem(job.name) == name_stem(name)]
    if not jobs:
        raise CommandError(
            f"{text}: no log of such a job is in the newest {LATEST_RUNS} logs of {store.path}; "
            "`sluice history top writers` names applications"
        )
    profile = expected(jobs)
    if profile.pattern == METADATA:
        raise _not_predicted(f"{text} (pattern {profile.pattern})")
    writing = {"rate": None, "io_share": 1.0}
    commands = (run.log.exe or "" for run in store.runs.runs(jobs[-1].logs))
    names = frozenset([jobs[-1].name, *map(program_name, commands)])
    return _Party(text, names, {**profile_members(profile), **writing})


def _not_predicted(program: str) -> CommandError:
    return CommandError(
        f"{program}: metadata are not in the model; what was measured of them is in "
        "`sluice site calibrate report`"
    )


def _loss(
    model: SiteModel,
    victim: _Party,
    other: _Party,
    seen: Sequence[Observation],
    observed: Sequence[Pair],
) -> dict[str, Any]:
    from sluice.interference.observations import nearest

    least_kept, most_kept = model.profile_interval(victim.profile, [other.profile])
    is_known = min(1.0, most_kept) - least_kept < TELLS_NOTHING
    return {
        "victim": victim.text,
        "alongside": other.text,
        "loss": 1 - model.profile_share(victim.profile, [other.profile]) if is_known else None,
        "least": max(0.0, 1 - most_kept) if is_known else None,
        "most": 1 - least_kept if is_known else None,
        "measured": [
            {
                "victim": str(one.observation.victim),
                "alongside": str(one.observation.others[0]),
                "loss": 1 - one.observation.rho,
                "likeness": one.likeness,
            }
            for one in nearest(seen, victim.profile, other.profile)
        ],
        "production": [
            asdict(one)
            for one in observed
            if one.victim in victim.names and one.aggressor in other.names
        ],
    }


def _at_chunk(party: _Party, chunk: int, rates: Rates) -> Mapping[str, Any]:
    """Return the same behaviour with another chunk: as often flushed and created a write."""
    if party.program:
        program = replace(party.program, chunk_bytes=chunk)
        return program.profile(rates.get(program))
    profile = party.profile
    factor = chunk / profile["chunk_bytes"]
    scaled = {"chunk_bytes": float(chunk)}
    if (profile.get("bytes_per_flush") or -1.0) >= 0:
        scaled["bytes_per_flush"] = profile["bytes_per_flush"] * factor
    if (profile.get("creates_per_mib") or -1.0) >= 0:
        scaled["creates_per_mib"] = profile["creates_per_mib"] / factor
    return {**profile, **scaled}


def _curve(model: SiteModel, parties: Sequence[_Party], rates: Rates) -> list[dict[str, Any]]:
    """Both losses when both use the same chunk; nothing where one's chunk is not known."""
    from sluice.interference.programs import size_text

    if not all((party.profile.get("chunk_bytes") or 0.0) >= 1.0 for party in parties):
        return []
    rows = []
    for exponent in CURVE_EXPONENTS:
        a, b = (_at_chunk(party, 1 << exponent, rates) for party in parties)
        rows.append(
            {
                "chunk": size_text(1 << exponent),
                "first": 1 - model.profile_share(a, [b]),
                "second": 1 - model.profile_share(b, [a]),
            }
        )
    return rows


def _print_pair(
    parties: Sequence[_Party],
    rows: list[dict[str, Any]],
    curve: list[dict[str, Any]],
    model: NamedModel,
) -> None:
    show_table(
        ("Program", "alongside", "loses", "90 % between"),
        [
            (
                row["victim"],
                row["alongside"],
                share_text(row["loss"]),
                NOTHING
                if row["loss"] is None
                else f"{share_text(row['least'])} and {share_text(row['most'])}",
            )
            for row in rows
        ],
    )
    measured = [one for row in rows for one in row["measured"]]
    is_near = any(one["likeness"] >= NEAR for one in measured)
    is_seen = any(row["production"] for row in rows)
    click.echo(_source_text(model, is_near=is_near or is_seen))
    if measured:
        show_table(
            ("Most like it: program", "alongside", "lost", "likeness"),
            [
                (m["victim"], m["alongside"], share_text(m["loss"]), share_text(m["likeness"]))
                for m in measured
            ],
        )
    for row in rows:
        for seen in row["production"]:
            verdict = "attributed" if seen["is_attributed"] else "may be chance"
            click.echo(
                f"In production, {one_line(seen['victim'])} kept {share_text(seen['rho'])} "
                f"alongside {one_line(seen['aggressor'])} ({seen['disturbed']} slices; {verdict})."
            )
    if curve:
        first, second = (party.text for party in parties)
        show_table(
            ("Chunk", f"{first} loses", f"{second} loses"),
            [(c["chunk"], share_text(c["first"]), share_text(c["second"])) for c in curve],
        )


def _source_text(model: NamedModel, *, is_near: bool) -> str:
    if model.site.basis.measurements and not is_near:
        return f"Nothing like them was measured; extrapolated by {model}."
    return f"By {model}."


def _print_news(known: SiteEvidence, model: NamedModel) -> None:
    """Say where the history has evidence that the model does not rest on."""
    if model.basis and model.basis.count != known.count:
        click.echo(
            "The history has other evidence than this model rests on; `sluice model publish` "
            "takes it up."
        )


def _learn(since: int, files: Files) -> None:
    """Learn pairs from the jobs that all other answers count, and say what they were found in."""
    from sluice.interference.production import learn_pairs
    from sluice.prediction.solo_estimate import latest_undisturbed

    with files.open_history() as store, working("comparing runs"):
        jobs = latest_undisturbed(store)
        found = learn_pairs(store, jobs, since=since, now=int(time.time()))
    findings = found.findings
    click.echo(
        f"Confirmed runs: {count_text(found.logs, 'log')} with a heatmap, {found.without} without; "
        f"{findings.resolved} runs resolved, {findings.unresolved} unresolved (bins too wide for "
        f"their bursts). {len(findings.observations)} pairs tested; {findings.too_few} ran "
        f"together too rarely, {findings.coarse} have an unresolved aggressor.",
        err=True,
    )
    if found.jobs_without_log:
        jobs_text = count_text(found.jobs_without_log, "job")
        click.echo(
            f"{jobs_text} without a log ran meanwhile: the load that accounting knows of them is "
            "not assigned to others.",
            err=True,
        )
    if findings.out_of_reach:
        click.echo(
            f"{findings.out_of_reach} pairs fell further than in every shuffled history, but "
            f"{len(findings.observations)} pairs need a p of {findings.p_needed:.2g}, which takes "
            "more of these than could be tried: learn from a shorter time.",
            err=True,
        )


def _show_site(files: Files, *, as_json: bool) -> None:
    from sluice.interference.cost import grounds_of, programs_of
    from sluice.interference.pairs import site_evidence

    with files.open_history(read_only=True) as store:
        with working("reading the history"):
            grounds = grounds_of(store, files.settings())
            known = site_evidence(store, jobs=grounds.jobs)
            programs = programs_of(store) if known.pairs else {}
        coverage = store.jobs.coverage()
    model, rates = grounds.model.site, known.rates_alone
    matrices = [_matrix(model, 1 << exponent, rates) for exponent in MATRIX_EXPONENTS]
    with progress("instants", lambda: grounds.instants) as (_, advance):
        costs = grounds.costs(advance)
        pairs = costs.worst_pairs()
    lost = costs.between(lambda job: programs.get(job.logs[0], "")) if programs else {}
    production = [
        asdict(one) | {"lost_node_hours": lost.get((one.victim, one.aggressor))}
        for one in known.pairs
    ]
    if as_json:
        show_json(
            {"coverage": asdict(coverage), "matrices": matrices}
            | grounds.as_json()
            | {"worst_pairs": [asdict(one) for one in pairs], "production": production}
        )
        return
    click.echo(coverage_text(coverage))
    for matrix in matrices:
        click.echo(f"{matrix['chunk']} chunks, {matrix['processes']} processes each")
        show_table(
            ("Loses", *(f"alongside {name}" for name in MATRIX_PATTERNS)),
            [
                (name, *map(share_text, row))
                for name, row in zip(MATRIX_PATTERNS, matrix["loss"], strict=True)
            ],
        )
        click.echo()
    click.echo(grounds_line(grounds))
    _print_news(known, grounds.model)
    if pairs:
        show_pairs(pairs)
    else:
        count = len(grounds.jobs)
        click.echo(f"None of {count} finished jobs in the history cost another anything.")
    if production:
        click.echo("\nLearned from production:")
        show_table(
            ("victim", "aggressor", "rate left", "slices under", "clear", "node-hours", "verdict"),
            [_production_row(one) for one in production],
            least=("slices under", "clear"),
        )


def _production_row(one: Mapping[str, Any]) -> tuple[object, ...]:
    lost = one["lost_node_hours"]
    return (
        one["victim"],
        one["aggressor"],
        share_text(one["rho"]),
        one["disturbed"],
        one["undisturbed"],
        NOTHING if lost is None else amount_text(lost),
        "slowed" if one["is_attributed"] else "may be chance",
    )


def _matrix(model: SiteModel, chunk: int, rates: Rates) -> dict[str, Any]:
    """Losses among the plain patterns: a row for each that loses, a column for each other."""
    from sluice.interference.programs import Program, size_text

    programs = [Program(pattern, chunk) for pattern in MATRIX_PATTERNS]
    return {
        "chunk": size_text(chunk),
        "processes": programs[0].processes,
        "patterns": MATRIX_PATTERNS,
        "loss": model.losses(programs, rates),
    }
