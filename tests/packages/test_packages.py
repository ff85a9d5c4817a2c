"""Packages, built in one root and used in another that has Slurm alone."""

import os
import re
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from made_logs import MadeLog, appended
from slurm_root import SOURCES, SlurmRoot

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.acceptance,
    pytest.mark.skipif(os.geteuid() != 0, reason="makes roots and enters them"),
]

BUILDS = (
    *("build-essential", "debhelper", "dh-python", "rpm", "ca-certificates", "mount"),
    *("libdeflate-dev", "libmunge-dev", "libslurm-dev"),
    *("python3-cffi", "python3-click", "python3-dev", "python3-pip", "python3-setuptools"),
    *("furo", "python3-myst-parser", "python3-sphinx"),
)
SLURM = ("slurmctld", "slurmd", "slurm-client", "munge", "mount")  # mount: to enter the root
REQUIRED = (
    *("libdeflate0", "python3-cffi-backend", "python3-click", "python3-numpy", "python3-rich"),
    *("python3-scipy", "python3-sklearn", "python3-threadpoolctl"),
)
NAMES = ("sluice", "sluice-tools", "sluice-plugins", "sluice-node")
PATIENCE = 3000  # seconds; far more than any of it takes
HERE = Path(__file__).parent
GUIDE = HERE.parents[1] / "docs/guide/first-month.md"
A_LOG = HERE.parent / "data/darshan/015_ior_ws_posix_128K_n1_fpp.darshan"


@pytest.fixture(scope="module")
def builder() -> SlurmRoot:
    root = SlurmRoot("22.05", "builds", BUILDS)
    root.make()
    return root


def made(root: SlurmRoot, kind: str) -> Path:
    """Make packages of a kind in the root; returns the directory that they are in."""
    done = root.run("make", kind, "RPMBUILD=--nodeps", timeout=PATIENCE)
    assert done.returncode == 0, done.stdout[-12_000:]
    return root.path / SOURCES.relative_to("/") / "build/packages"


@pytest.fixture(scope="module")
def debs(builder: SlurmRoot) -> dict[str, Path]:
    place = made(builder, "deb")
    return {name: next(place.glob(f"{name}_*.deb")) for name in NAMES}


@pytest.fixture
def site() -> Iterator[SlurmRoot]:
    """A copy of a root with Slurm and nothing else."""
    yield from a_copy("slurm-alone", SLURM)


@pytest.fixture
def rpm_site() -> Iterator[SlurmRoot]:
    """One that has rpm, and of Debian what the packages require."""
    yield from a_copy("rpm-site", (*SLURM, "rpm", *REQUIRED))


def a_copy(name: str, packages: Sequence[str]) -> Iterator[SlurmRoot]:
    root = SlurmRoot("22.05", name, packages)
    root.make()
    clean, root.path = root.path, root.path.with_name("site-of-packages")
    subprocess.run(["rm", "-rf", root.path], check=True)
    subprocess.run(["cp", "-a", clean, root.path], check=True)
    yield root
    subprocess.run(["rm", "-rf", root.path], check=True)


def put(site: SlurmRoot, *paths: Path) -> None:
    subprocess.run(["cp", "-r", *paths, site.path / "srv"], check=True)


def field(deb: Path, name: str) -> str:
    words = ["dpkg-deb", "--field", deb, name]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def test_the_plugins_depend_on_the_very_slurm_that_they_were_built_for(debs):
    depends = field(debs["sluice-plugins"], "Depends")
    low, high = re.findall(r"slurm-wlm-basic-plugins \((?:>=|<<) ([^)]+)\)", depends)
    assert (low, high) == ("22.05.8", "22.05.9~")


def test_who_only_assesses_gets_no_compiler_and_assesses(debs, site):
    """By apt, in a root without Slurm's daemons at work; what Debian's SciPy would bring."""
    put(site, debs["sluice-tools"], A_LOG)
    words = "apt-get update && apt-get install -y --no-install-recommends"
    done = site.run("sh", "-c", f"{words} /srv/{debs['sluice-tools'].name}", timeout=PATIENCE)
    assert done.returncode == 0, done.stdout[-12_000:]
    listed = site.run("dpkg-query", "-W", "-f", "${Package}\\n").stdout.split()
    assert not [
        name for name in listed if re.match(r"g\+\+|libboost|python3-(scipy|pythran)", name)
    ]
    asks = f"sluice history ingest /srv/{A_LOG.name} && sluice site assess --bandwidth 10G"
    done = site.run("sh", "-c", f"cd /root && export SLUICE_HISTORY=/root/a.db && {asks}")
    assert done.returncode == 0, done.stdout


def newer(deb: Path, place: Path) -> None:
    """Make the same package once more, as a later version."""
    tree = place / deb.name.partition("_")[0]
    subprocess.run(["dpkg-deb", "--raw-extract", deb, tree], check=True)
    control = tree / "DEBIAN" / "control"
    control.write_text(control.read_text().replace("0.1.0", "0.1.1"))
    subprocess.run(["dpkg-deb", "--build", tree, place], check=True, capture_output=True)
    subprocess.run(["rm", "-r", tree], check=True)


def test_a_site_installs_upgrades_and_removes_and_slurm_is_as_before(debs, site):
    """The commands are in life_of_packages.sh, which ends at the first that surprises it."""
    for folder in ("debs", "newer"):
        (site.path / "srv" / folder).mkdir()
    for deb in debs.values():
        subprocess.run(["cp", deb, site.path / "srv/debs"], check=True)
        newer(deb, site.path / "srv/newer")
    put(site, HERE / "site.sh", HERE / "life_of_packages.sh", A_LOG)
    done = site.run("bash", "/srv/life_of_packages.sh", timeout=PATIENCE)
    assert done.stdout.endswith("Slurm is as before\n"), done.stdout[-12_000:]


def test_the_guide_leads_word_for_word_from_nothing_to_reports_and_back(debs, site, tmp_path):
    """The commands are those of docs/guide/first-month.md, in first_month.sh; no systemd runs here.

    The loop runs from the installed packages by itself: a job ends, and the next is known.
    """
    guide = tmp_path / "guide"
    guide.mkdir()
    for section in re.split(r"(?m)^## ", GUIDE.read_text())[1:]:
        heading = section.partition("\n")[0]
        name = re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-")
        commands = re.findall(r"```console\n(.*?)```", section, re.DOTALL)
        (guide / name).write_text("".join(commands))
    assert len(list(guide.iterdir())) == 4
    packages = site.path / SOURCES.relative_to("/") / "build/packages"
    packages.mkdir(parents=True)
    subprocess.run(["cp", *debs.values(), packages], check=True)
    put(site, guide, A_LOG, *(HERE / name for name in ("site.sh", "first_month.sh", "systemctl")))
    with logs_of_jobs(site):
        done = site.run("bash", "/srv/first_month.sh", timeout=PATIENCE)
    assert done.stdout.endswith("Slurm is as before\n"), done.stdout[-12_000:]


@contextmanager
def logs_of_jobs(site: SlurmRoot) -> Iterator[None]:
    """While jobs run in the root: what Darshan would leave of each."""
    is_over = threading.Event()

    def watch() -> None:
        seen = 0
        while not is_over.wait(0.5):
            ran = site.path / "srv/ran"
            lines = ran.read_text().splitlines() if ran.exists() else []
            for line in lines[seen:]:
                job, start, end = map(int, line.split())
                log = MadeLog(uid=0, jobid=job, start=start, end=end)
                appended(log, file=job, F_WRITE_END_TIMESTAMP=4.0, F_WRITE_TIME=3.0)
                draft = log.write(site.path / f"srv/{job}.log")
                draft.chmod(0o644)  # a site lets SlurmUser read them
                draft.rename(site.path / f"var/log/darshan/{job}.darshan")
            seen = len(lines)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        is_over.set()
        watcher.join()


@pytest.fixture(scope="module")
def rpms(builder: SlurmRoot) -> list[Path]:
    made(builder, "rpm")
    return list(builder.path.glob("sluice/build/packages/rpm/RPMS/*/sluice-*.rpm"))


def test_rpms_have_what_the_debs_have(builder, debs, rpms):
    [folder] = {path.parent for path in rpms}
    inside = Path("/") / folder.relative_to(builder.path)
    listed = builder.run("sh", "-c", f"rpm -qlp {inside}/*.rpm").stdout
    in_debs = subprocess.run(
        ["sh", "-c", 'for deb; do dpkg-deb --fsys-tarfile "$deb" | tar -t; done', "sh"]
        + [str(deb) for deb in debs.values()],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    programs = r"/s?bin/(sluice\S*)$|/(\w+_sluice\.so|libsluice\w+\.so|[\w-]+\.service)$"
    found = [sorted(set(re.findall(programs, text, re.MULTILINE))) for text in (listed, in_debs)]
    assert found[0] == found[1]
    assert len(found[0]) >= 14
    requires = builder.run("sh", "-c", f"rpm -qp --requires {inside}/sluice-plugins-*.rpm").stdout
    assert "slurm = 22.05.8\n" in requires


def test_rpms_are_installed_and_removed_and_slurm_is_as_before(rpms, rpm_site):
    """No distribution of RPMs can be reached here: its rpm alone, over Debian's files."""
    (rpm_site.path / "srv/rpms").mkdir()
    subprocess.run(["cp", *rpms, rpm_site.path / "srv/rpms"], check=True)
    put(rpm_site, HERE / "site.sh", HERE / "life_of_rpms.sh")
    done = rpm_site.run("bash", "/srv/life_of_rpms.sh", timeout=PATIENCE)
    assert done.stdout.endswith("Slurm is as before\n"), done.stdout[-12_000:]
