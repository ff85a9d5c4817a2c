"""Several clusters whose sluiced share one history."""

import pytest
from plugin_harness import PluginFiles
from private_slurm import PrivateSlurm
from sluiced import Sluiced

from sluice.history_db.store import Store

pytestmark = pytest.mark.slurm


def test_each_cluster_finds_its_own_jobs_though_numbers_and_names_are_the_same(
    lab_directory, plugin_directory
):
    history = lab_directory / "history.db"
    jobs = {}
    for name in ("east", "west"):
        directory = lab_directory / name
        directory.mkdir()
        files = PluginFiles(directory)
        files.configure(FollowInterval=100, History=str(history))
        slurm = PrivateSlurm(
            directory / "slurm",
            nodes=1,
            settings={"ClusterName": name, "JobSubmitPlugins": "sluice"},
            plugin_dir=plugin_directory,
            environment={"SLUICE_CONF": str(files.config)},
        )
        with slurm:
            daemon = Sluiced(slurm, files)
            daemon.history = history
            daemon.start()
            jobs[name] = slurm.submit("-J", "twin", "--wrap=true")
            slurm.wait_for_job(jobs[name], "COMPLETED")
            daemon.wait_until_joined(jobs[name])
            told = daemon.sluice("why", str(jobs[name]), "--cluster", name)
            assert told["record"]["cluster"] == name
            daemon.stop()
    assert jobs["east"] == jobs["west"]
    with Store(history, read_only=True) as store:
        found = store.jobs.jobs_with_id(jobs["east"])
    assert sorted(job.cluster for job in found) == ["east", "west"]
