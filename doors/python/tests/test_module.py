"""The module as a whole: doctests, its types, and the absence of numpy."""

import doctest
import gc
import importlib.metadata
import pathlib
import subprocess
import sys
import weakref

import pytest

import sapwood

PUBLIC = [getattr(sapwood, name) for name in sapwood.__all__]
CLASSES = [item for item in PUBLIC if isinstance(item, type)]


def test_docstrings_run():
    finder, runner = doctest.DocTestFinder(), doctest.DocTestRunner()
    names = {"sapwood": sapwood, **{c.__name__: c for c in PUBLIC}}
    for item in PUBLIC:
        members = [item, *vars(item).values()] if isinstance(item, type) else [item]
        for member in members:
            doc = getattr(member, "__doc__", None)
            if isinstance(doc, str) and ">>>" in doc:
                name = f"{item.__name__}.{getattr(member, '__name__', '')}"
                for test in finder.find(member, name, globs=dict(names)):
                    runner.run(test)
    assert runner.failures == 0 and runner.tries > 40


def test_the_readme_runs():
    path = pathlib.Path(__file__).parent.parent / "README.md"
    result = doctest.testfile(str(path), module_relative=False)
    assert result.failed == 0 and result.attempted > 10


def test_everything_public_is_documented():
    for item in CLASSES:
        assert item.__doc__
        for name, member in vars(item).items():
            if not name.startswith("_") and callable(member):
                assert member.__doc__, f"{item.__name__}.{name}"


@pytest.mark.parametrize("item", [sapwood.Fib, sapwood.NameMap, sapwood.RangeMap])
def test_classes_are_generic_and_weakly_referenced(item):
    assert item[int].__origin__ is item
    map = item()
    assert weakref.ref(map)() is map
    assert sys.getsizeof(map) > 0


def test_files_and_live_maps_are_weakly_referenced(tmp_path):
    sapwood.Fib({"10.0.0.0/8": 1}).save(tmp_path / "fib")
    sapwood.NameMap({"a": 1}).save(tmp_path / "names")
    maps = [sapwood.FibFile.open(tmp_path / "fib"), sapwood.NameFile.open(tmp_path / "names")]
    for name in ("LiveFib", "LiveNames", "LiveRanges"):
        if cls := getattr(sapwood, name, None):
            maps += [cls.create(tmp_path / name), cls.open(tmp_path / name)]
    known = [weakref.ref(map) for map in maps]
    assert [ref() for ref in known] == maps
    maps.clear()
    gc.collect()
    assert [ref() for ref in known] == [None] * len(known)
    assert sapwood.NameReader[str].__origin__ is sapwood.NameReader


def test_the_version_is_that_of_the_package():
    assert sapwood.__version__ == importlib.metadata.version("sapwood")


def test_numpy_is_not_needed():
    program = """
import sys
sys.modules["numpy"] = None  # import numpy fails
from array import array
import sapwood
fib = sapwood.Fib({"10.0.0.0/8": "a"})
found = fib.lookup_many(array("I", [0x0A000001, 1]))
assert type(found) is memoryview and found.format == "i" and found.tolist() == [0, -1]
ranges = sapwood.RangeMap({range(5): 1})
assert ranges.lookup_many([4, 5]).tolist() == [0, -1]
print("done")
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (run.stdout, run.stderr) == ("done\n", "")


def test_the_stubs_are_those_of_the_module(tmp_path):
    pytest.importorskip("mypy")
    run = subprocess.run(
        [sys.executable, "-m", "mypy.stubtest", "sapwood", "--concise"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_programs_are_checked_by_the_stubs(tmp_path):
    pytest.importorskip("mypy")
    program = """
from collections.abc import MutableMapping

from sapwood import Fib, NameMap, RangeMap

fib = Fib({"10.0.0.0/8": 1})
reveal_type(fib["10.0.0.1"])
reveal_type(fib.lookup("10.0.0.1"))
reveal_type(fib.get("10.0.0.1", "x"))
reveal_type(NameMap({b"a": 1}, key=bytes).first())
reveal_type(NameMap({"a": 1.5})["a"])
ranges: RangeMap[str] = RangeMap()
ranges[0:10] = "a"
reveal_type(ranges.alloc(5, "b"))
reveal_type(ranges.items(0, 5))
reveal_type(fib.keys() & {"10.0.0.0/8"})
reveal_type(fib | {"::/0": 2})
reveal_type(NameMap.fromkeys([b"a"], 1, key=bytes))
reveal_type(ranges[range(0, 10)])
fib[1.5]
NameMap({"a": 1})[b"a"]
takes_any_mapping: MutableMapping[str, int] = fib
"""
    (tmp_path / "program.py").write_text(program)
    run = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "program.py"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    revealed = [line.split('"')[1] for line in run.stdout.splitlines() if "Revealed" in line]
    assert revealed == [
        "int",
        "tuple[str, int] | None",
        "int | str",
        "tuple[bytes, int] | None",
        "float",
        "range",
        "typing.ItemsView[range, str]",
        "set[str]",
        "sapwood.Fib[int]",
        "sapwood.NameMap[bytes, int]",
        "str",
    ]
    errors = [line.split(":")[1] for line in run.stdout.splitlines() if "error:" in line]
    assert errors == ["20", "21"], run.stdout
