"""`python -m braid`: what the package holds, and where."""

from __future__ import annotations

import argparse
import platform
import sys

import braid

PLUGINS = {
    "nccl-plugin": ("NCCL plugin", braid.nccl_plugin),
    "nixl-plugin-dir": ("folder of the NIXL plugin", braid.nixl_plugin_dir),
}
"""What is printed, and how it is found, by command."""


def info() -> None:
    """Prints what this build offers."""
    offers = braid.offers()
    print(f"braid {braid.__version__}, Python {platform.python_version()}, {platform.platform()}")
    print("datapaths")
    for name, summary in offers["datapaths"]:
        print(f"  {name:<12} {summary}")
    for setting in ("lb", "rail_policy", "cc", "recovery"):
        print(f"{setting}\n  {' '.join(offers[setting])}")
    for name, find in PLUGINS.values():
        try:
            print(f"{name}\n  {find()}")
        except FileNotFoundError as missing:
            print(f"{name}\n  {missing}")


def main(arguments: list[str] | None = None) -> int:
    """Runs a command."""
    parser = argparse.ArgumentParser(prog="python -m braid", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("info", help="what this build offers")
    commands.add_parser("nccl-plugin", help="print the path of the NCCL plugin")
    commands.add_parser("nixl-plugin-dir", help="print the folder of the NIXL plugin")
    command = parser.parse_args(arguments).command
    if command == "info":
        info()
        return 0
    try:
        print(PLUGINS[command][1]())
    except FileNotFoundError as missing:
        print(f"error: {missing}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
