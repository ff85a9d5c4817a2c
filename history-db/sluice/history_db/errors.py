"""What can go wrong with the history, each with the remedy in its words."""

from __future__ import annotations


class HistoryError(Exception):
    """The history cannot be used; the text names the file and the remedy."""


class MissingHistoryError(HistoryError):
    """There is no file of this name."""


class ForeignFileError(HistoryError):
    """The file is not a history of Sluice."""


class NewerHistoryError(HistoryError):
    """A newer Sluice wrote the file."""


class OldHistoryError(HistoryError):
    """An older Sluice wrote the file, and it was opened for reading only."""


class ReadOnlyHistoryError(HistoryError):
    """The user may not write the file or its directory."""


class NetworkedHistoryError(HistoryError):
    """The file lies on a network file system, where SQLite cannot keep it whole."""


class FullDiskError(HistoryError):
    """The disk is full."""


class BusyHistoryError(HistoryError):
    """Another process has been writing for too long."""


class NoSuchValueError(HistoryError):
    """A name or number was asked for that no history can hold."""


class DamagedHistoryError(HistoryError):
    """SQLite finds the file damaged."""
