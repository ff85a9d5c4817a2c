"""Who takes turns: which steps get a page, and the library preloaded that waits by it."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import turns_daemons
import turns_page
from spank_lab import OTHER_USER, Lab, needs_root, printed
from turns_daemons import Agent

pytestmark = [pytest.mark.slurm, needs_root]

USER = (f"--uid={OTHER_USER}", "--chdir=/")
BODY = "echo script $LD_PRELOAD; srun sh -c 'echo step $LD_PRELOAD'"
MOUNT = "/dev/shm"  # noqa: S108 - where the daemons of turns_daemons lie
NOTE = "sluice(v=1,rec=00000000000000aa-1,act=turns,why=turns_pay,turns={})"


@pytest.fixture(scope="module")
def library(cluster: Lab) -> Path:
    """Where every user can read it, as it is installed."""
    folder = cluster.place / "lib"
    folder.mkdir()
    folder.chmod(0o755)
    return Path(shutil.copy(turns_page.build(), folder))


@pytest.fixture(scope="module")
def agent() -> Iterator[Agent]:
    """Gives pages, also without a coordinator."""
    with turns_daemons.cluster() as cluster:
        yield cluster.agent()


def configure(lab: Lab, agent: Agent, library: Path | str) -> None:
    lab.plugstack(f"turns={library}", f"turns_on={MOUNT}", f"turns_socket={agent.socket}")


@pytest.fixture
def turns(lab: Lab, agent: Agent, library: Path) -> Lab:
    configure(lab, agent, library)
    return lab


def said(lab: Lab, *options: str, body: str = BODY, **environment: str) -> list[str]:
    return lab.script(*USER, *options, body=body, **environment)[1].splitlines()


def test_script_and_steps_get_it_once(turns: Lab, library: Path) -> None:
    assert said(turns, "--io-turns") == [f"script {library}", f"step {library}"]


def test_it_is_loaded_and_the_program_does_not_notice(turns: Lab, library: Path) -> None:
    body = f"srun grep -c {library} /proc/self/maps; echo $? "
    count, code = said(turns, "--io-turns", body=body)
    assert int(count) > 0
    assert code == "0"


def test_what_the_user_preloads_stays_behind_it(turns: Lab, library: Path) -> None:
    lines = said(turns, "--io-turns", LD_PRELOAD="libm.so.6 libdl.so.2")
    both = f"{library}:libm.so.6 libdl.so.2"
    assert lines == [f"script {both}", f"step {both}"]


def test_one_step_may_ask_for_it_by_itself(turns: Lab, library: Path) -> None:
    body = "srun --quiet --io-turns sh -c 'echo $LD_PRELOAD'; srun --quiet sh -c 'echo $LD_PRELOAD'"
    assert said(turns, body=body) == [str(library), ""]


@pytest.mark.parametrize("missing", ["", "(null)"])
def test_a_missing_value_may_be_handed_on_as_text(turns: Lab, library: Path, missing: str) -> None:
    """What releases of Slurm make of it for the steps of a script."""
    body = f"srun --quiet --io-turns='{missing}' sh -c 'echo $LD_PRELOAD'"
    assert said(turns, body=body) == [str(library)]


@pytest.mark.parametrize("options", [(), ("--io-turns=no",), ("--io-turns", "--no-sluice")])
def test_a_job_that_did_not_ask_or_opted_out_gets_nothing(
    turns: Lab, options: tuple[str, ...]
) -> None:
    assert said(turns, *options) == ["script", "step"]


def test_without_a_page_nothing_is_preloaded(turns: Lab, library: Path) -> None:
    turns.plugstack(f"turns={library}", f"turns_on={MOUNT}", "turns_socket=/nowhere")
    assert said(turns, "--io-turns") == ["script", "step"]


def test_a_step_without_a_page_loses_what_the_script_preloads(turns: Lab, library: Path) -> None:
    body = "echo $LD_PRELOAD; srun --io-turns=no sh -c 'echo step $LD_PRELOAD'"
    assert said(turns, "--io-turns", body=body) == [str(library), "step"]
    lines = said(turns, "--io-turns", body=body, LD_PRELOAD="libm.so.6")
    assert lines == [f"{library}:libm.so.6", "step libm.so.6"]


def test_a_wrong_word_is_the_users_mistake(turns: Lab) -> None:
    done = turns.slurm.run("srun", "--io-turns=maybe", "true", check=False)
    assert done.returncode != 0
    assert "--io-turns: give no value, or =no" in done.stderr


def noted(lab: Lab, note: str, *options: str) -> list[str]:
    """What a job says whose decision is in its admin comment before it starts."""
    output = lab.output()
    job = lab.slurm.submit(
        *USER,
        "--hold",
        *options,
        f"--output={output}",
        f"--wrap={BODY}; srun --quiet sh -c 'echo $SLUICE_TURNS'",
    )
    lab.slurm.run("scontrol", "update", f"jobid={job}", f"admincomment={note}")
    lab.slurm.run("scontrol", "release", str(job))
    lab.slurm.wait_for_job(job, "COMPLETED")
    return printed(output).splitlines()


def test_a_job_takes_turns_where_its_decision_says_so(turns: Lab, library: Path) -> None:
    lines = noted(turns, "site " + NOTE.format("yes"))
    assert lines == [f"script {library}", f"step {library}", "1000:1001"]


SEEN = f"{BODY}; echo ${{SLUICE_TURNS_DECIDED-gone}}"


def test_a_variable_that_slurmctld_set_tells_it_as_well(turns: Lab, library: Path) -> None:
    """And goes no further: a job that the script submits has a decision of its own."""
    lines = said(turns, body=SEEN, SLUICE_TURNS_DECIDED="yes")
    assert lines == [f"script {library}", f"step {library}", "gone"]


@pytest.mark.parametrize(
    ("decided", "options"),
    [("no", ("--io-turns",)), ("yes", ("--io-turns=no",)), ("yes", ("--no-sluice",)), ("", ())],
)
def test_that_variable_lets_exempt_jobs_and_who_refuses_alone(
    turns: Lab, decided: str, options: tuple[str, ...]
) -> None:
    lines = said(turns, *options, body=SEEN, SLUICE_TURNS_DECIDED=decided)
    assert lines == ["script", "step", "gone"]


@pytest.mark.parametrize(
    ("note", "options"),
    [
        (NOTE.format("no"), ("--io-turns",)),
        (NOTE.format("yes"), ("--io-turns=no",)),
        (NOTE.format("yes"), ("--no-sluice",)),
        ("turns=yes", ()),
    ],
)
def test_neither_exempt_jobs_nor_who_refuses_take_turns(
    turns: Lab, note: str, options: tuple[str, ...]
) -> None:
    assert noted(turns, note, *options) == ["script", "step", ""]


def test_roots_jobs_get_nothing(turns: Lab) -> None:
    assert turns.script("--io-turns", body=BODY)[1].splitlines() == ["script", "step"]


def test_where_the_site_did_not_name_it_nobody_gets_it(lab: Lab) -> None:
    assert said(lab, "--io-turns") == ["script", "step"]


def test_where_it_is_missing_jobs_run_without_and_the_node_says_why(
    turns: Lab, agent: Agent
) -> None:
    configure(turns, agent, "/nowhere/libsluice_turns.so")
    assert said(turns, "--io-turns") == ["script", "step"]
    assert "/nowhere/libsluice_turns.so cannot be read on this node" in turns.node_log()


def test_a_wrong_path_is_named_and_nothing_else_fails(turns: Lab) -> None:
    turns.plugstack("turns=lib:sluice", f"lane=sl0:{turns.lanes['sl0']}:4")
    assert said(turns, "--io-turns") == ["script", "step"]
    assert "plugstack.conf: turns=lib:sluice: give a path without a colon" in turns.node_log()
