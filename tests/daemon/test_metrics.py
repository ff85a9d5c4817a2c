"""What sluiced tells Prometheus, and that alerts, dashboard and page speak of nothing else."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sluice.history_db.records import Coverage, HeldBurst
from sluice.policies import core
from sluice.policies.record import Record, decide
from sluice.slurm import metrics
from sluice.slurm.gates.leases import Account, Lease
from sluice.slurm.gates.snapshot import LaneLoad
from sluice.slurm.metrics import METRICS, Metrics, Situation, metrics_path
from sluice.slurm.status import Status, learner_path

ROOT = Path(__file__).parents[2]
RULES = ROOT / "slurm-plugin/monitoring/sluice.rules.yml"
DASHBOARD = ROOT / "slurm-plugin/monitoring/sluice-dashboard.json"
PAGE = ROOT / "docs/guide/monitoring.md"
STATS = {
    "submissions": 12,
    "opt_outs": {"option": 2, "update": 1},
    "ring": {"size": 4096, "used": 3, "dropped": 4, "lost": 5},
    "cpu_ns": {"all": {"buckets": [[1000, 3], [2000, 1]], "count": 5, "max": 9000}},
}


@pytest.fixture
def config(tmp_path):
    text = f"Snapshot={tmp_path}/snapshot\nHistory={tmp_path}/h.db\nBundle={tmp_path}/model\n"
    return core.parse_config("sluice.conf", f"{text}OffFile={tmp_path}/off\n".encode())


@pytest.fixture
def situation() -> Situation:
    gate = Account(
        "sl0_stream", 0, "stream", 1_000_000, 2, 3, 2, 0, Lease("sl0_stream", 999_998, 0)
    )
    whole = Coverage(10, 5, 100.0, 25.0, 0.0, 0.0)
    return Situation(Status(), 4, 9, [gate], {"waited": 2}, STATS, 1, whole)


def written(counted: Metrics, config, situation: Situation) -> dict[str, float]:
    counted.write(config, situation)
    return dict(samples(metrics_path(config).read_text()))


def samples(text: str) -> Iterator[tuple[str, float]]:
    for line in text.splitlines():
        if not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            yield name, float(value)


def a_record(name: str) -> Record:
    submission = core.submission({"uid": 1000, "name": name})
    return decide(None, core.default_config(), submission, 1000, boot=1, cluster="c")


def a_burst(began: float, **more) -> HeldBurst:
    values = {
        "cluster": "c",
        "source": "1",
        "number": 1,
        "job_id": 7,
        "nodes": 2,
        "first_job": None,
        "first_nodes": 0,
        "lane_mask": 1,
        "began": int(began),
        "lasted": 9.0,
        "held": 4.0,
        "holds": 3,
        "bytes": 1e9,
        "saving": None,
        "is_held": True,
        "ended": "turn",
    }
    return HeldBurst(**values | more)


def test_the_file_says_what_sluiced_knows(config, situation):
    counted = Metrics()
    counted.add_records([a_record("a"), a_record("b")])
    counted.add_poll(0.25)
    counted.add_poll(0.75)
    later = 2**31
    counted.add_bursts([a_burst(later), a_burst(later, ended="budget")])
    counted.add_bursts([a_burst(0), a_burst(later, is_held=False)])  # of before, and in thought
    found = written(counted, config, situation)
    record = a_record("a").decision
    decided = f'action="{record.action}",reason="{record.reason}"'
    assert found[f"sluice_decisions_total{{{decided}}}"] == 2
    assert found["sluice_poll_seconds_sum"] == 1
    assert found["sluice_poll_seconds_count"] == 2
    assert found["sluice_longest_poll_seconds"] == 0.75
    assert found["sluice_turns_holds_total"] == 6
    assert found["sluice_turns_held_seconds_total"] == 8
    assert found["sluice_turns_budgets_total"] == 1
    gate = 'token="sl0_stream",lane="0",class="stream"'
    assert found[f"sluice_gate_tokens{{{gate}}}"] == 2
    assert found[f"sluice_held_tokens{{{gate}}}"] == 2
    assert found[f"sluice_wanted_tokens{{{gate}}}"] == 3
    assert found['sluice_releases_total{reason="waited"}'] == 2
    assert found['sluice_coverage_share{of="node_seconds"}'] == 0.25
    assert 'sluice_coverage_share{of="bytes"}' not in found
    assert found['sluice_records_lost_total{place="plugin"}'] == 9
    assert found['sluice_submit_cpu_seconds_bucket{le="2e-06"}'] == 4
    assert found['sluice_submit_cpu_seconds_bucket{le="+Inf"}'] == 5
    assert metrics_path(config).stat().st_mode & 0o777 == 0o644
    assert not counted.is_due()


def test_loads_of_lanes_and_rates_of_targets_stand_next_to_what_it_brings(config, situation):
    learned = Status(facts={f"day_{name}_node_hours": 2.5 for name in ("lost", "saved")})
    learned.write(learner_path(Path(config.history)))
    loads = [LaneLoad("sl0", 3, 5e8, 1e9), LaneLoad("sl1", 0, 0.0, None)]
    found = written(Metrics(), config, replace(situation, loads=loads, targets={"OST0001": 7e6}))
    assert found['sluice_lane_load_bytes_per_second{lane="sl0"}'] == 5e8
    assert found['sluice_lane_bandwidth_bytes_per_second{lane="sl0"}'] == 1e9
    assert 'sluice_lane_bandwidth_bytes_per_second{lane="sl1"}' not in found
    assert found['sluice_target_bytes_per_second{target="OST0001"}'] == 7e6
    assert found['sluice_lost_node_hours{of="day"}'] == 2.5
    assert 'sluice_predicted_node_hours{of="day"}' not in found  # not known yet


def test_the_longest_poll_is_that_since_the_last_file(config, situation):
    counted = Metrics()
    counted.add_poll(5.0)
    written(counted, config, situation)
    counted.add_poll(0.5)
    assert written(counted, config, situation)["sluice_longest_poll_seconds"] == 0.5


def test_waits_add_up_but_not_what_an_earlier_sluiced_has_counted(config, situation):
    counted = Metrics()
    counted.add_waits(100.0, 100.0)
    counted.add_waits(13.0, 110.0)
    counted.add_waits(3.0, 1.0)
    found = written(counted, config, situation)
    assert found["sluice_wait_seconds_total"] == 16
    assert found["sluice_longest_wait_seconds"] == 1


def test_what_does_not_answer_is_said_to_be_away(config, situation):
    (Path(config.off_file)).touch()
    status = Status()
    status.fails("controller", "no answer")
    found = written(Metrics(), config, replace(situation, plugin={}, status=status, coverage=None))
    assert found["sluice_plugin_up"] == 0
    assert found["sluice_on"] == 0
    assert found['sluice_failing{daemon="sluiced",topic="controller"}'] == 1
    assert not [name for name in found if name.startswith(("sluice_ring", "sluice_coverage"))]


def test_every_sample_belongs_to_a_metric_that_is_described(config, situation):
    counted = Metrics()
    counted.add_records([a_record("a")])
    for name, _, _ in [*counted._own(), *metrics.of_site(config, situation)]:  # noqa: SLF001
        assert METRICS.get(name) or METRICS[re.sub(r"_(bucket|sum|count)$", "", name)], name


def metrics_in(text: str) -> set[str]:
    named = set(re.findall(r"\bsluice_[a-z0-9_]+", text))
    return {
        name if name in METRICS else re.sub(r"_(bucket|sum|count)$", "", name) for name in named
    }


def test_alerts_ask_for_metrics_that_are_there_and_lead_to_a_heading_that_says_what_to_do():
    text = RULES.read_text()
    alerts = re.findall(r"- alert: (\w+)\n +expr: '(.+)'", text)
    assert len(alerts) == text.count("- alert:") >= 16
    for name, expression in alerts:
        assert metrics_in(expression)
        assert metrics_in(expression) <= METRICS.keys(), name
        assert f"/usr/share/doc/sluice/guide/monitoring.md#{name.lower()}" in text
    section = PAGE.read_text().partition("## What to do at each alert")[2]
    headings = re.findall(r"^### (\w+)\n\n(\S.*)", section, re.MULTILINE)
    assert {heading for heading, _ in headings} == {name for name, _ in alerts}


def test_the_dashboard_shows_every_metric_but_no_other():
    board = json.loads(DASHBOARD.read_text())
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    assert metrics_in(" ".join(asked)) == METRICS.keys()


def test_the_first_row_of_the_dashboard_is_what_sluice_brings():
    panels = json.loads(DASHBOARD.read_text())["panels"]
    top = min(panel["gridPos"]["y"] for panel in panels)
    row = [panel for panel in panels if panel["gridPos"]["y"] == top]
    asked = metrics_in(" ".join(target["expr"] for panel in row for target in panel["targets"]))
    assert asked >= {
        *(f"sluice_{name}_node_hours" for name in ("lost", "predicted", "saved")),
        "sluice_lane_load_bytes_per_second",
        "sluice_target_bytes_per_second",
        "sluice_turns_holds_total",
    }
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels]
    assert len(set(places)) == len(places)
