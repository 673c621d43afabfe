"""Tasks on a Dask cluster: what they share is sent once, and what dying workers lose is done again."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from solvers.workers.transport import Shared

if TYPE_CHECKING:
    from distributed import Client, Future

# Tasks for each thread of a worker that are with the scheduler at a time; the others wait with the caller.
TASKS_AHEAD = 3
# Bytes of an argument from which on it is sent apart from its task: schedulers are for small messages.
SENT_APART = 1_000_000
# How often what tasks share is sent again before one of them is done; Dask begins a task as often.
MOST_LOSSES = 3
# Seconds that a cluster may be without workers: it takes some to start new ones.
PATIENCE = 120.0
# Seconds between two looks at the workers while something is sent to all of them.
LOOK = 1.0
# Seconds that Dask's scheduler tries to reach a worker that died while something was sent to all.  Until then
# it sends nothing else to all.
TRYING = 35.0
_waits_until: WeakKeyDictionary[Client, float] = WeakKeyDictionary()


def run_on_cluster(
    client: Client,
    function: Callable[..., Any],
    shared: Shared,
    task: Callable[[int], tuple[Any, ...]],
    n_tasks: int,
    on_done: Callable[[Any], Any] | None = None,
    *,
    all_at_once: bool = False,
    **options: Any,
) -> list[Any]:
    """Return ``function(shared.key, shared.packed, *task(k))`` of each task k, in the order of the tasks.

    Dask does a task again if its worker dies.  Where all copies of what is shared died, it gives up; then it
    is sent again, and tasks that are not done are done again.  After an error or Ctrl-C no task is begun.
    """
    outcomes: list[Any] = [None] * n_tasks
    pending = deque(range(n_tasks))
    n_losses = 0
    while pending:
        n_before = len(pending)
        call = _Call(client, function, shared, options)
        try:
            for number, outcome in call.completed(task, pending, all_at_once):
                outcomes[number] = outcome
                if on_done is not None:
                    on_done(outcome)
        finally:
            pending.extend(sorted(call.cancel()))
        n_losses = n_losses + 1 if len(pending) == n_before else 0
        if n_losses > MOST_LOSSES:
            raise RuntimeError(
                f"workers of the cluster were lost {n_losses} times before one task was done: look at their "
                "memory and their logs, and call again"
            )
    return outcomes


class _Call:
    """Tasks that share one copy of their common part on the cluster."""

    def __init__(
        self, client: Client, function: Callable[..., Any], shared: Shared, options: dict[str, Any]
    ) -> None:
        self._client = client
        self._function = function
        self._shared = shared
        self._options = options
        self._running: dict[Future, int] = {}

    def completed(
        self, task: Callable[[int], tuple[Any, ...]], pending: deque[int], all_at_once: bool
    ) -> Iterator[tuple[int, Any]]:
        """Yield numbers and outcomes of tasks as they are done, until all are, or something was lost."""
        from distributed import as_completed

        client = self._client
        packed = self._broadcast()
        if packed is None:
            return
        most = len(pending) if all_at_once else TASKS_AHEAD * max(sum(client.ncores().values()), 1)
        done = None if all_at_once else as_completed([], loop=client.loop)
        while pending or self._running:
            while pending and len(self._running) < most:
                number = pending.popleft()
                future = self._submit(packed, task(number))
                self._running[future] = number
                if done is not None:
                    done.add(future)
            # Waiting for all together takes one message where they would take one each.
            finished = list(self._running) if done is None else done.next_batch()
            outcomes = self._gathered(finished)
            if outcomes is None:
                return
            for future, outcome in zip(finished, outcomes, strict=True):
                yield self._running.pop(future), outcome

    def _broadcast(self) -> Future | None:
        """Return the future of what tasks share, which all workers have; None if one died just now."""
        try:
            return self._client.sync(_sent_to_all, self._client, self._shared.packed)
        except TimeoutError:
            # There are no workers, or they take long to start.
            try:
                self._client.wait_for_workers(1, timeout=PATIENCE)
            except TimeoutError:
                raise RuntimeError(
                    f"the cluster has had no workers for {PATIENCE:.0f} seconds: start some, and call again"
                ) from None
            return None
        except (CancelledError, KeyError, OSError):
            return None

    def _submit(self, packed: Future, task: tuple[Any, ...]) -> Future:
        arguments = [self._apart(argument) for argument in task]
        return self._client.submit(
            self._function, self._shared.key, packed, *arguments, pure=False, **self._options
        )

    def _apart(self, argument: Any) -> Any:
        """Return what stands for an argument: itself, or the future of a long one."""
        if not isinstance(argument, bytes) or len(argument) < SENT_APART:
            return argument
        return self._client.scatter(np.frombuffer(argument, dtype=np.uint8), hash=False)

    def _gathered(self, finished: list[Future]) -> list[Any] | None:
        """Return the outcomes of tasks; None if something they need is lost."""
        from distributed import KilledWorker

        try:
            return self._client.gather(finished)
        except CancelledError:
            return None
        except KilledWorker as error:
            raise RuntimeError(
                f"a task was begun {error.allowed_failures + 1} times, and each time its worker died, most "
                "often because memory ran out: give workers more memory, or fewer threads each"
            ) from error

    def cancel(self) -> list[int]:
        """Cancel the tasks that are not done, and return their numbers."""
        numbers = list(self._running.values())
        if self._running:
            self._client.cancel(list(self._running))
        self._running.clear()
        return numbers


async def _sent_to_all(client: Client, data: Any) -> Future | None:
    """Return the future of what all workers of now have; None if one of them was lost before it had it.

    Dask's scheduler goes on sending to that one.  As long as it does, data is sent to one worker, and the
    others fetch it from there when they need it.
    """
    from distributed import Future

    key = f"shared-{uuid.uuid4().hex}"
    workers = set(await client.ncores())
    to_all = time.monotonic() >= _waits_until.get(client, 0.0)
    sending = asyncio.ensure_future(client.scatter({key: data}, broadcast=to_all, hash=False))
    while not (await asyncio.wait([sending], timeout=LOOK))[0]:
        if not workers <= set(await client.ncores()):
            sending.cancel()
            _waits_until[client] = time.monotonic() + TRYING
            # The scheduler drops data when no future holds them.
            await client.cancel([Future(key, client)], force=True)
            return None
    return sending.result()[key]
