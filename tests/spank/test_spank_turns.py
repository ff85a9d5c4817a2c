"""--io-turns: which jobs get the library preloaded by which their writes take turns."""

import shutil
from pathlib import Path

import pytest
import turns_page
from spank_lab import OTHER_USER, Lab, needs_root

pytestmark = [pytest.mark.slurm, needs_root]

USER = (f"--uid={OTHER_USER}", "--chdir=/")
BODY = "echo script $LD_PRELOAD; srun sh -c 'echo step $LD_PRELOAD'"


@pytest.fixture(scope="module")
def library(cluster: Lab) -> Path:
    """Where every user can read it, as it is installed."""
    folder = cluster.place / "lib"
    folder.mkdir()
    folder.chmod(0o755)
    return Path(shutil.copy(turns_page.build(), folder))


@pytest.fixture
def turns(lab: Lab, library: Path) -> Lab:
    lab.plugstack(f"turns={library}")
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


@pytest.mark.parametrize("options", [(), ("--io-turns", "--no-sluice")])
def test_a_job_that_did_not_ask_or_opted_out_gets_nothing(
    turns: Lab, options: tuple[str, ...]
) -> None:
    assert said(turns, *options) == ["script", "step"]


def test_roots_jobs_get_nothing(turns: Lab) -> None:
    assert turns.script("--io-turns", body=BODY)[1].splitlines() == ["script", "step"]


def test_where_the_site_did_not_name_it_nobody_gets_it(lab: Lab) -> None:
    assert said(lab, "--io-turns") == ["script", "step"]


def test_where_it_is_missing_jobs_run_without_and_the_node_says_why(turns: Lab) -> None:
    turns.plugstack("turns=/nowhere/libsluice_turns.so")
    assert said(turns, "--io-turns") == ["script", "step"]
    assert "/nowhere/libsluice_turns.so cannot be read on this node" in turns.node_log()


def test_a_wrong_path_is_named_and_nothing_else_fails(turns: Lab) -> None:
    turns.plugstack("turns=lib:sluice", f"lane=sl0:{turns.lanes['sl0']}:4")
    assert said(turns, "--io-turns") == ["script", "step"]
    assert "plugstack.conf: turns=lib:sluice: give a path without a colon" in turns.node_log()
