"""The options that users see, and how they reach job_submit."""

from pathlib import Path

import pytest
from spank_lab import Lab

pytestmark = pytest.mark.slurm

OPTIONS = ("--io-dir=", "--io-turns", "--io-stage", "--no-sluice")
PREFIX = "_SLURM_SPANK_OPTION_sluice_"


def seen_by_job_submit(lab: Lab) -> list[set[str]]:
    """Our entries of spank_job_env, one set a submission; forgets them."""
    probe = lab.place / "options"
    lines = probe.read_text().splitlines() if probe.exists() else []
    probe.unlink(missing_ok=True)
    return [{word for word in line.split("\t")[1:] if PREFIX in word} for line in lines]


@pytest.mark.parametrize("command", ["sbatch", "srun", "salloc"])
def test_help_lists_each_option_with_a_line_that_says_whose_it_is(lab: Lab, command: str) -> None:
    words = lab.slurm.run(command, "--help").stdout.split()
    for option in OPTIONS:
        at = next(i for i, word in enumerate(words) if word.startswith(option))
        assert words[at + 1] == "[sluice]"


def test_values_reach_job_submit_as_they_were_typed(lab: Lab) -> None:
    options = ["--io-turns=no", "--io-dir=/s/%j x"]
    expected = {f"{PREFIX}io_turns=no", f"{PREFIX}io_dir=/s/%j x"}
    seen_by_job_submit(lab)
    lab.slurm.submit("--hold", *options, "--wrap=true")
    lab.srun(*options, "true")
    lab.slurm.run("salloc", "--quiet", *options, "true")
    assert seen_by_job_submit(lab) == [expected, expected, expected]


def test_opting_out_reaches_job_submit(lab: Lab) -> None:
    seen_by_job_submit(lab)
    lab.slurm.submit("--hold", "--no-sluice", "--wrap=true")
    assert seen_by_job_submit(lab) == [{f"{PREFIX}no_sluice=(null)"}]


def test_a_scripts_own_lines_count_and_the_command_line_overrides_them(lab: Lab) -> None:
    script = lab.place / "options.sh"
    script.write_text("#!/bin/sh\n#SBATCH --io-dir=/a/1 --io-turns=no\ntrue\n")
    seen_by_job_submit(lab)
    lab.slurm.submit("--hold", script)
    lab.slurm.submit("--hold", "--io-dir=/a/2", script)
    assert seen_by_job_submit(lab) == [
        {f"{PREFIX}io_dir=/a/1", f"{PREFIX}io_turns=no"},
        {f"{PREFIX}io_dir=/a/2", f"{PREFIX}io_turns=no"},
    ]


def test_each_component_of_a_heterogeneous_job_has_its_own_values(lab: Lab) -> None:
    script = lab.place / "het-options.sh"
    script.write_text("#!/bin/sh\ntrue\n")
    seen_by_job_submit(lab)
    lab.slurm.submit("--hold", "-n1", "--io-dir=/a/1", ":", "-n1", "--io-dir=/a/2", script)
    assert seen_by_job_submit(lab) == [{f"{PREFIX}io_dir=/a/1"}, {f"{PREFIX}io_dir=/a/2"}]


@pytest.mark.parametrize("command", ["sbatch", "srun", "salloc"])
@pytest.mark.parametrize(
    ("option", "remedy"),
    [
        ("--io-turns=maybe", "give no value, or =no"),
        ("--io-dir=relative", "give an absolute path"),
    ],
)
def test_a_wrong_value_ends_the_command_as_slurms_own_would(
    lab: Lab, command: str, option: str, remedy: str
) -> None:
    name, value = option.split("=")
    words = ["--wrap=true"] if command == "sbatch" else ["true"]
    ours = lab.slurm.run(command, option, *words, check=False)
    slurms = lab.slurm.run(command, "--time=nonsense", *words, check=False)
    assert ours.returncode == slurms.returncode != 0
    assert ours.stdout == slurms.stdout == ""
    first, second = ours.stderr.splitlines()
    assert first.startswith(f"{command}: error: {name}: {remedy}")
    assert second == f"{command}: error: Invalid {name} argument: {value}"


def test_steps_accept_the_options_of_their_job(lab: Lab) -> None:
    """Slurm hands them on through the environment, where they are read again."""
    options = ("--io-turns=no", "--no-sluice")
    # quiet: on a busy machine srun tells that the nodes are, until the step before is gone
    _, text = lab.script(*options, body="srun --quiet echo step; srun --quiet echo step")
    assert text == "step\nstep\n"


def test_options_do_not_need_the_plugin_to_be_configured(lab: Lab) -> None:
    lab.plugstack("")
    assert lab.srun("--io-dir=/a/1", "echo", "ran").stdout == "ran\n"


def test_documentation_lists_every_option() -> None:
    text = (Path(__file__).parents[2] / "docs" / "reference" / "spank.md").read_text()
    for option in OPTIONS:
        assert f"`{option.rstrip('=')}" in text
