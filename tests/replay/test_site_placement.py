"""What `sluice site assess` and `report` say of placement at a site."""

import json

import pytest
from click.testing import CliRunner
from striped_site import StripedSite, count_servers

from sluice.cli.main import main
from sluice.cli.site.levers import nothing_to_gain
from sluice.history_db.store import Store
from sluice.policies.core import parse_config
from sluice.sim.replay.levers import LAWS, LEVERS, experiment_of, levers, replays
from sluice.sim.replay.site_placement import (
    EVENLY,
    LINKS_FULL,
    NEED_SLUICE,
    ONE,
    OWN_ALLOCATOR,
    POOL,
    TOO_MANY,
    TWICE,
    UNDISTURBED,
    UNKNOWN,
    SitePlacement,
    site_placement,
)
from sluice.slurm.doctor.site_discovery import own_allocator

SITE = StripedSite(targets=32, load=0.4, jobs=150)
AT_CREATE = "placement at create"


def written(folder, site=SITE, *, targets=None):
    """Write a history and a configuration, and return the options that name them."""
    site.write(folder / "history.db")
    count = targets or site.targets
    lane = f"Lane=sl0 Targets={count} Bandwidth={site.bandwidth:.0f}"
    (folder / "sluice.conf").write_text(f"{lane}\nBundle={folder}/none.bundle\n")
    return ["--history", str(folder / "history.db"), "--config", str(folder / "sluice.conf")]


def ask(words):
    done = CliRunner().invoke(main, words, catch_exceptions=False)
    assert done.exit_code in {0, 3, 4}, done.output
    return done.stdout


def assess(files, *words):
    return ask(["site", "assess", "--draws", "2", *files, *words])


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return written(tmp_path_factory.mktemp("striped"))


@pytest.fixture(scope="module")
def told(files):
    return json.loads(assess(files, "--json"))


def worths(told, lever):
    return [one for one in told["levers"] if one["lever"] == lever]


def test_placement_is_replayed_on_the_single_targets_of_the_site_with_the_other_levers(told):
    """The cheap remedy stands first; all save most of what is lost there, in every draw."""
    names = [(one["law"], one["lever"]) for one in told["levers"]]
    of_lanes = [(law, lever) for law in LAWS for lever in LEVERS]
    of_targets = [(law, lever) for law in LAWS for lever in (POOL, *NEED_SLUICE)]
    assert names == [*of_lanes, *of_targets]
    found = told["placement"]
    assert (found["targets"], found["targets_from"]) == (32, "lanes of the configuration")
    assert found["used"] == {"median": 1.0, "least": 1.0, "most": 4.0}
    assert found["nothing_to_gain"] is None
    for law, storage in zip(LAWS, found["storages"], strict=True):
        for lever in (POOL, *NEED_SLUICE):
            (worth,) = (one for one in worths(told, lever) if one["law"] == law)
            assert 0.6 * storage["replayed_slot_hours"] < worth["saved"]
            assert worth["saved_interval"]["low"] > 0
            assert worth["pays"]
            assert worth["held"] == 0
    assert set(NEED_SLUICE) < set(told["levers_of_sluice_that_pay"])
    assert POOL not in told["levers_of_sluice_that_pay"]


def test_text_and_report_say_the_same_as_the_json(files, told, tmp_path):
    page = tmp_path / "report.html"
    since = ["--since", "10y", "--draws", "2"]
    texts = [assess(files), ask(["report", *since, *files, "--html", str(page)])]
    for text in (*texts, page.read_text()):
        assert "Placement: 32 targets (lanes of the configuration)" in text
        assert "Big writers: solverc (u2), solverb (u1)." in text
        assert AT_CREATE in text
    report = json.loads(ask(["report", *since, *files, "--json"]))
    assert report["levers"] == told["levers"]
    assert report["placement"] == told["placement"]


def test_programs_slower_than_their_targets_are_named_with_what_twice_as_many_bring(tmp_path):
    """Two fit on one target then."""
    slow = StripedSite(targets=16, load=0.7, jobs=150, driven=0.5, placement="chance")
    found = json.loads(assess(written(tmp_path, slow), "--json"))
    named = [one for one in found["placement"]["levers"] if one.startswith(TWICE)]
    assert named
    assert named == found["placement"]["levers"][: len(named)]
    for lever in named:
        assert max(one["saved"] for one in worths(found, lever)) > 0
        assert lever not in found["levers_of_sluice_that_pay"]


def test_placement_is_not_said_to_pay_where_creates_of_others_are_not_known(tmp_path):
    """Its rows are the most that it could save."""
    unknown = StripedSite(targets=32, load=0.4, jobs=100, files=None)
    files = written(tmp_path, unknown)
    found = json.loads(assess(files, "--json"))
    (*_, at_create) = worths(found, AT_CREATE)
    assert at_create["saved"] > 0
    assert at_create["is_at_most"]
    assert not at_create["pays"]
    assert not set(NEED_SLUICE) & set(found["levers_that_pay"])
    assert "nothing where that choice is undisturbed" in assess(files)


@pytest.mark.parametrize(
    ("site", "targets", "words"),
    [
        (StripedSite(targets=8, widths=(8, 8), jobs=100), None, "goes to all 8 targets"),
        (StripedSite(targets=16, files=3.0, jobs=100), None, "targets in turn"),
        (StripedSite(targets=16, jobs=100), 1, "has one target"),
    ],
    ids=["all on all targets", "undisturbed", "one target"],
)
def test_assess_says_why_there_is_nothing_to_gain_and_replays_none_of_it(
    tmp_path, site, targets, words
):
    said = assess(written(tmp_path, site, targets=targets))
    (line,) = (line for line in said.splitlines() if line.startswith("Placement"))
    assert line.startswith("Placement has nothing to gain: ")
    assert words in line
    assert AT_CREATE not in said


def known(folder, site=SITE, *, conf="", own="", **changes):
    """Return what is known of placement at a site."""
    path = folder / "history.db"
    settings = parse_config("conf", conf.encode())
    asked = experiment_of(path, settings, bandwidth=site.bandwidth)
    told = {"bandwidth": site.bandwidth, "is_told": True, "own_allocator": own} | changes
    with Store(path, read_only=True) as store:
        return site_placement(asked, store, settings, **told)


def lane(targets):
    return f"Lane=sl0 Targets={targets} Bandwidth=16G\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("known")
    SITE.write(made / "history.db")
    return made


@pytest.mark.parametrize(
    ("conf", "own", "reason"),
    [
        (lane(32), "", ""),
        (lane(1), "", ONE),
        (lane(600), "", TOO_MANY),
        (lane(32), "MooseFS", OWN_ALLOCATOR),
    ],
)
def test_the_number_of_targets_and_the_allocator_may_rule_placement_out(folder, conf, own, reason):
    found = known(folder, conf=conf, own=own)
    assert found.nothing == reason
    assert bool(nothing_to_gain(found)) == bool(reason)
    assert (found.experiment is None) == bool(reason)


def test_logs_that_name_no_target_leave_their_number_unknown(tmp_path):
    path = tmp_path / "history.db"
    with Store(path, create=True):
        pass
    found = known(tmp_path)
    assert (found.nothing, found.targets) == (UNKNOWN, 0)
    count_servers(path, [[1e9] * 6])
    with Store(path, read_only=True) as store:
        assert store.interference.target_counts().targets == 6


@pytest.mark.parametrize(
    ("moved", "changes", "reason"),
    [
        ([[3e9, *[1e8] * 31], [1e8, 3e9, *[1e8] * 30]], {}, ""),
        ([[1e9] * 32, [2e9] * 32], {}, EVENLY),
        ([[1e12 * (t == i) for t in range(32)] for i in range(32)], {}, LINKS_FULL),
        ([[1e12 * (t == i) for t in range(32)] for i in range(32)], {"is_told": False}, ""),
    ],
    ids=["uneven", "even", "links", "bandwidth not told"],
)
def test_the_servers_counts_tell_even_load_and_full_links(tmp_path, moved, changes, reason):
    """Links are full where each target has moved a larger share than all may together."""
    SITE.write(tmp_path / "history.db")
    count_servers(tmp_path / "history.db", moved, seconds=10.0)
    found = known(tmp_path, **changes)
    assert (found.targets_from, found.targets) == ("servers' counts", 32)
    assert found.nothing == reason
    assert found.busiest == pytest.approx(
        32 * sum(map(max, moved)) / sum(map(sum, moved)), rel=1e-6
    )


def test_few_creates_tell_nothing_where_many_jobs_have_no_log(tmp_path):
    """And that an allocator is undisturbed only where logs tell of nearly all jobs."""
    for logged, reason in ((1, UNDISTURBED), (2, "")):
        place = tmp_path / str(logged)
        place.mkdir()
        site = StripedSite(targets=32, load=0.4, jobs=120, files=3.0, logged=logged)
        site.write(place / "history.db")
        found = known(place, site, conf=lane(32))
        assert (found.nothing, found.is_at_most) == (reason, True)


def test_a_job_may_be_called_anything(tmp_path):
    """Its name is one printable line."""
    site = StripedSite(targets=32, load=0.4, jobs=60, name="a\x1b[2J\n: ")
    site.write(tmp_path / "history.db")
    names = known(tmp_path, site, conf=lane(32)).big_writers
    assert names
    assert all(name.isprintable() for name in names)


def test_as_many_replays_are_announced_as_are_made(folder):
    placement = known(folder, conf=lane(32))
    asked = experiment_of(folder / "history.db", parse_config("conf", b""), bandwidth=16e9)
    done: list[int] = []
    levers(asked, placement, bandwidth=16e9, laws=("jobs",), repeats=0, advance=done.append)
    assert sum(done) == replays(("jobs",), 0, placement)
    assert replays(tuple(LAWS), 0, SitePlacement()) == 2 * (len(LEVERS) + 1)


@pytest.mark.parametrize(
    ("kinds", "name"),
    [
        (("ext4", "tmpfs"), ""),
        (("ext4", "fuse.mfs"), "MooseFS"),
        (("fuse.moosefs",), "MooseFS"),
        (("fuse.mfs", "lustre"), ""),
    ],
)
def test_moosefs_is_known_by_its_mounts_where_no_other_file_system_is(tmp_path, kinds, name):
    mounts = tmp_path / "mounts"
    mounts.write_text("".join(f"dev{i} /mnt/{i} {kind} rw 0 0\n" for i, kind in enumerate(kinds)))
    assert own_allocator(mounts) == name
