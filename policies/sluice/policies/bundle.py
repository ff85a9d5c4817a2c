"""The model bundle, read through the core."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from sluice.policies._core import ffi, lib
from sluice.policies.container import read_regular
from sluice.policies.structs import CoreError, View, checked

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Bundle:
    """A bundle that the core accepted."""

    def __init__(self, handle: Any) -> None:
        self.handle = ffi.gc(handle, lib.sluice_bundle_destroy)

    @classmethod
    def parse(cls, content: bytes) -> Bundle:
        """Validate and copy a bundle in memory; raise CoreError with the reason."""
        out, error = ffi.new("struct sluice_bundle **"), ffi.new("struct sluice_error *")
        checked(lib.sluice_bundle_parse(content, len(content), out, error), error)
        return cls(out[0])

    @classmethod
    def read(cls, path: Path) -> Bundle:
        """Read a file, whatever its owner; raise OSError and CoreError, which name it."""
        content = read_regular(path, lib.SLUICE_MAX_BUNDLE_BYTES)
        try:
            return cls.parse(content)
        except CoreError as error:
            raise CoreError(f"{path}: {error}") from error

    @classmethod
    def load(cls, path: Path, owner_uid: int) -> Bundle:
        """Read a file as the plugin does: it must belong to root or owner_uid alone."""
        out, error = ffi.new("struct sluice_bundle **"), ffi.new("struct sluice_error *")
        checked(lib.sluice_bundle_load(bytes(path), owner_uid, out, error), error)
        return cls(out[0])

    @property
    def checksum(self) -> int:
        return int(lib.sluice_bundle_checksum(self.handle))

    @property
    def created(self) -> int:
        """UTC seconds."""
        return int(lib.sluice_bundle_created(self.handle))

    @property
    def policy(self) -> View:
        return View(lib.sluice_bundle_policy(self.handle))

    @property
    def interference(self) -> View:
        return View(lib.sluice_bundle_interference(self.handle))

    @property
    def text(self) -> str:
        """JSON about the training."""
        size = ffi.new("size_t *")
        start = lib.sluice_bundle_text(self.handle, size)
        return bytes(ffi.buffer(start, size[0])).decode()

    @property
    def application_count(self) -> int:
        return int(lib.sluice_bundle_application_count(self.handle))

    def application(self, place: int) -> View:
        """Return the application at a place, from 0 to application_count - 1."""
        return View(lib.sluice_bundle_application(self.handle, place))

    def applications(self) -> Iterator[View]:
        return map(self.application, range(self.application_count))

    def predict(self, submission: View, now: int = 0) -> View:
        """Return the struct sluice_prediction for a submission.

        now: UTC seconds, by which reviews end; 0: none has ended.
        """
        out = ffi.new("struct sluice_prediction *")
        lib.sluice_predict(self.handle, submission.struct, now, out)
        return View(out)

    def reviews_on(self, submission: View, now: int) -> list[int]:
        """Return the numbers of the reviews in force at now (UTC seconds) that are about a job."""
        identity = ffi.new("struct sluice_identity *")
        lib.sluice_identity_of(submission.struct, identity)
        found = [
            review.number
            for review in self.reviews()
            if lib.sluice_review_is_about(review.struct, identity, now)
        ]
        return list(dict.fromkeys(found))

    def reviews(self) -> list[View]:
        """Return each struct sluice_review, those that count before others first."""
        count = ffi.new("uint32_t *")
        start = lib.sluice_bundle_reviews(self.handle, count)
        return [View(start[i]) for i in range(count[0])]


def name_of(path: Path | str, published_at: int) -> str:
    """Return what every output calls the model of a bundle."""
    moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(published_at))
    return f"the bundle {path}, published {moment}"


HEAD_BYTES = 16384
"""Of a bundle: as far as its policy reaches, whatever else is in it."""


def policy_in(head: bytes) -> View | None:
    """Return the policy of a bundle, from its first HEAD_BYTES.

    For bundles that were accepted once, also by an older Sluice: None where the policy had
    another layout or is not there; nothing else is checked.
    """
    size = ffi.sizeof("struct sluice_policy")
    if len(head) < ffi.sizeof("struct sluice_container_header"):
        return None
    header = ffi.from_buffer("struct sluice_container_header *", head)
    room = (len(head) - header.section_table) // ffi.sizeof("struct sluice_section")
    table = ffi.cast(
        "struct sluice_section *", ffi.from_buffer("char[]", head) + header.section_table
    )
    for i in range(min(header.section_count, room)):
        row = table[i]
        fits = row.element_size == size and row.offset + size <= len(head)
        if row.id == lib.SLUICE_SECTION_POLICY and fits:
            policy = ffi.new("struct sluice_policy *")
            ffi.memmove(policy, head[row.offset : row.offset + size], size)
            return View(policy)
    return None
