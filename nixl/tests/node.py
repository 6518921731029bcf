"""An agent of NIXL with memory, in this process or in another one."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import time
from typing import Any

import numpy as np
from cuda_substitute import Gpu
from nixl._api import (  # type: ignore[import-not-found]
    nixl_agent,
    nixl_agent_config,
    nixl_thread_sync_t,
)

LIMIT = 60.0
"""Seconds after which a test has hung."""
Place = tuple[int, int]
"""Offset and length of a block."""


class HostMemory:
    """Memory of the host."""

    kind = "DRAM"

    def __init__(self, size: int) -> None:
        self.size = size
        self.array = np.zeros(size, dtype=np.uint8)
        self.base: int = self.array.ctypes.data

    def read(self, offset: int, length: int) -> bytes:
        return self.array[offset : offset + length].tobytes()

    def write(self, data: bytes) -> None:
        self.array[:] = np.frombuffer(data, dtype=np.uint8)


class GpuMemory:
    """Memory of the GPU of the substitute, which only copies reach."""

    kind = "VRAM"

    def __init__(self, size: int) -> None:
        self.size = size
        self.gpu = Gpu()
        self.context, self.base = self.gpu.allocate(size)
        self.write(bytes(size))

    def read(self, offset: int, length: int) -> bytes:
        return self.gpu.read(self.base + offset, length)

    def write(self, data: bytes) -> None:
        self.gpu.write(self.base, data)


Memory = HostMemory | GpuMemory


def memory_of(kind: str, size: int) -> Memory:
    return GpuMemory(size) if kind == "VRAM" else HostMemory(size)


class Node:
    """An agent with one backend, and a region of memory that is registered."""

    def __init__(
        self,
        name: str,
        size: int,
        params: dict[str, str] | None = None,
        progress_thread: bool = True,
        backend: str = "BRAID",
        telemetry: bool = False,
        strict: bool = False,
        kind: str = "DRAM",
        gpu: bool = False,
    ) -> None:
        # The substitute has to be there before the backend looks for CUDA.
        if gpu:
            Gpu()
        self.memory = memory_of(kind, size)
        locks = nixl_thread_sync_t
        config = nixl_agent_config(
            enable_prog_thread=progress_thread,
            backends=[],
            capture_telemetry=telemetry,
            sync_mode=locks.NIXL_THREAD_SYNC_STRICT if strict else locks.NIXL_THREAD_SYNC_NONE,
        )
        self.name = name
        self.agent = nixl_agent(name, config)
        self.agent.create_backend(backend, params or {})
        self.base = self.memory.base
        self.registered = self.agent.register_memory([(self.base, size, 0, "")], kind)
        self.further: list[Memory] = []

    def metadata(self) -> bytes:
        data: bytes = self.agent.get_agent_metadata()
        return data

    def address(self) -> int:
        return self.base

    def load(self, metadata: bytes) -> str:
        name: bytes = self.agent.add_remote_agent(metadata)
        return name.decode()

    def remove(self, agent: str) -> None:
        self.agent.remove_remote_agent(agent)

    def fill(self, seed: int) -> None:
        random = np.random.default_rng(seed)
        data = random.integers(0, 256, self.memory.size, dtype=np.uint8)
        self.memory.write(data.tobytes())

    def clear(self) -> None:
        self.memory.write(bytes(self.memory.size))

    def data(self, place: Place = (0, -1)) -> bytes:
        offset, length = place
        return self.memory.read(offset, self.memory.size - offset if length < 0 else length)

    def add(self, kind: str) -> int:
        """Registers further memory, as much as there is. Returns its address."""
        memory = memory_of(kind, self.memory.size)
        self.agent.register_memory([(memory.base, memory.size, 0, "")], kind)
        self.further.append(memory)
        return memory.base

    def further_data(self) -> bytes:
        """The bytes of the memory that was added last."""
        memory = self.further[-1]
        return memory.read(0, memory.size)

    def behave(self, behaviour: dict[str, int]) -> None:
        """Sets the behaviour of copies of the substitute."""
        Gpu().behave(**behaviour)

    def memory_kinds(self) -> list[str]:
        kinds: list[str] = self.agent.get_backend_mem_types("BRAID")
        return kinds

    def register(self, region: tuple[int, int, int, str], kind: str) -> None:
        self.agent.register_memory([region], kind, backends=["BRAID"])

    def query(self, regions: list[tuple[int, int, int, str]], kind: str) -> Any:
        return self.agent.query_memory(regions, "BRAID", kind)

    def deregister(self) -> None:
        self.agent.deregister_memory(self.registered)

    def notify(self, agent: str, message: bytes) -> None:
        self.agent.send_notif(agent, message)

    def notifications(self) -> dict[str, list[bytes]]:
        found: dict[str, list[bytes]] = self.agent.get_new_notifs()
        return found

    def wait_notifications(self, agent: str, count: int) -> list[bytes]:
        """Waits for this many notifications of an agent, and returns all of them."""
        found: list[bytes] = []
        end = time.monotonic() + LIMIT
        while len(found) < count:
            assert time.monotonic() < end, f"{len(found)} of {count} notifications came"
            found += self.notifications().get(agent, [])
        return found

    def handle(
        self,
        operation: str,
        agent: str,
        remote_base: int,
        pairs: list[tuple[int, int, int]],
        notification: bytes = b"",
        remote_kind: str = "DRAM",
    ) -> Any:
        """Prepares a transfer of pairs: local offset, remote offset, length."""
        blocks = np.array(pairs, dtype=np.uint64).reshape(-1, 3)
        lengths, devices = blocks[:, 2], np.zeros(len(blocks), dtype=np.uint64)
        local = np.column_stack([blocks[:, 0] + self.base, lengths, devices])
        remote = np.column_stack([blocks[:, 1] + remote_base, lengths, devices])
        sides = ((local, self.memory.kind), (remote, remote_kind))
        descriptors = [self.agent.get_xfer_descs(side, kind) for side, kind in sides]
        return self.agent.initialize_xfer(operation, *descriptors, agent, notification)

    def run(self, handle: Any) -> None:
        """Posts a transfer and waits for its end. NIXL raises what goes wrong."""
        state = self.agent.transfer(handle)
        end = time.monotonic() + LIMIT
        while state == "PROC":
            assert time.monotonic() < end, "the transfer hangs"
            state = self.agent.check_xfer_state(handle)
        assert state == "DONE", state

    def move(self, *arguments: Any) -> None:
        """Prepares, runs and releases a transfer, see [`Node.handle`]."""
        handle = self.handle(*arguments)
        try:
            self.run(handle)
        finally:
            self.agent.release_xfer_handle(handle)


def _serve(pipe: Any, arguments: tuple[Any, ...], settings: dict[str, Any]) -> None:
    node = Node(*arguments, **settings)
    pipe.send((None, None))
    while True:
        method, values = pipe.recv()
        if method == "end":
            return
        try:
            pipe.send((getattr(node, method)(*values), None))
        except Exception as error:
            pipe.send((None, f"{type(error).__name__}: {error}"))


class Remote:
    """A node in another process. Calls are made there."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        # A forked child has no threads of an engine.
        spawn = multiprocessing.get_context("spawn")
        self.pipe, there = spawn.Pipe()
        self.process = spawn.Process(target=_serve, args=(there, arguments, settings))
        self.process.start()
        there.close()
        assert self._answer() is None

    def __getattr__(self, method: str) -> Any:
        if method not in Node.__dict__:
            raise AttributeError(method)
        return lambda *values: self._call(method, *values)

    def _call(self, method: str, *values: Any) -> Any:
        self.pipe.send((method, values))
        return self._answer()

    def _answer(self) -> Any:
        assert self.pipe.poll(LIMIT), "the other process does not answer"
        value, error = self.pipe.recv()
        if error is not None:
            raise RuntimeError(error)
        return value

    def signal(self, number: signal.Signals) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, number)

    def close(self) -> None:
        if self.process.is_alive():
            self.signal(signal.SIGCONT)
            with contextlib.suppress(OSError):
                self.pipe.send(("end", ()))
        self.process.join(LIMIT)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
            raise AssertionError("the other process does not end")
