"""The checks: results, faults and settings, a killed rank, bandwidth."""

import contextlib
import os
import re
import secrets
import signal
import statistics
import time

from . import memory
from .errors import Failed, Hung, Skipped
from .pair import Pair

COLLECTIVES = ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all", "send_recv"]
DTYPES = ["float32", "bfloat16", "int64"]
MIB = 1 << 20
# Bytes of the longer buffer. The odd ones end in the middle of NCCL's lines, slices and chunks.
SIZES = [8, 1 << 10, 65_544, MIB, 4 * MIB + 24, 32 * MIB, 256 * MIB]
FEW_SIZES = [8, 65_544, 4 * MIB + 24]
SPEED_SIZES = [8, 64 << 10, MIB, 16 * MIB, 256 * MIB]
# The largest takes long where two processes wait for each other's time slices.
TIME_SLICED_SPEED_SIZES = SPEED_SIZES[:-1]
# Bus bandwidth of two ranks is bytes per second times this (nccl-tests, doc/PERFORMANCE.md).
BUS_FACTOR = dict.fromkeys(COLLECTIVES, 0.5) | {"all_reduce": 1, "broadcast": 1, "send_recv": 1}
# Traffic after which a fault of one packet in a hundred has happened for sure.
ENOUGH_BYTES = 8 * MIB
COMMUNICATORS = 4

PEER_TIMEOUT_S = 3
# From a rank's death to the other's error: the plugin's time-out, NCCL's abort, torch's watchdog.
DEATH_LIMIT_S = 30

BRAID = {
    "NCCL_NET": "Braid",
    "BRAID_IFNAME": "lo",
    "BRAID_PEER_TIMEOUT_MS": str(PEER_TIMEOUT_S * 1000),
}


def sockets(count):
    """NCCL's own transport with so many sockets, each with a thread."""
    return {
        "NCCL_NET": "Socket",
        "NCCL_NET_PLUGIN": "none",
        "NCCL_SOCKET_NTHREADS": str(count),
        "NCCL_NSOCKS_PERTHREAD": "1",
    }


NETS = {
    "Braid": BRAID,
    "Braid proxy": BRAID | {"BRAID_THREADS": "0"},
    "Socket x1": sockets(1),
    "Socket x4": sockets(4),
}


class Checks:
    """Everything that is checked with one plugin, and the bandwidth that was measured."""

    def __init__(self, plugin, perf, max_bytes, limit, rounds, folder, mps):
        self.plugin, self.perf, self.max_bytes, self.limit = plugin, perf, max_bytes, limit
        self.rounds, self.folder, self.mps = rounds, folder, mps
        self.speeds = []

    def run(self, name):
        """Runs one of `CHECKS`. Returns what it found, or raises `Failed` or `Skipped`."""
        check, *arguments = CHECKS[name]
        return check(self, name, *arguments)

    def pair(self, name, settings):
        folder = os.path.join(self.folder, re.sub(r"\W+", "-", name))
        settings = settings | self.mps.environment
        return Pair(self.plugin, settings, self.max_bytes, self.limit, folder)

    def all_results(self, name, settings):
        """Every collective, type and size; several communicators; a process group made again."""
        with self.pair(name, BRAID | settings) as pair:
            count = self.results(pair, SIZES)
            for dtype in DTYPES:
                for size in self.within(FEW_SIZES):
                    several = {"do": "several", "groups": COMMUNICATORS, "dtype": dtype}
                    what = f"{COMMUNICATORS} communicators, {dtype}, {size} bytes"
                    pair.ask(what, **several, size=size)
                    count += 1
            for _ in range(2):
                pair.ask("destroying the process group", do="leave")
                pair.join()
                count += self.results(pair, FEW_SIZES[:2])
            pair.need_transport("Braid")
        largest = max(self.within(SIZES))
        return (
            f"{count} of {count} right, up to {largest} bytes; "
            f"{COMMUNICATORS} communicators at once; process group made 3 times"
        )

    def some_results(self, name, settings, proof=None):
        """Every collective and type in a few sizes.

        `proof` is a pattern in NCCL's log that shows that the setting took effect, with a number,
        and what there are so many of.
        """
        if "BRAID_KEY_FILE" in settings:
            settings = {"BRAID_KEY_FILE": self.key_file()}
        with self.pair(name, BRAID | settings) as pair:
            count = self.results(pair, FEW_SIZES)
            largest = max(self.within(FEW_SIZES))
            for _ in range(ENOUGH_BYTES // (count * largest)):
                count += self.results(pair, [largest])
            pair.need_transport("Braid")
            pair.ask("destroying the process group", do="leave")
            detail = f"{count} of {count} right"
            if proof is None:
                return detail
            pattern, what = proof
            found = [re.findall(pattern, pair.log(rank)) for rank in (0, 1)]
            if not any(int(number) for numbers in found for number in numbers):
                raise Failed(f"according to the log no {what}; {pair.logs()}")
            seen = " and ".join(str(sum(map(int, numbers))) for numbers in found)
            return f"{detail}, {seen} {what}"

    def results(self, pair, sizes):
        """Checks every collective and type in these sizes. Returns how many that were."""
        cases = [(c, d, s) for c in COLLECTIVES for d in DTYPES for s in self.within(sizes)]
        for collective, dtype, size in cases:
            what = f"{collective}, {dtype}, {size} bytes"
            pair.ask(what, do="check", collective=collective, dtype=dtype, size=size)
        return len(cases)

    def registered_memory(self, name):
        """Moves memory of the GPU with braid-perf, without NCCL and torch."""
        if self.perf is None:
            raise Skipped("no braid-perf beside the plugin; name it by --perf")
        log = os.path.join(self.folder, f"{name}.log")
        return memory.registered_memory(self.perf, self.limit, log, self.rounds)

    def killed_rank(self, name):
        """Kills a rank in the middle of collectives; the other has to end with NCCL's error."""
        # An MPS server would suffer from a client that is killed.
        self.mps.stop()
        with self.pair(name, BRAID) as pair:
            started = os.path.join(pair.folder, "started")
            pair.tell(do="endless", size=min(self.max_bytes, 4 * MIB), started=started)
            until = time.monotonic() + self.limit
            while not os.path.exists(started):
                if time.monotonic() > until:
                    raise Hung(f"no collective ended within {self.limit} s; {pair.logs()}")
                time.sleep(0.05)
            pair.need_transport("Braid")
            time.sleep(0.5)
            pair.ranks[1].send_signal(signal.SIGKILL)
            return self.survivor(pair, min(DEATH_LIMIT_S, self.limit))

    def survivor(self, pair, limit):
        killed = time.monotonic()
        try:
            pair.answers("after rank 1 was killed", [0], limit)
        except Hung:
            raise
        except Failed as failure:
            took = time.monotonic() - killed
            # torch's words for ncclRemoteError, if it does not name that.
            if re.search(r"ncclRemoteError|remote process exit", f"{failure}\n{pair.log(0)}"):
                return f"ncclRemoteError after {took:.1f} s (limit {limit} s)"
            raise
        raise Failed(f"after rank 1 was killed, rank 0 went on; {pair.logs()}")

    def bandwidth(self, name):
        """Measures Braid, by default and driven by NCCL's proxy, beside NCCL's sockets, in turns."""
        sizes = self.within(TIME_SLICED_SPEED_SIZES if self.mps.why_not else SPEED_SIZES)
        with contextlib.ExitStack() as running:
            pairs = {
                net: running.enter_context(self.pair(f"{name} {net}", settings))
                for net, settings in NETS.items()
            }
            for collective in COLLECTIVES:
                for size in sizes:
                    self.speeds.append(self.measure(pairs, collective, size))
            for net, pair in pairs.items():
                pair.need_transport(net.split()[0])
        return f"{len(self.speeds)} figures of each network"

    def measure(self, pairs, collective, size):
        def seconds(pair, runs):
            answers = pair.ask(
                f"{collective}, {size} bytes",
                do="measure",
                collective=collective,
                size=size,
                runs=runs,
            )
            return max(answer["seconds"] for answer in answers)

        runs = {net: max(1, min(100, int(0.3 / seconds(pair, 1)))) for net, pair in pairs.items()}
        # Where one run takes this long, more rounds say nothing new.
        rounds = 1 if min(runs.values()) == 1 else self.rounds
        times = {net: [] for net in pairs}
        for _ in range(rounds):
            for net, pair in pairs.items():
                times[net].append(seconds(pair, runs[net]))
        medians = {net: statistics.median(measured) for net, measured in times.items()}
        bus_bytes = size * BUS_FACTOR[collective]
        return {
            "collective": collective,
            "bytes": size,
            "rounds": rounds,
            "median_us": {net: median * 1e6 for net, median in medians.items()},
            "bus_gigabytes_per_second": {
                net: bus_bytes / median / 1e9 for net, median in medians.items()
            },
        }

    def within(self, sizes):
        """Those that the largest permitted buffer holds."""
        return [size for size in sizes if size <= self.max_bytes]

    def key_file(self):
        path = os.path.join(self.folder, "psk")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(f"braid-psk {secrets.token_hex(32)}\n")
        return path


# Name on the command line, in the order in which they run: what it does, with which settings.
CHECKS = {
    # Of the plugin's datapaths the one that needs neither a privilege nor a device.
    "udp": (Checks.all_results, {"BRAID_DATAPATH": "udp"}),
    "thread": (Checks.some_results, {"BRAID_THREADS": "1"}),
    "drop": (Checks.some_results, {"BRAID_DROP": "0.01"}, (r"(\d+) resent", "packets resent")),
    "key": (Checks.some_results, {"BRAID_KEY_FILE": "made for the occasion"}),
    "rails": (
        Checks.some_results,
        {"BRAID_RAILS": "127.0.0.1,127.0.0.2"},
        (r", ([2-9]) rails,", "rails"),
    ),
    "memory": (Checks.registered_memory,),
    "bandwidth": (Checks.bandwidth,),
    # The last, because it ends MPS.
    "killed": (Checks.killed_rank,),
}
