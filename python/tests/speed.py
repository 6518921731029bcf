"""Compares Python with braid-perf: WRITEs of 1 MiB, and round trips of SENDs of 8 bytes.

The settings are the same, the runs alternate, and medians are compared. Fails below the limits.
Usage: speed.py PATH-OF-BRAID-PERF
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time

import braid

ROUNDS = 5
SECONDS = 1.5
SIZE = 1 << 20
DEPTH = 8
"""WRITEs in flight, as braid-perf has at this size."""


def serve() -> None:
    """The other process of a measurement: hands out memory, and replies to messages."""
    engine = braid.Engine(bind="127.0.0.1:0", threads=0)
    listener = engine.listen()
    print(engine.address, flush=True)
    board = engine.register(bytearray(SIZE))
    inbox = engine.register(bytearray(8 * 64))
    request = listener.accept()
    qp = engine.create_qp()
    receives = [qp.recv(inbox[8 * at : 8 * at + 8]) for at in range(64)]
    request.accept(qp=qp, private_data=board.key)
    at = 0
    try:
        while True:
            receives[at].wait()
            qp.send(b"12345678")
            # While the reply is on its way, as braid-perf does.
            receives[at] = qp.recv(inbox[8 * at : 8 * at + 8])
            at = (at + 1) % 64
    except braid.WorkError:
        pass


def measure(what: str) -> float:
    """Measures from Python: GB/s of WRITEs, or microseconds one way of SENDs."""
    command = [sys.executable, __file__, "serve"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    address = server.stdout.readline().strip()
    with braid.Engine(threads=0) as engine:
        qp = engine.connect(address)
        assert qp.private_data is not None
        value = bandwidth(engine, qp) if what == "write" else latency(engine, qp)
    server.wait()
    server.stdout.close()
    return value


def bandwidth(engine: braid.Engine, qp: braid.QueuePair) -> float:
    """GB/s of WRITEs of 1 MiB."""
    remote = qp.remote(qp.private_data or b"")
    local = engine.register(bytearray(SIZE))
    queue = engine.completion_queue()
    start, count = time.perf_counter(), 0
    for _ in range(DEPTH):
        remote.write(local, to=queue)
    for work in queue:
        work.result()
        count += 1
        if time.perf_counter() - start < SECONDS:
            remote.write(local, to=queue)
    return count * SIZE / (time.perf_counter() - start) / 1e9


def latency(engine: braid.Engine, qp: braid.QueuePair) -> float:
    """Half of the median round trip of 8 bytes in microseconds."""
    inbox = engine.register(bytearray(8))
    times = []
    start = time.perf_counter()
    reply = qp.recv(inbox)
    while time.perf_counter() - start < SECONDS:
        began = time.perf_counter()
        qp.send(b"12345678")
        later = qp.recv(inbox)
        reply.wait()
        times.append(time.perf_counter() - began)
        reply = later
    return statistics.median(times) / 2 * 1e6


def of_braid_perf(program: str, what: str) -> float:
    """Measures with braid-perf."""
    test = ["write-bw", "-s", str(SIZE), "-D", str(SECONDS), "-t", str(DEPTH)]
    if what != "write":
        test = ["send-lat", "-D", str(SECONDS)]
    command = [program, *test, "--loopback", "--json", "-"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    row = json.loads(ran.stdout)["rows"][0]
    if what == "write":
        return float(row["bandwidth"]["goodput_gbytes_s"])
    return float(row["latency"]["p50_us"])


def main() -> int:
    """Runs all rounds."""
    program = sys.argv[1]
    failed = 0
    for what, unit, limit in [("write", "GB/s", 0.95), ("send", "us one way", 2.0)]:
        rust, python = [], []
        for _ in range(ROUNDS):
            rust.append(of_braid_perf(program, what))
            python.append(measure(what))
        ours, theirs = statistics.median(python), statistics.median(rust)
        ratio = ours / theirs
        is_good = ratio >= limit if what == "write" else ratio <= limit
        failed += not is_good
        word = "at least" if what == "write" else "at most"
        print(
            f"{what}: Python {ours:.3f} {unit}, braid-perf {theirs:.3f}, ratio {ratio:.2f} "
            f"({word} {limit}): {'ok' if is_good else 'MISSED'}"
        )
        print("  Python", [round(value, 3) for value in python])
        print("  braid-perf", [round(value, 3) for value in rust])
    return min(failed, 1)


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        serve()
    else:
        sys.exit(main())
