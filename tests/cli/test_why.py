"""`sluice why` and `sluice decisions`: the story is true, also where it is uncertain."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType

import core_cases as storage_models
import pytest
from click.testing import CliRunner

from sluice.cli.main import main as sluice
from sluice.history_db import records
from sluice.history_db.store import Store
from sluice.patterns.profile import read_profile
from sluice.policies import core
from sluice.policies.bundle import name_of
from sluice.policies.record import Record, Situation, decide
from sluice.policies.structs import View
from sluice.slurm.record_receiver import decision_of
from sluice.slurm.views import query_replies
from sluice.slurm.views.formatting import intervals, known, with_range
from sluice.slurm.visibility import Viewer, user_text

LOGS = Path(__file__).parents[1] / "data/darshan"
PROGRAMS = Path(__file__).parents[1] / "data/programs"
NOW = storage_models.NOW
BOOT = 0xAB
USER = user_text(1000)

# Ways to bring the numbers of the storage model down to what a small job does.
CONF = "Lane=sl0 Targets=4 Bandwidth=1G\nLane=sl1 Targets=4 Bandwidth=1G\n"

JOB = records.Job(
    cluster="lab",
    job_id=4711,
    submit=NOW,
    restarts=0,
    name="run_1",
    user=None,
    uid=1000,
    account=None,
    partition="main",
    qos=None,
    nodes=4,
    tasks=4,
    cpus=4,
    time_limit=60,
    start=None,
    end=None,
    state="PENDING",
    exit_code=None,
    submit_line=None,
    script_signature=None,
    source="sluiced",
)


MEASURED = json.dumps({"interference": {"basis": {"busy_runs": 9, "busy_reads": 7}}})


class Site:
    """A history that tests fill with decisions of the real core."""

    def __init__(self, path: Path) -> None:
        self.conf = path / "sluice.conf"
        self.conf.write_text(CONF)
        self.history = path / "history.db"
        self.numbers = 0
        self.totals = (1_000_000, 1_000_000)
        self.publish(storage_models.FLUSHING)

    def publish(self, profile: dict[str, object], text: str = "{}") -> None:
        """Predict this of the application from now on."""
        self.content = storage_models.bundle_bytes(
            storage_models.application(profile, number=1), conf=CONF, text=text
        )
        self.bundle = storage_models.Bundle.parse(self.content)
        with Store(self.history, create=True) as store:
            store.models.add_bundle(
                records.Bundle(
                    checksum=self.bundle.checksum,
                    model=None,
                    path="model.bundle",
                    published_at=NOW,
                    content=self.content,
                )
            )

    def decide(
        self,
        *corunners: dict[str, object],
        now: int = NOW,
        keep_snapshot: bool = True,
        lane_speeds: Mapping[str, float] = MappingProxyType({}),
        **submission: object,
    ) -> Record:
        """Decide on a submission alongside co-runners and put the record into the history."""
        content = storage_models.pack_snapshot(
            state={"sequence": 1, "taken": now, "running": len(corunners)},
            corunners=corunners,
            lane_speeds=lane_speeds,
        )
        snapshot = storage_models.Snapshot.parse(content)
        self.numbers += 1
        record = decide(
            Situation(self.bundle, snapshot),
            core.read_config(self.conf),
            storage_models.submission(**submission),
            now,
            boot=BOOT,
            number=self.numbers,
            totals=self.totals,
            cluster="lab",
        )
        with Store(self.history) as store:
            if keep_snapshot:
                store.decisions.add_snapshot(records.Snapshot(snapshot.checksum, 1, now, content))
            store.decisions.insert_decisions([decision_of(record)])
        return record

    def join(self, record: Record, job_id: int, by: str = "key") -> None:
        with Store(self.history) as store:
            store.decisions.join_decisions([(record.boot, record.number, job_id, by)])

    def add_jobs(self, *jobs: records.Job) -> None:
        with Store(self.history) as store:
            store.jobs.upsert_jobs(jobs)

    def run(self, *words: str) -> str:
        result = CliRunner().invoke(
            sluice,
            [*words, "--history", str(self.history), "--config", str(self.conf)],
            env={"PATH": ""},  # no Slurm to be asked
        )
        assert result.exit_code == 0, result.output
        return result.output

    def facts(self, *words: str) -> dict:
        return json.loads(self.run("why", *words, "--json"))

    def decisions(self, *words: str) -> list[dict]:
        return json.loads(self.run("decisions", *words, "--json"))["decisions"]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.fixture
def busy() -> dict[str, object]:
    """A co-runner that streams for an hour."""
    return storage_models.corunner(99, storage_models.STREAMING)


def test_the_whole_story_of_a_job_alongside_another(site, busy):
    record = site.decide(busy)
    site.join(record, 4711)
    site.add_jobs(replace(JOB, start=NOW + 90, end=NOW + 690, state="COMPLETED", exit_code="0:0"))
    story = site.run("why", "4711")
    assert story.partition("\n")[2].startswith(f"Job 4711 run_1 of {USER} on 4 nodes, submitted ")
    assert "on cluster lab.\n" in story
    assert "Evidence: earlier runs of this job name by this user, 8 runs." in story
    assert "creates, writes and closes one file after the other (owc), 95% certain" in story
    assert "chunks of 1 MiB" in story
    assert "Class flush: flushes soon, and waits until the target has it." in story
    assert "Job 99 (8 nodes): together for 1 h; this job would take " in story
    assert "share everything" in story
    assert "only sl1" in story
    decision = record.decision
    assert core.sentence("reason", decision.reason) in story
    assert f"{decision.action}: {core.sentence('action', decision.action)}" in story
    assert "Mode was observe: the job was not touched." in story
    assert f"{record.bundle_checksum:016x}" in story
    assert f"Interference by {name_of('model.bundle', NOW)}." in story
    assert "after waiting 1 min 30 s, ran 10 min, exit code 0:0." in story


def test_a_lane_that_was_slow_is_told(site):
    site.join(site.decide(lane_speeds={"sl1": 0.25}), 4711)
    story = site.run("why", "4711")
    assert "storage targets are slow, so it is kept to faster ones" in story
    assert "None with I/O that matters." in story
    assert "→ only sl0" in story
    assert "Lane sl1 was slow, at 25% of its peers' rate." in story
    assert site.facts("4711")["slow_lanes"] == {"sl1": 0.25}


def test_json_holds_the_record_as_it_was_made(site, busy):
    record = site.decide(busy)
    site.join(record, 4711, "mark")
    site.add_jobs(JOB)
    facts = site.facts("4711")
    made = record.to_dict()
    assert made.pop("place")["is_asked"] == 0  # of lanes with Place=blocks alone
    assert facts["record"] == json.loads(json.dumps(made))
    assert facts["joined_by"] == "mark"
    assert facts["lanes"] == ["sl0", "sl1"]
    model = {"source": "bundle", "name": name_of("model.bundle", NOW)}
    assert facts["interference_model"] == model
    assert facts["slurm"]["state"] == "PENDING"
    assert facts["slurm"]["started"] is None


def test_of_a_reader_it_is_said_that_no_reads_were_measured_here(site, busy):
    unmeasured = "What its reads lose is by published figures: none was measured here."
    site.join(site.decide(busy), 4711)
    assert unmeasured not in site.run("why", "4711")
    reader = {"pattern": "read", "share": {"read": 1.0}, "read_bytes": 1e12, "write_bytes": 0.0}
    for number, (text, is_told) in enumerate([("{}", True), (MEASURED, False)], start=4712):
        site.publish({**storage_models.FLUSHING, **reader}, text)
        site.join(site.decide(busy), number)
        assert (unmeasured in site.run("why", str(number))) == is_told


def test_a_decision_made_again_has_the_same_bits(site, busy):
    site.join(site.decide(busy), 4711)
    replayed = site.facts("4711", "--replay")["replay"]
    assert (replayed["equal"], replayed["same_config"]) == (True, True)
    site.conf.write_text(CONF + "# changed\n")
    replayed = site.facts("4711", "--replay")["replay"]
    assert (replayed["equal"], replayed["same_config"]) == (True, False)
    assert "sluice.conf has changed" in replayed["text"]


def test_a_record_that_was_tampered_with_does_not_replay(site, busy):
    record = site.decide(busy)
    changed = View(record.struct)
    changed.struct.decision.alternatives[0].cost += 1.0
    forged = Record.parse(changed.bytes)
    forged.struct.number = 77
    with Store(site.history) as store:
        store.decisions.insert_decisions([decision_of(forged)])
    site.join(forged, 4712)
    assert site.facts("4712", "--replay")["replay"]["equal"] is False
    assert "NOT the same" in site.run("why", "4712", "--replay")


def test_a_replay_without_its_inputs_says_so(site, busy):
    site.join(site.decide(busy, keep_snapshot=False), 4711)
    replayed = site.facts("4711", "--replay")["replay"]
    assert replayed["equal"] is None
    assert "the history has no snapshot" in replayed["text"]


def test_a_job_nothing_is_known_of_is_told_plainly(site):
    site.join(site.decide(name="unheard_of"), 4711)
    story = site.run("why", "4711")
    assert "Nothing: no earlier run resembles it." in story
    assert "Because no earlier run resembles it closely enough (unknown_job)." in story
    assert "node-seconds" not in story
    assert "Not known: sluiced has not seen the job" in story


def test_a_job_without_a_decision_is_told_from_slurm_alone(site):
    site.add_jobs(JOB)
    story = site.run("why", "4711")
    assert "The plugin has no record of this submission" in story
    assert "PENDING; not started." in story


def test_an_unknown_job_is_an_error_that_says_where_to_look(site):
    result = CliRunner().invoke(
        sluice, ["why", "1", "--history", str(site.history)], env={"PATH": ""}
    )
    assert result.exit_code == 1
    assert result.stderr.startswith("sluice: no job 1 is known; `sluice decisions` lists")


def test_a_tie_is_told_as_a_tie(site):
    for job_id in (1, 2):
        record = site.decide()
        with Store(site.history) as store:
            store.decisions.join_decisions([(record.boot, record.number, None, "tie")])
        site.add_jobs(replace(JOB, job_id=job_id))
    for job_id in ("1", "2"):
        story = site.run("why", job_id)
        assert "2 decisions were made for this user and job name in that second" in story
        assert site.facts(job_id)["tied_with"] == 2
    assert [row["joined_by"] for row in site.decisions()] == ["tie"] * 2


def test_a_task_is_told_by_the_decision_on_its_array(site):
    site.join(site.decide(flags=("array",), array_tasks=4), 4711)
    site.add_jobs(JOB, replace(JOB, job_id=4715, state="RUNNING", start=NOW + 5))
    for name in ("4711_2", "4715"):
        facts = site.facts(name)
        assert facts["array"] == 4711
        assert facts["record"]["number"] == 1
    assert site.facts("4711")["array"] is None
    assert "a task of array 4711, which was decided as a whole" in site.run("why", "4715")


def test_a_component_is_named_by_its_place(site):
    site.join(site.decide(flags=("het", "het_later")), 4712)
    facts = site.facts("4711+1")
    assert facts["job"]["job_id"] == 4712
    assert facts["record"]["decision"]["reason"] == "het_component"


def test_a_number_used_again_is_told_of_the_latest_job(site):
    """After a crash slurmctld counts its last seconds again."""
    site.join(site.decide(name="lost"), 4711)
    site.join(site.decide(now=NOW + 100), 4711)
    site.add_jobs(replace(JOB, name="lost"), replace(JOB, submit=NOW + 100))
    facts = site.facts("4711")
    assert facts["record"]["submission"]["name"] == "run_1"
    assert [other["name"] for other in facts["other_jobs_with_this_number"]] == ["lost"]
    assert "had this number too. This is the latest." in site.run("why", "4711")


def test_the_decision_on_an_earlier_job_of_the_number_is_not_taken_for_this_one(site):
    site.join(site.decide(name="lost"), 4711)
    site.add_jobs(replace(JOB, submit=NOW + 100))
    assert site.facts("4711")["record"] is None


def test_a_requeued_job_keeps_its_decision(site):
    site.join(site.decide(), 4711)
    site.add_jobs(
        replace(JOB, state="COMPLETED"), replace(JOB, submit=NOW + 500, restarts=1, state="RUNNING")
    )
    facts = site.facts("4711")
    assert facts["record"]["number"] == 1
    assert facts["slurm"]["restarts"] == 1
    assert facts["other_jobs_with_this_number"] == []


def test_names_of_jobs_cannot_draw_on_the_terminal(site):
    site.join(site.decide(name="\x1b[31mred\nJob 1"), 4711)
    story = site.run("why", "4711")
    assert "\x1b" not in story
    assert "\nJob 4711 \N{REPLACEMENT CHARACTER}[31mred\N{REPLACEMENT CHARACTER}Job" in story
    assert "\x1b" not in site.run("decisions")


def test_the_owner_is_told_what_to_change(site):
    log = read_profile(PROGRAMS / "sqlite.darshan").log
    start, end = log.start, log.end
    site.add_jobs(replace(JOB, job_id=900017, uid=0, submit=start, start=start, end=end))
    ingested = CliRunner().invoke(
        sluice, ["history", "ingest", log.path, "--history", str(site.history)]
    )
    assert ingested.exit_code == 0, ingested.output
    story = site.run("why", "900017")
    assert "What its owner could change" in story
    assert "  It flushes to disk after every 5,245 bytes.\n    → Flush (fsync, O_SYNC)" in story
    (flushes,) = [
        one for one in site.facts("900017")["outcome"]["advice"] if one["kind"] == "flushes"
    ]
    assert set(flushes) == {"kind", "finding", "remedy"}


def test_the_story_of_a_job_says_what_it_read_as_what_it_wrote(site):
    log = read_profile(LOGS / "139_pat_read_posix_64K_n4_fpp.darshan").log
    times = {"submit": log.start, "start": log.start, "end": log.end}
    site.add_jobs(replace(JOB, job_id=log.jobid, uid=0, **times))
    ingested = CliRunner().invoke(
        sluice, ["history", "ingest", log.path, "--history", str(site.history)]
    )
    assert ingested.exit_code == 0, ingested.output
    story = site.run("why", str(log.jobid))
    for line in ("read  +50 MiB", "bytes a read +64 KiB", "read from the cache +50%"):
        assert re.search(rf"\n +{line} ", story), story
    assert site.facts(str(log.jobid))["outcome"]["read_cached_share"] == 0.5


# sluice decisions


def test_decisions_are_listed_with_the_worst_co_run(site, busy):
    site.join(site.decide(name="unheard_of"), 4710)
    record = site.decide(busy)
    site.join(record, 4711)
    header, unknown, known = site.run("decisions").splitlines()
    assert header.split() == [
        *("Job", "Name", "User", "Nodes", "Pattern", "Chunk", "Conf"),
        *("Alongside", "It", "Other", "Action", "Reason"),
    ]
    assert unknown.split()[:8] == ["4710", "unheard_of", USER, "4", "–", "–", "–", "–"]
    worst = record.decision.coruns[0]
    shown = ["99", f"{worst.own_slowdown:.2f}×", f"{worst.other_slowdown:.2f}×"]
    assert known.split()[:7] == ["4711", "run_1", USER, "4", "owc", "1", "MiB"]
    assert known.split()[8:11] == shown
    assert known.endswith(core.sentence("reason", record.decision.reason))


def test_decisions_for_programs_carry_ids_and_numbers(site, busy):
    site.join(site.decide(busy), 4711)
    site.decide(name="rejected")
    known, rejected = site.decisions()
    assert (known["job_id"], known["pattern"], known["chunk_bytes"]) == (4711, "owc", 1 << 20)
    assert known["coruns"][0]["job_id"] == 99
    assert rejected["job_id"] is None
    assert len(site.decisions("--limit", "1")) == 1


def test_decisions_of_another_version_are_left_out_and_counted(site, busy):
    record = site.decide(busy)
    with Store(site.history) as store:
        (kept,) = store.decisions.latest_decisions(1)
        foreign = b"\x63" + kept.record[1:]  # its version
        store.decisions.insert_decisions([replace(kept, number=kept.number + 1, record=foreign)])
    result = CliRunner().invoke(
        sluice, ["decisions", "--json", "--config", str(site.conf), "--history", str(site.history)]
    )
    (row,) = json.loads(result.stdout)["decisions"]
    assert row["record"].endswith(f"-{record.number}")
    assert "left out 1 decisions of another version" in result.stderr


@pytest.fixture
def two_users(site, busy) -> Site:
    """Job 4711 of uid 1000, which runs for account a, and a day later 4712 of 1001, for b."""
    site.join(site.decide(busy), 4711)
    site.join(site.decide(busy, uid=1001, now=NOW + 86400), 4712)
    later = replace(JOB, job_id=4712, uid=1001, submit=NOW + 86400, account="b")
    site.add_jobs(replace(JOB, account="a", state="RUNNING"), later)
    return site


@pytest.mark.parametrize(
    ("words", "jobs"),
    [
        ((), [4711, 4712]),
        (("--user", "1000"), [4711]),
        (("--user", "1001,1000"), [4711, 4712]),
        (("--account", "b"), [4712]),
        (("--cluster", "lab,other"), [4711, 4712]),
        (("--cluster", "other"), []),
        (("--state", "running"), [4711]),
        (("--state", "RUNNING,PENDING", "--account", "b"), [4712]),
        (("--since", "2y", "--limit", "1"), [4712]),
    ],
)
def test_decisions_are_chosen_by_user_account_cluster_and_state(two_users, words, jobs):
    assert [row["job_id"] for row in two_users.decisions(*words)] == jobs


def test_decisions_are_chosen_by_their_time(two_users):
    moment = datetime.fromtimestamp(NOW + 3600, UTC).astimezone().replace(tzinfo=None)
    shown = two_users.decisions("--since", moment.isoformat())
    assert [row["job_id"] for row in shown] == [4712]
    assert "No such decision." in two_users.run("decisions", "--user", "77")


def test_nobody_chooses_what_privatedata_hides(two_users):
    viewer = Viewer(1001, sees_all=False)
    with Store(two_users.history) as store:
        asked = ([], ["1000"], ["1001"])
        seen = [query_replies.decisions(store, viewer, limit=9, users=users) for users in asked]
    assert [[row["job_id"] for row in one["decisions"]] for one in seen] == [[4712], [], [4712]]


def test_a_user_whom_nobody_knows_is_named(site):
    words = ["decisions", "--user", "nobody-of-that-name", "--history", str(site.history)]
    done = CliRunner().invoke(sluice, words)
    assert done.exit_code == 1
    assert "nobody-of-that-name: no user of this machine or of the history" in done.stderr


def test_decisions_are_laid_out_as_squeue_would(two_users):
    shown = two_users.run("decisions", "--parsable2", "--format", "job,user,NODES")
    assert shown == f"Job|User|Nodes\n4711|{USER}|4\n4712|{user_text(1001)}|4\n"
    assert two_users.run("decisions", "--noheader", "--format", "job") == "4711\n4712\n"
    words = ["decisions", "--format", "jobs", "--history", str(two_users.history)]
    assert CliRunner().invoke(sluice, words).exit_code == 2


def test_an_empty_history_lists_nothing_and_says_where_to_look(site):
    assert "No decisions yet" in site.run("decisions")
    assert site.decisions() == []


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("max_delay", "after waiting 30 min: it has waited for MaxDelay seconds (max_delay)."),
        ("of_the_future", "after waiting 30 min: of_the_future (of_the_future)."),
    ],
)
def test_it_says_in_words_why_tokens_were_taken_off(site, reason, said):
    record = site.decide()
    site.join(record, 4711)
    with Store(site.history) as store:
        [decision] = store.decisions.decisions_for_job(4711)
        store.gates.add_releases(
            [
                records.Release(
                    decision.cluster, 4711, record.now, record.now, "all_stream", reason, 1800.0
                )
            ]
        )
    assert said in site.run("why", "4711")


HELD = records.HeldBurst(
    cluster="lab",
    source="ab",
    number=1,
    job_id=4711,
    nodes=4,
    first_job=4700,
    first_nodes=64,
    lane_mask=1,
    began=NOW + 10,
    lasted=30.0,
    held=20.0,
    holds=1,
    bytes=1e9,
    saving=640.0,
    is_held=True,
    ended="turn",
)


def hold(site, *bursts):
    site.join(site.decide(), 4711)
    site.add_jobs(replace(JOB, start=NOW + 5, end=NOW + 600, state="COMPLETED"))
    with Store(site.history) as store:
        store.gates.add_held_bursts(bursts)


def test_it_tells_of_each_burst_that_was_held(site):
    later = replace(HELD, number=2, began=NOW + 100, ended="budget", first_job=None, saving=None)
    hold(site, HELD, later, replace(HELD, number=3, began=NOW + 9000))
    story = site.run("why", "4711")
    assert "2 bursts held, for 40 s in all: 160 node-seconds, where 640 were expected" in story
    assert "on sl0: held 20 s of 30 s for job 4700 (64 nodes)" in story
    assert "released because its turn came." in story
    assert "for others; expected saving not known; released because its budget" in story
    [first, _] = json.loads(site.run("why", "4711", "--json"))["turns"]
    assert (first["first_job"], first["node_seconds"], first["ended"]) == (4700, 80.0, "turn")


def test_it_tells_what_observe_would_have_held(site):
    hold(site, replace(HELD, is_held=False))
    assert "1 burst would have been held, for 20 s in all" in site.run("why", "4711")


def test_of_others_jobs_it_does_not_tell_which_went_first(site):
    hold(site, HELD)
    with Store(site.history) as store:
        [burst] = query_replies.why(store, Viewer(1000, sees_all=False), job="4711")["turns"]
    assert (burst["first_job"], burst["held"]) == (None, 20.0)


def test_it_says_whether_the_job_takes_turns(site):
    site.conf.write_text(CONF + "TurnsPort=6822\nTurns=decided\n")
    site.join(site.decide(), 4711)
    assert "It takes turns: its bursts matter to those that come" in site.run("why", "4711")


def test_in_enforce_it_says_which_tokens_were_taken(site):
    site.conf.write_text(CONF + "Mode=enforce\n")
    site.join(site.decide(), 4711)
    story = site.run("why", "4711")
    assert "it takes a token of its class on each lane it may write to: " in story
    assert "sl0_flush, sl1_flush." in story


def test_in_enforce_it_says_why_none_was_taken(site):
    site.conf.write_text(CONF + "Mode=enforce\n")
    site.totals = (1_000_000, 5)
    site.join(site.decide(), 4711)
    assert "slurm.conf defines no such token or fewer than 100,000" in site.run("why", "4711")


VAGUE = {
    **storage_models.STREAMING,
    "confidence": 0.98,
    "rate": 5e4,
    "write_bytes": 1e12,
    "spread": {"rate": 12.0, "write_bytes": 0.2},
}


def certain_but_vague(tmp_path):
    """A site that is certain of a pattern, and does not know its size."""
    site = Site(tmp_path)
    content = storage_models.bundle_bytes(storage_models.application(VAGUE, number=1), conf=CONF)
    site.bundle = storage_models.Bundle.parse(content)
    with Store(site.history) as store:
        store.models.add_bundle(
            records.Bundle(
                checksum=site.bundle.checksum,
                model=None,
                path="model.bundle",
                published_at=NOW + 1,
                content=content,
            )
        )
    return site


def test_what_is_not_known_is_not_printed_as_a_number(tmp_path):
    site = certain_but_vague(tmp_path)
    record = site.decide(uid=1000, name="run_1")
    assert record.decision.prediction.profile.rate > 0
    site.join(record, 4711)
    site.add_jobs(JOB)
    story = site.run("why", "4711")
    assert " alone" not in story
    assert "PiB" not in story
    assert "931 GiB (" in story  # what is known has its interval
    profile = site.facts("4711")["record"]["decision"]["prediction"]["profile"]
    assert profile["rate"] is None
    assert profile["write_bytes"] == pytest.approx(1e12)


def test_an_interval_that_spans_all_sizes_is_none_whatever_its_number():
    profile = {"rate": 1e6, "write_bytes": 1e9, "io_share": 0.5}
    for spread, is_known in ((0.0, True), (1.39, True), (1.41, False), (50.0, False), (1e9, False)):
        asked = {**profile, "spread": dict.fromkeys(profile, spread)}
        for name in profile:
            assert (intervals(asked)[name] is not None) == is_known
            assert (known(asked)[name] is not None) == is_known
            assert (with_range(asked, name, str) != "None") == is_known


def test_an_abstention_has_one_reason_and_no_other_sentence_against_it(tmp_path, busy):
    site = certain_but_vague(tmp_path)
    record = site.decide(busy, uid=1000, name="run_1")
    assert record.decision.action == "abstain"
    site.join(record, 4711)
    site.add_jobs(JOB)
    story = site.run("why", "4711")
    assert "98% certain of the pattern" in story
    assert "does not matter" not in story
    assert "does not know enough" not in story
    assert story.count("  Because ") == 1
    assert f"({record.decision.reason})" in story
