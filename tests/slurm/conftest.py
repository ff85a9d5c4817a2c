"""Fixtures with real Slurm daemons."""

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from compile_c import compiled, make
from plugin_harness import PluginFiles
from private_slurm import PrivateSlurm

# Two partitions, licences of the site's own, and arrays: what jobs may ask for.
SETTINGS = {"Licenses": "tool:4"}
PARTITIONS = {"main": "Default=YES MaxTime=60", "long": ""}


@pytest.fixture(scope="module")
def lab_directory() -> Iterator[Path]:
    """A directory that every user can enter, as munged and slurmd ask for;
    pytest's own temporary directories cannot be."""
    path = Path(tempfile.mkdtemp(prefix="sluice-lab-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="session")
def plugin_directory() -> Path:
    """Where the freshly built plugin lies."""
    return make("slurm-plugin/controller/job_submit") / "plugins"


@pytest.fixture(scope="session")
def bulk_submit() -> Path:
    """The libslurm client that submits many jobs."""
    return compiled(Path(__file__).with_name("bulk_submit.c"), "-lslurm")


@pytest.fixture(scope="module")
def plain(lab_directory: Path) -> Iterator[PrivateSlurm]:
    """A cluster without Sluice."""
    with PrivateSlurm(lab_directory / "plain", settings=SETTINGS, partitions=PARTITIONS) as slurm:
        yield slurm


@pytest.fixture(scope="module")
def files(lab_directory: Path) -> PluginFiles:
    """The files of the plugin in `guarded`; nothing is there at first."""
    directory = lab_directory / "sluice"
    directory.mkdir()
    return PluginFiles(directory)


@pytest.fixture(scope="module")
def guarded_slurm(
    lab_directory: Path, plugin_directory: Path, files: PluginFiles
) -> Callable[..., PrivateSlurm]:
    """Makes a cluster of this name that loads Sluice; it starts where it is entered."""

    def make_cluster(
        name: str, settings: Mapping[str, str] | None = None, **options: Any
    ) -> PrivateSlurm:
        return PrivateSlurm(
            lab_directory / name,
            settings={"JobSubmitPlugins": "sluice", **(settings or {})},
            plugin_dir=plugin_directory,
            environment={"SLUICE_CONF": str(files.config)},
            **options,
        )

    return make_cluster


@pytest.fixture(scope="module")
def guarded(guarded_slurm: Callable[..., PrivateSlurm]) -> Iterator[PrivateSlurm]:
    """The same cluster as `plain`, with Sluice loaded."""
    with guarded_slurm("guarded", SETTINGS, partitions=PARTITIONS) as slurm:
        yield slurm
