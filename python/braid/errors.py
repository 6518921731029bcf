"""Exceptions of Braid. All derive from `BraidError`."""

from __future__ import annotations

import enum


class EndCause(enum.StrEnum):
    """The reason why a queue pair ended."""

    APPLICATION = "application"
    """This program has ended it."""
    COMPLETION_QUEUE_OVERRUN = "completion-queue-overrun"
    """Completions were lost."""
    DEVICE_MEMORY = "device-memory"
    """A copy to or from GPU memory failed."""
    DEVICE_GONE = "device-gone"
    """The RDMA device was removed or has failed."""
    LOCAL_MEMORY = "local-memory"
    """A region was closed, or lacks a permission that work needs."""
    PEER = "peer"
    """The peer has ended the connection."""
    PEER_SILENT = "peer-silent"
    """Nothing arrived from the peer in time."""
    PEER_GONE = "peer-gone"
    """The peer's process has ended, as its host reports."""
    PEER_UNKNOWN = "peer-unknown"
    """The peer does not have the connection any more: it was restarted."""
    PEER_NOT_READY = "peer-not-ready"
    """The peer posted no receive in time."""
    REFUSED_BY_PEER = "refused-by-peer"
    """The peer refused a request, such as one outside of its region."""
    REFUSED_HERE = "refused-here"
    """A request of the peer was refused."""
    PEER_UNTRUE = "peer-untrue"
    """The peer violates the protocol."""
    OTHER = "other"
    """A cause that this version does not know."""


class Status(enum.StrEnum):
    """The status of a failed work request, with the names of `ibv_wc_status`."""

    LOCAL_LENGTH = "local-length"
    LOCAL_PROTECTION = "local-protection"
    FLUSHED = "flushed"
    REMOTE_INVALID_REQUEST = "remote-invalid-request"
    REMOTE_ACCESS = "remote-access"
    REMOTE_OPERATIONAL = "remote-operational"
    RETRY_EXCEEDED = "retry-exceeded"
    RNR_RETRY_EXCEEDED = "rnr-retry-exceeded"


class BraidError(Exception):
    """The base class of all exceptions of Braid."""


class ClosedError(BraidError):
    """An object was used after its `close`, or after that of its engine."""


class ForkedError(ClosedError):
    """An object of the parent process was used in a forked child."""


class SettingError(BraidError, ValueError):
    """A setting has an invalid value."""


class EngineError(BraidError, OSError):
    """An engine or a listener cannot be created."""


class RegisterError(BraidError, BufferError):
    """A buffer cannot be registered."""


class ConnectError(BraidError, ConnectionError):
    """A connection was not made."""


class PostError(BraidError):
    """A work request was not posted."""


class PendingError(BraidError):
    """A result was asked for that is not there."""


class WaitTimeoutError(BraidError, TimeoutError):
    """A wait has ended before what it waited for. The work goes on."""


class WorkError(BraidError):
    """A work request failed. Its queue pair has ended, unless it takes datagrams."""

    operation: str
    """The operation, such as `WRITE`."""
    status: Status
    """The status of the work request."""
    cause: EndCause
    """The reason why the queue pair ended."""

    def __init__(
        self,
        text: str,
        operation: str = "",
        status: str = "flushed",
        cause: str = "other",
    ) -> None:
        super().__init__(text)
        self.operation = operation
        self.status = Status(status)
        self.cause = EndCause(cause)


class GroupError(BraidError):
    """A group was not formed, or has ended."""

    rank: int | None
    """The rank that caused it, if one did."""

    def __init__(self, text: str, rank: int | None = None) -> None:
        super().__init__(text)
        self.rank = rank
