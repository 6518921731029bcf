"""The examples and those of docs/python.md run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import LIMIT

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/python.md"
README = ROOT / "README.md"


def run(*command: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-X", "dev", *command],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
        env={**os.environ, "PYTHONWARNINGS": "error"},
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_first() -> None:
    said = run(str(ROOT / "python/examples/first.py"))
    assert "server: look at the board 7" in said
    assert "[3. 1. 4.]" in said


def test_kv_cache() -> None:
    said = run(str(ROOT / "python/examples/kv_cache.py"), "--pages", "64")
    assert said.count("every byte checked") == 2


def blocks(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)


SERVER = """
import braid, threading
_server = braid.Engine(bind="127.0.0.1:0")
_listener = _server.listen()
_board = bytearray(4096)
def _serve():
    memory = _server.register(_board)
    while True:
        request = _listener.accept()
        qp = _server.create_qp()
        inbox = _server.register(bytearray(4096))
        for _ in range(64):
            qp.recv(inbox)
        _kept.append(request.accept(qp=qp, private_data=memory.key))
        qp.send(b"welcome")
_kept = []
threading.Thread(target=_serve, daemon=True).start()
"""

GROUP = """
import socket
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
    free.bind(("127.0.0.1", 0))
    root = "127.0.0.1:%d" % free.getsockname()[1]
ranks = [threading.Thread(target=exchange, args=[rank, 2, root]) for rank in range(2)]
for rank in ranks: rank.start()
for rank in ranks: rank.join()
"""


# A peer of the example of RoCEv2, at another address: both ends have UDP port 4791.
ROCE = """
import queue
far = braid.Engine(bind="127.0.93.2:0")
far_qp, far_end = far.create_qp(), far.roce_port("127.0.93.1")
far_board = bytearray(4096)
far_region = far.register(far_board)
heard = queue.Queue()
heard.put(dict(gid=far_end.gid, qp=far_qp.number, psn=9, mtu=far_end.mtu,
               address=far_region.address, rkey=far_region.rkey))
def tell(near):
    far_qp.connect_roce(near["gid"], near["qp"], send_psn=9, recv_psn=near["psn"], mtu=near["mtu"])
write_hello(braid.Engine(bind="127.0.93.1:0"), "127.0.93.2", tell, heard.get)
assert far_board[:5] == b"hello"
far_region.close()
far_ud = far.roce_ud(0x22, 0x1234)
far_inbox = bytearray(1064)
far_region = far.register(far_inbox)
far_receive = far_ud.recv(far_region)
def answer():
    message = far_receive.wait()
    near = far_ud.peer(far_ud.sender(far_inbox), message.source, 0x1234)
    far_ud.send(near, b"hi").wait()
answering = threading.Thread(target=answer)
answering.start()
with braid.Engine(bind="127.0.93.1:0") as near_engine:
    assert greet(near_engine, "127.0.93.2") == "hi from 127.0.93.2, queue pair 0x22"
answering.join()
assert far_inbox[40:45] == b"hello"
far_region.close()
"""


@pytest.mark.parametrize("page", [PAGE, README], ids=lambda page: page.name)
def test_examples_of_the_pages(page: Path) -> None:
    """Each block runs after those before it, with a server in place of the documentation's."""
    programs = blocks(page)
    assert programs
    text = SERVER + "\n".join(programs) + (ROCE + GROUP if page == PAGE else "")
    text = text.replace('"192.0.2.1:4791"', "_server.address")
    run("-c", text)
