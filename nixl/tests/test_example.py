"""The example of the documentation runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[1] / "examples/kv_cache.py"


def test_kv_cache() -> None:
    told = subprocess.run(
        [sys.executable, str(EXAMPLE), "--pages", "64", "--rounds", "1"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    assert told.stdout.count("every byte checked") == 2
