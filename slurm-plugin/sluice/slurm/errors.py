"""What can go wrong between Sluice and a running Slurm, each with the remedy in its words."""

from __future__ import annotations


class SlurmError(Exception):
    """Slurm or the plugin in it cannot be asked."""


class CommandFailedError(SlurmError):
    """A command of Slurm failed, took too long, or is not installed."""


class FeedError(SlurmError):
    """sluice-feed is missing, ended, hung, or was refused an answer by Slurm."""


class PluginUnreachableError(SlurmError):
    """Nobody serves the plugin's socket."""


class PluginAnswerError(SlurmError):
    """The plugin's answer makes no sense to this version."""


class AnotherDaemonError(SlurmError):
    """Another sluiced writes the same snapshot."""


class UnknownJobError(SlurmError):
    """No job of this number is known, or none that the user who asks may see."""


class QueryError(SlurmError):
    """sluiced cannot be asked, or does not answer this user."""
