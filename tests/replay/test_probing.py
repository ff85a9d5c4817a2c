"""What a replay's Sluice has learned was measured in another storage model than answers."""

from dataclasses import replace

import pytest
from ablations import rates_in_mean_field
from mean_field import MeanField

from sluice.interference.programs import KIB, MIB, Program
from sluice.sim.policies import site_bundle
from sluice.sim.policies.site_bundle import programs_of, storage_of_one_target
from sluice.sim.storage.discrete_event import STORAGE_FIELDS, simulate
from sluice.sim.storage.mean_field import NAMES, storage_for

STORAGE = storage_for(64)


def test_a_calibration_is_of_the_request_level_storage_model_and_not_of_the_one_that_answers(
    monkeypatch,
):
    """It comes about where the mean-field storage model cannot be asked at all."""

    def refuse(*_):
        raise AssertionError

    for name in ("start", "rate", "run"):
        monkeypatch.setattr(MeanField, name, refuse)
    monkeypatch.setattr(site_bundle, "CHUNKS", (64 * KIB, MIB))
    slower = replace(STORAGE, numbers={"commit_seconds": 2e-3})
    assert site_bundle.calibrated(slower)["create_overhead"] > 0
    with pytest.raises(AssertionError):
        site_bundle.calibrated(slower, rates_in_mean_field)


def test_one_target_of_a_storage_model_has_its_numbers_and_the_platform_s_round_trips():
    one = storage_of_one_target({"target_bandwidth": 7e8, "metadata_rate": 500.0})
    assert one["target_bandwidth"] == 7e8
    assert one["create_seconds"] == pytest.approx(1 / 500)
    assert one["servers"] == one["targets"] == 1
    assert one["setup_seconds"] > 0


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("number", [1e-9, 1e18])
def test_the_target_of_any_storage_model_is_one_of_the_request_level_storage_model(name, number):
    """Whose numbers have other limits."""
    limits = {field.name: (field.low, field.high) for field in STORAGE_FIELDS}
    for key, value in storage_of_one_target({name: number}).items():
        low, high = limits[key]
        assert low <= value <= high


def test_a_file_for_each_write_without_flushes_keeps_as_many_files_under_way_as_its_window():
    storage = storage_of_one_target({})
    small, large = (
        programs_of(Program("owc", chunk, 2, "none"), storage)[0] for chunk in (MIB, 16 * MIB)
    )
    assert small["processes"] == 2 * storage["flow_window"]
    assert large["processes"] == 2


def test_streams_take_from_small_synchronous_writes_and_hardly_lose_alongside_them():
    """The ordering of Shah et al. (S1), request by request."""
    storage = storage_of_one_target({})
    stream, small = (
        {**programs_of(Program(pattern, 64 * KIB), storage)[0], "operations": 200.0}
        for pattern in ("aw", "ws")
    )
    endless = {"operations": 1e9, "noise": 1.0}

    def kept(probe, signal):
        alone = simulate(storage, [probe])[0].rate
        return simulate(storage, [probe, {**signal, **endless}], stop_share=0.9)[0].rate / alone

    assert kept(small, stream) < 0.5 < kept(stream, small)


def test_a_mix_is_a_program_for_each_of_its_parts_and_loses_as_they_do_on_average():
    storage = storage_of_one_target({})
    mix = Program("ws+aw", 64 * KIB, 3)
    assert [part["processes"] for part in programs_of(mix, storage)] == [2, 1]
    stream = Program("aw", MIB)
    kept = {}
    for program in (mix, Program("ws", 64 * KIB), Program("aw", 64 * KIB)):
        (alone,), (alongside, _) = (
            site_bundle.rates_by_discrete_events({}, programs)
            for programs in ([program], [program, stream])
        )
        kept[program.pattern] = alongside / alone
    assert kept["ws"] < kept["ws+aw"] < kept["aw"]
