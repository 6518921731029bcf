"""Moves a paged KV cache from one process to another with NIXL.

A prefill agent has the pages of a prompt scattered over a large region. A decode agent READs each
page to a place of its own, or the prefill agent WRITEs it there. Every byte is checked.

    python kv_cache.py                          # both agents here, over the loopback
    python kv_cache.py prefill 0.0.0.0:7000     # one on each host
    python kv_cache.py decode 192.0.2.1:7000

`--backend UCX` measures a backend of NIXL's own. The address is for the metadata only.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import socket
import struct
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

REGION = 1 << 30
"""Bytes of the region at each end."""
PAUSE = 50e-6
"""Seconds between two looks. NIXL's progress thread moves the data meanwhile."""


class End(ABC):
    """A region with pages, and the connection that carries metadata."""

    def __init__(self, options: argparse.Namespace, peer: socket.socket) -> None:
        self.peer = peer
        self.page: int = options.page
        # Touched beforehand, as the memory of an inference engine is.
        self.memory = np.full(REGION, 255, dtype=np.uint8)
        self.base = self.memory.ctypes.data

    @abstractmethod
    def exchange(self, places: list[int]) -> tuple[str, int, list[int]]:
        """Exchanges metadata. Returns the other end, its region and its places."""

    @abstractmethod
    def blocks(self, base: int, places: list[int]) -> Any:
        """The descriptors of pages."""

    @abstractmethod
    def move(self, operation: str, other: str, here: Any, there: Any) -> float:
        """Runs a transfer. Returns its seconds."""

    @abstractmethod
    def wait_moved(self, other: str) -> None:
        """Waits for the end of a transfer that the other end runs."""

    def send(self, data: bytes) -> None:
        """Sends bytes with their length."""
        self.peer.sendall(struct.pack("!I", len(data)) + data)

    def receive(self) -> bytes:
        """Receives what the other end has sent."""
        (length,) = struct.unpack("!I", self._exactly(4))
        return self._exactly(length)

    def _exactly(self, length: int) -> bytes:
        data = bytearray()
        while len(data) < length:
            part = self.peer.recv(length - len(data))
            if not part:
                raise SystemExit("the other end has gone")
            data += part
        return bytes(data)

    def places(self, pages: int, seed: int) -> list[int]:
        """Scattered places for pages."""
        chosen = np.random.default_rng(seed).permutation(REGION // self.page)[:pages]
        return [int(place) for place in chosen]

    def page_at(self, place: int) -> Any:
        """The bytes of a page."""
        return self.memory[place * self.page : (place + 1) * self.page]

    def fill(self, places: list[int], round_: int) -> None:
        """Writes other bytes into each page."""
        pattern = np.arange(self.page, dtype=np.int64)
        for order, place in enumerate(places):
            self.page_at(place)[:] = (pattern * (2 * round_ + 1) + order) % 251

    def check(self, places: list[int], round_: int) -> None:
        """Compares every byte of each page."""
        pattern = np.arange(self.page, dtype=np.int64)
        for order, place in enumerate(places):
            expected = ((pattern * (2 * round_ + 1) + order) % 251).astype(np.uint8)
            if not np.array_equal(self.page_at(place), expected):
                raise SystemExit(f"page {order} of round {round_} is wrong")


class NixlEnd(End):
    """An agent of NIXL."""

    def __init__(self, name: str, options: argparse.Namespace, peer: socket.socket) -> None:
        from nixl._api import nixl_agent, nixl_agent_config  # type: ignore[import-not-found]

        super().__init__(options, peer)
        self.agent = nixl_agent(name, nixl_agent_config(backends=[]))
        params = dict(param.split("=", 1) for param in options.param)
        self.agent.create_backend(options.backend, params)
        self.agent.register_memory([(self.base, REGION, 0, "")], "DRAM")

    def exchange(self, places: list[int]) -> tuple[str, int, list[int]]:
        """Exchanges metadata. Returns the other agent, its region and its places."""
        self.send(self.agent.get_agent_metadata())
        self.send(json.dumps({"base": self.base, "places": places}).encode())
        other = self.agent.add_remote_agent(self.receive()).decode()
        told = json.loads(self.receive())
        return other, told["base"], told["places"]

    def blocks(self, base: int, places: list[int]) -> Any:
        """The descriptors of pages."""
        rows = [(base + place * self.page, self.page, 0) for place in places]
        return self.agent.get_xfer_descs(np.array(rows, dtype=np.uint64), "DRAM")

    def move(self, operation: str, other: str, here: Any, there: Any) -> float:
        """Runs a transfer. Returns its seconds."""
        handle = self.agent.initialize_xfer(operation, here, there, other, b"moved")
        start = time.perf_counter()
        state = self.agent.transfer(handle)
        while state == "PROC":
            time.sleep(PAUSE)
            state = self.agent.check_xfer_state(handle)
        seconds = time.perf_counter() - start
        if state != "DONE":
            raise SystemExit(f"the transfer failed: {state}")
        self.agent.release_xfer_handle(handle)
        return seconds

    def wait_moved(self, other: str) -> None:
        """Waits for the notification of a transfer."""
        while not self.agent.get_new_notifs().get(other):
            time.sleep(PAUSE)


MakeEnd = Callable[[str, argparse.Namespace, socket.socket], End]


def prefill(end: End, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Has the pages. WRITEs them in every other round."""
    own = end.places(options.pages, 1)
    other, base, theirs = end.exchange(own)
    here, there = end.blocks(end.base, own), end.blocks(base, theirs)
    results = []
    for round_ in range(2 * options.rounds):
        end.fill(own, round_)
        end.send(b"filled")
        if round_ % 2 == 0:
            seconds = end.move("WRITE", other, here, there)
            results.append({"operation": "WRITE", "seconds": seconds})
        else:
            end.wait_moved(other)
        end.receive()
    return results


def decode(end: End, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Wants the pages. READs them in every other round, and checks them."""
    own = end.places(options.pages, 2)
    other, base, theirs = end.exchange(own)
    here, there = end.blocks(end.base, own), end.blocks(base, theirs)
    results = []
    for round_ in range(2 * options.rounds):
        end.receive()
        if round_ % 2 == 0:
            end.wait_moved(other)
        else:
            seconds = end.move("READ", other, here, there)
            results.append({"operation": "READ", "seconds": seconds})
        end.check(own, round_)
        end.send(b"checked")
    return results


def report(options: argparse.Namespace, results: list[dict[str, Any]]) -> None:
    """Prints the best round of each operation."""
    for operation in sorted({result["operation"] for result in results}):
        times = [r["seconds"] for r in results if r["operation"] == operation]
        total = options.pages * options.page
        rate = total / min(times) / 1e9
        if options.json:
            line = {"backend": options.backend, "operation": operation, "page_bytes": options.page}
            print(json.dumps({**line, "pages": options.pages, "gb_per_s": rate, "seconds": times}))
        else:
            size = f"{options.pages} pages of {options.page >> 10} KiB"
            print(f"{options.backend} {operation:<5} {size}: {rate:.2f} GB/s, every byte checked")


def connect(address: tuple[str, int]) -> socket.socket:
    """Connects to the other end, which may not listen yet."""
    for _ in range(600):
        try:
            return socket.create_connection(address)
        except OSError:
            time.sleep(0.1)
    raise SystemExit(f"nobody listens at {address}")


def run(
    end: str,
    address: tuple[str, int],
    options: argparse.Namespace,
    make: MakeEnd = NixlEnd,
    ready: Any = None,
) -> None:
    """Runs one end."""
    if end == "decode":
        with connect(address) as peer:
            report(options, decode(make(end, options, peer), options))
        return
    with socket.create_server(address) as server:
        if ready is not None:
            ready.put(server.getsockname())
        peer, _ = server.accept()
        with peer:
            report(options, prefill(make(end, options, peer), options))


def arguments(description: str | None) -> argparse.ArgumentParser:
    """The command line, but for the backend."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("end", nargs="?", choices=["prefill", "decode"])
    parser.add_argument("address", nargs="?", default="127.0.0.1:0")
    parser.add_argument("--pages", type=int, default=2048, help="pages of the prompt")
    parser.add_argument("--page", type=int, default=128 << 10, help="bytes of a page")
    parser.add_argument("--rounds", type=int, default=2, help="transfers of each kind")
    parser.add_argument("--json", action="store_true", help="print results as JSON")
    return parser


def start(parser: argparse.ArgumentParser, options: argparse.Namespace, make: MakeEnd) -> None:
    """Runs the end that the command line names, or both."""
    if not 0 < options.pages * options.page <= REGION:
        parser.error(f"the pages do not fit into a region of {REGION >> 20} MiB")
    host, _, port = options.address.rpartition(":")
    address = (host, int(port))
    if options.end:
        run(options.end, address, options, make)
        return
    # A forked child has no threads of an agent.
    spawn = multiprocessing.get_context("spawn")
    ready: Any = spawn.Queue()
    there = spawn.Process(target=run, args=("prefill", address, options, make, ready))
    there.start()
    run("decode", tuple(ready.get(timeout=60)), options, make)
    there.join()


def main() -> None:
    """Reads the command line."""
    parser = arguments(__doc__)
    parser.add_argument("--backend", default="BRAID")
    parser.add_argument("--param", action="append", default=[], metavar="NAME=VALUE")
    options = parser.parse_args()
    if options.backend == "BRAID" and "NIXL_PLUGIN_DIR" not in os.environ:
        import braid

        os.environ["NIXL_PLUGIN_DIR"] = str(braid.nixl_plugin_dir())
    start(parser, options, NixlEnd)


if __name__ == "__main__":
    main()
