"""Moves a paged KV cache from one process to another, over Braid and over TCP.

A prefill host has computed the keys and values of a prompt in pages that are scattered over a large
region. A decode host needs them in pages of its own. Over Braid, the decode host READs each page
from where it is to where it has to be. Over TCP, the prefill host sends the pages one after another
and the decode host receives them into place.

    python kv_cache.py serve 0.0.0.0:4791
    python kv_cache.py fetch 192.0.2.1:4791

Without arguments, both ends run here, over the loopback.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import random
import socket
import time
from typing import Any

import numpy as np

import braid

PAGE = 128 << 10
"""Bytes of a page: 16 tokens of a layer."""
WINDOW = 64
"""Pages in flight."""


def page_of(cache: Any, index: int) -> Any:
    """The bytes of a page."""
    return cache[index * PAGE : (index + 1) * PAGE]


def filled(pages: int, seed: int) -> tuple[Any, list[int]]:
    """A cache with the pages of a prompt in scattered places."""
    places = random.Random(seed).sample(range(4 * pages), pages)
    cache = np.zeros(4 * pages * PAGE, dtype=np.uint8)
    for order, place in enumerate(places):
        page_of(cache, place)[:] = (np.arange(PAGE) + order) % 251
    return cache, places


def check(cache: Any, places: list[int]) -> None:
    """Compares every byte."""
    for order, place in enumerate(places):
        if not np.array_equal(page_of(cache, place), (np.arange(PAGE) + order) % 251):
            raise SystemExit(f"page {order} is wrong")


async def fetch(qp: braid.QueuePair, engine: braid.Engine, pages: int) -> float:
    """READs the pages into scattered places of this process. Returns the seconds."""
    inbox = bytearray(1 << 20)
    receive = qp.recv(engine.register(inbox))
    await qp.send(b"pages, please")
    message = await receive
    source = json.loads(inbox[: message.length])
    remote = qp.remote(bytes.fromhex(source["key"]))
    places = random.Random(2).sample(range(4 * pages), pages)
    # Touched beforehand, as the memory of a host that serves is.
    cache = np.full(4 * pages * PAGE, 255, dtype=np.uint8)
    region = engine.register(cache)
    room = asyncio.Semaphore(WINDOW)

    async def read(there: int, here: int) -> None:
        async with room:
            await remote.read(region[here * PAGE : (here + 1) * PAGE], there * PAGE)

    start = time.perf_counter()
    await asyncio.gather(*map(read, source["places"], places))
    seconds = time.perf_counter() - start
    check(cache, places)
    await qp.send(b"done")
    return seconds


def serve(listener: braid.Listener, engine: braid.Engine, cache: Any, places: list[int]) -> None:
    """Offers the pages to one peer, which READs them by itself."""
    region = engine.register(cache)
    inbox = engine.register(bytearray(64))
    qp = engine.create_qp()
    wanted, done = qp.recv(inbox), qp.recv(inbox)
    listener.accept().accept(qp=qp)
    wanted.wait()
    text = json.dumps({"key": region.key.hex(), "places": places}).encode()
    qp.send(engine.register(bytearray(text))).wait()
    done.wait()


def serve_tcp(server: socket.socket, cache: Any, places: list[int]) -> None:
    """Sends the pages over one TCP connection."""
    peer, _ = server.accept()
    with peer:
        peer.recv(1)
        for place in places:
            peer.sendall(page_of(cache, place))


def fetch_tcp(address: tuple[str, int], pages: int) -> float:
    """Receives the pages into scattered places. Returns the seconds."""
    places = random.Random(2).sample(range(4 * pages), pages)
    # Touched beforehand, as the memory of a host that serves is.
    cache = np.full(4 * pages * PAGE, 255, dtype=np.uint8)
    with socket.create_connection(address) as peer:
        start = time.perf_counter()
        peer.sendall(b"x")
        for place in places:
            page, got = page_of(cache, place), 0
            while got < PAGE:
                part = peer.recv_into(page[got:])
                if part == 0:
                    raise SystemExit("the peer has closed the connection")
                got += part
        seconds = time.perf_counter() - start
    check(cache, places)
    return seconds


def _serve(bind: str, pages: int, ready: Any) -> None:
    """Serves one transfer over Braid and one over TCP at the same port."""
    cache, places = filled(pages, seed=1)
    with braid.Engine(bind=bind) as engine, engine.listen() as listener:
        host, _, port = engine.address.rpartition(":")
        with socket.create_server((host, int(port))) as server:
            if ready is not None:
                ready.put(engine.address)
            serve(listener, engine, cache, places)
            serve_tcp(server, cache, places)


def _fetch(address: str, pages: int) -> None:
    with braid.Engine() as engine:
        qp = engine.connect(address)
        rates = [("Braid", asyncio.run(fetch(qp, engine, pages)))]
        qp.close()
    host, _, port = address.rpartition(":")
    rates.append(("TCP", fetch_tcp((host, int(port)), pages)))
    for name, seconds in rates:
        rate = pages * PAGE / seconds / 1e9
        print(f"{name:<6} {pages} pages of {PAGE >> 10} KiB: {rate:.2f} GB/s, every byte checked")


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("end", nargs="?", choices=["serve", "fetch"])
    parser.add_argument("address", nargs="?", default="127.0.0.1:0")
    parser.add_argument("--pages", type=int, default=2048)
    options = parser.parse_args()
    if options.end == "serve":
        _serve(options.address, options.pages, None)
    elif options.end == "fetch":
        _fetch(options.address, options.pages)
    else:
        # A forked child has no threads of an engine, so children are spawned.
        spawn = multiprocessing.get_context("spawn")
        ready: Any = spawn.Queue()
        server = spawn.Process(target=_serve, args=(options.address, options.pages, ready))
        server.start()
        _fetch(ready.get(timeout=60), options.pages)
        server.join()


if __name__ == "__main__":
    main()
