"""Each operation, each kind of memory, and each way to wait."""

from __future__ import annotations

import array
import asyncio
import mmap
import sys
import threading
import types
from typing import Any

import numpy as np
import pytest
from conftest import LIMIT, MakePair, Pair

import braid


def test_write_and_read_with_offsets(pair: Pair) -> None:
    board = bytearray(1 << 20)
    remote = pair.remote(board)
    local = pair.client.register(bytearray(range(256)) * 4096)
    assert remote.write(local).wait(LIMIT) == 1 << 20
    assert board == bytes(range(256)) * 4096
    assert remote.write(local[16:32], 3).wait(LIMIT) == 16
    assert board[3:19] == bytes(range(16, 32))
    assert remote.write([local[:2], local[8:10]], 100).wait(LIMIT) == 4
    assert board[100:104] == bytes([0, 1, 8, 9])
    assert remote.write(b"inline", 7).wait(LIMIT) == 6
    assert board[7:13] == b"inline"
    back = bytearray(8)
    assert remote.read(pair.client.register(back), 7).wait(LIMIT) == 8
    assert back[:6] == b"inline"


@pytest.mark.parametrize(("datapath", "protocol"), [("auto", "UDP"), ("tcp", "TCP")])
def test_the_protocol_is_named(make_pair: MakePair, datapath: str, protocol: str) -> None:
    pair = make_pair(datapath=datapath)
    assert (pair.near.protocol, pair.far.protocol) == (protocol, protocol)
    assert pair.client.create_qp().protocol is None


def test_send_and_receive_with_immediate_data(pair: Pair) -> None:
    inbox = bytearray(64)
    region = pair.server.register(inbox)
    works = [pair.far.recv(region[:32]), pair.far.recv(region[32:]), pair.far.recv()]
    assert pair.near.send(b"one", imm=0xFFFFFFFF, solicited=True).wait(LIMIT) == 3
    out = pair.client.register(bytearray(b"two"))
    assert pair.near.send(out).wait(LIMIT) == 3
    assert pair.remote(bytearray(8)).write(b"x", imm=9, fence=True).wait(LIMIT) == 1
    first, second, third = (work.wait(LIMIT) for work in works)
    assert (first.length, first.imm, first.is_write) == (3, 0xFFFFFFFF, False)
    assert (second.length, second.imm) == (3, None)
    assert (third.imm, third.is_write) == (9, True)
    assert inbox[:3] == b"one"
    assert inbox[32:35] == b"two"


def test_atomics_return_the_earlier_value(pair: Pair) -> None:
    words = np.zeros(4, dtype=np.uint64)
    remote = pair.remote(words)
    assert remote.fetch_add(8, 5).wait(LIMIT) == 0
    assert remote.fetch_add(8, 2**64 - 1).wait(LIMIT) == 5
    assert remote.compare_swap(8, 4, 2**63).wait(LIMIT) == 4
    assert remote.compare_swap(8, 4, 1).wait(LIMIT) == 2**63
    assert words.tolist() == [0, 2**63, 0, 0]


class Tensor:
    """The interface of torch's tensors that registering uses."""

    def __init__(self, values: Any, place: str = "cpu", contiguous: bool = True) -> None:
        self.values, self.contiguous = values, contiguous
        self.device = type("device", (), {"type": place})()

    def is_contiguous(self) -> bool:
        return self.contiguous

    def detach(self) -> Tensor:
        return self

    def view(self, shape: Any) -> Tensor:
        values = self.values.reshape(-1) if shape == -1 else self.values.view(shape)
        return Tensor(values)

    def numpy(self) -> Any:
        return self.values


def memories() -> list[Any]:
    return [
        bytearray(64),
        memoryview(bytearray(128))[32:96],
        array.array("d", [0.0] * 8),
        mmap.mmap(-1, 64),
        np.zeros(64, dtype=np.uint8),
        np.zeros((4, 2), dtype=np.float64),
        np.zeros(64, dtype=np.int8)[16:],
        np.zeros(4, dtype=np.complex128),
        np.zeros(8, dtype=[("a", "i4"), ("b", "f4")]),
    ]


@pytest.mark.parametrize("memory", memories(), ids=lambda memory: type(memory).__name__)
def test_memory_of_every_kind(pair: Pair, memory: Any) -> None:
    remote = pair.remote(memory)
    assert len(remote) == memoryview(memory).nbytes
    remote.write(b"\x01" * 16, 8).wait(LIMIT)
    assert memoryview(memory).tobytes()[6:26] == b"\0\0" + b"\x01" * 16 + b"\0\0"


def test_tensors_share_their_memory(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    torch: Any = types.SimpleNamespace(uint8=np.uint8)
    monkeypatch.setitem(sys.modules, "torch", torch)
    values = np.zeros((2, 8), dtype=np.float32)
    pair.remote(Tensor(values)).write(b"\x00\x00\x80\x3f", 4).wait(LIMIT)
    assert values[0, 1] == 1.0
    with pytest.raises(braid.RegisterError, match=r"\(xpu\), which is no GPU of CUDA.*\.cpu\(\)"):
        pair.server.register(Tensor(values, place="xpu"))
    with pytest.raises(braid.RegisterError, match="contiguous"):
        pair.server.register(Tensor(values, contiguous=False))


def test_iterating_takes_works_in_the_order_of_their_ends(pair: Pair) -> None:
    remote, local = pair.remote(bytearray(4096)), pair.client.register(bytearray(4096))
    queue = pair.client.completion_queue()
    works = [remote.write(local[:64], 64 * at, to=queue) for at in range(64)]
    assert len(queue) == 64
    assert [work for work in queue] == works  # noqa: C416
    assert len(queue) == 0
    with pytest.raises(braid.PendingError, match="nothing is in flight"):
        queue.wait()
    work = pair.far.recv(pair.region, to=(server := pair.server.completion_queue()))
    with pytest.raises(braid.WaitTimeoutError, match="1 works are still in flight"):
        server.wait(0.1)
    pair.near.send(b"end").wait(LIMIT)
    assert server.wait(LIMIT) is work


def test_posting_without_waiting_overruns_nothing(pair: Pair) -> None:
    remote = pair.remote(board := bytearray(8))
    posted = 0
    for at in range(20_000):
        try:
            work = remote.write(at.to_bytes(8, "little"))
            posted += 1
        except braid.PostError as full:
            assert "128 work requests" in str(full) or "more work is in flight" in str(full)
            work.wait(LIMIT)
    work.wait(LIMIT)
    assert pair.near.state == "RTS"
    assert posted > 10_000
    assert int.from_bytes(board, "little") > 0


def test_awaits_of_all_kinds(pair: Pair) -> None:
    remote = pair.remote(board := bytearray(4096))
    local = pair.client.register(bytearray(b"\x07" * 4096))

    async def run() -> None:
        assert await remote.write(local) == 4096
        works = [remote.read(local[64 * at : 64 * at + 64], 64 * at) for at in range(64)]
        assert sum(await asyncio.gather(*works)) == 4096
        queue = pair.client.completion_queue()
        for at in range(64):
            remote.write(local[:8], 8 * at, to=queue)
        assert [work.result() async for work in queue] == [8] * 64
        receive = pair.far.recv(pair.region)
        task = asyncio.ensure_future(receive)
        await asyncio.sleep(0.05)
        assert not task.done()
        await pair.near.send(b"late", imm=1)
        assert (await task).imm == 1

    # Each run has a loop of its own.
    for _ in range(3):
        asyncio.run(run(), debug=True)
    assert board[:4] == b"late"


def test_a_cancelled_await_leaves_the_work(pair: Pair) -> None:
    region = pair.server.register(bytearray(8))

    async def run() -> None:
        receive = pair.far.recv(region)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(receive, 0.05)
        await pair.near.send(b"here")
        assert (await receive).length == 4

    asyncio.run(run())


def test_connecting_in_a_loop() -> None:
    async def run() -> None:
        with braid.Engine(bind="127.0.0.1:0") as server, braid.Engine() as client:
            listener = server.listen()

            async def serve() -> braid.QueuePair:
                request = await listener.accept_async()
                assert request.private_data == b"who"
                return request.accept(private_data=b"me")

            serving = asyncio.create_task(serve())
            qp = await client.connect_async(server.address, private_data=b"who", max_send_wr=16)
            assert qp.private_data == b"me"
            far = await serving
            assert far.private_data == b"who"
            with pytest.raises(braid.ConnectError, match="rejected"):
                rejecting = asyncio.create_task(listener.accept_async())
                rejecting.add_done_callback(lambda task: task.result().reject())
                await client.connect_async(server.address)

    asyncio.run(run())


def test_3200_awaits_on_16_queue_pairs(make_pair: MakePair) -> None:
    pair = make_pair()
    board = bytearray(3200 * 8)
    region = pair.server.register(board)
    local = pair.client.register(bytearray(b"".join(n.to_bytes(8, "big") for n in range(3200))))
    pairs = [pair.connect(max_send_wr=200) for _ in range(16)]
    remotes = [near.remote(region.key) for near, _ in pairs]

    async def run() -> None:
        works = [remotes[at % 16].write(local[8 * at : 8 * at + 8], 8 * at) for at in range(3200)]
        assert await asyncio.gather(*works) == [8] * 3200

    asyncio.run(run())
    assert [int.from_bytes(board[8 * n : 8 * n + 8], "big") for n in range(3200)] == list(
        range(3200)
    )


@pytest.mark.parametrize("threads", [0, 1, 4])
def test_threads_that_wait_side_by_side(make_pair: MakePair, threads: int) -> None:
    pair = make_pair(threads=threads)
    remote = pair.remote(bytearray(4096))
    failed: list[BaseException] = []

    def blocks(at: int) -> None:
        try:
            for _ in range(200):
                assert remote.write(b"12345678", 8 * at).wait(LIMIT) == 8
        except BaseException as failure:
            failed.append(failure)

    async def awaits() -> None:
        for _ in range(200):
            assert await remote.write(b"87654321", 4088) == 8

    def loops() -> None:
        try:
            asyncio.run(awaits())
        except BaseException as failure:
            failed.append(failure)

    targets = [lambda at=at: blocks(at) for at in range(6)] + [loops, loops]
    running = [threading.Thread(target=target) for target in targets]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join(LIMIT)
    assert failed == []
    assert not any(thread.is_alive() for thread in running)


def test_keyed_connections(make_pair: MakePair, tmp_path: Any) -> None:
    key = tmp_path / "key"
    key.write_text("braid-psk " + "ab" * 32 + "\n")
    key.chmod(0o600)
    pair = make_pair(key_file=key, security="required:aes-128-gcm")
    remote = pair.remote(board := bytearray(64))
    remote.write(b"encrypted").wait(LIMIT)
    assert board[:9] == b"encrypted"
    with (
        braid.Engine(bind="127.0.0.1:0") as stranger,
        pytest.raises(braid.ConnectError, match="rejected"),
    ):
        stranger.connect(pair.server.address)


def test_faults_cost_no_error(make_pair: MakePair) -> None:
    pair = make_pair(fault_drop=0.01, fault_reorder=0.01, fault_seed=3)
    remote = pair.remote(board := bytearray(1 << 20))
    local = pair.client.register(bytearray(range(256)) * 4096)
    for _ in range(8):
        remote.write(local).wait(LIMIT)
    assert board == bytes(range(256)) * 4096
    assert pair.client.counters()["injected"] > 0
    assert pair.near.counters()["lost"] > 0
    assert pair.near.degradations() == pair.client.degradations() == []
