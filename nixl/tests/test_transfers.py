"""Data between two processes, and inside one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from conftest import MakePair
from node import Node

BLOCK = 64 << 10


def scattered(count: int, block: int, seed: int) -> list[tuple[int, int, int]]:
    """Blocks of the first half of memory here, in another order there."""
    places = np.random.default_rng(seed).permutation(count)
    return [(index * block, int(place) * block, block) for index, place in enumerate(places)]


def expected(source: bytes, pairs: list[tuple[int, int, int]], size: int) -> bytes:
    """The memory that a WRITE of all pairs makes out of zeros."""
    result = bytearray(size)
    for here, there, length in pairs:
        result[there : there + length] = source[here : here + length]
    return bytes(result)


@pytest.mark.parametrize("progress_thread", [True, False])
def test_write_and_read(pair: MakePair, progress_thread: bool) -> None:
    size = 256 * BLOCK
    here, there = pair(size, progress_thread=progress_thread)
    pairs = scattered(256, BLOCK, 1)
    here.fill(7)
    source = here.data()
    handle = here.handle("WRITE", "there", there.address(), pairs, b"written")
    here.run(handle)
    assert there.wait_notifications("here", 1) == [b"written"]
    assert there.data() == expected(source, pairs, size)
    # The same handle once more, with other data.
    here.fill(8)
    source = here.data()
    here.run(handle)
    assert there.wait_notifications("here", 1) == [b"written"]
    assert there.data() == expected(source, pairs, size)
    here.agent.release_xfer_handle(handle)
    here.clear()
    here.move("READ", "there", there.address(), pairs, b"read")
    assert here.data() == source
    assert there.wait_notifications("here", 1) == [b"read"]
    # The other agent has a connection of its own.
    there.clear()
    there.move("READ", "here", here.address(), pairs)
    assert there.data() != bytes(size)


def test_odd_lengths_and_offsets(pair: MakePair) -> None:
    here, there = pair(1 << 20)
    here.fill(3)
    lengths = [1, 2, 3, 7, 63, 64, 65, 1407, 1408, 4095, 4097, 16383, 16385, 65537]
    pairs, near, far = [], 1, 500_001
    for length in lengths:
        pairs.append((near, far, length))
        near, far = near + length + 1, far + length + 3
    here.move("WRITE", "there", there.address(), pairs)
    source = here.data()
    assert there.data() == expected(source, pairs, 1 << 20)
    here.clear()
    here.move("READ", "there", there.address(), pairs)
    back = [(here, here, length) for here, _, length in pairs]
    assert here.data() == expected(source, back, 1 << 20)


def test_a_hundred_thousand_descriptors(pair: MakePair) -> None:
    count, block = 100_000, 64
    size = 2 * count * block
    here, there = pair(size)
    here.fill(5)
    source = here.data()
    # Every other block, so that no two can be joined.
    order = np.random.default_rng(5).permutation(count)
    pairs = [(2 * i * block, 2 * int(order[i]) * block, block) for i in range(count)]
    here.move("WRITE", "there", there.address(), pairs, b"all")
    assert there.wait_notifications("here", 1) == [b"all"]
    assert there.data() == expected(source, pairs, size)
    here.clear()
    here.move("READ", "there", there.address(), pairs)
    back = [(near, near, length) for near, _, length in pairs]
    assert here.data() == expected(source, back, size)


def test_prepared_lists(pair: MakePair) -> None:
    here, there = pair(64 * BLOCK)
    here.fill(9)
    source = here.data()
    sides = [
        here.agent.prep_xfer_dlist(agent, [(base + i * BLOCK, BLOCK, 0) for i in range(64)], "DRAM")
        for agent, base in [("NIXL_INIT_AGENT", here.base), ("there", there.address())]
    ]
    order = np.random.default_rng(9).permutation(64).astype(np.int32)
    numbers = np.arange(64, dtype=np.int32)
    handle = here.agent.make_prepped_xfer("WRITE", sides[0], numbers, sides[1], order, b"done")
    here.run(handle)
    assert there.wait_notifications("here", 1) == [b"done"]
    pairs = [(i * BLOCK, int(order[i]) * BLOCK, BLOCK) for i in range(64)]
    assert there.data() == expected(source, pairs, 64 * BLOCK)
    here.agent.release_xfer_handle(handle)


def test_an_agent_reaches_its_own_memory() -> None:
    node = Node("alone", 8 * BLOCK)
    node.fill(4)
    source = node.data()
    node.move("WRITE", "alone", node.base, [(0, 4 * BLOCK, 2 * BLOCK)], b"copied")
    assert node.data((4 * BLOCK, 2 * BLOCK)) == source[: 2 * BLOCK]
    assert node.notifications() == {"alone": [b"copied"]}
    node.move("READ", "alone", node.base, [(BLOCK, 0, BLOCK)])
    assert node.data((BLOCK, BLOCK)) == source[:BLOCK]
    node.notify("alone", b"hello")
    assert node.notifications() == {"alone": [b"hello"]}


def test_two_agents_in_one_process() -> None:
    one, two = (Node(name, BLOCK, progress_thread=False) for name in ("one", "two"))
    assert one.load(two.metadata()) == "two"
    one.fill(6)
    one.agent.make_connection("two")
    one.move("WRITE", "two", two.base, [(0, 0, BLOCK)], b"next door")
    assert two.data() == one.data()
    assert two.wait_notifications("one", 1) == [b"next door"]


def test_transfers_in_flight_at_the_same_time(pair: MakePair) -> None:
    here, there = pair(256 * BLOCK)
    here.fill(2)
    source, base = here.data(), there.address()
    handles = [
        here.handle("WRITE", "there", base, [(i * BLOCK, i * BLOCK, BLOCK)], b"%d" % i)
        for i in range(256)
    ]
    states = [here.agent.transfer(handle) for handle in handles]
    while "PROC" in states:
        states = [here.agent.check_xfer_state(handle) for handle in handles]
    assert set(states) == {"DONE"}
    assert there.data() == source
    assert there.wait_notifications("here", 256) == [b"%d" % i for i in range(256)]
    for handle in handles:
        here.agent.release_xfer_handle(handle)


def test_a_released_transfer_leaves_others_alone(pair: MakePair) -> None:
    here, there = pair(512 * BLOCK)
    here.fill(1)
    pairs = scattered(512, BLOCK, 3)
    for _ in range(3):
        handle = here.handle("WRITE", "there", there.address(), pairs, b"never read")
        here.agent.transfer(handle)
        here.agent.release_xfer_handle(handle)
    there_now = here.handle("WRITE", "there", there.address(), [(0, 0, BLOCK)], b"after")
    here.run(there_now)
    assert there.wait_notifications("here", 1)[-1] == b"after"
    here.agent.release_xfer_handle(there_now)


def test_threads_of_one_agent(pair: MakePair) -> None:
    """Each thread has a part of the memory, in blocks that it moves there and back."""
    here, there = pair(256 * BLOCK, strict=True)
    here.fill(4)
    source, base = here.data(), there.address()

    def work(part: int) -> None:
        blocks = [(i * BLOCK, i * BLOCK, BLOCK) for i in range(part * 64, part * 64 + 64)]
        for number in range(5):
            here.move("WRITE", "there", base, blocks, b"%d.%d" % (part, number))
            here.move("READ", "there", base, blocks)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(4)))
    assert there.data() == source
    assert here.data() == source
    expected = {b"%d.%d" % (part, number) for part in range(4) for number in range(5)}
    assert set(there.wait_notifications("here", 20)) == expected


def test_telemetry(pair: MakePair) -> None:
    here, there = pair(16 * BLOCK, telemetry=True)
    handle = here.handle("WRITE", "there", there.address(), scattered(16, BLOCK, 2))
    here.run(handle)
    told = here.agent.get_xfer_telemetry(handle)
    assert told.totalBytes == 16 * BLOCK
    assert told.xferDuration > 0
    here.agent.release_xfer_handle(handle)


def test_costs_are_estimated_once_a_transfer_has_ended(
    pair: MakePair, capfd: pytest.CaptureFixture[str]
) -> None:
    here, there = pair(256 * BLOCK)
    base = there.address()
    # Those that wait for a connection are not measured.
    here.agent.make_connection("there")
    handles = [
        here.handle("WRITE", "there", base, [(0, 0, count * BLOCK)]) for count in (1, 64, 256)
    ]
    with pytest.raises(Exception, match="NIXL_ERR_NOT_SUPPORTED"):
        here.agent.estimate_xfer_cost(handles[0])
    assert "no WRITE of DRAM with agent `there` has been measured yet" in capfd.readouterr().err
    for _ in range(3):
        for handle in handles:
            here.run(handle)
    told = [here.agent.estimate_xfer_cost(handle) for handle in handles]
    small, middle, large = (duration for duration, _, _ in told)
    assert 0 < small <= middle <= large
    reading = here.handle("READ", "there", base, [(0, 0, BLOCK)])
    with pytest.raises(Exception, match="NIXL_ERR_NOT_SUPPORTED"):
        here.agent.estimate_xfer_cost(reading)
    assert "no READ of DRAM" in capfd.readouterr().err
    for handle in (*handles, reading):
        here.agent.release_xfer_handle(handle)


def test_costs_of_copies_within_an_agent() -> None:
    node = Node("alone", 8 * BLOCK)
    handle = node.handle("WRITE", "alone", node.base, [(0, 4 * BLOCK, 2 * BLOCK)])
    node.run(handle)
    duration, margin, _ = node.agent.estimate_xfer_cost(handle)
    assert duration >= 0
    assert margin == 0
    node.agent.release_xfer_handle(handle)
