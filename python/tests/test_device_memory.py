"""Arrays in the memory of GPUs, over the substitute of the CUDA driver."""

from __future__ import annotations

import gc
import subprocess
import sys
import types
import weakref
from typing import Any

import numpy as np
import pytest
from conftest import LIMIT, Pair
from cuda_substitute import Gpu
from test_groups import run_ranks

import braid

SIZE = 300_000


class Array:
    """An array of a GPU, with the interface that CuPy's and Numba's have."""

    def __init__(self, gpu: Gpu, size: int = SIZE, **interface: Any) -> None:
        self.gpu, self.size = gpu, size
        _, self.address = gpu.allocate(size)
        self.__cuda_array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (self.address, False),
            "version": 3,
            "strides": None,
            **interface,
        }

    def get(self) -> bytes:
        return self.gpu.read(self.address, self.size)

    def set(self, data: bytes) -> None:
        self.gpu.write(self.address, data)


class Tensor:
    """The interface of torch's tensors on a GPU that registering uses."""

    def __init__(self, array: Array, is_detached: bool = False, is_contiguous: bool = True) -> None:
        self.array, self.is_detached = array, is_detached
        self.contiguous = is_contiguous
        self.device = types.SimpleNamespace(type="cuda")

    def is_contiguous(self) -> bool:
        return self.contiguous

    def detach(self) -> Tensor:
        return Tensor(self.array, True)

    def view(self, shape: Any) -> Tensor:
        assert shape in (-1, np.uint8)
        return self

    @property
    def __cuda_array_interface__(self) -> Any:
        if not self.is_detached:
            raise RuntimeError("it requires a gradient")
        return self.array.__cuda_array_interface__


@pytest.fixture
def gpu() -> Gpu:
    gpu = Gpu()
    gpu.behave(shortest_us=50, longest_us=2000)
    return gpu


def pattern(seed: int, size: int = SIZE) -> bytes:
    return np.random.default_rng(seed).integers(0, 256, size, dtype=np.uint8).tobytes()


def test_write_and_read(pair: Pair, gpu: Gpu) -> None:
    near, far = Array(gpu), Array(gpu)
    near.set(pattern(1))
    remote = pair.remote(far)
    local = pair.client.register(near)
    assert (len(local), local.gpu) == (SIZE, 0)
    assert remote.write(local).wait(LIMIT) == SIZE
    assert far.get() == pattern(1)
    far.set(pattern(2))
    assert remote.read(local).wait(LIMIT) == SIZE
    assert near.get() == pattern(2)


def test_messages_and_parts_of_both_kinds(pair: Pair, gpu: Gpu) -> None:
    inbox, out, host = Array(gpu), Array(gpu), bytearray(pattern(4, 1000))
    out.set(pattern(3))
    region = pair.server.register(inbox)
    receive = pair.far.recv(region[100:])
    sent, more = pair.client.register(out), pair.client.register(host)
    assert more.gpu is None
    assert pair.near.send([sent[7:100_007], more]).wait(LIMIT) == 101_000
    assert receive.wait(LIMIT).length == 101_000
    assert inbox.get()[100:101_100] == pattern(3)[7:100_007] + host


def test_atomics(pair: Pair, gpu: Gpu) -> None:
    words = Array(gpu, 64)
    words.set(bytes(64))
    remote = pair.remote(words)
    assert remote.fetch_add(8, 5).wait(LIMIT) == 0
    assert remote.fetch_add(8, 2).wait(LIMIT) == 5
    assert words.get() == bytes(8) + (7).to_bytes(8, "little") + bytes(48)


def test_tensors_of_torch(pair: Pair, gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(uint8=np.uint8))
    far = Array(gpu)
    remote = pair.remote(Tensor(far))
    assert remote.write(pair.client.register(bytearray(pattern(5)))).wait(LIMIT) == SIZE
    assert far.get() == pattern(5)
    with pytest.raises(braid.RegisterError, match=r"tensor\.contiguous\(\)"):
        pair.server.register(Tensor(far, is_contiguous=False))


def test_a_region_keeps_its_array(pair: Pair, gpu: Gpu) -> None:
    array = Array(gpu)
    gone = weakref.ref(array)
    region = pair.client.register(array)
    del array
    gc.collect()
    assert gone() is not None
    region.close()
    gc.collect()
    assert gone() is None


def test_the_stream_of_the_array_ends_first(pair: Pair, gpu: Gpu) -> None:
    before = gpu.record().last_awaited
    pair.client.register(Array(gpu))
    assert gpu.record().last_awaited == before
    for stream in (1, 2, 0x5500_0000_1234):
        pair.client.register(Array(gpu, stream=stream))
        assert gpu.record().last_awaited == stream


@pytest.mark.parametrize(
    ("interface", "size"),
    [
        ({"shape": (), "typestr": "<f8"}, 8),
        ({"shape": (5, 3), "typestr": "<f4"}, 60),
        ({"shape": (5, 3), "typestr": "<f4", "strides": (12, 4)}, 60),
        ({"shape": (5, 1, 3), "typestr": "<i2", "strides": (6, -77, 2)}, 30),
        ({"shape": (4,), "typestr": "<c16", "version": 2}, 64),
        ({"shape": (4,), "typestr": "<M8[ns]", "stream": None, "mask": None}, 32),
        ({"shape": (4,), "typestr": "<U3"}, 48),
        ({"shape": (4,), "typestr": "|V7", "descr": [("", "|V7")]}, 28),
    ],
)
def test_layouts(pair: Pair, gpu: Gpu, interface: dict[str, Any], size: int) -> None:
    assert len(pair.client.register(Array(gpu, **interface))) == size


@pytest.mark.parametrize(
    ("interface", "text"),
    [
        ({"shape": (5, 3), "strides": (1, 5)}, r"not contiguous.*cupy\.ascontiguousarray"),
        ({"shape": (8,), "strides": (2,)}, "not contiguous"),
        ({"shape": (8,), "strides": (-1,)}, "not contiguous"),
        ({"data": "read-only"}, r"read-only.*Access\.NONE"),
        ({"data": (0, False)}, "it is empty, or was freed"),
        ({"shape": (0, 4)}, "it is empty, or was freed"),
        ({"mask": object()}, "has a mask"),
        ({"data": (4096, False)}, "CUDA does not know device memory at 0x1000"),
        ({"shape": (SIZE + 1,)}, "CUDA does not know device memory"),
    ],
)
def test_arrays_that_are_refused(
    pair: Pair, gpu: Gpu, interface: dict[str, Any], text: str
) -> None:
    array = Array(gpu, **interface)
    if interface.get("data") == "read-only":
        array.__cuda_array_interface__["data"] = (array.address, True)
    with pytest.raises(braid.RegisterError, match=text):
        pair.client.register(array)


def test_a_read_only_array_can_be_sent_from(pair: Pair, gpu: Gpu) -> None:
    array = Array(gpu)
    array.set(pattern(6))
    array.__cuda_array_interface__["data"] = (array.address, True)
    far = bytearray(SIZE)
    remote = pair.remote(far)
    region = pair.client.register(array, access=braid.Access.NONE)
    assert remote.write(region).wait(LIMIT) == SIZE
    assert far == pattern(6)


@pytest.mark.parametrize(
    ("interface", "text"),
    [
        ({"version": 4}, "version 4; known: 2, 3"),
        ({"version": "3"}, "it has no version"),
        ({"shape": 8}, "`shape` is no tuple of sizes"),
        ({"shape": (-1,)}, "`shape` is no tuple of sizes"),
        ({"shape": (1 << 40, 1 << 40)}, "`shape` has too many items"),
        ({"typestr": "|t3"}, "`typestr` is no type of whole bytes"),
        ({"typestr": "f4"}, "`typestr` is no type of whole bytes"),
        ({"typestr": "<f0"}, "`typestr` is no type of whole bytes"),
        ({"typestr": "<f99999999999999999999"}, "`typestr` is no type of whole bytes"),
        ({"typestr": ""}, "`typestr` is no type of whole bytes"),
        ({"data": None}, "`data` is no pointer with a flag"),
        ({"data": (-1, False)}, "`data` is no pointer with a flag"),
        ({"strides": (1, 1)}, "`strides` does not fit `shape`"),
        ({"stream": 0}, "`stream` is no handle"),
        ({"stream": "one"}, "`stream` is no handle"),
    ],
)
def test_malformed_interfaces(pair: Pair, gpu: Gpu, interface: dict[str, Any], text: str) -> None:
    with pytest.raises(TypeError, match=text):
        pair.client.register(Array(gpu, **interface))


def test_an_interface_that_is_no_dict(pair: Pair) -> None:
    with pytest.raises(TypeError, match="it is no dict"):
        pair.client.register(types.SimpleNamespace(__cuda_array_interface__=3))


def test_memory_that_is_freed_ends_the_queue_pair(pair: Pair, gpu: Gpu) -> None:
    _, address = made = gpu.allocate(SIZE)
    array = Array(gpu, data=(address, False))
    remote = pair.remote(bytearray(SIZE))
    region = pair.client.register(array)
    gpu.destroy(made[0])
    with pytest.raises(braid.WorkError) as failed:
        remote.write(region).wait(LIMIT)
    assert failed.value.cause is braid.EndCause.DEVICE_MEMORY


def test_without_a_driver_the_remedy_is_named() -> None:
    # This process has the substitute.
    look = [sys.executable, "-c", "import ctypes; ctypes.CDLL('libcuda.so.1')"]
    if subprocess.run(look, capture_output=True, check=False).returncode == 0:
        pytest.skip("this machine has a driver")
    program = """
import braid
class Array:
    __cuda_array_interface__ = {
        "shape": (8,), "typestr": "|u1", "data": (4096, False), "version": 3
    }
try:
    braid.Engine(bind="127.0.0.1:0").register(Array())
except braid.RegisterError as error:
    print(error)
"""
    told = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert "no GPU: libcuda.so.1" in told.stdout
    assert "install the NVIDIA driver" in told.stdout


def test_groups(gpu: Gpu) -> None:
    def run(group: braid.Group) -> None:
        send, recv = (Array(gpu, 64, shape=(8,), typestr="<i8") for _ in range(2))
        send.set((np.arange(8) + 100 * group.rank).tobytes())
        group.all_to_all(send, recv).wait(LIMIT)
        halves = [np.arange(4) + 4 * group.rank + 100 * peer for peer in range(2)]
        assert recv.get() == np.concatenate(halves).tobytes()

    run_ranks(2, run)
