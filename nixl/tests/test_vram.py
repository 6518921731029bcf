"""Memory of GPUs, over the substitute of the CUDA driver.

Both agents are in other processes, because this one is to have no driver.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from itertools import product

import pytest
from conftest import MakeRemote
from node import Node, Remote
from test_transfers import BLOCK, expected, scattered

SIZE = 64 * BLOCK
KINDS = [("DRAM", "VRAM"), ("VRAM", "DRAM"), ("VRAM", "VRAM")]
MakePair = Callable[..., tuple[Remote, Remote]]


def has_driver() -> bool:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


@pytest.fixture
def pair(remote: MakeRemote) -> MakePair:
    """Makes two nodes in other processes that know each other."""

    def make(kinds: tuple[str, str], **settings: bool) -> tuple[Remote, Remote]:
        here, there = (
            remote(name, SIZE, kind=kind, **settings)
            for name, kind in zip(("here", "there"), kinds, strict=True)
        )
        assert here.load(there.metadata()) == "there"
        assert there.load(here.metadata()) == "here"
        return here, there

    return make


@pytest.mark.parametrize(("kinds", "progress_thread"), list(product(KINDS, [True, False])))
def test_write_and_read(pair: MakePair, kinds: tuple[str, str], progress_thread: bool) -> None:
    here, there = pair(kinds, progress_thread=progress_thread)
    for node in (here, there):
        node.behave({"shortest_us": 100, "longest_us": 3000})
    pairs, address = scattered(64, BLOCK, 1), there.address()
    here.fill(7)
    source = here.data()
    here.move("WRITE", "there", address, pairs, b"written", kinds[1])
    # The bytes are there when the initiator knows the end, and when the target does.
    assert there.data() == expected(source, pairs, SIZE)
    assert there.wait_notifications("here", 1) == [b"written"]
    here.clear()
    here.move("READ", "there", address, pairs, b"read", kinds[1])
    assert here.data() == source
    assert there.wait_notifications("here", 1) == [b"read"]


def test_odd_lengths_and_offsets(pair: MakePair) -> None:
    here, there = pair(("VRAM", "VRAM"))
    here.fill(3)
    source = here.data()
    pairs, near, far = [], 1, SIZE // 2 + 1
    for length in [1, 3, 63, 65, 1407, 4097, 16385, 65537, 1 << 20]:
        pairs.append((near, far, length))
        near, far = near + length + 1, far + length + 3
    here.move("WRITE", "there", there.address(), pairs, b"", "VRAM")
    assert there.data() == expected(source, pairs, SIZE)


@pytest.mark.parametrize("kinds", [*KINDS, ("DRAM", "DRAM")])
def test_an_agent_reaches_its_own_memory(remote: MakeRemote, kinds: tuple[str, str]) -> None:
    node = remote("alone", SIZE, kind=kinds[0], gpu=True)
    node.fill(4)
    source, other = node.data(), node.add(kinds[1])
    pairs = [(1, 5, 3 * BLOCK), (20 * BLOCK, 10 * BLOCK, 20 * BLOCK)]
    node.move("WRITE", "alone", other, pairs, b"copied", kinds[1])
    assert node.further_data() == expected(source, pairs, SIZE)
    assert node.notifications() == {"alone": [b"copied"]}
    node.clear()
    node.move("READ", "alone", other, pairs, b"", kinds[1])
    back = [(here, here, length) for here, _, length in pairs]
    assert node.data() == expected(source, back, SIZE)


@pytest.mark.parametrize(("start", "end"), [(0, BLOCK), (BLOCK, 0)])
def test_overlapping_memory_is_copied_as_if_by_memmove(
    remote: MakeRemote, start: int, end: int
) -> None:
    node = remote("alone", SIZE, kind="VRAM")
    node.fill(5)
    source, length = node.data(), SIZE - BLOCK
    node.move("WRITE", "alone", node.address(), [(start, end, length)], b"", "VRAM")
    assert node.data((end, length)) == source[start : start + length]


def test_both_kinds_are_offered_with_a_driver(remote: MakeRemote) -> None:
    assert remote("gpu", 4096, kind="VRAM").memory_kinds() == ["DRAM_SEG", "VRAM_SEG"]


@pytest.mark.skipif(has_driver(), reason="this machine has a driver")
def test_without_a_driver_the_remedy_is_named(capfd: pytest.CaptureFixture[str]) -> None:
    node = Node("host", 4096)
    assert node.memory_kinds() == ["DRAM_SEG"]
    with pytest.raises(Exception, match="NIXL_ERR_BACKEND"):
        node.register((node.base, 4096, 0, ""), "VRAM")
    text = capfd.readouterr().err
    assert "no GPU: libcuda.so.1" in text
    assert "install the NVIDIA driver" in text


@pytest.mark.skipif(has_driver(), reason="this machine has a driver")
def test_a_host_without_a_gpu_reaches_memory_of_one(remote: MakeRemote) -> None:
    here, there = Node("here", SIZE), remote("there", SIZE, kind="VRAM")
    assert here.memory_kinds() == ["DRAM_SEG"]
    here.load(there.metadata())
    there.fill(6)
    here.move("READ", "there", there.address(), [(0, 0, SIZE)], b"", "VRAM")
    assert here.data() == there.data()


def test_memory_that_is_none_of_the_gpu_is_refused(
    remote: MakeRemote, capfd: pytest.CaptureFixture[str]
) -> None:
    node = remote("gpu", 4096, kind="VRAM")
    with pytest.raises(Exception, match="NIXL_ERR_BACKEND"):
        node.register((4096, 4096, 0, ""), "VRAM")
    assert "CUDA does not know device memory at 0x1000" in capfd.readouterr().err


def test_the_address_decides_which_gpu_it_is(remote: MakeRemote) -> None:
    # Some programs pass the rank of a process.
    node = remote("gpu", 4096, kind="VRAM")
    node.register((node.address(), 4096, 3, ""), "VRAM")


@pytest.mark.parametrize(("who", "code"), [("here", "BACKEND"), ("there", "REMOTE_DISCONNECT")])
def test_a_copy_that_fails_ends_the_transfer(
    pair: MakePair, who: str, code: str, capfd: pytest.CaptureFixture[str]
) -> None:
    here, there = pair(("VRAM", "VRAM"))
    address, pairs = there.address(), scattered(64, BLOCK, 2)
    here.fill(1)
    {"here": here, "there": there}[who].behave({"refuses_after": 3})
    with pytest.raises(Exception, match=f"NIXL_ERR_{code}"):
        here.move("WRITE", "there", address, pairs, b"", "VRAM")
    assert "CUDA_ERROR_INVALID_VALUE" in capfd.readouterr().err
    # The next transfer connects anew.
    here.move("WRITE", "there", address, pairs, b"again", "VRAM")
    assert there.data() == expected(here.data(), pairs, SIZE)


def test_memory_can_be_asked_for(remote: MakeRemote) -> None:
    node = remote("gpu", SIZE, kind="VRAM")
    gpu, host = node.address(), node.add("DRAM")
    found = {"memory": "VRAM", "addr": hex(gpu), "len": str(SIZE)}
    asked = [(gpu, SIZE, 0, ""), (gpu + 5, 8, 0, ""), (gpu + 5, SIZE, 0, ""), (host, 8, 0, "")]
    assert node.query(asked, "VRAM") == [found, found, None, None]
    found = {"memory": "DRAM", "addr": hex(host), "len": str(SIZE)}
    assert node.query([(host, 8, 0, ""), (gpu, 8, 0, "")], "DRAM") == [found, None]
    node.deregister()
    assert node.query([(gpu, 8, 0, "")], "VRAM") == [None]
