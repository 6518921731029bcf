"""Moves a paged KV cache from one process to another with Mooncake's transfer engine.

As kv_cache.py, but over Mooncake: by its RDMA transport, on Braid's drop-in libibverbs, or by its
own TCP transport. Every byte is checked.

    BRAID_PATHS=16 BRAID_LOSS_RECOVERY=fifo-path braid-run python mooncake_cache.py
    python mooncake_cache.py --backend tcp
    python mooncake_cache.py prefill 192.0.2.1:7000     # one on each host; an address of its own
    python mooncake_cache.py decode 192.0.2.1:7000
"""

from __future__ import annotations

import argparse
import json
import socket
import time
from typing import Any

from kv_cache import REGION, End, arguments, start


class MooncakeEnd(End):
    """An engine of Mooncake."""

    def __init__(self, name: str, options: argparse.Namespace, peer: socket.socket) -> None:
        from mooncake.engine import TransferEngine  # type: ignore[import-not-found]

        super().__init__(options, peer)
        self.batch: int = options.batch
        self.engine = TransferEngine()
        self.host = peer.getsockname()[0]
        device = options.device if options.backend == "rdma" else ""
        self._succeeds(
            "initialize", self.engine.initialize(self.host, "P2PHANDSHAKE", options.backend, device)
        )
        self._succeeds("register_memory", self.engine.register_memory(self.base, REGION))

    def _succeeds(self, what: str, code: int) -> None:
        if code != 0:
            raise SystemExit(f"{what} failed: {code}; Mooncake's log says why")

    def exchange(self, places: list[int]) -> tuple[str, int, list[int]]:
        """Exchanges metadata. Returns the other end, its region and its places."""
        name = f"{self.host}:{self.engine.get_rpc_port()}"
        self.send(json.dumps({"name": name, "base": self.base, "places": places}).encode())
        told = json.loads(self.receive())
        return told["name"], told["base"], told["places"]

    def blocks(self, base: int, places: list[int]) -> Any:
        """The addresses of pages."""
        return [base + place * self.page for place in places]

    def move(self, operation: str, other: str, here: Any, there: Any) -> float:
        """Runs a transfer. Returns its seconds."""
        write, read = self.engine.batch_transfer_sync_write, self.engine.batch_transfer_sync_read
        transfer = write if operation == "WRITE" else read
        began = time.perf_counter()
        for at in range(0, len(here), self.batch):
            ours, theirs = here[at : at + self.batch], there[at : at + self.batch]
            self._succeeds(operation, transfer(other, ours, theirs, [self.page] * len(ours)))
        seconds = time.perf_counter() - began
        self.send(b"moved")
        return seconds

    def wait_moved(self, other: str) -> None:
        """Waits for the end of a transfer that the other end runs."""
        self.receive()


def main() -> None:
    """Reads the command line."""
    parser = arguments(__doc__)
    parser.add_argument("--backend", choices=["rdma", "tcp"], default="rdma")
    parser.add_argument("--device", default="braid0", help="device of the RDMA transport")
    parser.add_argument("--batch", type=int, default=64, help="pages of a call")
    options = parser.parse_args()
    start(parser, options, MooncakeEnd)


if __name__ == "__main__":
    main()
