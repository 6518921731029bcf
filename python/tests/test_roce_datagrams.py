"""Datagrams over plain RoCEv2, between two engines."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from conftest import LIMIT, in_forked_child

import braid

KEY = 0x12345678
HEADER = 40


class Ends:
    """Two engines with a datagram queue pair each, at the ports of the engines."""

    def __init__(self, stack: ExitStack, host: str) -> None:
        engines = [stack.enter_context(braid.Engine(bind=f"{host}:0")) for _ in range(2)]
        self.near_engine, self.far_engine = engines
        self.near = self.near_engine.roce_ud(0x11, KEY, port=9, psn=0xFFFFFF)
        self.far = self.far_engine.roce_ud(0x22, KEY, port=9)
        self.host = host.strip("[]")
        self.to_far = self.near.peer(self.host, 0x22, KEY, port=port_of(self.far_engine))
        self.to_near = self.far.peer(self.host, 0x11, KEY, port=port_of(self.near_engine))


def port_of(engine: braid.Engine) -> int:
    return int(engine.address.rpartition(":")[2])


def counted(engine: braid.Engine, name: str, count: int) -> None:
    until = time.monotonic() + LIMIT
    while engine.counters()[name] < count and time.monotonic() < until:
        time.sleep(0.001)
    assert engine.counters()[name] == count


@pytest.fixture(params=["127.0.0.1", "[::1]"])
def any_ends(request: pytest.FixtureRequest) -> Iterator[Ends]:
    with ExitStack() as stack:
        yield Ends(stack, request.param)


@pytest.fixture
def ends() -> Iterator[Ends]:
    with ExitStack() as stack:
        yield Ends(stack, "127.0.0.1")


def test_a_datagram_arrives_behind_its_header(any_ends: Ends) -> None:
    ends = any_ends
    inbox = bytearray(HEADER + 4096)
    region = ends.far_engine.register(inbox)
    assert (ends.near.number, ends.to_far.mtu, ends.to_far.qp) == (0x11, 4096, 0x22)
    assert (ends.to_far.gid, ends.to_far.q_key) == (ends.host, KEY)
    for payload in (b"", b"hello", bytearray(range(256)) * 16):
        receive = ends.far.recv(region)
        sent = ends.near.send(ends.to_far, payload, imm=7)
        assert sent.wait(LIMIT) == len(payload)
        message = receive.wait(LIMIT)
        assert (message.length, message.imm) == (HEADER + len(payload), 7)
        assert (message.source, message.is_write) == (0x11, False)
        assert inbox[HEADER : message.length] == payload
        assert ends.far.sender(inbox) == ends.host
        assert (sent.queue_pair.number, sent.operation) == (0x11, "SEND")
    # The answer goes to the sender.
    answer = ends.near.recv(ends.near_engine.register(bytearray(100)))
    port = port_of(ends.near_engine)
    ends.far.send(ends.far.peer(ends.far.sender(inbox), 0x11, KEY, port=port), b"yes").wait(LIMIT)
    assert answer.wait(LIMIT).imm is None


def test_datagrams_are_awaited_and_queued(ends: Ends) -> None:
    region = ends.far_engine.register(bytearray(8 * 100))

    async def exchange() -> list[int | None]:
        receives = [ends.far.recv(region[100 * at : 100 * at + 100]) for at in range(8)]
        for at in range(8):
            await ends.near.send(ends.to_far, b"x" * at, imm=at)
        return [message.imm for message in await asyncio.gather(*receives)]

    assert asyncio.run(asyncio.wait_for(exchange(), LIMIT)) == list(range(8))
    queue = ends.near_engine.completion_queue()
    for at in range(8):
        ends.near.send(ends.to_far, b"x" * at, to=queue)
    assert [work.result() for work in queue] == list(range(8))


def test_the_key_and_the_receive_decide(ends: Ends) -> None:
    region = ends.far_engine.register(bytearray(100))
    ends.near.send(ends.to_far, b"nobody takes it").wait(LIMIT)
    counted(ends.far_engine, "refused", 1)
    short, whole = ends.far.recv(region[: HEADER + 4]), ends.far.recv(region)
    port = port_of(ends.far_engine)
    wrong = ends.near.peer("127.0.0.1", 0x22, KEY ^ 1, port=port)
    ends.near.send(wrong, b"hello").wait(LIMIT)
    counted(ends.far_engine, "wrong_q_key", 1)
    assert not short.done()
    ends.near.send(ends.to_far, b"hello").wait(LIMIT)
    with pytest.raises(braid.WorkError, match="40 bytes more than the longest") as failed:
        short.wait(LIMIT)
    assert failed.value.status == braid.Status.LOCAL_LENGTH
    assert failed.value.cause == braid.EndCause.REFUSED_HERE
    ends.far.set_q_key(KEY ^ 1)
    ends.near.send(wrong, b"hello").wait(LIMIT)
    assert whole.wait(LIMIT).length == HEADER + 5


def test_mistakes_are_named(ends: Ends) -> None:
    engine, near = ends.near_engine, ends.near
    with pytest.raises(braid.PostError, match="send at most 4096 bytes"):
        near.send(ends.to_far, bytes(4097))
    with pytest.raises(braid.PostError, match="by another engine"):
        near.send(ends.to_near, b"")
    region = engine.register(bytearray(8))
    with pytest.raises(TypeError, match="no payload of a datagram; give bytes"):
        near.send(ends.to_far, region)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="RocePeer"):
        near.send("127.0.0.1", b"")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="solicited"):
        near.send(ends.to_far, b"", solicted=True)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="registered memory"):
        near.recv(bytearray(100))  # type: ignore[arg-type]
    with pytest.raises(braid.PostError, match="another engine"):
        near.recv(ends.far_engine.register(bytearray(8)))
    for number in (0, 1):
        with pytest.raises(braid.ConnectError, match="reserved for management"):
            engine.roce_ud(number, KEY, port=9)
    with pytest.raises(braid.ConnectError, match="another queue pair of this engine"):
        engine.roce_ud(0x11, KEY, port=9)
    with pytest.raises(braid.SettingError, match="`number` is 16777216"):
        engine.roce_ud(1 << 24, KEY)
    with pytest.raises(braid.SettingError, match="`psn` is 16777216"):
        engine.roce_ud(0x33, KEY, psn=1 << 24)
    with pytest.raises(braid.SettingError, match="`max_wr` of a shared receive queue"):
        engine.roce_ud(0x33, KEY, max_recv_wr=0)
    with pytest.raises(TypeError, match="did you mean `max_recv_wr`"):
        engine.roce_ud(0x33, KEY, max_recv_wrs=9)  # type: ignore[call-arg]
    with pytest.raises(OverflowError):
        engine.roce_ud(0x33, 1 << 32)
    with pytest.raises(braid.SettingError, match="not an IP address"):
        near.peer("localhost", 0x22, KEY)
    with pytest.raises(braid.ConnectError, match="another IP version"):
        near.peer("::1", 0x22, KEY, port=9)
    for header in (bytes(39), bytes(40)):
        with pytest.raises(braid.SettingError, match="header"):
            near.sender(header)
    with braid.Engine() as everywhere, pytest.raises(braid.ConnectError, match="one address"):
        everywhere.roce_ud(0x33, KEY, port=9)


def test_full_queues_say_so(ends: Ends) -> None:
    ud = ends.near_engine.roce_ud(0x33, KEY, port=9, max_send_wr=0, max_recv_wr=1)
    with pytest.raises(braid.PostError, match="send queue"):
        ud.send(ends.to_far, b"")
    region = ends.near_engine.register(bytearray(100))
    ud.recv(region)
    with pytest.raises(braid.PostError, match="more work is in flight|1 work requests"):
        for _ in range(2000):
            ud.recv(region)


def test_closed_objects_say_so(ends: Ends) -> None:
    receive = ends.far.recv(ends.far_engine.register(bytearray(100)))
    with ends.far:
        assert not ends.far.closed
    assert ends.far.closed
    assert "closed" in repr(ends.far)
    with pytest.raises(braid.WorkError, match="the queue pair was closed") as failed:
        receive.wait(LIMIT)
    assert failed.value.status == braid.Status.FLUSHED
    with pytest.raises(braid.ClosedError, match="datagram queue pair is closed"):
        ends.far.send(ends.to_near, b"")
    # Its number is free.
    ends.far_engine.roce_ud(0x22, KEY, port=9)
    ends.near_engine.close()
    with pytest.raises(braid.ClosedError):
        ends.near.send(ends.to_far, b"")
    with pytest.raises(braid.ClosedError):
        ends.near_engine.roce_ud(0x33, KEY)


def test_a_forked_child_is_refused(ends: Ends) -> None:
    region = ends.near_engine.register(bytearray(100))
    uses: list[Callable[[], object]] = [
        lambda: ends.near.send(ends.to_far, b""),
        lambda: ends.near.recv(region),
        lambda: ends.near.peer("127.0.0.1", 2, KEY),
        lambda: ends.near.set_q_key(1),
        lambda: ends.near_engine.roce_ud(0x33, KEY),
    ]

    def close() -> list[str]:
        ends.near.close()
        return []

    assert in_forked_child(uses, close) == ["refused"] * len(uses)
    receive = ends.far.recv(ends.far_engine.register(bytearray(100)))
    ends.near.send(ends.to_far, b"alive").wait(LIMIT)
    assert receive.wait(LIMIT).length == HEADER + 5
