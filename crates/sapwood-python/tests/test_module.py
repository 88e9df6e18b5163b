"""The module as a whole: doctests, its types, and the absence of numpy."""

import doctest
import pathlib
import subprocess
import sys
import weakref

import pytest

import sapwood

CLASSES = [getattr(sapwood, name) for name in sapwood.__all__]


def test_docstrings_run():
    finder, runner = doctest.DocTestFinder(), doctest.DocTestRunner()
    names = {"sapwood": sapwood, **{c.__name__: c for c in CLASSES}}
    for item in CLASSES:
        members = [item, *vars(item).values()]
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
    # The compiled module inside the package, whose names the package has.
    (tmp_path / "allowed").write_text("sapwood.sapwood\n")
    run = subprocess.run(
        [sys.executable, "-m", "mypy.stubtest", "sapwood", "--concise", "--allowlist", "allowed"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_programs_are_checked_by_the_stubs(tmp_path):
    pytest.importorskip("mypy")
    program = """
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
fib[1.5]
NameMap({"a": 1})[b"a"]
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
    ]
    errors = [line.split(":")[1] for line in run.stdout.splitlines() if "error:" in line]
    assert errors == ["13", "14"], run.stdout
