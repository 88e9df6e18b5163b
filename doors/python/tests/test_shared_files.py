"""Saved files that Rust, C and the program `sapwood` read and write, too, byte for byte."""

from pathlib import Path

import numpy as np
import pytest

from sapwood import Fib, FibFile, RangeMap

FILES = Path(__file__).parents[3] / "core" / "sapwood" / "tests" / "files"

NAMES = {"10.0.0.0/8": "core", "192.0.2.0/24": "lab", "2001:db8::/32": "core"}
NUMBERS = {"10.0.0.0/8": 64500, "10.1.2.0/24": 2**32 - 1, "2001:db8::/32": 7}


@pytest.mark.parametrize("name, routes", [("names.routes", NAMES), ("numbers.routes", NUMBERS)])
def test_tables_of_routes(tmp_path, name, routes):
    fib = Fib.load(FILES / name)
    assert dict(fib.items()) == routes
    for saved in (fib, Fib(routes)):
        saved.save(tmp_path / name)
        assert (tmp_path / name).read_bytes() == (FILES / name).read_bytes()
    file = FibFile.open(FILES / name)
    assert dict(file.items()) == routes
    assert file["10.0.0.1"] == routes["10.0.0.0/8"]
    assert file.lookup("2001:db8::1") == ("2001:db8::/32", routes["2001:db8::/32"])


def test_batches():
    hosts = ["10.1.2.3", "10.0.0.1", "::1", "2001:db8::1"]
    numbers = FibFile.open(FILES / "numbers.routes")
    assert numbers.lookup_many(hosts).tolist() == [2**32 - 1, 64500, -1, 7]
    assert numbers.names() == []
    names = FibFile.open(FILES / "names.routes", verify=False)
    assert names.names() == ["core", "lab"]
    assert names.lookup_many(hosts).tolist() == [0, 0, -1, 0]


def test_what_python_does_not_hold():
    groups = FibFile.open(FILES / "groups.routes")
    assert (len(groups), "10.1.2.3" in groups, groups["2001:db8::1"]) == (2, True, 7)
    told = r"groups.routes: a group of next hops, \".*weight.*\"; a FibFile holds int and str"
    with pytest.raises(ValueError, match=told):
        groups["10.1.2.3"]
    for items in (lambda: list(groups.items()), lambda: Fib.load(FILES / "groups.routes")):
        with pytest.raises(ValueError, match="a group of next hops for 10.0.0.0/8"):
            items()
    with pytest.raises(ValueError, match=r"groups.routes: an array cannot have all values"):
        groups.lookup_many(np.array([0x0A010203], np.uint32))
    nulls = FibFile.open(FILES / "nulls.routes")
    assert nulls["192.0.2.1"] == "core"
    with pytest.raises(ValueError, match='a null route, "blackhole"'):
        nulls["10.0.0.1"]
    with pytest.raises(ValueError, match="an array cannot have all values"):
        nulls.lookup_many(["192.0.2.1", "10.0.0.1"])


def test_maps_of_ranges(tmp_path):
    numbers = {range(5, 10): 7, range(20, 2**64): 2**64 - 1}
    texts = {range(10): "left", range(20, 30): "right", range(2**63, 2**64): ""}
    for name, ranges in (("numbers.ranges", numbers), ("texts.ranges", texts)):
        map = RangeMap.load(FILES / name)
        assert dict(map.items()) == ranges
        map.save(tmp_path / name)
        assert (tmp_path / name).read_bytes() == (FILES / name).read_bytes()
    RangeMap().save(tmp_path / "empty")
    assert len(RangeMap.load(tmp_path / "empty")) == 0
    wanted = r"a file has values that are all int from 0 to 2\*\*64 - 1, or all str"
    for values in ((1, "a"), ("a", 1), (None,), (-1,), (2**64,), ("a", b"b")):
        mixed = RangeMap({range(2 * i, 2 * i + 1): value for i, value in enumerate(values)})
        with pytest.raises(ValueError, match=f"cannot be saved: {wanted}"):
            mixed.save(tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_old_files_and_other_kinds_are_named():
    for open, name, told in (
        (FibFile.open, "program-1.routes", "format 1 of the program .*`sapwood routes build`"),
        (Fib.load, "library-1.routes", r"format 1 of the library.*Fib.save\(\)"),
        (RangeMap.load, "program-1.ranges", "format 1 of the program .*`sapwood ranges build`"),
        (FibFile.open, "numbers.ranges", "the file is a map of ranges"),
        (RangeMap.load, "names.routes", "the file is a table of routes"),
    ):
        with pytest.raises(ValueError, match=told):
            open(FILES / name)
