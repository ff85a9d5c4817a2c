"""What is brought up by `with` and taken down at its end, whatever happens between."""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class UpAndDown(ABC):
    """Up for the time of a `with` block."""

    @abstractmethod
    def up(self) -> None:
        """Bring all of it up, or nothing."""

    @abstractmethod
    def down(self) -> None:
        """Take down what there is."""

    def __enter__(self) -> Self:
        self.up()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.down()
