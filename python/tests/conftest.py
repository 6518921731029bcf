"""Engines and connections over the loopback."""

from __future__ import annotations

import faulthandler
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import pytest

import braid

LIMIT = 60.0
"""Seconds after which a test has hung."""


@pytest.fixture(autouse=True)
def _stacks_of_a_hang() -> Iterator[None]:
    faulthandler.dump_traceback_later(2 * LIMIT, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


def in_forked_child(
    uses: Sequence[Callable[[], object]], then: Callable[[], list[str]]
) -> list[str]:
    """Tries the uses of objects of this process in a forked child. Returns the outcome of each,
    `refused` if braid.ForkedError names it, and the lines of `then`."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        lines = []
        for use in uses:
            try:
                use()
                lines.append("nothing")
            except braid.ForkedError:
                lines.append("refused")
            except BaseException as failure:
                lines.append(repr(failure))
        lines += then()
        os.write(write, "\n".join(lines).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as said:
        lines = said.read().split("\n")
    assert os.waitpid(child, 0)[1] == 0
    return lines


class Pair:
    """Two engines with a connection between them."""

    def __init__(self, stack: ExitStack, **settings: Any) -> None:
        self.server = stack.enter_context(braid.Engine(bind="127.0.0.1:0", **settings))
        self.client = stack.enter_context(braid.Engine(bind="127.0.0.1:0", **settings))
        self.listener = stack.enter_context(self.server.listen())
        self.near, self.far = self.connect()

    def connect(self, **settings: Any) -> tuple[braid.QueuePair, braid.QueuePair]:
        """Connects another pair of queue pairs: the client's and the server's."""
        accepted: list[braid.QueuePair] = []

        def accept() -> None:
            accepted.append(self.listener.accept(LIMIT).accept(**settings))

        thread = threading.Thread(target=accept)
        thread.start()
        near = self.client.connect(self.listener.address, timeout=LIMIT, **settings)
        thread.join()
        return near, accepted[0]

    def remote(self, buffer: Any) -> braid.RemoteRegion:
        """The client's view of memory of the server."""
        self.region = self.server.register(buffer)
        return self.near.remote(self.region.key)


MakePair = Callable[..., Pair]


@pytest.fixture
def make_pair() -> Iterator[MakePair]:
    with ExitStack() as stack:
        yield lambda **settings: Pair(stack, **settings)


@pytest.fixture
def pair(make_pair: MakePair) -> Pair:
    return make_pair()
