"""Registered memory of a GPU: braid-perf moves it, and compares every byte."""

import json
import os
import statistics
import subprocess

from .errors import Failed, Hung
from .gpu import clean_environment

# Bytes of messages. The odd ones end in the middle of packets and copies.
SIZES = [8, 65_544, 4 << 20]
TESTS = ["write-bw", "read-bw", "send-bw"]
MESSAGES = 200
# Of the tests that measure.
MEASURED_BYTES = 1 << 20
MEASURED_SECONDS = 1


class Perf:
    """The program braid-perf, in the GPU's memory or the host's, both ends in one process."""

    def __init__(self, path, limit, log):
        self.path, self.limit, self.log = path, limit, log

    def run(self, what, *arguments):
        """Runs a test. Returns the row of its figures."""
        command = [self.path, *arguments, "--loopback", "--json", "-"]
        try:
            done = subprocess.run(
                command,
                env=clean_environment(),
                capture_output=True,
                text=True,
                timeout=self.limit,
            )
        except subprocess.TimeoutExpired as error:
            raise Hung(f"{what} hung: not done within {self.limit} s") from error
        with open(self.log, "a", encoding="utf-8") as log:
            print(" ".join(command), done.stdout, done.stderr, sep="\n", file=log)
        if done.returncode != 0:
            lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
            why = lines[-1].removeprefix("braid-perf: ")
            raise Failed(f"{what}: {why}; see {self.log}")
        return json.loads(done.stdout)["rows"][0]

    def verified(self):
        """Moves messages of all sizes, and compares them. Returns how many tests that were."""
        count = 0
        for datapath in ("udp", "tcp"):
            for test in TESTS:
                for size in SIZES:
                    options = ["-s", str(size), "-n", str(MESSAGES), "--datapath", datapath]
                    what = f"{test} of {size} bytes over {datapath}"
                    self.run(what, test, *options, "--memory", "cuda", "--verify")
                    count += 1
            options = ["-n", str(MESSAGES), "--datapath", datapath, "--memory", "cuda", "--verify"]
            self.run(f"atomic-lat over {datapath}", "atomic-lat", *options)
            count += 1
        return count

    def goodput(self, memory):
        """The goodput of WRITEs in Gb/s."""
        options = ["-s", str(MEASURED_BYTES), "-D", str(MEASURED_SECONDS), "--memory", memory]
        row = self.run(f"write-bw in memory of {memory}", "write-bw", *options)
        return row["bandwidth"]["goodput_gbps"]


def registered_memory(path, limit, log, rounds):
    """Returns what was found: right bytes, and the goodput beside that in the host's memory."""
    perf = Perf(path, limit, log)
    count = perf.verified()
    measured = [[perf.goodput(memory) for memory in ("cuda", "host")] for _ in range(rounds)]
    cuda, host = (statistics.median(column) for column in zip(*measured))
    return (
        f"{count} of {count} right, every byte; WRITEs of 1 MiB {cuda:.1f} Gb/s, "
        f"in the host's memory {host:.1f}"
    )


def beside(plugin):
    """The braid-perf in the folder of a plugin, or one above, where cargo puts it."""
    folder = os.path.dirname(plugin)
    places = [os.path.join(place, "braid-perf") for place in (folder, os.path.dirname(folder))]
    return next((place for place in places if is_program(place)), None)


def is_program(path):
    return os.path.isfile(path) and os.access(path, os.X_OK)

