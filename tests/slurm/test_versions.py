"""The project on other versions of Slurm, in roots of the releases that have them."""

import os
import subprocess

import pytest
from slurm_root import RELEASES, SOURCES, UBUNTU, VENV, SlurmRoot

from sluice.slurm import plugin_client

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.acceptance,
    pytest.mark.skipif(os.geteuid() != 0, reason="makes roots and enters them"),
]

RUNNING = [version for version, release in RELEASES.items() if release.runs]
SPANK_PLUGIN = "spank_sluice.so"
PYTEST = (VENV / "bin/python", "-m", "pytest", "-q", "-p", "no:cacheprovider")
# Of the tests that wait for leases by the clock, those of each law once: who waits, who is
# released, what opens a gate, and what a crash may cost. All run on the machine's own Slurm.
GATES = (
    "waits_for_the_one or classes_are_gated or released_as_a_whole or max_delay or"
    " off_opens or off_works or leases_run_out or crash_of_slurmctld or deleted_by_hand"
)
PATIENCE = 1500  # seconds; far more than any of it takes
TAIL = 12_000  # characters of an output that show what went wrong


def made(version: str) -> SlurmRoot:
    root = SlurmRoot(version)
    root.make()
    return root


def assert_succeeded(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 0, done.stdout[-TAIL:]


@pytest.mark.parametrize("version", RELEASES)
def test_the_plugins_build_without_a_warning(version: str) -> None:
    if not RELEASES[version].is_within_reach:
        pytest.skip(f"{UBUNTU} does not say where Ubuntu's archive is")
    root = made(version)
    done = root.build("plugin", "feed")
    assert_succeeded(done)
    assert "warning:" not in done.stdout
    place = root.path / SOURCES.relative_to("/") / "build/plugins"
    assert {plugin.name for plugin in place.iterdir()} == {plugin_client.NAME, SPANK_PLUGIN}
    built = plugin_client.built_for(place / plugin_client.NAME)
    print(f"Slurm {built} of {root.release.suite}")
    assert built.startswith(f"{version}.")


@pytest.mark.parametrize("version", RUNNING)
def test_the_tests_of_real_controllers_pass(version: str) -> None:
    root = made(version)
    assert_succeeded(root.build(f"{VENV}/.linked", "build"))
    for chosen in (
        ("-m", "not acceptance", "tests/slurm", "tests/spank"),
        ("-m", "not acceptance", "tests/agent", "tests/shim"),
        ("-m", "slurm", "-k", GATES, "tests/slurm/test_gatekeeping.py"),
    ):
        done = root.run(*PYTEST, "-n2", "--dist=loadfile", *chosen, timeout=PATIENCE)
        print(f"Slurm {version}, {root.release.suite}: {done.stdout.splitlines()[-1]}")
        assert_succeeded(done)
