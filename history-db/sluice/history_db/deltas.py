"""What differs between two files that are nearly equal, as snapshots one second apart are.

A delta is a list of stretches of the base, with the bytes that stand between them. The structs in
both are multiples of STEP long, so a stretch begins at a multiple of STEP.
"""

from __future__ import annotations

import struct

STEP = 8
BLOCK = 32
"""Bytes that a stretch has at least."""
LONGEST = 1 << 16
PIECE = struct.Struct("<III")
"""Bytes that are new, and offset and length of the stretch of the base that follows them."""


class Base:
    """A file that others are compared with."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self._at = {content[i : i + BLOCK]: i for i in range(0, len(content) - BLOCK + 1, STEP)}

    def delta(self, content: bytes) -> bytes:
        pieces: list[bytes] = []
        at = new = shift = 0
        while at < len(content):
            found = self._find(content, at, at + shift)
            if found is None:
                at += STEP
                continue
            length = self._common(content, at, found)
            pieces += (PIECE.pack(at - new, found, length), content[new:at])
            shift = found - at
            at = new = at + length
        pieces += (PIECE.pack(len(content) - new, 0, 0), content[new:])
        return b"".join(pieces)

    def _find(self, content: bytes, at: int, likely: int) -> int | None:
        block = content[at : at + BLOCK]
        if likely >= 0 and self.content[likely : likely + BLOCK] == block and len(block) == BLOCK:
            return likely
        return self._at.get(block)

    def _common(self, content: bytes, at: int, found: int) -> int:
        """Count the bytes that are equal from here on, in steps."""
        length, step = 0, LONGEST
        while step >= STEP:
            a, b = at + length, found + length
            piece = content[a : a + step]
            if len(piece) == step and piece == self.content[b : b + step]:
                length += step
            else:
                step //= 2
        return length


def restore(base: bytes, delta: bytes) -> bytes:
    """Return the content that a delta was made of. Raises ValueError for a damaged delta."""
    pieces: list[bytes] = []
    at = 0
    while at < len(delta):
        try:
            new, offset, length = PIECE.unpack_from(delta, at)
        except struct.error:
            raise ValueError("a delta cut short") from None
        at += PIECE.size + new
        pieces += (delta[at - new : at], base[offset : offset + length])
    return b"".join(pieces)
