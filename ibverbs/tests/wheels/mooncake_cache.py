"""The example nixl/examples/mooncake_cache.py with both ends here. It checks every byte itself."""

import sys
from pathlib import Path

import peers  # Before Mooncake loads libibverbs.

sys.path.insert(0, str(Path(__file__).parents[3] / "nixl/examples"))

import mooncake_cache

PAGES, PAGE = 256, 128 << 10
KEPT = []


class Kept(mooncake_cache.MooncakeEnd):
    """An end that does not close its queue pairs before their bytes are counted."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        KEPT.append(self)


def main():
    mooncake_cache.MooncakeEnd = Kept
    sys.argv[1:] = ["--pages", str(PAGES), "--page", str(PAGE), "--rounds", "1"]
    mooncake_cache.main()
    # This process wants the pages. The other one WRITEs them, and then this one READs them.
    peers.require_received(2 * PAGES * PAGE)
    KEPT.clear()


if __name__ == "__main__":
    main()
