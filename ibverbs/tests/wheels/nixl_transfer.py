"""NIXL reads from another process and writes to it, and checks the data."""

import ctypes
import time

import peers  # Before NIXL loads libibverbs.
from nixl import nixl_agent, nixl_agent_config

LIMIT = 30
"""Seconds that a transfer may take."""


def transfer(agent, operation, local, remote, name):
    memory = [agent.get_xfer_descs([(addr, peers.LEN, 0)], "DRAM") for addr in (local, remote)]
    handle = agent.initialize_xfer(operation, *memory, name, operation.encode())
    state, until = agent.transfer(handle), time.monotonic() + LIMIT
    while state != "DONE":
        assert state != "ERR" and time.monotonic() < until, f"{operation}: {state}"
        time.sleep(0.001)
        state = agent.check_xfer_state(handle)
    agent.release_xfer_handle(handle)


def wait_for(agent, message):
    until = time.monotonic() + LIMIT
    while time.monotonic() < until:
        if any(message in messages for messages in agent.get_new_notifs().values()):
            return
        time.sleep(0.001)
    raise AssertionError(f"no notification {message}")


def target(agent, memory):
    peer = peers.peer()
    memory[:] = peers.pattern(1)
    peer.tell((agent.get_agent_metadata(), ctypes.addressof(memory)))
    wait_for(agent, b"WRITE")
    assert bytes(memory) == peers.pattern(2), "other bytes were written"
    peer.tell("checked")
    # Until the initiator has counted.
    peer.hear()


def initiator(agent, memory):
    peer = peers.peer()
    metadata, remote = peer.hear()
    name = agent.add_remote_agent(metadata)
    name = name.decode() if isinstance(name, bytes) else name
    local = ctypes.addressof(memory)
    transfer(agent, "READ", local, remote, name)
    assert bytes(memory) == peers.pattern(1), "other bytes were read"
    memory[:] = peers.pattern(2)
    transfer(agent, "WRITE", local, remote, name)
    assert peer.hear() == "checked"
    peers.require_braid()
    peer.tell("end")
    peer.end()


def main():
    role = target if peers.is_target() else initiator
    agent = nixl_agent(role.__name__, nixl_agent_config(backends=["UCX"]))
    memory = (ctypes.c_ubyte * peers.LEN)()
    registered = agent.register_memory([(ctypes.addressof(memory), peers.LEN, 0, "")], "DRAM")
    role(agent, memory)
    agent.deregister_memory(registered)


main()
