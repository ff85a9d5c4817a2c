"""What goes wrong when measuring; the text names the remedy."""


class CalibrationError(Exception):
    """A plan, a target or a measurement that cannot be."""


class TasksError(CalibrationError):
    """--srun starts another number of probes than --tasks says: it cannot be gone on with."""


class LateStartError(CalibrationError):
    """A probe was not ready at the instant at which all were to begin."""
