"""What can go wrong in a simulation; each text says what, why and what to do."""


class SimError(Exception):
    """Any of them: what `sluice` prints in one line."""


class StorageModelError(SimError):
    """A storage model was described wrongly, or a workload does not fit it."""


class EngineError(SimError):
    """The engine refused a workload, or ran out of memory."""


class TraceError(SimError):
    """A trace, or a line of it, makes no sense."""


class MachineError(SimError):
    """The description of a machine makes no sense, or is missing."""


class PolicyError(SimError):
    """A policy does not fit the storage, or an option makes no sense."""


class SweepError(SimError):
    """A file of a sweep is another one's or damaged, or a grid makes no sense."""
