"""Nodes without slurm.conf: they get it, and what names the plugin, from slurmctld."""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from compile_c import make
from plugin_harness import PluginFiles
from private_slurm import PrivateSlurm
from sluiced import Sluiced

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.skipif(os.geteuid() != 0, reason="gives a node a /run of its own"),
]

# What it asks with before it knows which socket of munged is meant
START = """\
mount -t tmpfs tmpfs /run && mkdir /run/munge && ln -s "$0" /run/munge/munge.socket.2 && exec "$@"
"""


class Configless(PrivateSlurm):
    """A private Slurm whose nodes ask slurmctld for their configuration."""

    spank: Path

    def write_config(self) -> None:
        super().write_config()
        text = self.slurm_conf.read_text()
        self.slurm_conf.write_text(re.sub("PlugStackConfig=.*\n", "", text))
        self.slurm_conf.with_name("plugstack.conf").write_text(f"required {self.spank}\n")

    def start_node(self, name: str) -> None:
        port = self._ports[0]
        environment = self.client_environment()
        del environment["SLURM_CONF"]
        slurmd = ["slurmd", "-N", name, "--conf-server", f"127.0.0.1:{port}"]
        munge = self.directory / "munge/socket"
        log = self.directory / f"log/{name}.log"  # its name tells the daemon from others
        subprocess.run(
            ["unshare", "--mount", "sh", "-c", START, munge, *slurmd, "-L", log],
            env=environment,
            check=True,
            timeout=30,
        )


@pytest.fixture
def files(lab_directory) -> PluginFiles:
    directory = lab_directory / "sluice"
    directory.mkdir()
    files = PluginFiles(directory)
    files.configure(FollowInterval=100)
    return files


@pytest.fixture
def slurm(lab_directory, plugin_directory, files) -> Iterator[Configless]:
    slurm = Configless(
        lab_directory / "configless",
        nodes=1,
        settings={
            "JobSubmitPlugins": "sluice",
            "SlurmctldParameters": "enable_configless",
            "SlurmdDebug": "debug",
        },
        plugin_dir=plugin_directory,
        environment={"SLUICE_CONF": str(files.config)},
    )
    slurm.spank = make("slurm-plugin/node/spank") / "plugins/spank_sluice.so"
    with slurm:
        yield slurm


def test_jobs_on_them_are_decided_and_their_steps_load_what_plugstack_conf_names(slurm, files):
    daemon = Sluiced(slurm, files).start()
    done = slurm.run("srun", "--no-sluice", "sh", "-c", "echo $SLURMD_NODENAME")
    assert done.stdout == "n1\n"
    job = slurm.submit("-J", "configless", "--wrap=true")
    slurm.wait_for_job(job, "COMPLETED")
    assert daemon.wait_until_joined(job)[job]["name"] == "configless"
    daemon.stop()
    cached = slurm.directory / "spool/n1/conf-cache/plugstack.conf"
    assert str(slurm.spank) in cached.read_text()
