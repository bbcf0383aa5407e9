"""Calls that go together: those that come while one is under way share the next one."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

Request = TypeVar("Request")
Answer = TypeVar("Answer")

_LANES = 2
_SHORTEST, _LONGEST = 50, 100
"""Where very many wait, each lane takes its share; a convoy of fewer than the shortest is not split."""


class Convoy(Generic[Request, Answer]):
    """Runs many calls as one, each with an answer of its own.

    A call that meets no other goes alone, without waiting. A convoy that fails is split up: each of its calls is run again, so
    that one which cannot succeed takes no other with it. `run` must therefore do all or nothing.
    """

    def __init__(self, run: Callable[[Sequence[Request]], Awaitable[Sequence[Answer]]]) -> None:
        self._run = run
        self._waiting: deque[tuple[Request, asyncio.Future[Answer]]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()

    async def call(self, request: Request) -> Answer:
        """Go with the others that call at this moment, or that wait for a free lane."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((request, answer))
        self._set_out()
        return await answer

    def _set_out(self) -> None:
        if self._waiting and len(self._tasks) < _LANES:
            task = asyncio.create_task(self._go())
            self._tasks.add(task)
            task.add_done_callback(self._arrive)

    def _arrive(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        self._set_out()

    async def _go(self) -> None:
        await asyncio.sleep(0)  # who has just been answered may want to come along
        length = max(_SHORTEST, -(-len(self._waiting) // _LANES))
        waiting = [self._waiting.popleft() for _ in range(min(length, _LONGEST, len(self._waiting)))]
        self._set_out()
        await self._together([(request, answer) for request, answer in waiting if not answer.done()])

    async def _together(self, calls: list[tuple[Request, asyncio.Future[Answer]]]) -> None:
        if len(calls) > 1:
            try:
                answers = await self._run([request for request, _ in calls])
            except Exception:  # noqa: BLE001 - whatever it was, each call meets it again by itself, or does not
                answers = None
            if answers is not None:
                for (_, future), answer in zip(calls, answers, strict=True):
                    _settle(future, answer)
                return
        for request, future in calls:
            try:
                (answer,) = await self._run([request])
                _settle(future, answer)
            except Exception as error:  # noqa: BLE001 - it belongs to the caller, who raises it
                if not future.done():
                    future.set_exception(error)


def _settle(future: "asyncio.Future[Answer]", answer: Answer) -> None:
    """Answer a call, unless its caller has left meanwhile."""
    if not future.done():
        future.set_result(answer)
