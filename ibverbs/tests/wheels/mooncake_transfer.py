"""Mooncake's transfer engine reads from another process and writes to it, and checks the data."""

import ctypes

import peers  # Before Mooncake loads libibverbs.
from mooncake.engine import TransferEngine

DEVICE = "braid0"


def start(memory):
    engine = TransferEngine()
    code = engine.initialize("127.0.0.1", "P2PHANDSHAKE", "rdma", DEVICE)
    assert code == 0, f"initialize: {code}"
    code = engine.register_memory(ctypes.addressof(memory), peers.LEN)
    assert code == 0, f"register_memory: {code}"
    return engine


def target(engine, memory):
    peer = peers.peer()
    memory[:] = peers.pattern(1)
    peer.tell((f"127.0.0.1:{engine.get_rpc_port()}", ctypes.addressof(memory)))
    assert peer.hear() == "written"
    assert bytes(memory) == peers.pattern(2), "other bytes were written"
    peer.tell("checked")
    # Until the initiator has counted.
    peer.hear()


def initiator(engine, memory):
    peer = peers.peer()
    name, remote = peer.hear()
    local = ctypes.addressof(memory)
    code = engine.transfer_sync_read(name, local, remote, peers.LEN)
    assert code == 0, f"read: {code}"
    assert bytes(memory) == peers.pattern(1), "other bytes were read"
    memory[:] = peers.pattern(2)
    code = engine.transfer_sync_write(name, local, remote, peers.LEN)
    assert code == 0, f"write: {code}"
    peer.tell("written")
    assert peer.hear() == "checked"
    peers.require_braid()
    peer.tell("end")
    peer.end()


def main():
    memory = (ctypes.c_ubyte * peers.LEN)()
    role = target if peers.is_target() else initiator
    engine = start(memory)
    role(engine, memory)
    assert engine.unregister_memory(ctypes.addressof(memory)) == 0


main()
