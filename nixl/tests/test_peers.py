"""Peers that die, hang, come back, or take their memory away."""

from __future__ import annotations

import os
import signal
import time

import pytest
from conftest import MakePair, MakeRemote
from node import LIMIT, Node, Remote

BLOCK = 1 << 20
DISCONNECTED = "REMOTE_DISCONNECT"


def write(here: Node, there: Remote, address: int) -> None:
    here.move("WRITE", "there", address, [(0, 0, BLOCK)])


def write_until_it_fails(here: Node, there: Remote, address: int) -> str:
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        try:
            write(here, there, address)
        except Exception as error:
            return str(error)
    raise AssertionError("every WRITE to a dead peer succeeded")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.parametrize("progress_thread", [True, False])
def test_a_dead_peer(pair: MakePair, number: signal.Signals, progress_thread: bool) -> None:
    here, there = pair(BLOCK, progress_thread=progress_thread)
    address = there.address()
    write(here, there, address)
    there.signal(number)
    start = time.monotonic()
    assert DISCONNECTED in write_until_it_fails(here, there, address)
    # The limit that the documentation promises.
    assert time.monotonic() - start < 5
    if number == signal.SIGKILL:
        # Nobody listens there any more.
        with pytest.raises(Exception, match=DISCONNECTED):
            write(here, there, address)


def test_a_peer_that_is_started_again(pair: MakePair, remote: MakeRemote) -> None:
    here, there = pair(BLOCK)
    write(here, there, there.address())
    there.signal(signal.SIGKILL)
    again = remote("there", BLOCK)
    here.remove("there")
    assert here.load(again.metadata()) == "there"
    here.fill(2)
    write(here, again, again.address())
    assert again.data() == here.data()


def test_an_agent_that_is_removed_and_loaded_again(pair: MakePair) -> None:
    here, there = pair(BLOCK)
    for seed in range(3):
        here.fill(seed)
        write(here, there, there.address())
        assert there.data() == here.data()
        here.remove("there")
        here.load(there.metadata())


def test_memory_that_the_peer_has_deregistered(
    pair: MakePair, capfd: pytest.CaptureFixture[str]
) -> None:
    here, there = pair(BLOCK)
    address = there.address()
    write(here, there, address)
    there.deregister()
    with pytest.raises(Exception, match="NOT_ALLOWED"):
        write(here, there, address)
    assert "refused a work request" in capfd.readouterr().err
    # The agent is still there.
    here.notify("there", b"anyone?")
    assert there.wait_notifications("here", 1) == [b"anyone?"]


def test_metadata_of_a_stranger(capfd: pytest.CaptureFixture[str]) -> None:
    here, other = Node("here", 4096), Node("other", 4096)
    good = other.metadata()
    place = good.index(b"braid-nixl/1")
    for bad in [
        good.replace(b"braid-nixl/1", b"braid-nixl/7"),
        good[:place] + bytes(len(b"braid-nixl/1")) + good[place + len(b"braid-nixl/1") :],
    ]:
        with pytest.raises(Exception, match="MISMATCH"):
            here.load(bad)
        assert "`other` is malformed" in capfd.readouterr().err
    here.load(good)


def test_a_forked_child_is_told(capfd: pytest.CaptureFixture[str]) -> None:
    node = Node("parent", 4096)
    child = os.fork()
    if child == 0:
        try:
            node.notify("parent", b"x")
        except Exception as error:
            os._exit(7 if "NIXL_ERR_BACKEND" in str(error) else 1)
        os._exit(2)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 7
    assert "create an agent in this one" in capfd.readouterr().err
