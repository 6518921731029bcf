"""The few calls of torch that nccl/gpu-test.py makes, for machines without a GPU.

Tensors are lists of numbers, "GPU" memory is the host's. `distributed` moves them between the two
ranks through the real plugin. TORCH_STUB makes the stub misbehave: see `misbehave`.
"""

import os
import random
from types import SimpleNamespace

__version__ = "0.0-stub"

float32 = SimpleNamespace(itemsize=4)
bfloat16 = SimpleNamespace(itemsize=2)
int64 = SimpleNamespace(itemsize=8)
int8 = SimpleNamespace(itemsize=1)


def misbehave(how):
    """Whether the test of gpu-test.py wants this misbehaviour.

    no-cuda, no-gpu, no-memory: as the machine. ignore-plugin, wrong, hang, die, deaf: as NCCL.
    """
    return os.environ.get("TORCH_STUB") == how


version = SimpleNamespace(cuda=None if misbehave("no-cuda") else "0.0")


class Tensor:
    """Numbers in one dimension; a slice shares them, as torch's does."""

    def __init__(self, numbers, dtype, start=0, stop=None):
        self.numbers, self.dtype, self.start = numbers, dtype, start
        self.stop = len(numbers) if stop is None else stop

    def __len__(self):
        return self.stop - self.start

    def tolist(self):
        return self.numbers[self.start : self.stop]

    def item(self):
        (number,) = self.tolist()
        return number

    def __getitem__(self, at):
        if not isinstance(at, slice):
            return Tensor([self.numbers[self.start + at]], self.dtype)
        start, stop, _ = at.indices(len(self))
        return Tensor(self.numbers, self.dtype, self.start + start, self.start + max(start, stop))

    def copy_(self, numbers):
        assert len(numbers) == len(self), f"{len(numbers)} elements for {len(self)} places"
        self.numbers[self.start : self.stop] = numbers

    def to(self, where):
        return Tensor(self.tolist(), self.dtype if where == "cuda" else where)

    def cpu(self):
        return self.to(self.dtype)

    def flatten(self):
        return self

    def __add__(self, other):
        return Tensor([a + b for a, b in zip(self.tolist(), other.tolist())], self.dtype)

    def __ne__(self, other):
        return Tensor([a != b for a, b in zip(self.tolist(), other.tolist())], "bool")


class Generator:
    def manual_seed(self, seed):
        self.random = random.Random(seed)


def randint(low, high, shape, dtype, generator):
    return Tensor([generator.random.randrange(low, high) for _ in range(shape[0])], dtype)


def full(shape, value, dtype, device):
    return Tensor([value] * shape[0], dtype)


def zeros(count, dtype, device):
    return full((count,), 0, dtype, device)


def cat(tensors):
    return Tensor([number for tensor in tensors for number in tensor.tolist()], tensors[0].dtype)


def equal(a, b):
    return a.dtype == b.dtype and a.tolist() == b.tolist()


def nonzero(tensor):
    return Tensor([i for i, number in enumerate(tensor.tolist()) if number], int64)


cuda = SimpleNamespace(
    is_available=lambda: not misbehave("no-gpu"),
    set_device=lambda device: None,
    synchronize=lambda: None,
    get_device_name=lambda device: "a stub of a GPU",
    mem_get_info=lambda device: (1 << 20 if misbehave("no-memory") else 1 << 36, 1 << 36),
    nccl=SimpleNamespace(version=lambda: (2, 0, 0)),
)
