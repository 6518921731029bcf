"""Our declaration of NIXL's interface agrees with the libraries of NIXL's wheel."""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TABLE = re.compile(r"^([0-9a-f]{16}) +([0-9a-f]+) +R_X86_64_64 +\S+ +(\S+?)(?:@\S+)? \+ 0$", re.M)


def wheel() -> tuple[Path, Path]:
    """The folder of NIXL's libraries in its wheel, and the plugin for UCX there."""
    files = importlib.metadata.files("nixl-cu12") or []
    core = next(Path(str(file.locate())) for file in files if file.name == "libnixl.so")
    plugins = [Path(str(file.locate())) for file in files if file.name == "libplugin_UCX.so"]
    bundled = next(path for path in plugins if path.parent.parent.name == "nixl_cu12.libs")
    return core, bundled


def compiled(source: str, to: Path, *options: str) -> Path:
    compiler = os.environ.get("CXX", "c++").split()
    flags = ["-std=c++20", "-Wall", "-Wextra", "-Werror", "-O1"]
    subprocess.run(
        [*compiler, *flags, *options, str(HERE / source), "-o", str(to), "-ldl"], check=True
    )
    return to


def output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def methods(library: Path, name: str) -> list[str]:
    """The symbols in the table of virtual methods of a class, in order."""
    symbols = output("nm", "--dynamic", "--print-size", str(library)).splitlines()
    table = next(line.split() for line in symbols if line.endswith(f" {name}"))
    start, length = int(table[0], 16), int(table[1], 16)
    relocations = TABLE.findall(output("readelf", "--relocs", "--wide", str(library)))
    found = {int(place, 16): symbol for place, _, symbol in relocations}
    # The first word is an offset, the next one the type.
    return [found[place] for place in range(start + 8, start + length, 8) if place in found]


@pytest.mark.parametrize(
    ("name", "count"), [("_ZTV17nixlBackendEngine", 26), ("_ZTV13nixlUcxEngine", 28)]
)
def test_methods_have_the_names_and_the_order_of_the_wheel(
    tmp_path: Path, name: str, count: int
) -> None:
    _, plugin = wheel()
    theirs = methods(plugin, name)
    ours = methods(compiled("names.cpp", tmp_path / "names.so", "-shared", "-fPIC"), name)
    assert len(ours) == count
    # What that backend overrides further, or adds, does not matter here.
    inherited = {symbol.replace("13nixlUcxEngine", "17nixlBackendEngine", 1) for symbol in ours}
    for our, their in zip(ours, theirs, strict=False):
        same = their.replace("13nixlUcxEngine", "17nixlBackendEngine", 1)
        assert same in inherited, f"NIXL has {their} where we have {our}"
        assert our.replace("13nixlUcxEngine", "17nixlBackendEngine", 1) == same


def test_each_method_of_a_plugin_of_the_wheel_can_be_called(tmp_path: Path) -> None:
    program = compiled("abi.cpp", tmp_path / "abi")
    core, plugin = wheel()
    environment = {**os.environ, "UCX_TLS": "self,sm,tcp", "UCX_LOG_LEVEL": "fatal"}
    told = subprocess.run(
        [str(program), str(core), str(plugin)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=60,
        check=False,
    )
    assert told.stdout.strip() == "ok", told.stdout + told.stderr
    assert told.returncode == 0
