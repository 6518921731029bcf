"""The parts of Braid that run in an event loop of asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from braid._braid import (
        CompletionQueue,
        ConnectionRequest,
        Engine,
        Listener,
        QueuePair,
        Round,
        Work,
    )


def resolve(future: asyncio.Future[None]) -> None:
    """Ends the wait of a future, unless it was cancelled."""
    if not future.done():
        future.set_result(None)


def _running_loop() -> asyncio.AbstractEventLoop:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise RuntimeError(
            "no event loop runs in this thread; call wait() instead, or await in a coroutine "
            "that asyncio.run() runs"
        ) from None


def await_work(work: Work[Any]) -> Generator[Any, None, Any]:
    """Waits for a work."""
    loop = _running_loop()
    future = loop.create_future()
    if not work._watch(loop, future):
        yield from future
    return work.result()


async def next_work(queue: CompletionQueue) -> Work[Any]:
    """Waits for the next ended work of a queue."""
    loop = _running_loop()
    while True:
        in_flight, work = queue._take()
        if work is not None:
            return work
        if not in_flight:
            raise StopAsyncIteration
        future = loop.create_future()
        if not queue._watch(loop, future):
            await future


def await_round(round_: Round) -> Generator[Any, None, None]:
    """Waits for a round in a thread: groups have no descriptor."""
    yield from asyncio.to_thread(round_.wait).__await__()


async def _readable(fd: int) -> None:
    loop = _running_loop()
    future = loop.create_future()
    loop.add_reader(fd, resolve, future)
    try:
        await future
    finally:
        loop.remove_reader(fd)


async def accept(listener: Listener) -> ConnectionRequest:
    """Waits for a connection request."""
    while True:
        request = listener._poll()
        if request is not None:
            return request
        await _readable(listener.fileno())


async def connect(
    engine: Engine,
    address: str,
    *,
    private_data: bytes = b"",
    timeout: float = 10.0,
    **settings: Any,
) -> QueuePair:
    """Connects a new queue pair."""
    qp = engine.create_qp(**settings)
    attempt = qp._begin_connect(address, private_data=private_data, timeout=timeout)
    try:
        while not attempt.is_over():
            await _readable(attempt.fileno())
    except BaseException:
        attempt.close()
        qp.close()
        raise
    return qp
