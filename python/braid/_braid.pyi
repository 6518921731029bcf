# Types of the extension module.

import asyncio
from collections.abc import Generator, Sequence
from os import PathLike
from types import TracebackType
from typing import Any, Generic, Self, TypedDict, TypeVar, final

from typing_extensions import Buffer

from braid import Access
from braid.errors import EndCause

_T_co = TypeVar("_T_co", covariant=True)

DEFAULT_PORT: int

class _Offers(TypedDict):
    version: str
    datapaths: list[tuple[str, str]]
    lb: list[str]
    rail_policy: list[str]
    cc: list[str]
    recovery: list[str]

def offers() -> _Offers: ...
def defaults(engine: Engine) -> tuple[dict[str, Any], dict[str, Any]]: ...
def end() -> None: ...

class _Closable:
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        class_: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None: ...

@final
class Engine(_Closable):
    def __new__(
        cls,
        *,
        bind: str | None = "[::]:0",
        second_addr: str | None = None,
        rails: str | Sequence[str] | None = (),
        rail_policy: str | None = "least-loaded",
        threads: int | None = 1,
        paths: int | None = 16,
        lb: str | None = "adaptive",
        quantum: int | None = None,
        destination_groups: str | PathLike[str] | None = None,
        discover: bool | None = False,
        mtu: int | None = None,
        crc: bool | None = None,
        key_file: str | PathLike[str] | None = None,
        allowed_keys: str | PathLike[str] | None = None,
        security: str | None = None,
        receive_buffer: int | None = 8388608,
        seed: int | None = None,
        spin: float | None = 5e-05,
        ping_interval: float | None = 0.5,
        peer_timeout: float | None = 3.0,
        linger: float | None = 0.5,
        metrics: str | None = None,
        datapath: str | None = "udp",
        device: str | None = None,
        device_port: int | None = 1,
        gid_index: int | None = None,
        service: str | None = "uc",
        fault_drop: float | None = 0.0,
        fault_reorder: float | None = 0.0,
        fault_duplicate: float | None = 0.0,
        fault_corrupt: float | None = 0.0,
        fault_delay: float | None = 0.0,
        fault_seed: int | None = 0,
    ) -> Self: ...
    @property
    def address(self) -> str: ...
    @property
    def closed(self) -> bool: ...
    def register(self, buffer: Any, access: Access = ...) -> Region: ...
    def listen(self, backlog: int = 64) -> Listener: ...
    def create_qp(
        self,
        *,
        max_send_wr: int | None = 128,
        max_recv_wr: int | None = 512,
        max_sge: int | None = 16,
        max_inline: int | None = 256,
        access: Access | None = ...,
        window: int | None = 4096,
        max_rd_atomic: int | None = 128,
        retry_timeout: float | None = None,
        rnr_retry: int | None = None,
        rnr_delay: float | None = 0.0001,
        min_rto: float | None = 0.004,
        max_rto: float | None = 0.3,
        recovery: str | None = "fifo-path",
        reorder_threshold: int | None = 48,
        ask_every: int | None = 32,
        reply_hold: float | None = 5e-05,
        reply_wait: float | None = 0.0,
        cc: str | None = "cubic",
        traffic_class: int | None = 0,
    ) -> QueuePair: ...
    def connect(
        self,
        address: str,
        *,
        private_data: Buffer | None = b"",
        timeout: float | None = 10.0,
        **settings: Any,
    ) -> QueuePair: ...
    async def connect_async(
        self,
        address: str,
        *,
        private_data: Buffer = b"",
        timeout: float = 10.0,
        **settings: Any,
    ) -> QueuePair: ...
    def roce_port(self, gid: str, port: int = 4791) -> RocePort: ...
    def roce_ud(
        self,
        number: int,
        q_key: int,
        *,
        port: int | None = 4791,
        psn: int | None = 0,
        max_send_wr: int | None = 256,
        max_recv_wr: int | None = 512,
        max_sge: int | None = 16,
    ) -> RoceUd: ...
    def completion_queue(self) -> CompletionQueue: ...
    def progress(self) -> bool: ...
    def degradations(self) -> list[str]: ...
    def counters(self) -> dict[str, int]: ...

@final
class Listener(_Closable):
    @property
    def address(self) -> str: ...
    def accept(self, timeout: float | None = None) -> ConnectionRequest: ...
    async def accept_async(self) -> ConnectionRequest: ...
    def fileno(self) -> int: ...
    def _poll(self) -> ConnectionRequest | None: ...

@final
class ConnectionRequest:
    @property
    def private_data(self) -> bytes: ...
    @property
    def peer_address(self) -> str: ...
    @property
    def peer_name(self) -> str | None: ...
    def accept(
        self,
        *,
        private_data: Buffer | None = b"",
        qp: QueuePair | None = None,
        **settings: Any,
    ) -> QueuePair: ...
    def reject(self) -> None: ...

class _Connecting:
    def fileno(self) -> int: ...
    def is_over(self) -> bool: ...
    def close(self) -> None: ...

@final
class QueuePair(_Closable):
    def connect(
        self,
        address: str,
        *,
        private_data: Buffer | None = b"",
        timeout: float | None = 10.0,
    ) -> None: ...
    def connect_roce(
        self,
        gid: str,
        qp: int,
        *,
        port: int | None = 4791,
        own_qp: int | None = None,
        recv_psn: int | None = 0,
        send_psn: int | None = 0,
        mtu: int | None = None,
        max_rd_atomic: int | None = 16,
        ack_timeout: float | None = 0.067108864,
        retry_count: int | None = 7,
        window: int | None = 128,
        dcqcn: str | None = None,
    ) -> None: ...
    def _begin_connect(
        self,
        address: str,
        *,
        private_data: Buffer | None = b"",
        timeout: float | None = 10.0,
    ) -> _Connecting: ...
    def send(
        self,
        local: _Local | Buffer,
        *,
        imm: int | None = None,
        solicited: bool | None = False,
        fence: bool | None = False,
        to: CompletionQueue | None = None,
    ) -> Work[int]: ...
    def recv(
        self,
        local: _Local | None = None,
        *,
        to: CompletionQueue | None = None,
    ) -> Work[Message]: ...
    def remote(self, key: bytes) -> RemoteRegion: ...
    def remote_at(self, address: int, rkey: int, length: int) -> RemoteRegion: ...
    @property
    def private_data(self) -> bytes | None: ...
    @property
    def number(self) -> int: ...
    @property
    def state(self) -> str: ...
    @property
    def cause(self) -> EndCause | None: ...
    @property
    def error(self) -> str | None: ...
    @property
    def peer_address(self) -> str | None: ...
    @property
    def protocol(self) -> str | None: ...
    def degradations(self) -> list[str]: ...
    def counters(self) -> dict[str, int]: ...
    def disconnect(self) -> None: ...

@final
class RocePort:
    @property
    def gid(self) -> str: ...
    @property
    def port(self) -> int: ...
    @property
    def mtu(self) -> int: ...

@final
class RoceUd(_Closable):
    def peer(
        self,
        gid: str,
        qp: int,
        q_key: int,
        *,
        port: int | None = 4791,
        traffic_class: int | None = 0,
    ) -> RocePeer: ...
    def send(
        self,
        peer: RocePeer,
        data: Buffer,
        *,
        imm: int | None = None,
        solicited: bool | None = False,
        to: CompletionQueue | None = None,
    ) -> Work[int]: ...
    def recv(self, local: _Local, *, to: CompletionQueue | None = None) -> Work[Message]: ...
    @staticmethod
    def sender(received: Buffer) -> str: ...
    def set_q_key(self, q_key: int) -> None: ...
    @property
    def number(self) -> int: ...
    @property
    def closed(self) -> bool: ...

@final
class RocePeer:
    @property
    def gid(self) -> str: ...
    @property
    def port(self) -> int: ...
    @property
    def qp(self) -> int: ...
    @property
    def q_key(self) -> int: ...
    @property
    def mtu(self) -> int: ...

@final
class Region(_Closable):
    @property
    def key(self) -> bytes: ...
    @property
    def address(self) -> int: ...
    @property
    def rkey(self) -> int: ...
    @property
    def closed(self) -> bool: ...
    @property
    def gpu(self) -> int | None: ...
    def __len__(self) -> int: ...
    def __getitem__(self, place: slice, /) -> Piece: ...

@final
class Piece:
    def __len__(self) -> int: ...
    def __getitem__(self, place: slice, /) -> Piece: ...

# Local memory of a work request.
_Local = Region | Piece | list[Region | Piece]

@final
class RemoteRegion:
    def write(
        self,
        local: _Local | Buffer,
        offset: int = 0,
        *,
        imm: int | None = None,
        solicited: bool | None = False,
        fence: bool | None = False,
        to: CompletionQueue | None = None,
    ) -> Work[int]: ...
    def read(
        self,
        local: _Local,
        offset: int = 0,
        *,
        fence: bool | None = False,
        to: CompletionQueue | None = None,
    ) -> Work[int]: ...
    def compare_swap(
        self,
        offset: int,
        compare: int,
        swap: int,
        *,
        fence: bool | None = False,
        to: CompletionQueue | None = None,
    ) -> Work[int]: ...
    def fetch_add(
        self,
        offset: int,
        add: int,
        *,
        fence: bool | None = False,
        to: CompletionQueue | None = None,
    ) -> Work[int]: ...
    def __len__(self) -> int: ...

@final
class Work(Generic[_T_co]):
    def wait(self, timeout: float | None = None) -> _T_co: ...
    def result(self) -> _T_co: ...
    def done(self) -> bool: ...
    @property
    def queue_pair(self) -> QueuePair | RoceUd: ...
    @property
    def operation(self) -> str: ...
    def _watch(self, home: asyncio.AbstractEventLoop, future: asyncio.Future[None], /) -> bool: ...
    def __await__(self) -> Generator[Any, None, _T_co]: ...

@final
class Message:
    @property
    def length(self) -> int: ...
    @property
    def imm(self) -> int | None: ...
    @property
    def is_write(self) -> bool: ...
    @property
    def source(self) -> int | None: ...

@final
class CompletionQueue:
    def wait(self, timeout: float | None = None) -> Work[Any]: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> Work[Any]: ...
    def __aiter__(self) -> Self: ...
    async def __anext__(self) -> Work[Any]: ...
    def _take(self) -> tuple[bool, Work[Any] | None]: ...
    def _watch(self, home: asyncio.AbstractEventLoop, future: asyncio.Future[None], /) -> bool: ...
    def __len__(self) -> int: ...
    def __bool__(self) -> bool: ...

@final
class Group(_Closable):
    def __new__(
        cls,
        engine: Engine,
        *,
        rank: int | None = None,
        size: int | None = None,
        root: str | None = None,
        addresses: str | Sequence[str] | None = None,
        job: str | None = "",
        timeout: float | None = 30.0,
        cc: str | None = "cubic",
    ) -> Self: ...
    @property
    def rank(self) -> int: ...
    @property
    def size(self) -> int: ...
    def register(self, buffer: Any, access: Access = ...) -> Region: ...
    def all_to_all(
        self,
        send: Any,
        recv: Any,
        send_counts: Sequence[int] | None = None,
        recv_counts: Sequence[int] | None = None,
    ) -> Round: ...

@final
class Round:
    @property
    def number(self) -> int: ...
    def done(self) -> bool: ...
    def wait(self, timeout: float | None = None) -> None: ...
    def __await__(self) -> Generator[Any]: ...
