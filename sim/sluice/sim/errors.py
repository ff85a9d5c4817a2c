"""What can be wrong with a simulation that a user described."""


class WorldError(Exception):
    """A world cannot be as it was described; the text says which number, and what to give."""
