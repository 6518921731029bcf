"""Agents at both ends."""

from __future__ import annotations

import faulthandler
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import braid
import pytest

# NIXL reads it when the first agent is made.
os.environ["NIXL_PLUGIN_DIR"] = os.environ.get("BRAID_NIXL_TEST_DIR") or str(
    braid.nixl_plugin_dir()
)

from node import LIMIT, Node, Remote


@pytest.fixture(autouse=True)
def _stacks_of_a_hang() -> Iterator[None]:
    faulthandler.dump_traceback_later(2 * LIMIT, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


MakeRemote = Callable[..., Remote]


@pytest.fixture
def remote() -> Iterator[MakeRemote]:
    """Makes nodes in other processes, which end with the test."""
    with ExitStack() as stack:

        def make(*arguments: Any, **settings: Any) -> Remote:
            node = Remote(*arguments, **settings)
            stack.callback(node.close)
            return node

        yield make


Pair = tuple[Node, Remote]
MakePair = Callable[..., Pair]


@pytest.fixture
def pair(remote: MakeRemote) -> MakePair:
    """Makes a node here and one in another process that know each other."""

    def make(size: int, **settings: Any) -> Pair:
        there = remote("there", size, **settings)
        here = Node("here", size, **settings)
        assert here.load(there.metadata()) == "there"
        assert there.load(here.metadata()) == "here"
        return here, there

    return make
