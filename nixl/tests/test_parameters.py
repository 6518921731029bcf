"""Parameters of the backend, and what is refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import MakePair, MakeRemote
from node import Node

BLOCK = 1 << 16


def refusal(params: dict[str, str], capfd: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(Exception, match="NIXL_ERR_BACKEND"):
        Node("refused", 4096, params)
    return capfd.readouterr().err


def check_transfer(pair: MakePair, **params: str) -> None:
    here, there = pair(BLOCK, params=params)
    here.fill(1)
    here.move("WRITE", "there", there.address(), [(0, 0, BLOCK)], b"there you are")
    assert there.data() == here.data()
    assert there.wait_notifications("here", 1) == [b"there you are"]


@pytest.mark.parametrize(
    "params",
    [
        {"paths": "4", "lb": "reps", "cc": "swift", "loss_recovery": "ooo-window"},
        {"rails": "lo", "rail_policy": "round-robin"},
        {"bind": "127.0.0.1", "threads": "2", "crc": "off", "mtu": "4096", "datapath": "udp"},
        {"datapath": "tcp"},
        {"datapath": "auto"},
        {"peer_timeout_ms": "2000", "connect_timeout_ms": "9000", "linger_ms": "100"},
    ],
    ids=lambda params: next(iter(params)),
)
def test_parameters_are_used(pair: MakePair, params: dict[str, str]) -> None:
    check_transfer(pair, **params)


def test_defaults_can_be_passed_back() -> None:
    node = Node("first", 4096)
    defaults = node.agent.get_plugin_params("BRAID")
    assert {"rails", "paths", "lb", "cc", "key_file", "datapath"} <= set(defaults)
    again = Node("second", 4096, {**defaults, "bind": "127.0.0.1"})
    assert again.agent.get_backend_params("BRAID")["bind"] == "127.0.0.1"


def test_keys(
    pair: MakePair, remote: MakeRemote, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    keys = [tmp_path / name for name in ("one.key", "two.key")]
    for number, key in enumerate(keys):
        key.write_text("braid-psk " + f"{number + 1:02x}" * 32 + "\n")
        key.chmod(0o600)
    check_transfer(pair, key_file=str(keys[0]))
    stranger = remote("stranger", BLOCK, {"key_file": str(keys[1])})
    here = Node("here", BLOCK, {"key_file": str(keys[0])})
    here.load(stranger.metadata())
    with pytest.raises(Exception, match="REMOTE_DISCONNECT"):
        here.move("WRITE", "stranger", stranger.address(), [(0, 0, BLOCK)])
    assert "cannot connect to agent `stranger`" in capfd.readouterr().err


def test_unknown_and_invalid_parameters(capfd: pytest.CaptureFixture[str]) -> None:
    text = refusal({"path": "8"}, capfd)
    assert "unknown parameter `path`" in text
    assert "leave it out. Known: " in text
    for name, value, remedy in [
        ("paths", "none", "a number from 1 to 4096"),
        ("lb", "best", "available: "),
        ("cc", "best", "available: "),
        ("datapath", "mem", "accepted: udp"),
        ("rails", "no-such-0", "there is: "),
        ("bind", "192.0.2.77", "cannot receive on"),
        ("key_file", "/no/such/key", "/no/such/key"),
    ]:
        text = refusal({name: value}, capfd)
        assert remedy in text, text


def test_variables_are_parameters(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BRAID_PATHS", "5000")
    text = refusal({}, capfd)
    assert "BRAID_PATHS is `5000`" in text
    Node("passed", 4096, {"paths": "8"})


def test_other_versions_are_refused(capfd: pytest.CaptureFixture[str]) -> None:
    text = refusal({"nixl_version": "1.6.0"}, capfd)
    assert "NIXL 1.6.0" in text
    assert "serves NIXL 1.5.0 and 1.5.1" in text
    # The library that was asked for its version.
    assert "libnixl" in text


def test_the_folder_is_printed() -> None:
    told = subprocess.run(
        [sys.executable, "-m", "braid", "nixl-plugin-dir"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert (Path(told.stdout.strip()) / "libplugin_BRAID.so").is_file()
