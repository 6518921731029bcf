"""The substitute of the CUDA driver, as tests of Python programs control it."""

from __future__ import annotations

import ctypes
import os


class _Behaviour(ctypes.Structure):
    """`Behaviour` of the library."""

    _fields_ = (
        ("shortest_us", ctypes.c_uint64),
        ("longest_us", ctypes.c_uint64),
        ("fails_after", ctypes.c_uint64),
        ("refuses_after", ctypes.c_uint64),
    )


class Record(ctypes.Structure):
    """`Record` of the library."""

    _fields_ = (
        ("copies_in", ctypes.c_uint64),
        ("bytes_in", ctypes.c_uint64),
        ("copies_out", ctypes.c_uint64),
        ("bytes_out", ctypes.c_uint64),
        ("under_way", ctypes.c_uint64),
        ("waiting_calls", ctypes.c_uint64),
        ("last_awaited", ctypes.c_uint64),
    )


class Gpu:
    """The substitute. Once a process has opened it, the engine finds it by the driver's name."""

    def __init__(self) -> None:
        path = os.environ.get("BRAID_CUDA_SUBSTITUTE")
        if not path:
            raise RuntimeError(
                "BRAID_CUDA_SUBSTITUTE names no library; `cargo xtask wheel` sets it to "
                "libcuda_substitute.so, which `cargo build -p braid-cuda-substitute` builds"
            )
        self._library = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)

    def allocate(self, length: int) -> tuple[int, int]:
        """Makes a context with memory. Returns its number and the address."""
        made = (ctypes.c_uint64 * 2)()
        self._check(self._library.cuda_substitute_context(ctypes.c_size_t(length), made))
        return made[0], made[1]

    def destroy(self, context: int) -> None:
        """Destroys a context with its memory."""
        self._library.cuda_substitute_destroy(ctypes.c_uint64(context))

    def read(self, address: int, length: int) -> bytes:
        """The bytes that are in device memory now, beside all streams."""
        room = ctypes.create_string_buffer(length)
        size = ctypes.c_size_t(length)
        self._check(self._library.cuda_substitute_peek(ctypes.c_uint64(address), room, size))
        return room.raw

    def write(self, address: int, data: bytes) -> None:
        """Writes bytes to device memory, beside all streams."""
        size = ctypes.c_size_t(len(data))
        self._check(self._library.cuda_substitute_poke(ctypes.c_uint64(address), data, size))

    def behave(
        self,
        shortest_us: int = 0,
        longest_us: int = 0,
        fails_after: int = 0,
        refuses_after: int = 0,
    ) -> None:
        """Sets the behaviour of copies that are requested from now on."""
        behaviour = _Behaviour(shortest_us, longest_us, fails_after, refuses_after)
        self._library.cuda_substitute_set(ctypes.byref(behaviour))

    def record(self) -> Record:
        """The copies so far, and the calls that a kernel may hold up."""
        record = Record()
        self._library.cuda_substitute_record(ctypes.byref(record))
        return record

    def _check(self, code: int) -> None:
        if code != 0:
            raise RuntimeError(f"the substitute refuses: {code}")
