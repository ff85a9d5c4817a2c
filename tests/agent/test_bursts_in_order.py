"""Bursts of jobs on several nodes: who is held, where, and until when."""

import time

import pytest
from turns_cases import UNKNOWN
from turns_daemons import RATE, Cluster, build_unbounded, wait_for

from sluice.cli.gates import _bursts, _turns
from sluice.policies import core
from sluice.slurm.turns import turns_now


def start(cluster: Cluster, *options: str) -> None:
    cluster.publish(1, 2)
    cluster.start_turns(*options)


@pytest.fixture
def contended(cluster: Cluster):
    """A wide job writes; a narrow one on two nodes begins, and is held."""
    start(cluster)
    agents = [cluster.agent(), cluster.agent()]
    wide = cluster.page(agents[0], 1, nodes=64)
    narrow = [cluster.page(agent, 2, nodes=2) for agent in agents]
    cluster.rank(wide)
    cluster.rank(narrow[0])
    wait_for(lambda: all(page.is_held for page in narrow), "for the narrow job to be held")
    return cluster, wide, narrow


def test_a_job_that_is_held_is_held_on_all_its_nodes(contended):
    """Also where its processes do not write yet."""
    cluster, wide, narrow = contended
    assert narrow[0].words.rate == narrow[1].words.rate == 0
    assert not wide.is_held
    status = cluster.wait_for_status(lambda found: found["facts"]["holding"] == 1)
    assert status["named"]["bursts"]["2"]["text"] == "held behind job 1"
    assert status["facts"]["mode"] == "enforce"
    assert status["counts"]["holds"] == 1


def test_the_command_line_reads_what_the_coordinator_counts(contended):
    """`sluice gates` has it below the gates, while the coordinator lives."""
    cluster, _, _ = contended
    config = core.parse_config("sluice.conf", cluster.config.read_bytes())
    cluster.wait_for_status(lambda found: found["facts"]["holding"] == 1)
    found = turns_now(config)
    assert found
    assert (found["mode"], found["holding"], found["holds"]) == ("enforce", 1, 1)
    assert "1 of them held" in _turns(found)
    listed = sorted(_bursts(found["bursts"], found["bursts"][0]["since"] + 5))
    assert listed[0].startswith("  job 1: writes, for ")
    assert listed[1].startswith("  job 2: held behind job 1, for ")
    assert found["covered"] == 1.0
    cluster.turns.kill()
    assert turns_now(config) is None


def test_a_hold_names_the_job_that_trials_judge(cluster):
    """It takes most of the lane; another one goes before it."""
    rates = {1: RATE // 5, 2: RATE * 4 // 5, 3: RATE}
    profile = {"burst_seconds": 60.0, "io_share": 0.5, "share": {"aw": 1.0}, "pattern": "aw"}
    cluster.publish_jobs(
        *({"job_id": job, "profile": profile | {"rate": rate}} for job, rate in rates.items())
    )
    cluster.start_turns()
    agent = cluster.agent()
    for job, rate in rates.items():
        cluster.rank(cluster.page(agent, job, nodes=64 // job), rate=rate)
    status = cluster.wait_for_status(lambda found: found["facts"]["holding"])
    assert status["named"]["bursts"]["3"]["text"] == "held behind job 2"


def test_a_hold_is_renewed_for_as_long_as_it_is_meant(contended):
    _, _, narrow = contended
    until = narrow[0].words.until
    wait_for(lambda: narrow[0].words.until > until + 3e9)
    assert all(page.is_held for page in narrow)


def test_the_job_that_waits_goes_when_the_burst_before_it_ends(contended):
    cluster, _, narrow = contended
    cluster.ranks[0].finish()
    wait_for(lambda: not any(page.words.until for page in narrow))
    moved = cluster.ranks[1].slot.bytes
    wait_for(lambda: cluster.ranks[1].slot.bytes > moved)


def test_a_pause_within_a_burst_is_free_for_others(contended):
    """Something is written every 0.3 s, so the burst does not end."""
    cluster, _, narrow = contended
    cluster.ranks[0].finish()
    written = [time.monotonic()]

    def goes() -> bool:
        if time.monotonic() > written[-1] + 0.3:
            cluster.ranks[0].slot.bytes += 1
            written.append(time.monotonic())
        return not any(page.is_held for page in narrow)

    wait_for(goes)


def test_flushes_are_operations_of_the_target(cluster):
    """Jobs that write nothing new and flush all the time fill a target of few operations."""
    cluster.configure(operations=10)
    cluster.start_turns()
    agent = cluster.agent()
    pages = [cluster.page(agent, job_id, nodes=job_id) for job_id in (1, 2)]
    ranks = [cluster.rank(page, rate=0) for page in pages]
    for rank in ranks:
        rank.finish()

    def waits() -> bool:
        for rank in ranks:
            rank.slot.syncs += 1
        return pages[0].is_held

    wait_for(waits)


def test_small_writes_that_caches_join_are_no_operations_of_the_target(cluster):
    """As tar's and those of stdio; nobody is held for them until they are flushed."""
    cluster.configure(operations=10, TurnsLatency=100)
    cluster.start_turns()
    agent = cluster.agent()
    pages = [cluster.page(agent, job_id, nodes=job_id) for job_id in (1, 2)]
    ranks = [cluster.rank(page, rate=100_000) for page in pages]
    wait_for(lambda: all(page.sum("bytes") > 600_000 for page in pages))
    assert cluster.status()["counts"]["holds"] == 0

    def waits() -> bool:
        for rank in ranks:
            rank.slot.syncs += 1
        return pages[0].is_held

    wait_for(waits)


def test_who_writes_alongside_one_call_of_another_job_is_not_taken_to_write_alone(cluster):
    """A call under way cannot be held. The wide job gets half of the lane alongside it, and
    would take all: nobody is let in for the other half."""
    cluster.publish_jobs(
        *({"job_id": job_id, "nodes": job_id, "profile": UNKNOWN} for job_id in (1, 16))
    )
    cluster.start_turns()
    agent = cluster.agent()
    narrow, wide = (cluster.page(agent, job_id, nodes=job_id) for job_id in (1, 16))
    cluster.rank(wide, rate=RATE // 2)
    cluster.rank(narrow, rate=RATE // 2, obeys=False)
    wait_for(lambda: narrow.is_held)
    begin, rates = wide.sum("bytes"), set()

    def has_written() -> bool:
        rates.add(narrow.words.rate)
        return wide.sum("bytes") > begin + 4 * RATE

    wait_for(has_written)
    assert rates == {0}


def test_the_job_that_waits_goes_when_the_step_before_it_ends(contended):
    _, wide, narrow = contended
    wide.leave()
    wait_for(lambda: not any(page.words.until for page in narrow))


def test_a_process_that_is_killed_in_a_write_does_not_keep_others_waiting(contended):
    """SIGKILL leaves its calls in flight in its slot, which the agent frees."""
    cluster, wide, narrow = contended
    written = wide.sum("bytes")
    cluster.ranks[0].kill()
    assert wide.page.slots[0].writing
    wait_for(lambda: not any(page.words.until for page in narrow))
    assert wide.page.slots[0].pid == 0
    assert wide.sum("bytes") >= written


def test_a_process_that_is_stopped_in_a_write_does_not_keep_others_waiting(contended):
    """As Slurm's suspend leaves it; when it goes on, it writes on."""
    cluster, wide, narrow = contended
    rank = cluster.ranks[0]
    rank.stop()
    assert wide.page.slots[0].writing
    wait_for(lambda: not any(page.words.until for page in narrow))
    rank.go_on()
    wait_for(lambda: all(page.is_held for page in narrow), "for the narrow job to be held")


def test_a_process_of_a_container_that_is_gone_does_not_keep_others_waiting(contended):
    """Though a process here has the pid that it had there."""
    cluster, wide, narrow = contended
    cluster.ranks[0].finish()
    wait_for(lambda: not any(page.words.until for page in narrow))
    slot = wide.page.slots[1]
    slot.taken, slot.pid_namespace, slot.writing = wide.page.slots[0].taken, 1, 1
    slot.pid = 1
    wait_for(lambda: slot.pid == 0)


def test_the_ranks_of_a_node_are_added_up(cluster):
    start(cluster)
    page = cluster.page(cluster.agent(), 1)
    ranks = [cluster.rank(page, slot, rate=RATE // 4) for slot in range(4)]
    cluster.wait_for_status(lambda found: found["facts"]["active"] == 1)
    for rank in ranks:
        rank.finish()
    ended = cluster.wait_for_status(lambda found: found["facts"]["active"] == 0)
    assert ended["counts"]["bytes"] == sum(rank.slot.bytes for rank in ranks)
    assert ended["counts"]["bursts"] == 1


def test_a_job_with_a_file_lock_is_not_held(contended):
    """Others that wait for the lock would be held with it."""
    cluster, _, narrow = contended
    cluster.ranks[1].slot.locks = 1
    wait_for(lambda: not any(page.words.until for page in narrow))
    cluster.ranks[1].slot.locks = 0
    wait_for(lambda: all(page.is_held for page in narrow))


def test_nobody_is_held_while_the_storage_is_not_full(cluster):
    cluster.configure(bandwidth=4 * RATE)
    start(cluster)
    agent = cluster.agent()
    for job_id in (1, 2):
        cluster.rank(cluster.page(agent, job_id))
    status = cluster.wait_for_status(lambda found: found["counts"]["bytes"] > 4 * RATE)
    assert status["counts"]["holds"] == 0


def test_volumes_that_nobody_predicted_are_learned(cluster):
    """No snapshot: what each job gets while it writes alone is its demand."""
    cluster.start_turns()
    agent = cluster.agent()
    pages = [cluster.page(agent, job_id, nodes=3 - job_id) for job_id in (1, 2)]
    first = cluster.rank(pages[1])
    cluster.wait_for_status(lambda found: found["counts"]["bytes"] > 4 * RATE)
    first.finish()
    cluster.wait_for_status(lambda found: found["facts"]["active"] == 0)
    other = cluster.rank(pages[0])
    cluster.wait_for_status(lambda found: found["counts"]["bytes"] > 8 * RATE)
    other.rate = RATE // 2
    cluster.rank(pages[1], rate=RATE // 2)
    wait_for(lambda: pages[0].is_held or pages[1].is_held)


def test_of_jobs_that_only_met_on_a_full_lane_one_goes_first(cluster):
    """Each got half of the lane; that does not say that half is all they want."""
    cluster.configure(TurnsLatency=100)
    cluster.start_turns()
    agent = cluster.agent()
    pages = [cluster.page(agent, job_id, nodes=job_id) for job_id in (1, 2)]
    for page in pages:
        cluster.rank(page, rate=RATE // 2)
    wait_for(lambda: pages[0].is_held)


def test_a_job_is_held_no_longer_than_its_run_allows(cluster):
    start(cluster)
    agent = cluster.agent()
    cluster.rank(cluster.page(agent, 1, nodes=64))
    narrow = cluster.page(agent, 2, most_held=1)
    rank = cluster.rank(narrow)
    wait_for(lambda: narrow.is_held)
    wait_for(lambda: not narrow.is_held)
    moved = rank.slot.bytes
    cluster.wait_for_status(
        lambda found: found["counts"]["budgets"] >= 1 and not found["facts"]["holding"]
    )
    wait_for(lambda: rank.slot.bytes > moved + RATE)


@pytest.mark.parametrize("fails", [False, True], ids=["bounded", "coordinator forgets"])
def test_no_hold_lasts_for_longer_at_a_stretch(cluster, fails):
    """Then the job writes, and is held again; its agent sees to that alone, if need be."""
    cluster.configure(TurnsHold=2, TurnsLatency=100)
    if fails:
        cluster.turns.command[0] = str(build_unbounded())
    start(cluster)
    agent = cluster.agent()
    cluster.rank(cluster.page(agent, 1, nodes=64))
    narrow = cluster.page(agent, 2)
    rank = cluster.rank(narrow)
    for _ in range(2):
        wait_for(lambda: narrow.is_held)
        assert narrow.words.longest_ms == 2000
        moved = rank.slot.bytes
        wait_for(lambda before=moved: not narrow.is_held and rank.slot.bytes > before)
    assert cluster.status()["counts"]["budgets"] == 0


def test_a_job_that_may_never_be_held_is_not(cluster):
    start(cluster)
    agent = cluster.agent()
    cluster.rank(cluster.page(agent, 1, nodes=64))
    narrow = cluster.page(agent, 2, most_held=0)
    rank = cluster.rank(narrow)
    wait_for(lambda: rank.slot.bytes > 3 * RATE)
    assert not narrow.is_held
    assert cluster.status()["counts"]["holds"] == 0


@pytest.mark.parametrize("how", ["setting", "option"])
def test_in_observe_holds_are_counted_and_nobody_is_held(cluster, how):
    cluster.configure(mode="observe" if how == "setting" else "enforce")
    start(cluster, *(["--observe"] if how == "option" else []))
    agent = cluster.agent()
    cluster.rank(cluster.page(agent, 1, nodes=64))
    narrow = cluster.page(agent, 2)
    cluster.rank(narrow)
    status = cluster.wait_for_status(lambda found: found["counts"]["held_seconds"] > 1)
    assert status["facts"]["mode"] == "observe"
    assert status["facts"]["holding"] == 0
    assert status["counts"]["holds"] >= 1
    assert narrow.words.until == 0


def test_switching_off_releases_all_and_switching_on_holds_again(contended):
    cluster, _, narrow = contended
    cluster.off_file.touch()
    wait_for(lambda: not any(page.words.until for page in narrow))
    assert cluster.wait_for_status(lambda found: found["facts"]["mode"] == "off")
    cluster.off_file.unlink()
    wait_for(lambda: all(page.is_held for page in narrow))


def test_a_mode_that_is_changed_is_followed(contended):
    cluster, _, narrow = contended
    cluster.configure(mode="advise")
    wait_for(lambda: not any(page.words.until for page in narrow))
    cluster.configure()
    wait_for(lambda: all(page.is_held for page in narrow))
