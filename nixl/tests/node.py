"""An agent of NIXL with memory, in this process or in another one."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import time
from typing import Any

import numpy as np
from nixl._api import nixl_agent, nixl_agent_config  # type: ignore[import-not-found]

LIMIT = 60.0
"""Seconds after which a test has hung."""
Place = tuple[int, int]
"""Offset and length of a block."""


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
    ) -> None:
        config = nixl_agent_config(
            enable_prog_thread=progress_thread, backends=[], capture_telemetry=telemetry
        )
        self.name = name
        self.agent = nixl_agent(name, config)
        self.agent.create_backend(backend, params or {})
        self.memory = np.zeros(size, dtype=np.uint8)
        self.base = self.memory.ctypes.data
        regions = [(self.base, size, 0, "")]
        self.registered = self.agent.register_memory(regions, "DRAM")

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
        self.memory[:] = random.integers(0, 256, self.memory.size, dtype=np.uint8)

    def clear(self) -> None:
        self.memory[:] = 0

    def data(self, place: Place = (0, -1)) -> bytes:
        offset, length = place
        end = self.memory.size if length < 0 else offset + length
        return self.memory[offset:end].tobytes()

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
    ) -> Any:
        """Prepares a transfer of pairs: local offset, remote offset, length."""
        blocks = np.array(pairs, dtype=np.uint64).reshape(-1, 3)
        lengths, devices = blocks[:, 2], np.zeros(len(blocks), dtype=np.uint64)
        local = np.column_stack([blocks[:, 0] + self.base, lengths, devices])
        remote = np.column_stack([blocks[:, 1] + remote_base, lengths, devices])
        descriptors = [self.agent.get_xfer_descs(side, "DRAM") for side in (local, remote)]
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
    pipe.send(None)
    while True:
        method, values = pipe.recv()
        if method == "end":
            return
        pipe.send(getattr(node, method)(*values))


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
        return self.pipe.recv()

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
