"""Two processes of one program that move data, and the bytes that Braid counts in one of them.

The initiator starts the target. They exchange addresses and keys over pipes.
"""

import os
import pickle
import random
import re
import socket
import struct
import subprocess
import sys
import urllib.request

LEN = 16 << 20
"""Bytes that are read, and then written."""


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


# Before the library reads it.
_METRICS = f"127.0.0.1:{_free_port()}"
os.environ["BRAID_METRICS"] = _METRICS


def pattern(seed):
    """Random bytes that depend on the seed."""
    return random.Random(seed).randbytes(LEN)


class Peer:
    """The other process."""

    def __init__(self, inward, outward, child=None):
        self.inward, self.outward, self.child = inward, outward, child

    def tell(self, value):
        text = pickle.dumps(value)
        self.outward.write(struct.pack("<I", len(text)) + text)
        self.outward.flush()

    def hear(self):
        (length,) = struct.unpack("<I", self.inward.read(4))
        return pickle.loads(self.inward.read(length))

    def end(self):
        """Waits for the target, which has to succeed."""
        code = self.child.wait(timeout=30)
        assert code == 0, f"the target ended with {code}"


def is_target():
    return len(sys.argv) > 1


def peer():
    """The other process, which the initiator starts now."""
    if is_target():
        return Peer(sys.stdin.buffer, os.fdopen(int(sys.argv[1]), "wb"))
    reading, writing = os.pipe()
    command = [sys.executable, sys.argv[0], str(writing)]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[writing])
    os.close(writing)
    return Peer(os.fdopen(reading, "rb"), child.stdin, child)


def _counted(name):
    text = urllib.request.urlopen(f"http://{_METRICS}/metrics", timeout=10).read().decode()
    values = re.findall(rf"^braid_qp_{name}_total{{.*}} (\S+)$", text, re.MULTILINE)
    return sum(float(value) for value in values)


def require_received(length):
    """Fails unless Braid has received at least this much here."""
    received = _counted("bytes_received")
    text = f"Braid received {received:.0f} bytes of {length}"
    assert received >= length, text
    print("checked: " + text, flush=True)


def require_braid():
    """Fails unless Braid has moved all that was read and written."""
    received, sent = _counted("bytes_received"), _counted("bytes_sent")
    text = f"Braid received {received:.0f} bytes and sent {sent:.0f} of {LEN}"
    assert min(received, sent) >= LEN, text
    print("checked: " + text, flush=True)
