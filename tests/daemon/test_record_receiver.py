"""The drainer loses no record while there is room for it anywhere, and counts those it loses."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sluice.history_db.errors import HistoryError
from sluice.history_db.store import Store
from sluice.policies import core
from sluice.policies.record import RECORD_SIZE, Record, decide
from sluice.slurm import record_receiver
from sluice.slurm.plugin_client import PluginClient
from sluice.slurm.record_receiver import Drainer
from sluice.slurm.records import SlurmError

PATIENCE = 30.0  # seconds


class Plugin:
    """Serves a ring of records as the plugin does."""

    def __init__(self, path: Path) -> None:
        self.ring: list[Record] = []
        self.boot = 0xB0
        self.stats = b'{"submissions": 7}\n'
        self._made = 0
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(path))
        self._server.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def submit(self, count: int) -> None:
        submission = core.submission({"uid": 1000, "name": "run"})
        config = core.default_config()
        record = decide(None, config, submission, 1000, boot=self.boot, cluster="lab")
        for _ in range(count):
            self._made += 1
            record.struct.number = self._made
            self.ring.append(Record(record.struct))

    def _serve(self) -> None:
        while True:
            client, _ = self._server.accept()
            with client:
                words = client.makefile().readline().split()
                if words == ["stats"]:
                    client.sendall(self.stats)
                    continue
                _, boot, after, count = words
                if int(boot, 16) == self.boot:
                    self.ring = [one for one in self.ring if one.number > int(after)]
                rows = self.ring[: int(count)]
                head = f"records {len(rows)} {RECORD_SIZE} {self.boot:016x} 0\n"
                client.sendall(head.encode() + b"".join(row.bytes for row in rows))


@pytest.fixture
def plugin(tmp_path) -> Plugin:
    return Plugin(tmp_path / "plugin.sock")


@pytest.fixture
def drained(plugin, tmp_path, monkeypatch) -> Iterator[Drainer]:  # noqa: ARG001 # it serves
    """A drainer at work; there is no history until its directory is made."""
    monkeypatch.setattr(record_receiver, "BATCH", 10)
    monkeypatch.setattr(record_receiver, "KEPT", 30)
    monkeypatch.setattr(record_receiver, "LONG_PAUSE", 0.05)
    monkeypatch.setattr(record_receiver, "STATS_SECONDS", 0.0)
    client = PluginClient(tmp_path / "plugin.sock", RECORD_SIZE)
    drained = Drainer(client, tmp_path / "lib" / "history.db", lambda _checksum: None)
    drained.start()
    yield drained
    drained.close()


def wait_for(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def stored(tmp_path: Path) -> list[int]:
    with Store(tmp_path / "lib" / "history.db") as store:
        return sorted(row.number for row in store.decisions.latest_decisions(1000))


def test_records_are_stored_and_then_acknowledged(plugin, drained, tmp_path):
    (tmp_path / "lib").mkdir()
    plugin.submit(25)
    assert drained.wait(PATIENCE)
    assert [record.number for record in drained.arrived()] == list(range(1, 26))
    assert drained.arrived() == []
    assert stored(tmp_path) == list(range(1, 26))
    wait_for(lambda: not plugin.ring)
    assert not drained.is_behind


def test_while_nothing_can_be_stored_few_records_stay_with_the_plugin(plugin, drained, tmp_path):
    plugin.submit(5)
    assert drained.wait(PATIENCE)
    assert [record.number for record in drained.arrived()] == [1, 2, 3, 4, 5]
    with pytest.raises(HistoryError):
        drained.raise_error(HistoryError)
    assert drained.is_behind
    assert len(plugin.ring) == 5
    (tmp_path / "lib").mkdir()
    wait_for(lambda: not plugin.ring)
    assert stored(tmp_path) == [1, 2, 3, 4, 5]
    assert drained.arrived() == []


def test_many_are_kept_in_memory_and_what_is_too_much_is_counted(plugin, drained, tmp_path):
    plugin.submit(65)
    wait_for(lambda: len(plugin.ring) < 10)  # there is room for new ones
    assert drained.lost == 30
    (tmp_path / "lib").mkdir()
    wait_for(lambda: not plugin.ring and not drained.is_behind)
    assert stored(tmp_path) == list(range(31, 66))
    assert len(drained.arrived()) == 65
    with Store(tmp_path / "lib" / "history.db") as store:
        assert store.decisions.losses(since=0) == 30


def test_another_life_of_the_plugin_starts_at_one_again(plugin, drained, tmp_path):
    (tmp_path / "lib").mkdir()
    plugin.submit(3)
    assert drained.wait(PATIENCE)
    wait_for(lambda: not plugin.ring)
    plugin.boot, plugin._made = 0xA0, 0  # noqa: SLF001 # as a new slurmctld
    plugin.submit(2)
    assert drained.wait(PATIENCE)
    keys = [record.key for record in drained.arrived()]
    assert keys == [(0xB0, 1), (0xB0, 2), (0xB0, 3), (0xA0, 1), (0xA0, 2)]


def test_a_plugin_that_nobody_serves_is_told(tmp_path):
    drained = Drainer(
        PluginClient(tmp_path / "none.sock", RECORD_SIZE), tmp_path / "history.db", lambda _: None
    )
    drained.start()
    assert not drained.wait(PATIENCE)
    with pytest.raises(SlurmError, match=r"none\.sock"):
        drained.raise_error(SlurmError)
    drained.close()


def test_what_the_plugin_counts_is_known_and_nonsense_holds_no_record_up(plugin, drained):
    wait_for(lambda: drained.stats == {"submissions": 7})
    plugin.stats = b"hello\n"
    plugin.submit(3)
    assert drained.wait(PATIENCE)
    assert len(drained.arrived()) == 3
    wait_for(lambda: drained.stats == {})
