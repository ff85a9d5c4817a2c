"""A private Slurm with real accounting: slurmdbd, and a MariaDB of its own.

Both live below the cluster's directory, on free ports of the loopback address, and end with it.

The slurmctld of 22.05.8 ends with SIGSEGV, without a line in its log, when `sacctmgr add user`
gives a user an association without a default QoS: it tests bit 0xffffffff of a small bitmap
(`slurm_bit_test` in `assoc_mgr_update_assocs`), which hits unmapped memory or not. With
`defaultqos=normal` it lives, so `add_user` gives one.
"""

import os
import pwd
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from private_slurm import PrivateSlurm, free_ports, system_plugin_dir


class AccountedSlurm(PrivateSlurm):
    """A private cluster whose jobs `sacct` knows, with the bytes that their steps moved."""

    def __init__(
        self,
        directory: Path | str,
        *,
        nodes: int = 2,
        plugin_dir: Path | None = None,
        settings: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._database_port, self._slurmdbd_port = free_ports(2)
        self._user = pwd.getpwuid(os.geteuid()).pw_name
        accounting = {
            "AccountingStorageType": "accounting_storage/slurmdbd",
            "AccountingStorageHost": "127.0.0.1",
            "AccountingStoragePort": str(self._slurmdbd_port),
            "AccountingStoragePass": f"{Path(directory).resolve()}/munge/socket",
            "JobAcctGatherType": "jobacct_gather/linux",
            "JobAcctGatherFrequency": "task=1",
        }
        super().__init__(
            directory,
            nodes=nodes,
            plugin_dir=plugin_dir,
            settings=accounting | dict(settings or {}),
            environment=environment,
        )

    def start_controller(self) -> None:
        """Start slurmctld, and before it what keeps its accounts."""
        if self._pid("mariadbd") is None:
            self._start_database()
            self._start_slurmdbd()
        super().start_controller()

    def down(self) -> None:
        super().down()
        self._stop("slurmdbd")
        self._stop("mariadbd")

    def add_user(self, user: str, account: str) -> None:
        """Give a user an association with an account, which is made if it is not there."""
        self.run("sacctmgr", "--immediate", "add", "account", account, check=False)
        self.run(
            "sacctmgr", "--immediate", "add", "user", user, f"account={account}",
            "defaultqos=normal",
        )  # fmt: skip

    def _start_database(self) -> None:
        """Start a database without users: nobody else is let into the directory's socket."""
        place = self.directory / "database"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(mode=0o700)
        options = {
            "datadir": place,
            "socket": place / "socket",
            "bind-address": "127.0.0.1",
            "port": self._database_port,
            "pid-file": self._pid_file("mariadbd"),
            "user": self._user,
            "character-set-server": "utf8mb4",
            "innodb-flush-log-at-trx-commit": 0,
        }
        words = [f"--{key}={value}" for key, value in options.items()]
        with (self.directory / "log" / "mariadbd.out").open("w") as log:
            subprocess.Popen(
                ["mariadbd", "--no-defaults", "--skip-grant-tables", *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self.client_environment(),
            )
        self._wait("mariadbd", (place / "socket").exists)

    def _start_slurmdbd(self) -> None:
        place = self.directory
        settings = {
            "AuthType": "auth/munge",
            "AuthInfo": f"socket={place}/munge/socket",
            "DbdHost": "localhost",
            "DbdAddr": "127.0.0.1",
            "DbdPort": self._slurmdbd_port,
            "SlurmUser": self._user,
            "StorageType": "accounting_storage/mysql",
            "StorageHost": "127.0.0.1",
            "StoragePort": self._database_port,
            "StorageUser": "root",
            "StorageLoc": "accounts",
            "PidFile": self._pid_file("slurmdbd"),
            "LogFile": f"{place}/log/slurmdbd.log",
            "PluginDir": system_plugin_dir(),
        }
        conf = place / "etc" / "slurmdbd.conf"  # next to slurm.conf: there is no option for it
        conf.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        conf.chmod(0o600)
        program = place / "run" / "slurmdbd"  # by a name below the directory it is known as ours
        program.symlink_to(shutil.which("slurmdbd") or "slurmdbd")
        self._launch("slurmdbd", [program])
        add = ("sacctmgr", "--immediate", "add", "cluster", self.settings.get("ClusterName", "lab"))
        self._wait("slurmdbd", lambda: self.run(*add, check=False).returncode == 0)
