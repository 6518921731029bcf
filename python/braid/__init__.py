"""Braid: RDMA in user space, over plain UDP.

One reliable queue pair uses many network paths. WRITE and READ access the memory of a peer, SEND
and RECV exchange messages, and atomics count. Memory is that of any Python object with a writable
buffer. A posted work request is a `Work`: `wait()` for it, or `await` it.

    import braid

    with braid.Engine() as engine:
        qp = engine.connect("192.0.2.1:4791")
        board = qp.remote(qp.private_data)       # the server handed out the key of its memory
        board.write(b"placed by the network").wait()
"""

from __future__ import annotations

import atexit
import enum
from pathlib import Path

from braid import _braid
from braid._braid import (
    DEFAULT_PORT,
    CompletionQueue,
    ConnectionRequest,
    Engine,
    Group,
    Listener,
    Message,
    Piece,
    QueuePair,
    Region,
    RemoteRegion,
    RocePeer,
    RocePort,
    RoceUd,
    Round,
    Work,
    offers,
)
from braid.errors import (
    BraidError,
    ClosedError,
    ConnectError,
    EndCause,
    EngineError,
    ForkedError,
    GroupError,
    PendingError,
    PostError,
    RegisterError,
    SettingError,
    Status,
    WaitTimeoutError,
    WorkError,
)

__all__ = [
    "DEFAULT_PORT",
    "Access",
    "BraidError",
    "ClosedError",
    "CompletionQueue",
    "ConnectError",
    "ConnectionRequest",
    "EndCause",
    "Engine",
    "EngineError",
    "ForkedError",
    "Group",
    "GroupError",
    "Listener",
    "Message",
    "PendingError",
    "Piece",
    "PostError",
    "QueuePair",
    "Region",
    "RegisterError",
    "RemoteRegion",
    "RocePeer",
    "RocePort",
    "RoceUd",
    "Round",
    "SettingError",
    "Status",
    "WaitTimeoutError",
    "Work",
    "WorkError",
    "nccl_plugin",
    "nixl_plugin_dir",
    "offers",
]

__version__: str = offers()["version"]


class Access(enum.IntFlag):
    """Permissions of a region or a queue pair. The owner may always read."""

    NONE = 0
    """Local reads only."""
    LOCAL_WRITE = 1
    """Receives, READs and atomics may be written here."""
    REMOTE_WRITE = 2
    """The peer may WRITE."""
    REMOTE_READ = 4
    """The peer may READ."""
    REMOTE_ATOMIC = 8
    """The peer may use atomics."""
    ALL = 15
    """All permissions."""


def nccl_plugin() -> Path:
    """The path of the NCCL plugin in this package, for `NCCL_NET_PLUGIN`."""
    path = Path(__file__).parent / "lib" / "libnccl-net-braid.so"
    if not path.is_file():
        raise FileNotFoundError(
            f"{path} is missing: this package was not built by `cargo xtask wheel`"
        )
    return path


def nixl_plugin_dir() -> Path:
    """The folder of the NIXL plugin in this package, for `NIXL_PLUGIN_DIR`."""
    folder = Path(__file__).parent / "lib" / "nixl"
    if not (folder / "libplugin_BRAID.so").is_file():
        raise FileNotFoundError(
            f"{folder} has no NIXL plugin: this package was not built by `cargo xtask wheel`"
        )
    return folder


# Threads that wait in Braid cannot return to an interpreter that has ended, and peers want to know.
atexit.register(_braid.end)
