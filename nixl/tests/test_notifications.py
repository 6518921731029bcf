"""Notifications with and without transfers."""

from __future__ import annotations

import pytest
from conftest import MakePair
from node import Node


@pytest.mark.parametrize("progress_thread", [True, False])
def test_notifications_arrive_in_order(pair: MakePair, progress_thread: bool) -> None:
    here, there = pair(4096, progress_thread=progress_thread)
    messages = [b"message %d" % i for i in range(100)]
    for message in messages:
        here.notify("there", message)
    assert there.wait_notifications("here", 100) == messages
    there.notify("here", b"and back")
    assert here.wait_notifications("there", 1) == [b"and back"]
    assert here.notifications() == {}


def test_any_bytes_of_any_length(pair: MakePair) -> None:
    here, there = pair(4096)
    messages = [b"\0", bytes(range(256)), b"x" * 1023, b"y" * 1024, bytes(1_000_000), b"end"]
    for message in messages:
        here.notify("there", message)
    assert there.wait_notifications("here", len(messages)) == messages


def test_a_receiver_that_does_not_ask_loses_nothing(pair: MakePair) -> None:
    """More notifications than receives are posted, and WRITEs behind them."""
    here, there = pair(4096)
    here.fill(1)
    for number in range(5000):
        here.notify("there", b"%d" % number)
    here.move("WRITE", "there", there.address(), [(0, 0, 4096)])
    assert there.data() == here.data()
    assert there.wait_notifications("here", 5000) == [b"%d" % number for number in range(5000)]


def test_a_name_longer_than_a_frame() -> None:
    long = Node("n" * 5000, 4096)
    other = Node("other", 4096)
    long.load(other.metadata())
    long.notify("other", b"from afar")
    assert other.wait_notifications("n" * 5000, 1) == [b"from afar"]


def test_a_notification_that_is_too_long_is_refused(
    pair: MakePair, capfd: pytest.CaptureFixture[str]
) -> None:
    here, there = pair(4096)
    with pytest.raises(Exception, match="INVALID_PARAM"):
        here.notify("there", bytes((16 << 20) + 1))
    assert "longer than 16777216" in capfd.readouterr().err
    here.notify("there", b"short")
    assert there.wait_notifications("here", 1) == [b"short"]
