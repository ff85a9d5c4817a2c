"""From the decision in slurmctld to the node: who takes turns without asking, and who never."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import turns_daemons
import turns_page
from compile_c import make
from plugin_harness import PluginFiles
from private_slurm import PrivateSlurm
from spank_lab import OTHER_USER, Lab, needs_root
from turns_daemons import Agent

pytestmark = [pytest.mark.slurm, pytest.mark.acceptance, needs_root]

MOUNT = "/dev/shm"  # noqa: S108 - where the daemons of turns_daemons lie
USER = (f"--uid={OTHER_USER}", "--chdir=/")
SAYS = "sh -c 'echo $1 ${SLUICE_TURNS-none} ${LD_PRELOAD:+loaded}' sh"
# A step may have to wait until slurmctld knows that the one before has ended.
BODY = f"{SAYS} script; srun --quiet {SAYS} step; srun --quiet --io-turns {SAYS} asks"


class Decided:
    """A lab whose slurmctld loads Sluice."""

    def __init__(self, lab: Lab, files: PluginFiles) -> None:
        self.lab, self.files = lab, files

    def configure(self, **settings: str | int) -> None:
        for mode in ("advise", "observe"):  # the second is in force when the mode is
            self.files.configure(Mode=mode, TurnsPort=6822, **settings)
            self.files.wait_for(lambda seen, mode=mode: seen["mode"] == mode)

    def said(self, *options: str, body: str = BODY) -> list[str]:
        output = self.lab.script(*USER, *options, body=body)[1]
        return [line.strip() for line in output.splitlines()]


@pytest.fixture(scope="module")
def agent() -> Iterator[Agent]:
    with turns_daemons.cluster() as cluster:
        yield cluster.agent()


@pytest.fixture(scope="module")
def decided(agent: Agent) -> Iterator[Decided]:
    place = Path(tempfile.mkdtemp(prefix="sluice-decided-"))
    place.chmod(0o755)
    for folder, mode in (("out", 0o1777), ("lib", 0o755), ("sluice", 0o755)):
        (place / folder).mkdir()
        (place / folder).chmod(mode)
    library = shutil.copy(turns_page.build(), place / "lib")
    make("slurm-plugin/node/spank")
    files = PluginFiles(place / "sluice")
    slurm = PrivateSlurm(
        place / "slurm",
        settings={"JobSubmitPlugins": "sluice"},
        plugin_dir=make("slurm-plugin/controller/job_submit") / "plugins",
        environment={"SLUICE_CONF": str(files.config)},
    )
    files.configure()
    try:
        with slurm:
            lab = Lab(slurm, place)
            lab.plugstack(f"turns={library}", f"turns_on={MOUNT}", f"turns_socket={agent.socket}")
            yield Decided(lab, files)
    finally:
        shutil.rmtree(place, ignore_errors=True)


with_and_without_a_note = pytest.mark.parametrize("admin_comment", [0, 1])


@with_and_without_a_note
def test_the_site_lets_all_jobs_take_turns(decided: Decided, admin_comment: int) -> None:
    decided.configure(Turns="all", AdminComment=admin_comment)
    page = "1000:1001 loaded"
    assert decided.said() == [f"script {page}", f"step {page}", f"asks {page}"]
    assert decided.said("--io-turns=no") == ["script none", "step none", f"asks {page}"]
    assert decided.said("--no-sluice") == ["script none", "step none", "asks none"]


def test_srun_by_itself_takes_turns_too(decided: Decided) -> None:
    decided.configure(Turns="all")
    done = decided.lab.srun(*USER, "-N2", "-n2", "sh", "-c", "echo $SLUICE_TURNS $SLUICE_TURNS_JOB")
    first, second = done.stdout.splitlines()
    assert first == second
    assert first.startswith("1000:1001 ")


def test_asked_leaves_the_others_alone(decided: Decided) -> None:
    decided.configure()
    assert decided.said() == ["script none", "step none", "asks 1000:1001 loaded"]


@with_and_without_a_note
@pytest.mark.parametrize("turns", ["asked", "all"])
def test_exempt_jobs_take_none_whatever_they_ask(
    decided: Decided, turns: str, admin_comment: int
) -> None:
    decided.configure(Turns=turns, ModeOf=f"off Users={OTHER_USER}", AdminComment=admin_comment)
    for options in ((), ("--io-turns",)):
        assert decided.said(*options) == ["script none", "step none", "asks none"]
