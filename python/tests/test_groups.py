"""All-to-alls over NumPy arrays."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from conftest import LIMIT

import braid


def run_ranks(size: int, run: Callable[[braid.Group], None]) -> None:
    engines = [braid.Engine(bind="127.0.0.1:0") for _ in range(size)]
    failed: list[BaseException] = []

    def rank(number: int) -> None:
        try:
            root = engines[0].address
            with braid.Group(engines[number], rank=number, size=size, root=root) as group:
                run(group)
        except BaseException as failure:
            failed.append(failure)

    threads = [threading.Thread(target=rank, args=[number]) for number in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
    for engine in engines:
        engine.close()
    assert failed == []


def test_even_and_uneven_rounds() -> None:
    def run(group: braid.Group) -> None:
        rank, size = group.rank, group.size
        send = np.arange(size, dtype=np.int64) + 100 * rank
        recv = np.zeros(size, dtype=np.int64)
        group.all_to_all(send, recv).wait(LIMIT)
        assert recv.tolist() == [100 * peer + rank for peer in range(size)]
        # Rank r sends r + 1 items to each rank.
        items = np.full((rank + 1) * size, rank, dtype=np.float32)
        landing = np.zeros(sum(range(1, size + 1)), dtype=np.float32)
        round_ = group.all_to_all(items, landing, [rank + 1] * size, list(range(1, size + 1)))
        asyncio.run(_await(round_))
        assert landing.tolist() == [peer for peer in range(size) for _ in range(peer + 1)]
        # Registered once.
        out, into = group.register(send), group.register(recv)
        for _ in range(10):
            group.all_to_all(out, into).wait(LIMIT)

    async def _await(round_: braid.Round) -> None:
        await round_

    run_ranks(3, run)


def test_wrong_groups_and_rounds_are_refused() -> None:
    def run(group: braid.Group) -> None:
        values = np.zeros(3, dtype=np.int64)
        with pytest.raises(braid.GroupError, match="recv_counts"):
            group.all_to_all(np.zeros(2), values)
        with pytest.raises(braid.GroupError, match="ranges for 2 ranks"):
            group.all_to_all(values, values, [1], [1])
        with pytest.raises(braid.GroupError, match="too many"):
            group.all_to_all(values, values, [2**63, 1], [1, 1])
        with pytest.raises(braid.RegisterError, match="read-only"):
            group.all_to_all(np.zeros(2), b"12")

    run_ranks(2, run)
    with braid.Engine(bind="127.0.0.1:0") as engine:
        wrong: list[dict[str, Any]] = [{"rank": 1}, {"size": 2}, {"rank": 0, "sizes": 2}]
        for arguments in wrong:
            with pytest.raises(TypeError, match="takes"):
                braid.Group(engine, **arguments)
        with pytest.raises(braid.GroupError, match="not in a group"):
            braid.Group(engine, rank=2, size=2, root=engine.address)
        with pytest.raises(braid.GroupError, match="not reached"):
            braid.Group(engine, rank=1, size=2, root="127.0.0.1:9", timeout=0.3)
