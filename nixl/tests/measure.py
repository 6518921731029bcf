"""Measures NIXL over Braid beside NIXL over its own UCX over TCP, and braid-perf, as root.

    python measure.py BRAID_PERF [--spines 1] [--rate 10gbit] [--rounds 3] [--loss 1]
    python measure.py BRAID_PERF --braid-run target/release/braid-run [..]
    python measure.py BRAID_PERF --lmcache [--braid-run target/release/braid-run] [..]

The second form measures Mooncake over Braid's drop-in libibverbs beside Mooncake over its own TCP,
the third LMCache's benchmark of transfer channels, which reads. Runs in an environment with the
wheels of Braid and NIXL, or of Mooncake, or of LMCache. Both ends are processes on two hosts of an
emulated fabric (docs/fabric.md). Contenders take turns; the median of the rounds is printed. Every
byte of each transfer is checked. TCP uses cubic.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
EXAMPLES = HERE.parent / "examples"
FABRIC = f"nixl{os.getpid()}"
SERVER = "10.80.1.1"
CLIENT = "10.80.0.1"
PORT = 7000
LIMIT = 120
UCX: dict[str, dict[str, str]] = {
    "UCX, defaults": {},
    "UCX, PUT_ENABLE=n": {"UCX_TCP_PUT_ENABLE": "n"},
    "UCX, segments 256k": {"UCX_TCP_TX_SEG_SIZE": "256k", "UCX_TCP_RX_SEG_SIZE": "256k"},
}
"""Settings of UCX over TCP."""
MANY_PATHS = {"BRAID_PATHS": "16", "BRAID_LOSS_RECOVERY": "fifo-path"}
"""Settings of the drop-in. Its default is one path, for programs that poll memory."""


Contenders = dict[str, Callable[[], dict[str, float]]]


def fabric(*arguments: str) -> None:
    """Runs a command of the fabric."""
    command = ["cargo", "xtask", "fabric", arguments[0], "--name", FABRIC, *arguments[1:]]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def start(host: str, command: list[str], variables: dict[str, str]) -> subprocess.Popen[str]:
    """Starts a program on a host of the fabric."""
    return subprocess.Popen(
        ["ip", "netns", "exec", f"braid-fabric-{FABRIC}-{host}", *command],
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(program: subprocess.Popen[str]) -> str:
    """Waits for a program. Returns its output."""
    try:
        said, errors = program.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        program.kill()
        raise
    # A library beside UCX in NIXL's wheel (libnl-route) crashes when its process has ended.
    if program.returncode not in (0, -signal.SIGSEGV) or not said:
        raise SystemExit(f"{program.args!r} failed: {program.returncode} {errors}")
    return said


def cache(
    options: argparse.Namespace, command: list[str], backend: str, variables: dict[str, str]
) -> dict[str, float]:
    """Runs an example once. Returns GB/s by operation."""
    shape = ["--pages", str(options.pages), "--page", str(options.page), "--rounds", "2"]
    ends = ["prefill", f"{SERVER}:{PORT}"], ["decode", f"{SERVER}:{PORT}"]
    hosts = ["h1", "h0"]
    programs = [
        start(host, [*command, *end, *shape, "--backend", backend, "--json"], variables)
        for host, end in zip(hosts, ends, strict=True)
    ]
    lines = [line for program in programs for line in finish(program).splitlines()]
    results = [json.loads(line) for line in lines if line.startswith("{")]
    return {result["operation"]: result["gb_per_s"] for result in results}


def channel(
    options: argparse.Namespace, command: list[str], kind: list[str], variables: dict[str, str]
) -> dict[str, float]:
    """Runs LMCache's benchmark once, with objects of 8 pages. Returns GB/s of its median READ."""
    program = [*command, "-m", "lmcache.tools.transfer_channel_benchmark"]
    shape = ["--page-size", str(options.page), "--object-size", str(8 * options.page)]
    addresses = ["--url", f"{SERVER}:{PORT}", "--control-url", f"{SERVER}:{PORT + 1}"]
    objects = options.pages // 8
    both = [*kind, *shape, *addresses, "--num-objects", str(objects)]
    pool = ["--num-source-objects", str(objects), "--buffer-size", "2GB"]
    server = start("h1", [*program, "--role", "server", *both, *pool], variables)
    reads = ["--listen-url", f"{CLIENT}:{PORT}", "--verify", "--iters", "9"]
    try:
        said = finish(start("h0", [*program, "--role", "client", *both, *reads], variables))
    finally:
        server.terminate()
        server.communicate()
    found = re.search(r"median *:.* ([0-9.]+) GB/s", said)
    if not found or "verify OK" not in said:
        raise SystemExit(f"LMCache's benchmark said: {said}")
    return {"READ": float(found[1])}


def perf(options: argparse.Namespace) -> dict[str, float]:
    """Runs braid-perf with messages as long as pages. Returns GB/s by operation."""
    rates = {}
    for operation in ("write", "read"):
        command = [options.braid_perf, f"{operation}-bw"]
        server = start("h1", command, {})
        time.sleep(0.3)
        size = ["-s", str(options.page), "-D", "1", "-N", "--json", "-"]
        said = finish(start("h0", [*command, SERVER, *size], {}))
        finish(server)
        rates[operation.upper()] = rate_in(json.loads(said))
    return rates


def rate_in(told: Any) -> float:
    """The goodput in what braid-perf prints, in GB/s."""
    return float(told["rows"][0]["bandwidth"]["goodput_gbytes_s"])


def plugins() -> dict[str, str]:
    """The variables with which NIXL finds the backend of Braid."""
    import braid

    return {"NIXL_PLUGIN_DIR": str(braid.nixl_plugin_dir())}


def over_ucx(options: argparse.Namespace, cubic: Path) -> dict[str, dict[str, str]]:
    """The variables of NIXL's own backend over TCP, by name, unless Braid is measured alone."""
    tcp = {"UCX_TLS": "tcp", "LD_PRELOAD": str(cubic)}
    return {} if options.only_braid else {name: {**tcp, **more} for name, more in UCX.items()}


def nixl(options: argparse.Namespace, cubic: Path) -> Contenders:
    """NIXL over Braid and over UCX over TCP."""
    run = partial(cache, options, [sys.executable, str(EXAMPLES / "kv_cache.py")])
    contenders: Contenders = {"NIXL over Braid": partial(run, "BRAID", plugins())}
    for name, variables in over_ucx(options, cubic).items():
        contenders[f"NIXL over {name}"] = partial(run, "UCX", variables)
    return contenders


def mooncake(options: argparse.Namespace, cubic: Path) -> Contenders:
    """Mooncake over Braid's drop-in and over TCP."""
    example = [sys.executable, str(EXAMPLES / "mooncake_cache.py")]
    over_braid = partial(cache, options, [options.braid_run, "--quiet", *example])
    contenders: Contenders = {"Mooncake over Braid": partial(over_braid, "rdma", MANY_PATHS)}
    if not options.only_braid:
        tcp = partial(cache, options, example)
        contenders["Mooncake over TCP"] = partial(tcp, "tcp", {"LD_PRELOAD": str(cubic)})
    return contenders


def lmcache(options: argparse.Namespace, cubic: Path) -> Contenders:
    """LMCache over NIXL over Braid and over UCX over TCP, and over Mooncake over the drop-in."""
    python = [sys.executable]
    run = partial(channel, options, python)
    contenders: Contenders = {}
    for datapath in ("udp", "tcp"):
        variables = {**plugins(), "BRAID_DATAPATH": datapath}
        name = f"LMCache, Braid over {datapath.upper()}"
        contenders[name] = partial(run, ["--nixl-backend", "BRAID"], variables)
    if options.braid_run:
        over_braid = partial(channel, options, [options.braid_run, "--quiet", *python])
        kind = ["--transfer-channel-type", "mooncake_te"]
        # Mooncake uses every device that it finds, also the loopback.
        settings = {**MANY_PATHS, "BRAID_RAILS": "eth0"}
        contenders["LMCache, Mooncake over Braid"] = partial(over_braid, kind, settings)
    for name, variables in over_ucx(options, cubic).items():
        contenders[f"LMCache, {name}"] = partial(run, ["--nixl-backend", "UCX"], variables)
    return contenders


def measure(options: argparse.Namespace, cubic: Path) -> None:
    """Runs all contenders in turn and prints the table."""
    programs = lmcache if options.lmcache else mooncake if options.braid_run else nixl
    contenders: Contenders = {**programs(options, cubic), "braid-perf": partial(perf, options)}
    rates: dict[str, list[dict[str, float]]] = {name: [] for name in contenders}
    for number in range(options.rounds):
        for name, run in contenders.items():
            rates[name].append(run())
            print(f"round {number + 1}: {name}: {rates[name][-1]}", file=sys.stderr)
    print(f"{'GB/s':<32}{'WRITE':>8}{'READ':>8}")
    for name, rounds in rates.items():
        columns = [
            f"{statistics.median(r[operation] for r in rounds):>8.3f}"
            if operation in rounds[0]
            else f"{'-':>8}"
            for operation in ("WRITE", "READ")
        ]
        print(f"{name:<32}" + "".join(columns))


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("braid_perf")
    parser.add_argument("--braid-run", help="measure Mooncake over the drop-in beside it")
    parser.add_argument("--lmcache", action="store_true", help="measure LMCache's benchmark")
    parser.add_argument("--spines", default="1")
    parser.add_argument("--rate", default="10gbit")
    parser.add_argument("--mtu", default="1500")
    parser.add_argument("--loss", help="percentage of packets that spine 0 drops")
    parser.add_argument("--pages", type=int, default=2048)
    parser.add_argument("--page", type=int, default=128 << 10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only-braid", action="store_true", help="leave TCP out")
    options = parser.parse_args()
    shape = ["--spines", options.spines, "--rate", options.rate, "--mtu", options.mtu]
    with tempfile.TemporaryDirectory() as folder:
        cubic = Path(folder) / "cubic.so"
        source = str(HERE / "cubic.c")
        subprocess.run(["cc", "-shared", "-fPIC", "-o", cubic, source, "-ldl"], check=True)
        fabric("up", *shape)
        try:
            if options.loss:
                fabric("lossy", "0", options.loss)
            measure(options, cubic)
        finally:
            fabric("down")


if __name__ == "__main__":
    main()
