"""What the file of the plugin may do while slurmctld has it mapped, and what the doctor says."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import made_model
import pytest
from compile_c import BUILD, ROOT
from plugin_harness import PluginFiles, install
from private_slurm import PrivateSlurm
from sluiced import Sluiced

pytestmark = pytest.mark.slurm

NAME = "job_submit_sluice.so"


@pytest.fixture
def installed(lab_directory: Path, plugin_directory: Path) -> Path:
    """A plugin of this cluster's own."""
    place = lab_directory / "installed"
    place.mkdir(exist_ok=True)
    return Path(shutil.copy(plugin_directory / NAME, place / NAME))


@pytest.fixture
def site(lab_directory: Path, installed: Path, files: PluginFiles) -> Iterator[Sluiced]:
    """A cluster with that plugin; sluiced does not run."""
    install(files.bundle, made_model.bundle())
    install(files.snapshot, made_model.snapshot())
    files.configure()
    with PrivateSlurm(
        lab_directory / "replacing",
        nodes=1,
        settings={"JobSubmitPlugins": "sluice"},
        plugin_dir=installed.parent,
        environment={"SLUICE_CONF": str(files.config)},
    ) as slurm:
        files.wait_until_loaded("bundle", "snapshot")
        yield Sluiced(slurm, files)


def finding(site: Sluiced) -> tuple[str, str]:
    """Level and texts of what the doctor says of the plugin's file."""
    [found] = [f for f in site.findings() if f["topic"] == "plugin's file"]
    return found["level"], found["text"] + found["remedy"]


def replace_by_rename(plugin: Path) -> None:
    """As `make install` does."""
    fresh = plugin.with_suffix(".new")
    shutil.copy(plugin, fresh)
    fresh.rename(plugin)


def test_a_plugin_replaced_by_renaming_is_safe_and_loaded_at_the_next_restart(
    site: Sluiced, installed: Path
) -> None:
    assert finding(site)[0] == "OK"
    replace_by_rename(installed)
    level, text = finding(site)
    assert level == "WARN"
    assert "still runs the old one" in text
    site.slurm.reconfigure()
    assert site.slurm.responds()
    site.slurm.restart_controller()
    site.files.wait_until_loaded("bundle", "snapshot")
    assert finding(site)[0] == "OK"


def test_a_plugin_overwritten_in_place_is_named_and_a_restart_is_what_helps(
    site: Sluiced, installed: Path
) -> None:
    """With the same code and a byte more: other code would end slurmctld before anyone asks."""
    with installed.open("r+b") as file:
        content = file.read()
        file.seek(0)
        file.write(content + b"\0")
    level, text = finding(site)
    assert level == "FAIL"
    assert "restart slurmctld at once; do not reconfigure" in text
    site.slurm.restart_controller()
    site.files.wait_until_loaded("bundle", "snapshot")
    assert finding(site)[0] == "OK"


def test_a_plugin_that_is_gone_is_named(site: Sluiced, installed: Path) -> None:
    installed.unlink()
    level, text = finding(site)
    assert level == "FAIL"
    assert "would not start again" in text


@pytest.mark.parametrize("folder", ["controller/job_submit", "node/spank"])
def test_make_install_leaves_the_file_that_is_mapped_as_it_is(tmp_path: Path, folder: str) -> None:
    words = ("make", "--silent", "-C", ROOT / "slurm-plugin" / folder, f"BUILD={BUILD}", "install")
    words += (f"DESTDIR={tmp_path}", "PLUGIN_DIR=/plugins")
    subprocess.run(words, check=True)
    [plugin] = (tmp_path / "plugins").iterdir()
    with plugin.open("rb") as mapped:
        before = mapped.read()
        subprocess.run(words, check=True)
        mapped.seek(0)
        assert mapped.read() == before
        assert list((tmp_path / "plugins").iterdir()) == [plugin]
        assert plugin.stat().st_ino != Path(f"/proc/self/fd/{mapped.fileno()}").stat().st_ino


def test_files_from_the_future_are_named_with_the_clocks_to_compare(site: Sluiced) -> None:
    install(site.files.bundle, made_model.named_bundle(created=4_000_000_000))
    install(site.files.snapshot, made_model.snapshot(age=-3600))
    seen = site.files.wait_for(lambda seen: "future" in seen["snapshot"]["error"])
    assert seen["snapshot"]["loaded"]  # the one before
    found = {f["topic"]: f for f in site.findings()}
    for topic, level in (("bundle", "WARN"), ("snapshot", "FAIL")):
        assert found[topic]["level"] == level
        assert " in the future" in found[topic]["text"]
        assert "compare `date -u`" in found[topic]["remedy"]
