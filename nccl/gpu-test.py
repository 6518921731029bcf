#!/usr/bin/env python3
"""Two NCCL ranks on one GPU, connected by the Braid plugin: right results, faults, bandwidth.

    python3 nccl/gpu-test.py target/release/libnccl_net_braid.so

It needs Python 3.9 or later, torch with CUDA, and a GPU; neither cargo nor nccl-tests nor mpirun.
With braid-perf beside the plugin, or named by --perf, memory of the GPU is moved without NCCL, too.
The two ranks claim to be on different hosts (NCCL_HOSTID), so NCCL uses the network between them.
The result of every collective is compared with the CPU's, element by element. Bandwidth is measured
beside NCCL's own sockets, in turns within one run. Without MPS the two processes share the GPU in
time slices, so their bandwidth permits no verdict; the table says so.

Progress goes to standard error, the tables to standard output, the same figures to --json.
Exit status: 0: everything passed or was skipped; 1: a check failed, or not all were done; 2: nothing can be tested
here, or bad usage.
"""

import argparse
import json
import os
import re
import signal
import sys
import tempfile
import time

from gpu_test.checks import CHECKS, MIB, Checks
from gpu_test.errors import CannotTest, Failed, Skipped
from gpu_test.gpu import Mps, find_gpu
from gpu_test.memory import beside, is_program

# A CUDA context, NCCL's buffers and kernels; besides them a rank has three tensors.
RANK_OVERHEAD_BYTES = 1 << 30
# Four pairs measure at once.
MOST_RANKS = 8
BUILD = "cargo build --release -p braid-nccl"
PERF = "cargo build --release -p braid-bench --bin braid-perf"


def parse_size(text):
    match = re.fullmatch(r"(\d+)([KM]?)", text)
    size = int(match[1]) * {"": 1, "K": 1 << 10, "M": MIB}[match[2]] if match else 0
    if size < 1 << 10:
        raise argparse.ArgumentTypeError(f"`{text}` is no size from 1K on, such as 64K or 256M")
    return size


def parse_positive(text):
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"`{text}` is no number from 1 on")
    return int(text)


def parse_arguments():
    summary, _, rest = __doc__.partition("\n\n")
    parser = argparse.ArgumentParser(
        description=summary, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("plugin", help="the built plugin: libnccl_net_braid.so or libnccl-net-braid.so")
    add("--only", action="append", choices=CHECKS, help="only this check; may be repeated")
    add("--perf", metavar="FILE", help="braid-perf. Default: beside the plugin, if it is there")
    add("--json", metavar="FILE", help="also writes the figures to this file")
    add("--max-bytes", type=parse_size, default="256M", help="largest buffer. Default: 256M")
    add("--rounds", type=parse_positive, default=3, help="of a bandwidth figure. Default: 3")
    limit = "time after which a step counts as hung. Default: 120"
    add("--limit", type=parse_positive, default=120, metavar="SECONDS", help=limit)
    total = "time for everything. Default: 570"
    add("--total", type=parse_positive, default=570, metavar="SECONDS", help=total)
    add("--logs", metavar="DIR", help="where the folder of logs is made. Default: the system's")
    return parser.parse_args()


def find_plugin(path):
    """The absolute path of the plugin, without which NCCL would look for it by its name."""
    path = os.path.abspath(path)
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError as error:
        raise CannotTest(f"plugin {path}: {error.strerror}; build it: {BUILD}") from error
    if not content.startswith(b"\x7fELF") or b"ncclNetPlugin_v8" not in content:
        raise CannotTest(f"plugin {path}: it is no NCCL net plugin; build one: {BUILD}")
    return path


def find_perf(options, plugin):
    """The absolute path of braid-perf. None: the check that needs it is skipped."""
    if options.perf is None:
        found = beside(plugin)
        if found is None and options.only == ["memory"]:
            raise CannotTest(f"no braid-perf beside {plugin}: name it by --perf, or build it: {PERF}")
        return found
    path = os.path.abspath(options.perf)
    if not is_program(path):
        raise CannotTest(f"braid-perf {path}: it is no program; build it: {PERF}")
    return path


def need_memory(found, max_bytes):
    needed = MOST_RANKS * (RANK_OVERHEAD_BYTES + 3 * max_bytes)
    if found["free_bytes"] < needed:
        free = found["free_bytes"] // MIB
        raise CannotTest(
            f"{found['gpu']} has {free} MiB free, and this test needs {needed // MIB} MiB: "
            "end other programs on it, or pass a smaller --max-bytes"
        )


class Report:
    """What was found, as tables and as JSON."""

    def __init__(self, found, checks):
        self.found, self.checks, self.rows = found, checks, []

    def add(self, name, verdict, detail, start):
        seconds = round(time.monotonic() - start, 1)
        row = {"check": name, "verdict": verdict, "detail": detail, "seconds": seconds}
        self.rows.append(row)
        say(f"{name}: {verdict} after {seconds} s: {detail}")

    def failures(self):
        return [row for row in self.rows if row["verdict"] == "FAILED"]

    def sharing(self):
        why_not = self.checks.mps.why_not
        return f"time-sliced, no verdict ({why_not})" if why_not else "under MPS"

    def tables(self):
        found = self.found
        versions = [f"{name} {found[name.lower()]}" for name in ("torch", "CUDA", "NCCL", "Python")]
        lines = [
            f"{found['gpu']}, {', '.join(versions)}",
            f"plugin: {self.checks.plugin}",
            "",
            f"{'check':<10} {'verdict':<8} {'s':>6}  detail",
        ]
        for row in self.rows:
            check, verdict, seconds = row["check"], row["verdict"], row["seconds"]
            lines.append(f"{check:<10} {verdict:<8} {seconds:>6}  {row['detail']}")
        if self.checks.speeds:
            lines += ["", *self.speed_table()]
        return "\n".join(lines)

    def speed_table(self):
        def columns(words):
            return "".join(f" {word:>12}" for word in words)

        rounds, nets = self.checks.rounds, list(self.checks.speeds[0]["median_us"])
        braid, *others = nets
        yield f"bus bandwidth in GB/s, float32, medians of {rounds} rounds: {self.sharing()}"
        heads = [*nets, *(f"/ {net}" for net in others), "Braid, us"]
        yield f"{'collective':<15} {'bytes':>10}{columns(heads)}"
        for row in self.checks.speeds:
            speed = row["bus_gigabytes_per_second"]
            figures = [f"{speed[net]:.4g}" for net in nets]
            figures += [f"{speed[braid] / speed[net]:.2f}" for net in others]
            figures.append(f"{row['median_us'][braid]:.1f}")
            yield f"{row['collective']:<15} {row['bytes']:>10}{columns(figures)}"

    def as_json(self):
        return {
            "machine": self.found,
            "plugin": self.checks.plugin,
            "mps": self.checks.mps.why_not is None,
            "sharing": self.sharing(),
            "checks": self.rows,
            "speeds": self.checks.speeds,
        }


def run(names, report):
    """Runs these checks, all of them, whatever fails."""
    for name in names:
        say(f"{name} ...")
        start = time.monotonic()
        try:
            detail = report.checks.run(name)
        except Failed as failure:
            report.add(name, "FAILED", str(failure), start)
        except Skipped as reason:
            report.add(name, "skipped", str(reason), start)
        else:
            report.add(name, "passed", detail, start)


def say(text):
    print(f"gpu-test: {text}", file=sys.stderr, flush=True)


def interrupt(*_):
    raise KeyboardInterrupt


def test(options):
    """Checks what was asked for, and prints the tables. Returns the exit status."""
    plugin = find_plugin(options.plugin)
    perf = find_perf(options, plugin)
    found = find_gpu()
    need_memory(found, options.max_bytes)
    if options.logs:
        os.makedirs(options.logs, exist_ok=True)
    folder = tempfile.mkdtemp(prefix="braid-gpu-test-", dir=options.logs)
    names = [name for name in CHECKS if not options.only or name in options.only]
    mps = Mps()
    checks = Checks(plugin, perf, options.max_bytes, options.limit, options.rounds, folder, mps)
    report = Report(found, checks)
    try:
        run(names, report)
    except KeyboardInterrupt:
        say(f"interrupted, or not done within {options.total} s: the tables are not complete")
    finally:
        mps.stop()
    print(report.tables(), flush=True)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(report.as_json(), file, indent=2)
    for row in report.failures():
        say(f"FAILED: {row['check']}: {row['detail']}")
    return 0 if len(report.rows) == len(names) and not report.failures() else 1


def main():
    options = parse_arguments()
    for ending in (signal.SIGTERM, signal.SIGHUP, signal.SIGALRM):
        signal.signal(ending, interrupt)
    signal.alarm(options.total)
    try:
        return test(options)
    except CannotTest as reason:
        say(f"cannot test: {reason}")
        return 2
    except KeyboardInterrupt:
        say("interrupted before the first check")
        return 1


if __name__ == "__main__":
    sys.exit(main())
