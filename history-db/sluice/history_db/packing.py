"""Compressing what is much like something that is there already."""

from __future__ import annotations

import zlib

WINDOW = 1 << 15
"""Bytes that zlib looks back."""


def packed(content: bytes, like: bytes = b"") -> bytes:
    """Compress content, with the end of another that is like it."""
    if not like:
        return zlib.compress(content)
    squeeze = zlib.compressobj(zdict=like[-WINDOW:])
    return squeeze.compress(content) + squeeze.flush()


def unpacked(content: bytes, like: bytes = b"") -> bytes:
    if not like:
        return zlib.decompress(content)
    return zlib.decompressobj(zdict=like[-WINDOW:]).decompress(content)
