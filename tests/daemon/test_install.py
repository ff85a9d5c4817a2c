"""`make install` copies all there is, and makes the service group and its directories."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

from sluice.policies import core

ROOT = Path(__file__).parents[2]
SYSTEMD = ROOT / "slurm-plugin" / "systemd"
PACKAGING = ROOT / "slurm-plugin" / "packaging"
UNITS = ("sluiced", "sluice-serve", "sluice-agent", "sluice-backup")
# users and groups of its own: nothing of this machine changes
OWN_ETC = 'cp -a /etc "$0/etc" && mount --bind "$0/etc" /etc && exec "$@"'


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make groups")
def test_the_service_group_and_its_directories_are_made_once(tmp_path):
    make = [SYSTEMD / "make-group.sh", "games", tmp_path]
    for _ in range(2):
        subprocess.run(["unshare", "--mount", "sh", "-c", OWN_ETC, tmp_path, *make], check=True)
    group = (tmp_path / "etc" / "group").read_text()
    [row] = [line.split(":") for line in group.splitlines() if line.startswith("sluice:")]
    assert row[3] == "games"
    users = (tmp_path / "etc" / "passwd").read_text()
    assert users.count("\nsluice-serve:") == 1
    modes = {}
    for name in ("run/sluice", "var/lib/sluice"):
        status = (tmp_path / name).stat()
        assert (status.st_uid, status.st_gid) == (5, int(row[2]))
        modes[name] = status.st_mode & 0o7777
    assert modes == {"run/sluice": 0o2755, "var/lib/sluice": 0o2750}


def installed(place: Path, folder: Path, *words: str) -> dict[str, str]:
    """What `make install` of a folder puts into DESTDIR, with the text of each file."""
    command = ["make", "--no-print-directory", "-C", folder, "install", f"DESTDIR={place}", *words]
    subprocess.run(command, capture_output=True, text=True, check=True)
    return {
        path.relative_to(place).as_posix(): path.read_text(errors="replace")
        for path in place.rglob("*")
        if path.is_file()
    }


def test_a_package_gets_files_for_systemd_and_changes_no_machine(tmp_path):
    files = installed(tmp_path, SYSTEMD, "SLURM_USER=hpc", "PREFIX=/opt/sluice")
    assert files.keys() == {
        "usr/lib/sysusers.d/sluice.conf",
        "usr/lib/tmpfiles.d/sluice.conf",
        *(f"usr/lib/systemd/system/{unit}.service" for unit in UNITS),
        "usr/lib/systemd/system/sluice-backup.timer",
        "opt/sluice/lib/sluice/make-group.sh",
    }
    assert not any(re.search("@[A-Z_]+@", text) for text in files.values())
    for unit in UNITS:
        text = files[f"usr/lib/systemd/system/{unit}.service"]
        assert ("User=hpc\n" in text) is (unit != "sluice-serve")
        program = unit.replace("-backup", " history backup").replace("-serve", " serve")
        assert re.search(rf"^ExecStart=.*/opt/sluice/s?bin/{program} ", text, re.MULTILINE)


def directives(unit: str) -> dict[str, list[str]]:
    lines = (SYSTEMD / f"{unit}.service").read_text().splitlines()
    found: dict[str, list[str]] = {}
    for line in lines:
        if re.match(r"[A-Z]\w*=", line):
            name, _, value = line.partition("=")
            found.setdefault(name, []).append(value)
        else:
            assert not line or line.startswith(("#", "[")), f"{unit}: {line}"
    return found


@pytest.mark.parametrize("unit", UNITS)
def test_a_unit_may_do_what_its_daemon_needs_and_no_more(unit):
    """No systemd runs here: this reads what systemd.exec(5) calls sandboxing."""
    found = directives(unit)
    for name in ("NoNewPrivileges", "PrivateTmp", "PrivateDevices", "MemoryDenyWriteExecute"):
        assert found[name] == ["yes"]
    assert found["CapabilityBoundingSet"] == found["AmbientCapabilities"] == [""]
    assert found["ProtectSystem"] == ["strict"]
    assert found["ProtectHome"] == ["read-only" if unit == "sluiced" else "yes"]
    is_python = unit in {"sluiced", "sluice-backup"}
    written = "/run/sluice /var/lib/sluice" if is_python else "/run/sluice"
    is_serve = (
        unit == "sluice-serve"
    )  # a user of its own, which reads no history and writes nothing
    assert found.get("ReadWritePaths") == (None if is_serve else [written])
    assert found.get("InaccessiblePaths") == (["-/var/lib/sluice"] if is_serve else None)
    assert found["RestrictAddressFamilies"] == ["AF_UNIX AF_INET AF_INET6"]
    assert found["SystemCallFilter"] == ["@system-service"]
    assert found["User"] == ["sluice-serve" if is_serve else "@SLURM_USER@"]


@pytest.mark.parametrize("unit", sorted({*UNITS} - {"sluice-agent"}))
def test_what_runs_on_the_controller_is_bounded_and_restarted_where_it_hangs(unit):
    found = directives(unit)
    assert re.fullmatch(r"\d+%", found["MemoryMax"][0])
    assert re.fullmatch(r"\d+%", found["CPUQuota"][0])
    if found.get("Type") == ["oneshot"]:
        assert found["TimeoutStartSec"]
    else:
        assert found["WatchdogSec"]
        assert found["Restart"][0] in {"always", "on-failure"}


def test_python_runs_where_memory_cannot_be_both_written_and_run():
    """The kernel's own switch for what MemoryDenyWriteExecute= asks of systemd."""
    done = subprocess.run(
        [sys.executable, "-c", DENIED], capture_output=True, text=True, check=True
    )
    if done.stdout.startswith("no such switch"):
        pytest.skip("this kernel has no PR_SET_MDWE (6.3)")
    assert done.stdout == "denied\n3 rows by 100 trees\n"


def test_commands_are_installed_with_all_that_they_import_and_read(tmp_path):
    place = tmp_path / "root"
    files = installed(place, PACKAGING, f"BUILD={tmp_path}/build", f"PYTHON={sys.executable}")
    for name in (
        *("usr/bin/sluice", "usr/bin/sluiced", "usr/bin/sluice-learn"),
        *("usr/share/man/man1/sluice.1", "usr/share/man/man5/sluice.conf.5"),
        *("usr/share/man/man8/sluiced.8", "usr/share/doc/sluice/sluice.conf.example"),
        "usr/share/bash-completion/completions/sluice",
        "usr/share/zsh/vendor-completions/_sluice",
        "usr/share/fish/vendor_completions.d/sluice.fish",
        "etc/default/sluice-agent",
    ):
        assert files[name], name
    program = place / "usr/bin/sluice"
    code = program.read_text().replace('"/usr/lib', f'"{place}/usr/lib')
    program.write_text(code)
    done = subprocess.run(
        [program, "config", "explain", "Mode"], capture_output=True, text=True, check=True, cwd="/"
    )
    assert "Mode=observe" in done.stdout
    example = files["usr/share/doc/sluice/sluice.conf.example"]
    assert core.parse_config("example", example.encode()).mode == "observe"
    settings = re.sub(r"^#(?=\w+=)", "", example, flags=re.MULTILINE)
    settings = re.sub(r"^Mode=(advise|enforce).*$", "", settings, flags=re.MULTILINE)
    assert len(core.parse_config("example", settings.encode()).policy.lanes) == 2


def parts_of_debs() -> dict[str, dict[str, str]]:
    text = (PACKAGING / "debian" / "control").read_text()
    parts = [re.sub(r"\n ", " ", part) for part in text.split("\n\n")]
    fields = [dict(re.findall(r"^([\w-]+): (.*)$", part, re.MULTILINE)) for part in parts]
    return {part["Package"]: part for part in fields if "Package" in part}


def test_who_only_assesses_installs_no_compiler():
    """Debian's SciPy depends on Pythran, that on g++ and Boost."""
    parts = parts_of_debs()
    heavy = re.compile("scipy|sklearn|slurm|sluice")
    assert heavy.search(parts["sluice"]["Depends"])
    assert not heavy.search(parts["sluice-tools"]["Depends"] + parts["sluice-tools"].get("Pre", ""))
    assert "Recommends" not in parts["sluice-tools"]


def test_each_command_and_page_is_in_exactly_one_package():
    lists = (PACKAGING / "debian").glob("*.install")
    patterns = [line.split()[0] for path in lists for line in path.read_text().splitlines()]
    for page in (ROOT / "docs" / "man").iterdir():
        name = f"usr/share/man/man{page.suffix[1:]}/{page.name}"
        found = [one for one in patterns if fnmatch(name, one) or name.startswith(f"{one}/")]
        assert len(found) == 1, (name, found)


def test_make_deb_names_what_is_missing_before_it_builds(tmp_path):
    lacking = tmp_path / "dpkg-checkbuilddeps"
    lacking.write_text("#!/bin/sh\necho 'Unmet build dependencies: libdeflate-dev' >&2; exit 1\n")
    (tmp_path / "dpkg-buildpackage").write_text("#!/bin/sh\nexit 1\n")
    for path in tmp_path.iterdir():
        path.chmod(0o755)
    done = subprocess.run(
        ["make", "-C", PACKAGING, "deb", f"BUILD={tmp_path}/build"],
        env=os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "Unmet build dependencies: libdeflate-dev" in done.stderr
    assert f"sudo apt-get build-dep {PACKAGING} installs them" in done.stderr
    assert not (tmp_path / "build").exists()


PAGE = re.compile(r"/usr/share/doc/sluice/([\w/-]+\.md)(?:#([\w-]+))?")


def anchors(page: str) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", page, re.MULTILINE)
    kept = (re.sub(r"[^\w -]", "", title.lower()).strip().replace(" ", "-") for title in titles)
    return {*kept, *re.findall(r'<a (?:id|name)="([^"]+)"', page)}


def test_pages_that_messages_alerts_and_help_name_are_installed(tmp_path):
    """From wherever it is installed: they name no page of the sources."""
    words = [f"BUILD={tmp_path}/build", f"PYTHON={sys.executable}", "PREFIX=/opt/sluice"]
    files = installed(tmp_path / "root", PACKAGING, *words)
    named = set()
    for name, text in files.items():
        if name.endswith((".py", ".yml", ".1", ".5", ".8")):
            assert "/usr/share/doc/sluice" not in text, name
            told = text.replace("/opt/sluice/share/doc", "/usr/share/doc").replace("\\-", "-")
            named |= set(PAGE.findall(told))
    assert len(named) > 20
    for page, anchor in named:
        text = files[f"opt/sluice/share/doc/sluice/{page}"]
        assert not anchor or anchor in anchors(text), f"{page}#{anchor}"


def test_nothing_that_a_user_sees_names_a_page_of_the_sources():
    for path in (*ROOT.glob("*/sluice/**/*.py"), *(ROOT / "slurm-plugin").rglob("*.yml")):
        code = "\n".join(literals(path)) if path.suffix == ".py" else path.read_text()
        assert not re.search(r"(?<!\w)docs/(guide|reference|evidence)/", code), path


def literals(path: Path) -> Iterator[str]:
    """The texts of a module that a user may see: of what explains itself, a command's help."""
    tree = ast.parse(path.read_text())
    said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    if "cli" in path.parts:
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        said -= {id(node.body[0].value) for node in functions if isinstance(node.body[0], ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said:
            yield node.value


@pytest.mark.parametrize("plugin", ["controller/job_submit", "node/spank"])
def test_what_a_plugin_cannot_find_is_named_with_the_remedy(plugin, tmp_path):
    folder = PACKAGING.parent / plugin
    words = ["make", "-C", folder, f"BUILD={tmp_path}"]
    nothing = [f"CPPFLAGS=-nostdinc -isystem {tmp_path}"]
    done = subprocess.run([*words, *nothing], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "no header slurm/slurm.h: install" in done.stderr
    assert "make SLURM_PREFIX=/opt/slurm" in done.stderr
    done = subprocess.run(
        [*words, "-n", "install", f"SLURM_PREFIX={tmp_path}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "make install PLUGIN_DIR=/opt/slurm/lib/slurm" in done.stderr


def test_a_build_asks_nothing_of_a_package_manager():
    """Neither apt nor pip, whatever is out of date."""
    words = ["make", "--dry-run", "--always-make", "build", "install", "DESTDIR=/nowhere"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "setup.py -q build_ext" in done.stdout
    assert not re.search(r"\b(apt|apt-get|pip|install-packages)\b", done.stdout)


def test_a_site_installs_no_library_that_draws():
    lock = (PACKAGING / "requirements.lock").read_text()
    packages = set(re.findall(r"^([a-z0-9-]+)==", lock, re.MULTILINE))
    assert {"numpy", "scipy", "click"} <= packages
    assert not packages & {"scikit-learn", "pandas", "seaborn", "matplotlib", "darshan", "pyarrow"}
    assert lock.count("--hash=sha256:") > len(packages)
    assert "://" not in lock


DENIED = """
import ctypes, mmap
if ctypes.CDLL(None).prctl(65, 1, 0, 0, 0):  # PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN
    raise SystemExit(print("no such switch"))
try:
    mmap.mmap(-1, 4096, prot=mmap.PROT_WRITE | mmap.PROT_EXEC)
except OSError:
    print("denied")
import numpy as np
from sluice.interference import site_model
from sluice.patterns.classifier import packaged_classifier
from sluice.policies import core
core.parse_config("made", b"ModeOf=off Users=root")
forest = packaged_classifier().forest
with site_model.threadpool_limits(1):
    votes = forest.evaluate(np.ones((3, 100), dtype=np.float32))
print(len(votes), "rows by", len(forest.roots), "trees")
"""


@pytest.mark.parametrize(
    "recipe",
    ["spack/packages/sluice/package.py", "easybuild/Sluice-0.1.0-GCCcore-13.2.0.eb"],
)
def test_the_recipes_for_spack_and_easybuild_are_python(recipe):
    """Neither is here: nothing but their syntax can be checked."""
    assert compile((PACKAGING / recipe).read_text(), recipe, "exec")


def test_recipe_and_citation_are_of_this_version():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    (recipe,) = (PACKAGING / "easybuild").iterdir()
    assert f"\nversion = '{version}'\n" in recipe.read_text()
    assert recipe.name.startswith(f"Sluice-{version}-")
