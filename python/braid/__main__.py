"""`python -m braid`: what the package holds, and where."""

from __future__ import annotations

import argparse
import platform
import sys

import braid


def info() -> None:
    """Prints what this build offers."""
    offers = braid.offers()
    print(f"braid {braid.__version__}, Python {platform.python_version()}, {platform.platform()}")
    print("datapaths")
    for name, summary in offers["datapaths"]:
        print(f"  {name:<12} {summary}")
    for setting in ("lb", "rail_policy", "cc", "recovery"):
        print(f"{setting}\n  {' '.join(offers[setting])}")
    try:
        print(f"NCCL plugin\n  {braid.nccl_plugin()}")
    except FileNotFoundError as missing:
        print(f"NCCL plugin\n  {missing}")


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
    elif command == "nccl-plugin":
        try:
            print(braid.nccl_plugin())
        except FileNotFoundError as missing:
            print(f"error: {missing}", file=sys.stderr)
            return 1
    else:
        print("error: the NIXL plugin is not built yet", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
