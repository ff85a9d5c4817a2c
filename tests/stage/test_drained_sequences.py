"""Whatever a program does, and whenever the drainer is killed, both trees are equal in the end.

A seed draws operations on the local tree; meanwhile the drainer is killed and started again,
and what is visible at the destination is read: it must be what some file once was.
"""

import mmap
import os
import random
import shutil
import stat
import tempfile
import time
from pathlib import Path

import pytest
from drainer import Drainer, differences, drainer

NAMES = ("a", "b", "c", "d/a", "d/b", "d/e/a", "f/a", "f/b", "g")
DIRECTORIES = ("d", "d/e", "f", "g", "h")
MOMENT_S = 0.004
"""A drainer needs about that long for a few files: kills meet it at work."""


class Program:
    """What a program may do to its files, drawn by a seed."""

    def __init__(self, root: Path, draw: random.Random) -> None:
        self.root, self.draw = root, draw
        self.contents = {b""}
        """All that any file was when no process had it open for writing."""

    def path(self) -> Path:
        path = self.root / self.draw.choice(NAMES)
        if not path.parent.is_dir():
            self.clear(path.parent)
            path.parent.mkdir(parents=True)
        return path

    def clear(self, path: Path) -> None:
        for above in (*reversed(path.parents), path):
            inside = above.is_relative_to(self.root)
            if inside and os.path.lexists(above) and not above.is_dir():
                above.unlink()

    def file(self) -> Path:
        """A path of a file that exists."""
        path = self.path()
        if path.is_symlink() or not path.is_file():
            self.create(path)
        if not os.access(path, os.W_OK):
            path.chmod(0o600)
        return path

    def drawn(self) -> bytes:
        size = self.draw.choice((0, 1, 100, 5000, 70_000, 700_000))
        return self.draw.randbytes(min(size, 4096)) * (size // 4096 + 1)

    def create(self, path: Path | None = None) -> None:
        path = path or self.path()
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
        content = self.drawn()
        self.contents.add(content)
        path.write_bytes(content)

    def append(self) -> None:
        path, more = self.file(), self.drawn()
        self.contents.add(path.read_bytes() + more)
        with path.open("ab") as file:
            file.write(more)

    def rewrite(self) -> None:
        path = self.file()
        content = bytearray(path.read_bytes() or b"x")
        content[self.draw.randrange(len(content))] ^= 1
        self.contents.add(bytes(content))
        with path.open("r+b") as file:
            file.write(content)

    def rewrite_keeping_times(self) -> None:
        path = self.file()
        status = path.stat()
        self.rewrite()
        if path.exists():
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))

    def write_slowly(self) -> None:
        path, parts = self.file(), [self.drawn() for _ in range(3)]
        self.contents.add(b"".join(parts))
        with path.open("wb", buffering=0) as file:
            for part in parts:
                file.write(part)
                time.sleep(self.draw.random() * MOMENT_S)

    def write_and_rename(self) -> None:
        path = self.path()
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        content = self.drawn()
        self.contents.add(content)
        part = path.with_name(path.name + ".tmp")
        part.write_bytes(content)
        part.replace(path)

    def write_mapped(self) -> None:
        path = self.file()
        if path.stat().st_size == 0:
            return
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        self.contents.add(bytes(content))
        with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
            file.close()
            mapped[-1] ^= 1

    def truncate(self) -> None:
        path = self.file()
        content = path.read_bytes()[:7]
        self.contents.add(content)
        os.truncate(path, len(content))

    def sparse(self) -> None:
        path = self.file()
        content = path.read_bytes() + bytes(3_000_000) + b"end"
        self.contents.add(content)
        at = path.stat().st_size
        with path.open("r+b") as file:
            file.seek(at + 3_000_000)
            file.write(b"end")

    def rename(self) -> None:
        source, to = self.file(), self.path()
        if source.exists() and not to.is_dir():
            source.replace(to)

    def rename_directory(self) -> None:
        names = [self.root / name for name in DIRECTORIES]
        there = [name for name in names if name.is_dir() and not name.is_symlink()]
        free = [name for name in names if name.parent.is_dir() and not os.path.lexists(name)]
        if there and free:
            source, to = self.draw.choice(there), self.draw.choice(free)
            if not to.is_relative_to(source):
                source.rename(to)

    def link(self) -> None:
        source, to = self.file(), self.path()
        if source.exists() and not to.exists() and not to.is_symlink():
            os.link(source, to)

    def symlink(self) -> None:
        path = self.path()
        if not path.is_dir() or path.is_symlink():
            path.unlink(missing_ok=True)
            path.symlink_to(self.draw.choice(NAMES))

    def delete(self) -> None:
        path = self.root / self.draw.choice((*NAMES, *DIRECTORIES))
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)

    def make_directory(self) -> None:
        path = self.root / self.draw.choice(DIRECTORIES)
        self.clear(path)
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(self.draw.choice((0o755, 0o700, 0o2750)))

    def change_mode(self) -> None:
        self.file().chmod(self.draw.choice((0o600, 0o444, 0o755, 0o640)))

    def change_times(self) -> None:
        second = self.draw.randrange(10**9) * 10**9
        os.utime(self.file(), ns=(second, second + self.draw.randrange(10**9)))

    def change_attributes(self) -> None:
        path = self.file()
        if "user.a" in os.listxattr(path):
            os.removexattr(path, "user.a")
        else:
            os.setxattr(path, "user.a", self.draw.randbytes(9))

    def nameless(self) -> None:
        path, content = self.path(), self.drawn()
        if path.exists() or path.is_symlink():
            return
        self.contents.add(content)
        fd = os.open(path.parent, os.O_TMPFILE | os.O_WRONLY)
        os.write(fd, content)
        os.link(f"/proc/self/fd/{fd}", path, src_dir_fd=fd, follow_symlinks=True)
        os.close(fd)

    def act(self) -> None:
        acts = (
            self.create,
            self.append,
            self.rewrite,
            self.rewrite_keeping_times,
            self.write_slowly,
            self.write_and_rename,
            self.write_mapped,
            self.truncate,
            self.sparse,
            self.rename,
            self.rename_directory,
            self.link,
            self.symlink,
            self.delete,
            self.make_directory,
            self.change_mode,
            self.change_times,
            self.change_attributes,
            self.nameless,
        )
        self.draw.choice(acts)()


def half_files(program: Program, destination: Path) -> list[str]:
    """What is visible at the destination and was never a whole file."""
    found = []
    for directory, _, names in os.walk(destination):
        for name in names:
            path = Path(directory, name)
            try:
                is_file = stat.S_ISREG(path.lstat().st_mode)
                content = path.read_bytes() if is_file else b""
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                continue
            if not name.startswith(".sluice-part.") and content not in program.contents:
                found.append(f"{path}: {len(content)} bytes")
    return found


def check_sequence(work: Drainer, seed: int) -> None:
    draw = random.Random(seed)
    program = Program(work.source, draw)
    work.start()
    for _ in range(draw.randrange(5, 40)):
        program.act()
        chance = draw.random()
        if chance < 0.3:
            time.sleep(draw.random() * 4 * MOMENT_S)
        if chance < 0.1:
            assert half_files(program, work.destination) == [], f"seed {seed}"
        if chance > 0.9:
            work.kill()
            work.start()
    status, said = work.end()
    assert half_files(program, work.destination) == [], f"seed {seed}"
    assert differences(work.source, work.destination) == [], f"seed {seed}: {said}"
    assert status == 0, f"seed {seed}: {status}: {said}"


def run_seeds(place: Path, seeds: range, sanitize: str = "") -> None:
    for seed in seeds:
        directory = place / str(seed)
        directory.mkdir()
        with drainer(directory, sanitize=sanitize) as work:
            check_sequence(work, seed)
        shutil.rmtree(directory)


@pytest.fixture
def memory():
    """A directory in memory, where a mapped write leaves size and times as they were."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as place:
        yield Path(place)


def test_any_sequence_ends_in_equal_trees(tmp_path):
    run_seeds(tmp_path, range(15))


def test_any_sequence_in_memory_ends_in_equal_trees(memory):
    run_seeds(memory, range(100, 140))


def test_any_sequence_is_clean_under_sanitizers(memory):
    run_seeds(memory, range(200, 215), "address,undefined")


@pytest.mark.acceptance
def test_ten_thousand_sequences_end_in_equal_trees(memory):
    run_seeds(memory, range(1000, 11_000))
