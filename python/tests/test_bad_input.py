"""Wrong types, values and orders end in exceptions that say what to do."""

from __future__ import annotations

import gc
import importlib.metadata
import inspect
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from conftest import LIMIT, MakePair, Pair, in_forked_child

import braid


def test_signatures_show_the_defaults_of_the_engine() -> None:
    with braid.Engine(bind="127.0.0.1:0") as engine:
        of_engine, of_queue_pair = braid._braid.defaults(engine)
    shown = inspect.signature(braid.Engine).parameters
    for name, value in of_engine.items():
        default = len(shown[name].default) if name == "rails" else shown[name].default
        assert default == value, name
    # What is not a field of the engine's configuration.
    extra = set(shown) - set(of_engine)
    assert extra == {
        "allowed_keys",
        "destination_groups",
        "device",
        "gid_index",
        "key_file",
        "metrics",
        "security",
        "seed",
        "service",
    }
    shown = inspect.signature(braid.Engine.create_qp).parameters
    for name, value in of_queue_pair.items():
        assert shown[name].default == value, name
    for name in inspect.signature(braid.Engine).parameters:
        assert name in str(braid.Engine.__doc__), name
    for name in set(shown) - {"self"}:
        assert name in str(braid.Engine.create_qp.__doc__), name


@pytest.mark.parametrize(
    ("settings", "exception", "text"),
    [
        ({"path": 4}, TypeError, "did you mean `paths`"),
        ({"colour": 4}, TypeError, "it takes: bind"),
        ({"paths": "many"}, TypeError, "`paths` of Engine is 'many' .str.; it takes an integer"),
        ({"paths": 5000}, braid.EngineError, "1 to 4096"),
        ({"paths": -1}, braid.SettingError, "`paths` is -1"),
        ({"mtu": 1 << 16}, braid.SettingError, "16 bits"),
        ({"seed": 1 << 70}, braid.SettingError, "64 bits"),
        ({"bind": "nowhere"}, braid.SettingError, "127.0.0.1:4791"),
        ({"bind": 4791}, TypeError, "takes a str"),
        ({"rails": [1]}, TypeError, "list of str"),
        ({"rails": ["x"]}, braid.SettingError, "not an IP address"),
        ({"lb": "best"}, braid.SettingError, "adaptive"),
        ({"rail_policy": "best"}, braid.SettingError, "least-loaded"),
        ({"datapath": "pigeon"}, braid.SettingError, "udp"),
        ({"datapath": "verbs"}, braid.SettingError, "RDMA device"),
        ({"datapath": "mem"}, braid.SettingError, "process"),
        ({"datapath": "xdp", "device": "rxe0"}, braid.SettingError, "no `device`"),
        ({"service": "ud"}, braid.SettingError, "uc or rc"),
        ({"spin": -1}, braid.SettingError, "from 0 on"),
        ({"spin": float("nan")}, braid.SettingError, "from 0 on"),
        ({"linger": 1e300}, braid.SettingError, "from 0 on"),
        ({"peer_timeout": 1e6}, braid.EngineError, "peer_timeout"),
        ({"fault_drop": 2}, braid.EngineError, "0 to 1"),
        ({"discover": "yes"}, TypeError, "True or False"),
        ({"security": "auth"}, braid.SettingError, "key"),
        ({"threads": 65}, braid.EngineError, "65"),
        ({"metrics": "everywhere"}, braid.SettingError, "local"),
    ],
)
def test_wrong_settings(settings: dict[str, Any], exception: type, text: str) -> None:
    with pytest.raises(exception, match=text):
        braid.Engine(**settings)


def test_wrong_settings_of_queue_pairs(pair: Pair) -> None:
    wrong: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"cc": "best"}, braid.SettingError, "cubic"),
        ({"max_send": 3}, TypeError, "did you mean `max_send_wr`"),
        ({"max_send_wr": 0}, braid.SettingError, "1 to 1048576"),
        ({"access": 99}, braid.SettingError, "braid.Access"),
        ({"recovery": "hope"}, braid.SettingError, "fifo-path"),
        ({"rnr_retry": 256}, braid.SettingError, "8 bits"),
    ]
    for settings, exception, text in wrong:
        with pytest.raises(exception, match=text):
            pair.client.create_qp(**settings)
    with pytest.raises(TypeError, match=r"QueuePair\.send takes no `immediate`"):
        pair.near.send(b"", immediate=3)  # type: ignore[call-arg]
    with pytest.raises(braid.SettingError, match="32 bits"):
        pair.near.send(b"", imm=1 << 32)
    with pytest.raises(TypeError, match="completion_queue"):
        pair.near.send(b"", to=[])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="takes bytes"):
        pair.client.connect("127.0.0.1:9", private_data=3)  # type: ignore[arg-type]
    with pytest.raises(braid.ConnectError, match="512"):
        pair.client.connect("127.0.0.1:9", private_data=bytes(513))
    with pytest.raises(braid.ConnectError, match="no host"):
        pair.client.connect("no host")


def test_memory_that_cannot_be_registered(pair: Pair) -> None:
    engine = pair.client
    read_only = np.zeros(8)
    read_only.flags.writeable = False
    buffers: list[Any] = [b"bytes", memoryview(b"bytes"), read_only]
    for buffer in buffers:
        with pytest.raises(braid.RegisterError, match=r"read-only; register a writable one"):
            engine.register(buffer)
        assert len(engine.register(buffer, access=braid.Access.NONE)) > 0
    buffers = [np.zeros((4, 4))[:, 1], memoryview(bytearray(8))[::2]]
    for buffer in buffers:
        with pytest.raises(braid.RegisterError, match="not contiguous"):
            engine.register(buffer)
    with pytest.raises(braid.RegisterError, match="empty"):
        engine.register(bytearray())
    for other in [None, 3, "text", [1], object()]:
        with pytest.raises(TypeError, match="give a bytearray"):
            engine.register(other)
    with pytest.raises(braid.SettingError, match="braid.Access"):
        engine.register(bytearray(8), access=16)  # type: ignore[arg-type]


def test_registered_memory_stays_in_its_place(pair: Pair) -> None:
    board = bytearray(64)
    remote = pair.remote(board)
    with pytest.raises(BufferError):
        board.extend(b"more")
    with pytest.raises(BufferError):
        board.clear()
    values = np.zeros(8)
    kept = pair.server.register(values)
    with pytest.raises(ValueError, match="resize"):
        values.resize(1 << 20)
    del values
    gc.collect()
    pair.near.remote(kept.key).write(b"kept alive", 0).wait(LIMIT)
    kept.close()
    # A closed region releases the buffer, and the peer's access fails.
    pair.region.close()
    pair.region.close()
    board.extend(b"more")
    with pytest.raises(braid.ClosedError, match="region is closed"):
        _ = pair.region.key
    with pytest.raises(braid.WorkError, match="remote access") as failure:
        remote.write(b"late").wait(LIMIT)
    assert failure.value.status is braid.Status.REMOTE_ACCESS
    assert failure.value.cause is braid.EndCause.REFUSED_BY_PEER
    assert failure.value.operation == "WRITE"
    assert board[:4] == b"\0\0\0\0"


def test_dropping_a_region_whose_key_was_read_warns(pair: Pair) -> None:
    with pytest.warns(ResourceWarning, match="keep it as long as they may"):
        key = pair.server.register(bytearray(8)).key
    with pytest.raises(braid.WorkError, match="remote access"):
        pair.near.remote(key).write(b"x").wait(LIMIT)


def test_work_keeps_memory_whose_region_was_dropped(pair: Pair) -> None:
    work = pair.far.recv(pair.server.register(board := bytearray(8)))
    gc.collect()
    pair.near.send(b"kept").wait(LIMIT)
    work.wait(LIMIT)
    assert board[:4] == b"kept"
    del work
    board.extend(b"released")


def test_use_after_close(pair: Pair) -> None:
    remote, region = pair.remote(bytearray(64)), pair.client.register(bytearray(8))
    work = pair.near.recv(region)
    request_less = pair.client.create_qp()
    pair.near.close()
    with pytest.raises(braid.WorkError, match="RECV: flushed") as failure:
        work.wait(LIMIT)
    assert failure.value.cause is braid.EndCause.APPLICATION
    uses: list[Callable[[], object]] = [
        lambda: pair.near.send(b""),
        lambda: pair.near.recv(region),
        lambda: remote.write(b""),
        lambda: remote.read(region),
        lambda: remote.fetch_add(0, 1),
        lambda: pair.near.disconnect(),
        lambda: pair.near.connect(pair.server.address),
        lambda: pair.near.counters(),
    ]
    for use in uses:
        with pytest.raises(braid.ClosedError, match="queue pair is closed"):
            use()
    assert pair.near.state == "CLOSED"
    pair.client.close()
    pair.client.close()
    assert pair.client.closed
    uses = [
        lambda: pair.client.register(bytearray(8)),
        lambda: pair.client.create_qp(),
        lambda: pair.client.connect(pair.server.address),
        lambda: pair.client.listen(),
        lambda: pair.client.completion_queue(),
        lambda: pair.client.progress(),
        lambda: pair.client.degradations(),
        lambda: pair.client.counters(),
        lambda: request_less.send(b""),
        lambda: region.key,
    ]
    for use in uses:
        with pytest.raises(braid.ClosedError, match="closed"):
            use()
    assert "closed" in repr(pair.client)


def test_a_closed_port_is_free() -> None:
    engine = braid.Engine(bind="127.0.0.1:0")
    qp = engine.create_qp()
    work = qp.recv()
    waiter = threading.Thread(target=lambda: pytest.raises(braid.BraidError, work.wait))
    waiter.start()
    time.sleep(0.1)
    engine.close()
    waiter.join(LIMIT)
    assert not waiter.is_alive()
    again = braid.Engine(bind=engine.address)
    again.close()


def test_wrong_orders(pair: Pair) -> None:
    fresh = pair.client.create_qp()
    with pytest.raises(braid.PostError, match="connect it first"):
        fresh.send(b"")
    with pytest.raises(braid.ConnectError, match="is in state"):
        pair.near.connect(pair.server.address)
    with pytest.raises(braid.EngineError, match="already"):
        pair.server.listen()
    region = pair.client.register(bytearray(8))
    with pytest.raises(braid.PendingError, match="has not ended"):
        pair.near.recv(region).result()
    with pytest.raises(braid.PostError, match="another"):
        pair.near.recv(pair.server.register(bytearray(8)))
    with pytest.raises(braid.WaitTimeoutError, match="nobody came"):
        pair.listener.accept(0.05)
    with pytest.raises(braid.SettingError, match="Region.key"):
        pair.near.remote(b"short")
    remote = pair.remote(bytearray(16))
    for offset, length in [(9, 8), (17, 0), (2**64 - 1, 8)]:
        with pytest.raises(braid.PostError, match="not inside a region of 16 bytes"):
            remote.write(bytes(length), offset)
    with pytest.raises(braid.PostError, match="multiple of 8"):
        remote.fetch_add(4, 1)
    with pytest.raises(braid.PostError, match="max_inline"):
        pair.near.send(bytes(257))
    with pytest.raises(TypeError, match="register a buffer"):
        remote.read(bytearray(8))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="slice in bytes"):
        _ = region[0]  # type: ignore[index]
    with pytest.raises(IndexError, match="no step"):
        _ = region[::2]


def test_awaiting_without_a_loop(pair: Pair) -> None:
    work = pair.remote(bytearray(8)).write(b"x")
    with pytest.raises(RuntimeError, match=r"call wait\(\) instead"):
        next(work.__await__())
    failed: list[BaseException] = []

    def elsewhere() -> None:
        try:
            next(pair.far.recv().__await__())
        except BaseException as failure:
            failed.append(failure)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert isinstance(failed[0], RuntimeError)


def test_a_request_is_answered_once(pair: Pair) -> None:
    def connect() -> None:
        with pytest.raises(braid.ConnectError, match="rejected"):
            pair.client.connect(pair.server.address)

    thread = threading.Thread(target=connect)
    thread.start()
    request = pair.listener.accept(LIMIT)
    with pytest.raises(TypeError, match="takes a QueuePair"):
        request.accept(qp=3)  # type: ignore[arg-type]
    request.reject()
    thread.join()
    with pytest.raises(braid.ClosedError, match="accepted or rejected before"):
        request.accept()


def test_objects_of_the_parent_in_a_forked_child(make_pair: MakePair) -> None:
    pair = make_pair()
    remote, region = pair.remote(bytearray(8)), pair.client.register(bytearray(8))
    work = pair.near.recv(region)
    uses: list[Callable[[], object]] = [
        lambda: pair.client.register(bytearray(8)),
        lambda: pair.near.send(b""),
        lambda: remote.write(b"x"),
        lambda: work.wait(),
        lambda: pair.listener.accept(),
        lambda: region.key,
    ]

    def have_own() -> list[str]:
        # A child may have an engine of its own.
        with braid.Engine(bind="127.0.0.1:0") as engine:
            length = len(engine.register(bytearray(3)))
        pair.client.close()
        return [str(length)]

    assert in_forked_child(uses, have_own) == ["refused"] * len(uses) + ["3"]
    assert remote.write(b"alive").wait(LIMIT) == 5


@pytest.mark.parametrize(
    "wait",
    ["work.wait()", "listener.accept()", "queue.wait()", "list(queue)", "connect()", "group()"],
)
def test_ctrl_c_interrupts_every_wait(wait: str) -> None:
    program = f"""
import braid, os, signal, sys, threading, time
engine = braid.Engine(bind="127.0.0.1:0")
listener, qp, queue = engine.listen(), engine.create_qp(), engine.completion_queue()
work = qp.recv(to=queue)
# A port that nobody listens at, and that does not say so.
import socket
silent = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
silent.bind(("127.0.0.1", 0))
def address(): return "127.0.0.1:%d" % silent.getsockname()[1]
def connect(): engine.connect(address(), timeout=60)
def group(): braid.Group(braid.Engine(), rank=1, size=2, root=address(), timeout=60)
def interrupt():
    time.sleep(0.3)
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt).start()
start = time.monotonic()
try:
    {wait}
except KeyboardInterrupt:
    print("interrupted", time.monotonic() - start)
"""
    command = [sys.executable, "-X", "dev", "-c", program]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert ran.returncode == 0, ran.stderr
    word, seconds = ran.stdout.split()
    assert word == "interrupted"
    assert 0.2 < float(seconds) < 2


def test_a_killed_peer_raises_in_time(make_pair: MakePair) -> None:
    pair = make_pair(peer_timeout=1.0)
    program = f"""
import braid, time
engine = braid.Engine()
qp = engine.connect("{pair.server.address}")
print("connected", flush=True)
time.sleep(600)
"""
    accepted: list[braid.QueuePair] = []
    accept = threading.Thread(
        target=lambda: accepted.append(pair.listener.accept(LIMIT).accept(retry_timeout=1.0))
    )
    accept.start()
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline() == b"connected\n"
    accept.join()
    work = accepted[0].recv(pair.server.register(bytearray(8)))
    child.kill()
    start = time.monotonic()
    with pytest.raises(braid.WorkError) as failure:
        work.wait(LIMIT)
    assert time.monotonic() - start < 4
    causes = {braid.EndCause.PEER_GONE, braid.EndCause.PEER_SILENT}
    assert failure.value.cause in causes
    assert accepted[0].cause in causes
    assert str(accepted[0].error) in str(failure.value)
    child.wait()
    child.stdout.close()


def test_registrations_leak_nothing(pair: Pair) -> None:
    board = bytearray(4096)

    def resident() -> int:
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def register(count: int) -> None:
        for _ in range(count):
            with pair.client.register(board) as region:
                assert len(region.key) == 20

    register(10_000)
    before = resident()
    register(100_000)
    assert resident() - before < 4 << 20
    board.extend(b"released")


def test_the_interpreter_ends_while_threads_wait() -> None:
    program = """
import braid, threading, asyncio, time
engine = braid.Engine(bind="127.0.0.1:0")
listener, qp, queue = engine.listen(), engine.create_qp(), engine.completion_queue()
work = qp.recv(to=queue)
async def wait():
    try: await work
    except braid.WorkError: pass
waits = [work.wait, listener.accept, queue.wait, lambda: asyncio.run(wait())]
for target in waits * 4:
    threading.Thread(target=target, daemon=True).start()
time.sleep(0.3)
"""
    for _ in range(5):
        command = [sys.executable, "-X", "dev", "-c", program]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
        assert ran.returncode == 0, ran.stderr
        assert ran.stderr == ""


def test_logging_is_pythons(caplog: pytest.LogCaptureFixture) -> None:
    program = """
import braid, logging, sys
format = "%(levelname)s %(name)s %(message)s"
logging.basicConfig(level=logging.INFO, stream=sys.stdout, format=format)
braid.Engine(bind="127.0.0.1:0").close()
"""
    command = [sys.executable, "-c", program]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=True)
    assert "INFO braid.engine engine started addr=127.0.0.1:" in ran.stdout
    assert "engine stopped" in ran.stdout
    # Warnings only, as for every logger.
    quiet = program.replace("level=logging.INFO, ", "")
    command = [sys.executable, "-c", quiet]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=True)
    assert ran.stdout == ""


def test_older_interpreters_are_refused() -> None:
    assert importlib.metadata.metadata("braid-rdma")["Requires-Python"] == ">=3.11"
    assert importlib.metadata.version("braid-rdma") == braid.__version__


def test_commands_of_the_package() -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "braid", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)

    said = run("info")
    assert said.returncode == 0
    for name in ["udp", "adaptive", "cubic", "fifo-path", braid.__version__]:
        assert name in said.stdout
    plugin = run("nccl-plugin")
    assert plugin.returncode == 0, plugin.stderr
    with open(plugin.stdout.strip(), "rb") as library:
        text = library.read()
    assert text[:4] == b"\x7fELF"
    assert b"ncclNetPlugin_v12" in text
    nixl = run("nixl-plugin-dir")
    assert nixl.returncode == 0, nixl.stderr
    with open(f"{nixl.stdout.strip()}/libplugin_BRAID.so", "rb") as library:
        assert b"nixl_plugin_init" in library.read()
    assert run("wrong").returncode == 2


ODD: list[Any] = [
    None,
    True,
    -1,
    0,
    1,
    2**31,
    2**63,
    2**64,
    2**200,
    1.5,
    float("nan"),
    float("inf"),
    "",
    "x",
    "127.0.0.1:1",
    "\0",
    b"",
    b"x",
    bytes(20),
    bytes(4096),
    bytearray(64),
    memoryview(b"abc"),
    [],
    [1],
    [None],
    {},
    {"a": 1},
    object(),
    int,
    len,
    slice(0, 4),
    slice(-5, 2**70),
    np.zeros(4),
    np.zeros(0),
]
KEYWORDS = ["imm", "to", "fence", "solicited", "timeout", "private_data", "qp", "access", "zzz"]


@pytest.mark.parametrize("seed", range(4))
def test_wrong_types_and_orders_by_chance(make_pair: MakePair, seed: int) -> None:
    """Calls of every method with arguments by chance. An exception is an answer, a crash is not."""
    chance = random.Random(seed)
    pair = make_pair(linger=0.0, peer_timeout=0.3)
    objects: list[Any] = [pair.server, pair.client, pair.listener, pair.near, pair.far]
    objects += [pair.remote(bytearray(64)), pair.region, pair.region[3:9]]
    objects += [pair.client.completion_queue(), pair.near.recv(), pair.far.recv()]
    classes = [braid.Engine, braid.Group, *{type(thing) for thing in objects}]
    for _ in range(1500):
        thing = chance.choice(objects) if chance.random() < 0.97 else chance.choice(classes)
        names = [name for name in dir(thing) if not name.startswith("__")]
        names += ["__getitem__", "__len__", "__iter__", "__repr__", "__enter__"]
        name = chance.choice(names)
        # Those that wait get a time.
        arguments = [chance.choice([*objects, *ODD]) for _ in range(chance.randrange(4))]
        keywords = {
            chance.choice(KEYWORDS): chance.choice([*objects, *ODD])
            for _ in range(chance.choice([0, 0, 0, 1, 2]))
        }
        if name in ("wait", "accept", "connect", "connect_async", "accept_async"):
            arguments = arguments[: name == "connect"]
            keywords["timeout"] = 0.001
        if name in ("close", "__exit__", "disconnect") and chance.random() < 0.8:
            continue
        try:
            result = getattr(thing, name)
            if callable(result):
                result = result(*arguments, **keywords)
            if inspect.iscoroutine(result):
                result.close()
            if type(result).__module__.startswith("braid") and len(objects) < 60:
                objects.append(result)
        except Exception:
            continue
        except BaseException as failure:
            # A panic of Rust is not an Exception.
            pytest.fail(f"{name} with {arguments} and {keywords}: {failure!r}")
    assert signal.getsignal(signal.SIGINT) is not None
