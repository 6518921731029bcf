"""Collectives of two ranks: each is one exchange of inputs, and a sum or a choice on the host."""

import array
import os
import socket
import struct
import sys
import time

from . import Tensor, bfloat16, int64, misbehave
from .plugin import Plugin


class Group:
    """What one communicator of NCCL is: a connection in each direction."""

    def __init__(self, store):
        if os.environ["NCCL_NET"] == "Braid" and not misbehave("ignore-plugin"):
            net, self.exchange = "Braid", Plugin.opened().connect(store)
        else:
            net, self.exchange = "Socket", store
        print(
            f"host:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/{net}/0", flush=True
        )


class Store:
    """One TCP connection between the ranks: the store, and NCCL's sockets."""

    def __init__(self, rank, port):
        self.rank = rank
        if rank == 0:
            with socket.create_server(("127.0.0.1", port)) as listener:
                self.stream, _ = listener.accept()
            return
        while True:
            try:
                self.stream = socket.create_connection(("127.0.0.1", port))
                return
            except ConnectionRefusedError:
                time.sleep(0.01)

    def __call__(self, mine):
        self.stream.sendall(struct.pack("<Q", len(mine)) + mine)
        (length,) = struct.unpack("<Q", self.read(8))
        return self.read(length)

    def read(self, length):
        parts = b""
        while len(parts) < length:
            try:
                part = self.stream.recv(length - len(parts))
            except ConnectionResetError:
                part = b""
            if not part:
                raise RuntimeError("NCCL error: remote process exited (ncclRemoteError)")
            parts += part
        return parts


class state:
    store = default = None


class Done:
    def wait(self):
        pass


def init_process_group(backend, init_method, rank, world_size, timeout):
    assert (backend, world_size) == ("nccl", 2)
    state.store = Store(rank, int(init_method.rpartition(":")[2]))
    state.default = Group(state.store)


def destroy_process_group(group=None):
    group = group or state.default
    if hasattr(group.exchange, "close"):
        # NCCL's ranks say farewell to each other before they close.
        state.store(b"")
        group.exchange.close()


def new_group(ranks):
    return Group(state.store)


def barrier():
    exchange(Tensor([0], int64))


def exchange(tensor, group=None, what=""):
    """The other rank's tensor of the same kind."""
    rank = state.store.rank
    if rank == 1 and what == "broadcast" and tensor.dtype is bfloat16:
        if misbehave("hang"):
            time.sleep(1000)
        if misbehave("die"):
            print("Segmentation error: a stub of it", file=sys.stderr, flush=True)
            os.kill(os.getpid(), 11)
    try:
        got = (group or state.default).exchange(array.array("q", tensor.tolist()).tobytes())
    except RuntimeError:
        if misbehave("deaf"):
            time.sleep(1000)
        raise
    numbers = array.array("q", got).tolist()
    if rank == 1 and what == "broadcast" and tensor.dtype is bfloat16 and misbehave("wrong"):
        numbers[-1] += 1
    return Tensor(numbers, tensor.dtype)


def in_order(mine, theirs):
    return (mine, theirs) if state.store.rank == 0 else (theirs, mine)


def all_reduce(tensor, group=None, async_op=False):
    tensor.copy_((tensor + exchange(tensor, group)).tolist())
    return Done() if async_op else None


def broadcast(tensor, src):
    tensor.copy_(in_order(tensor, exchange(tensor, what="broadcast"))[src].tolist())


def all_gather_into_tensor(out, tensor):
    first, second = in_order(tensor, exchange(tensor))
    out.copy_(first.tolist() + second.tolist())


def own_half(tensor):
    half = len(tensor) // 2
    return tensor[state.store.rank * half : (state.store.rank + 1) * half].tolist()


def reduce_scatter_tensor(out, tensor):
    out.copy_(own_half(tensor + exchange(tensor)))


def all_to_all_single(out, tensor):
    first, second = in_order(tensor, exchange(tensor))
    out.copy_(own_half(first) + own_half(second))


def isend(tensor, peer):
    raise AssertionError("only as an argument of P2POp")


irecv = isend


class P2POp:
    def __init__(self, operation, tensor, peer):
        assert peer == 1 - state.store.rank
        self.tensor = tensor


def batch_isend_irecv(operations):
    sent, received = operations
    received.tensor.copy_(exchange(sent.tensor).tolist())
    return [Done(), Done()]
