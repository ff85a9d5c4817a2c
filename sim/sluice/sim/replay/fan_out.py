"""Runs independent replays on all cores and hands their results over in the order of the tasks.

Threads suffice: the engine gives up Python's lock while it runs. What comes out does not depend on
their number.
"""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable
    from concurrent.futures import Future

    Watch = Callable[[int], object]

Task = TypeVar("Task")
Result = TypeVar("Result")


class StoppedError(Exception):
    """Raised inside a replay that nobody waits for any more."""


def in_order(
    tasks: Iterable[Task], work: Callable[[Task, Watch], Result], *, workers: int
) -> Generator[Result, None, None]:
    """Yield work(task, watch) of every task, so many at a time.

    watch is to be called now and then, as `progress` of `engine.run`: it ends the work when the
    caller has given up, for Ctrl-C or an error. At most one result more than there are workers
    waits to be taken.
    """
    given_up = threading.Event()

    def watch(_ended: int) -> None:
        if given_up.is_set():
            raise StoppedError

    pending: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        try:
            for task in tasks:
                pending.append(pool.submit(work, task, watch))
                if len(pending) > workers:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            given_up.set()
            for future in pending:
                future.cancel()
