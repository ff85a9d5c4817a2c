"""One ext4 file system on a loop device; the image lies in memory.

An image in memory is faster than any throttle, so the throttle alone decides.
The kernel's own tables say what exists; nothing here relies on remembered state.
"""

import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

SYS_BLOCK = Path("/sys/block")
SECTOR = 512  # bytes; the unit of /sys/block/*/stat, whatever the device's own
UNMOUNT_TIMEOUT = 2.0  # seconds before a file system in use is unmounted lazily


class LoopDeviceError(Exception):
    """A command failed; the text carries what it printed."""


def create(
    image: Path,
    mount: Path,
    *,
    size: int,
    dirty_bytes: int,
    mount_options: str,
    serve: Callable[[Path], None],
) -> None:
    """Make the image (size in bytes, sparse), and mount it for everybody.

    dirty_bytes limits what may wait in the page cache for this device: a slow
    target with a cache of the machine's size would never be seen to be slow.
    serve may mount a server of the image over it, of which the device then asks whole requests.
    """
    with image.open("xb") as file:
        file.truncate(size)
    serve(image)
    direct = ["--direct-io=on"] if mounts(below=image) else []
    device = run("losetup", "--find", "--show", *direct, str(image))
    # All of ext4 at once: nothing that initialises itself during a measurement.
    options = "lazy_itable_init=0,lazy_journal_init=0"
    run("mkfs.ext4", "-q", "-F", "-m", "0", "-E", options, "-J", "size=64", device)
    mount.mkdir(exist_ok=True)
    run("mount", "-t", "ext4", "-o", mount_options, device, str(mount))
    (mount / "lost+found").rmdir()
    mount.chmod(0o1777)
    _limit_dirty(number(image), dirty_bytes)


def destroy(image: Path) -> None:
    """Unmount, detach and delete, as far as there is something."""
    device = find(image)
    if device is not None:
        for mount in mounts(number(image)):
            unmount(mount)
        _limit_dirty(number(image), None)
        run("losetup", "--detach", str(device))
    for mount in mounts(below=image):
        unmount(mount)
    image.unlink(missing_ok=True)


def find(image: Path) -> Path | None:
    """The loop device of an image, also of a deleted one."""
    for backing in SYS_BLOCK.glob("loop*/loop/backing_file"):
        try:
            name = backing.read_text().rstrip("\n")
        except OSError:
            continue  # detached meanwhile
        if name.removesuffix(" (deleted)") == str(image):
            return Path("/dev") / backing.parents[1].name
    return None


def number(image: Path) -> str:
    """MAJOR:MINOR of the image's device. Raises LoopDeviceError when it has none."""
    return (_block(image) / "dev").read_text().strip()


def bytes_written(image: Path) -> int:
    """Bytes that reached the device, file system and journal included; only rises."""
    return int((_block(image) / "stat").read_text().split()[6]) * SECTOR


def mounts(device_number: str = "", below: Path | None = None) -> list[Path]:
    """Mount points of a device, or below a directory; the last mounted first."""
    found = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields = line.split()
        path = Path(re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), fields[4]))
        if fields[2] == device_number or (below is not None and path.is_relative_to(below)):
            found.append(path)
    return found[::-1]


def unmount(mount: Path) -> None:
    """Unmount, lazily if programs will not leave it: the kernel then ends it with them."""
    deadline = time.monotonic() + UNMOUNT_TIMEOUT
    while time.monotonic() < deadline:
        done = subprocess.run(["umount", mount], check=False, capture_output=True, text=True)
        if done.returncode == 0:
            return
        if "busy" not in done.stderr:
            break
        time.sleep(0.1)
    run("umount", "--lazy", str(mount))


def run(*command: str) -> str:
    """What a command prints. Raises LoopDeviceError with its complaint."""
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True)
    except FileNotFoundError:
        raise LoopDeviceError(f"{command[0]} is not installed") from None
    if done.returncode != 0:
        raise LoopDeviceError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout.strip()


def _block(image: Path) -> Path:
    device = find(image)
    if device is None:
        raise LoopDeviceError(f"{image} has no loop device")
    return SYS_BLOCK / device.name


def _limit_dirty(device_number: str, limit: int | None) -> None:
    """Set or undo the limit, which would stay on the device for its next image.

    Kernels before 6.2 have none; there, only the machine's own limit applies.
    """
    control = Path("/sys/class/bdi") / device_number
    if not (control / "max_bytes").exists():
        return
    (control / "strict_limit").write_text("0" if limit is None else "1")
    if limit is None:
        (control / "max_ratio").write_text("100")  # percent, the kernel's default
    else:
        (control / "max_bytes").write_text(str(limit))
