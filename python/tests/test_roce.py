"""Queue pairs that speak plain RoCEv2, between two engines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from conftest import LIMIT

import braid


class RocePair:
    """Two engines with a RoCEv2 connection between them, whose PSNs wrap soon."""

    def __init__(self, stack: ExitStack, dcqcn: str | None, mtu: int | None) -> None:
        self.near_engine = stack.enter_context(braid.Engine(bind="127.0.0.1:0"))
        self.far_engine = stack.enter_context(braid.Engine(bind="127.0.0.1:0"))
        self.near = self.near_engine.create_qp()
        self.far = self.far_engine.create_qp()
        # Any port but 4791 will do for the question.
        ends = [engine.roce_port("127.0.0.1", 9) for engine in (self.near_engine, self.far_engine)]
        assert [end.gid for end in ends] == ["127.0.0.1"] * 2
        assert all(end.mtu == 4096 for end in ends)
        psns = (0xFFFFF0, 77)
        for own, peer, end, (send, recv) in (
            (self.near, self.far, ends[1], psns),
            (self.far, self.near, ends[0], psns[::-1]),
        ):
            own.connect_roce(
                end.gid,
                peer.number,
                port=end.port,
                send_psn=send,
                recv_psn=recv,
                mtu=mtu,
                dcqcn=dcqcn,
            )


@pytest.fixture(params=[(None, None), ("10G", 1024)])
def roce(request: pytest.FixtureRequest) -> Iterator[RocePair]:
    with ExitStack() as stack:
        yield RocePair(stack, *request.param)


def test_every_operation_arrives(roce: RocePair) -> None:
    board = bytearray(1 << 18)
    with roce.far_engine.register(board) as region:
        remote = roce.near.remote_at(region.address, region.rkey, len(region))
        local = roce.near_engine.register(bytearray(range(256)) * 1024)
        assert remote.write(local).wait(LIMIT) == 1 << 18
        assert board == bytes(range(256)) * 1024
        back = bytearray(100)
        assert remote.read(roce.near_engine.register(back), 256).wait(LIMIT) == 100
        assert back == bytes(range(100))
        board[:8] = (41).to_bytes(8, "little")
        assert remote.fetch_add(0, 1).wait(LIMIT) == 41
        assert board[:8] == (42).to_bytes(8, "little")
        inbox = roce.far_engine.register(bytearray(16))
        received = roce.far.recv(inbox)
        roce.near.send(b"hello", imm=7).wait(LIMIT)
        message = received.wait(LIMIT)
        assert (message.length, message.imm) == (5, 7)
    assert roce.near.counters()["cnps_received"] == 0
    assert roce.near_engine.counters()["marks_received"] == 0


def test_mistakes_are_named(roce: RocePair) -> None:
    with pytest.raises(braid.ConnectError, match="RESET or INIT"):
        roce.near.connect_roce("127.0.0.1", 2, port=9)
    qp = roce.near_engine.create_qp()
    with pytest.raises(braid.SettingError, match="not an IP address"):
        qp.connect_roce("localhost", 2)
    with pytest.raises(braid.SettingError, match="`mtu` is 1000"):
        qp.connect_roce("127.0.0.1", 2, port=9, mtu=1000)
    with pytest.raises(braid.SettingError, match="at most 16777215"):
        qp.connect_roce("127.0.0.1", 1 << 24, port=9)
    with pytest.raises(braid.SettingError, match="`send_psn` is 16777216"):
        qp.connect_roce("127.0.0.1", 2, port=9, send_psn=1 << 24)
    with pytest.raises(braid.SettingError, match="invalid rate"):
        qp.connect_roce("127.0.0.1", 2, port=9, dcqcn="fast")
    with pytest.raises(TypeError, match="did you mean `recv_psn`"):
        qp.connect_roce("127.0.0.1", 2, port=9, recv_pns=1)  # type: ignore[call-arg]
    with pytest.raises(braid.ConnectError, match="belongs to another IP version"):
        qp.connect_roce("::1", 2, port=9)
