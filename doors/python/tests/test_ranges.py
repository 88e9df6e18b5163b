"""RangeMap against a list of cells, one for each index."""

import copy
import gc
import pickle
import weakref
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

import numpy as np
import pytest
from cells import SIZE, TOP, Oracle, Thing, bases, changed, ends, steps, values
from hypothesis import given
from hypothesis import strategies as st

from sapwood import NoGapError, OccupiedError, RangeMap


@given(bases, st.lists(st.tuples(st.sampled_from("sSidDrac"), ends, values), max_size=30))
def test_answers_are_those_of_cells(base, steps):
    map, oracle = RangeMap(), Oracle(base)
    for what, (lo, hi), value in steps:
        start, stop = base + lo, base + hi
        match what:
            case "s":
                map[start:stop] = value
                oracle.store(lo, hi, [value])
            case "S":
                assert map.store(range(start, stop), value) == range(start, stop)
                oracle.store(lo, hi, [value])
            case "i" if all(cell is None for cell in oracle.cells[lo:hi]):
                map.insert(range(start, stop), value)
                oracle.store(lo, hi, [value])
            case "i":
                with pytest.raises(OccupiedError, match=r"the entry \d+..=\d+ is in the way"):
                    map.insert(range(start, stop), value)
            case "d":
                del map[start:stop]
                oracle.store(lo, hi, None)
            case "D" if oracle.cells[lo]:
                del map[start]
                oracle.store(lo, lo + 1, None)
            case "r" if oracle.cells[lo]:
                (found,) = [(r, v) for r, v in oracle.items() if start in r]
                assert map.remove(start) == found
                oracle.store(found[0].start - base, found[0].stop - base, None)
            case "D" | "r":
                with pytest.raises(KeyError, match=str(start)):
                    map.remove(start) if what == "r" else map.__delitem__(start)
            case "a":
                room = [g for g in oracle.gaps() if len(range(g.start, g.stop)) >= hi - lo]
                window = {"start": base, "stop": base + SIZE}
                if room:
                    expected = range(room[0].start, room[0].start + hi - lo)
                    assert map.find_gap(hi - lo, **window) == expected
                    assert map.alloc(hi - lo, value, **window) == expected
                    oracle.store(expected.start - base, expected.stop - base, [value])
                else:
                    assert map.find_gap(hi - lo, **window) is None
                    with pytest.raises(NoGapError, match="no gap has room for"):
                        map.alloc(hi - lo, value, **window)
            case "c" if len(map) > 6:
                map.clear()
                oracle = Oracle(base)
        map.verify()
    items = oracle.items()
    assert list(map.items()) == items and len(map) == len(items)
    assert list(map) == [r for r, _ in items] and list(map.values()) == [v for _, v in items]
    assert map.gaps(base, base + SIZE) == oracle.gaps()
    assert map.first() == (items[0] if items else None)
    assert map.last() == (items[-1] if items else None)
    indices = range(base, base + SIZE)
    expected = [cell[0] if cell else "none" for cell in oracle.cells]
    assert [map.get(index, "none") for index in indices] == expected
    assert [index in map for index in indices] == [cell is not None for cell in oracle.cells]
    numbers, known = map.lookup_many(np.array(indices, np.uint64)).tolist(), map.values_by_number()
    assert [known[n] if n >= 0 else "none" for n in numbers] == expected
    assert map.lookup_many(indices).tolist() == numbers
    for index in indices:
        entry = [(r, v) for r, v in items if index in r]
        assert map.entry(index) == (entry[0] if entry else None)
        assert map.next_after(index) == next((e for e in items if e[0].start > index), None)
        before = [e for e in items if e[0].stop <= index]
        assert map.prev_before(index) == (before[-1] if before else None)
        assert list(map.items(index, index + 1)) == entry
    for again in (map.copy(), copy.copy(map), pickle.loads(pickle.dumps(map)), RangeMap(items)):
        assert again == map and list(again.items()) == items
        again.verify()
    assert (map == RangeMap()) == (items == [])


@given(bases, st.lists(steps, max_size=30))
def test_takes_moves_and_changes_are_those_of_cells(base, steps):
    map, oracle = RangeMap(), Oracle(base)
    for step in steps:
        changed(map, oracle, step)
        map.verify()
        assert list(map.items()) == oracle.items()
    assert map[:] == oracle.items()


def test_addresses_are_indices():
    map = RangeMap({"10.0.0.0/24": "lan", IPv4Network("10.0.1.0/24"): "lab"})
    first, net = int(IPv4Address("10.0.0.0")), range(10 << 24, (10 << 24) + 256)
    assert list(map) == [net, range(net.stop, net.stop + 256)]
    for index in ("10.0.0.7", IPv4Address("10.0.0.7"), bytes([10, 0, 0, 7]), first + 7):
        assert map[index] == "lan" and index in map and map.entry(index) == (net, "lan")
    assert map["10.0.0.0/24"] == "lan" and "10.0.0.0/25" not in map
    assert map["10.0.0.128":"10.0.1.1"] == [
        (range(first + 128, first + 256), "lan"), (range(first + 256, first + 257), "lab")
    ]
    map[IPv4Address("10.0.0.16") : "10.0.0.32"] = "guests"
    assert map["10.0.0.31"] == "guests" and map["10.0.0.32"] == "lan"
    assert list(map.items("10.0.0.20", "10.0.0.21")) == [(range(first + 16, first + 32), "guests")]
    del map["10.0.0.16/28"]
    assert map.gaps("10.0.0.0", "10.0.1.0") == [range(first + 16, first + 32)]
    assert map.find_gap(4, start="10.0.0.0", near="10.0.0.24") == range(first + 24, first + 28)
    assert map.lookup_many(["10.0.0.1", IPv4Address("10.0.1.1"), None, first + 16]).tolist() == [0, 1, -1, -1]
    assert map.next_after("10.0.0.0") == (range(first + 32, first + 256), "lan")
    assert map.pop("10.0.1.0/24") == "lab" and map.setdefault("10.0.1.1", "one") == "one"
    assert map.remove("10.0.1.1") == (range(first + 257, first + 258), "one")
    map.move_range("10.0.0.0", "10.0.0.16", "192.0.2.0")
    assert map.take("192.0.2.0", "192.0.2.255") == [(range(0xC0000200, 0xC0000210), "lan")]
    with pytest.raises(KeyError, match="10.0.0.1"):
        del map["10.0.0.1"]
    assert "10.0.0.32" not in map.keys()  # views have ranges only


@given(
    st.lists(ends, max_size=6),
    st.integers(1, 8),
    st.sampled_from([1, 2, 4, 8]) | st.tuples(st.integers(1, 9), st.integers(0, 20)),
    st.integers(0, 3),
    st.sampled_from(["lowest", "highest", "near", "starting_at", "before"]),
    st.booleans(),
    st.integers(0, SIZE),
    ends,
)
def test_windows_are_those_of_cells(entries, size, align, guard, which, tightest, near, ends):
    map = RangeMap((slice(*part), "a") for part in entries)
    lo, hi = ends
    if hi - lo < size:
        return
    free = lambda a, b: all(at not in map for at in range(max(a, 0), b))
    modulus, rest = align if isinstance(align, tuple) else (align, 0)
    rest %= modulus
    places = [
        at
        for at in range(lo, hi - size + 1)
        if at % modulus == rest and free(at - guard, at + size + guard)
    ]
    options = {"start": lo, "stop": hi, "guard": guard, "tightest": tightest}
    options |= {"align": align} if isinstance(align, int) else dict(zip(("align", "rest"), align))
    # The order in which places are taken.
    order = {
        "lowest": lambda at: at,
        "highest": lambda at: -at,
        "near": lambda at: (abs(at - near), -at),
        "starting_at": lambda at: (at < near, at),
        "before": lambda at: (at + size - 1 > near, -at),
    }[which]
    options |= {
        "lowest": {},
        "highest": {"highest": True},
        "near": {"near": near},
        "starting_at": {"starting_at": near},
        "before": {"starting_at": near, "highest": True},
    }[which]
    found = map.find_gap(size, **options)
    if not places:
        assert found is None
        with pytest.raises(NoGapError):
            map.alloc(size, "new", **options)
        return
    assert found.start in places and len(found) == size
    if not tightest:
        assert found.start == min(places, key=order)
    elif which in ("lowest", "highest"):
        gaps = map.gaps()  # whole ones, also beyond the window
        sizes = {at: next(gap.stop - gap.start for gap in gaps if at in gap) for at in places}
        assert found.start == min(places, key=lambda at: (sizes[at], order(at)))
    assert map.alloc(size, "new", **options) == found and map[found] == "new"
    map.verify()


@given(st.lists(st.tuples(ends, st.integers(0, 1))))
def test_coalescing_counts_what_it_joins(steps):
    map, cells = RangeMap(), [None] * SIZE
    for (lo, hi), value in steps:
        cells[lo:hi] = [value] * (hi - lo)
        found = map.store(slice(lo, hi), value, coalesce=True)
        assert found.start <= lo and found.stop >= hi
        assert all(cells[index] == value for index in found)
        map.verify()
    assert [map.get(index) for index in range(SIZE)] == cells
    assert all(a.stop < b.start or map[a.start] != map[b.start] for a, b in zip(map, list(map)[1:]))


def lists_of(values):
    return st.lists(st.tuples(ends, values), max_size=8)


@given(lists_of(st.integers(0, 2**64 - 1)) | lists_of(st.text()), bases)
def test_files(tmp_path_factory, steps, base):
    path = tmp_path_factory.mktemp("ranges") / "map"
    map = RangeMap()
    for (lo, hi), value in steps:
        map[base + lo : base + hi] = value
    map.save(path)
    again = RangeMap.load(path)
    assert list(again.items()) == list(map.items())
    again.verify()
    # What a transaction has made is saved as well.
    with again.transaction() as txn:
        del txn[base : base + 9]
        txn.save(path)
    assert RangeMap.load(path) == again


ERRORS = [
    (lambda: RangeMap()[5], KeyError, "5"),
    (lambda: RangeMap()[-1], IndexError, "index -1 is not from 0 to 2**64 - 1"),
    (lambda: RangeMap()[TOP], IndexError, "index 18446744073709551616 is not from 0 to 2**64 - 1"),
    (lambda: RangeMap()["a"], ValueError, '"a" is not an IP address'),
    (lambda: RangeMap()["::1"], ValueError, "'::1' is of IPv6, and an index has 64 bits"),
    (lambda: RangeMap()[IPv6Address("::1")], ValueError, "is of IPv6, and an index has 64 bits"),
    (lambda: RangeMap()[IPv6Network("::/0")], ValueError, "is of IPv6, and an index has 64 bits"),
    (lambda: RangeMap()["10.0.0.1/8"], ValueError, "10.0.0.1/8 has bits set after its length"),
    (lambda: RangeMap()[b"abc"], ValueError, "3 bytes are not a packed IP address"),
    (lambda: RangeMap()["10.0.0.0/8":], ValueError, "'10.0.0.0/8' is a prefix, and an index is"),
    (lambda: RangeMap().entry("10.0.0.0/8"), ValueError, "is a prefix, and an index is wanted"),
    (lambda: RangeMap()["10.0.0.1":"10.0.0.1"], ValueError, "the range '10.0.0.1':'10.0.0.1' is"),
    (lambda: RangeMap()[1.5], TypeError, "an index is an int or an IPv4 address, not float"),
    (lambda: RangeMap()[True], TypeError, "an index is an int or an IPv4 address, not bool"),
    (lambda: RangeMap()[5:5], ValueError, "the range 5:5 is empty"),
    (lambda: RangeMap().get(slice(1, 2)), TypeError, "a slice is no key: [] has the parts of"),
    (lambda: RangeMap().pop(slice(1, 2)), TypeError, "a slice is no key"),
    (lambda: slice(1, 2) in RangeMap(), TypeError, "a slice is no key"),
    (lambda: RangeMap().take(5, 5), ValueError, "the range 5:5 is empty"),
    (lambda: RangeMap().take("x"), ValueError, '"x" is not an IP address'),
    (lambda: RangeMap().take(0.5, 1), TypeError, "an index is an int or an IPv4 address, not float"),
    (lambda: RangeMap().move_range(5, 5, 1), ValueError, "the range 5:5 is empty"),
    (lambda: RangeMap().move_range(5, 6, TOP), IndexError, "is not from 0 to 2**64 - 1"),
    (lambda: RangeMap().move_range(5, 7, TOP - 1), ValueError, "2 indices do not fit into the window"),
    (lambda: RangeMap().modify(5, 5, str), ValueError, "the range 5:5 is empty"),
    (lambda: RangeMap({5: 1}).modify(0, 9, 7), TypeError, "'int' object is not callable"),
    (lambda: RangeMap({5: 1}).modify(0, 9, lambda r: r), TypeError, "takes 1 positional argument"),
    (lambda: RangeMap().__setitem__(slice(5, 5), 1), ValueError, "the range 5:5 is empty"),
    (lambda: RangeMap().__setitem__(slice(5, 0), 1), ValueError, "the range 5:0 is empty"),
    (lambda: RangeMap().__setitem__(slice(TOP, None), 1), ValueError, "the range 18446744073709"),
    (lambda: RangeMap().__setitem__(slice(0, 5, 2), 1), ValueError, "has the step 1, not 2"),
    (lambda: RangeMap().__setitem__(slice(-5, 5), 1), IndexError, "index -5 is not from 0"),
    (lambda: RangeMap().__setitem__("x", 1), ValueError, '"x" is not an IP address'),
    (lambda: RangeMap().items(5, 5), ValueError, "the range 5:5 is empty"),
    (lambda: RangeMap().alloc(0, 1), ValueError, "a size of 0 was asked for"),
    (lambda: RangeMap().alloc(1, 1, align=3), ValueError, "the alignment 3 is not a power of two"),
    (lambda: RangeMap().find_gap(1, align=0, rest=1), ValueError, "the alignment 0 is not a power"),
    (lambda: RangeMap().find_gap(1, near=5, highest=True), ValueError, "near is for itself"),
    (lambda: RangeMap().alloc(1, 1, near=5, starting_at=5), ValueError, "near is for itself"),
    (lambda: RangeMap().find_gap(1, near=TOP), IndexError, "is not from 0 to 2**64 - 1"),
    (lambda: RangeMap().find_gap(0), ValueError, "a size of 0 was asked for"),
    (lambda: RangeMap().find_gap(1, align=3), ValueError, "the alignment 3 is not a power of two"),
    (
        lambda: RangeMap().alloc(10, 1, start=0, stop=5),
        ValueError,
        "10 indices do not fit into the window 0..=4",
    ),
    (lambda: RangeMap(5), TypeError, "items are a mapping or an iterable of pairs, not int"),
    (lambda: RangeMap().lookup_many(5), TypeError, "many indices are an array or an iterable, not"),
    (lambda: RangeMap().lookup_many(np.array([-1])), IndexError, "index -1 is not from 0"),
    (lambda: RangeMap().lookup_many([1, -1]), IndexError, "index -1 is not from 0"),
    (lambda: RangeMap().lookup_many("10.0.0.1"), TypeError, "many indices are an array or an iter"),
    (lambda: RangeMap().lookup_many(np.zeros(2)), TypeError, "an index is an int or an IPv4 addres"),
    (lambda: RangeMap().__setstate__(([1], [])), ValueError, "not the state of a pickled RangeMap"),
    (lambda: RangeMap({range(5): None}).save("none"), ValueError, "None cannot be saved: a file has"),
    (lambda: RangeMap.load("no/such/file"), FileNotFoundError, "cannot open no/such/file"),
    (lambda: RangeMap.load(__file__), ValueError, "cannot open "),
    (lambda: hash(RangeMap()), TypeError, "unhashable"),
]


@pytest.mark.parametrize("ask, error, text", ERRORS, ids=range(len(ERRORS)))
def test_errors_say_why(ask, error, text):
    with pytest.raises(error) as caught:
        ask()
    assert text in str(caught.value)


def test_windows():
    map = RangeMap({range(0, 10): "a", range(15, 100): "b"})
    assert map.find_gap(6, stop=200) == range(100, 106)
    assert map.find_gap(6, stop=200, highest=True) == range(194, 200)
    assert map.find_gap(4, stop=200, align=64) == range(128, 132)
    assert map.find_gap(4, stop=200, near=150) == range(150, 154)
    assert map.alloc(1, "c") == range(10, 11)
    map[:] = "all"
    assert list(map.items()) == [(range(TOP), "all")] and map.find_gap(1) is None
    del map[TOP - 1]
    assert map.gaps() == [range(TOP - 1, TOP)]


def test_objects_are_let_go():
    map, thing = RangeMap(), Thing()
    known = weakref.ref(thing)
    map[0:100] = thing
    del thing
    map[40:60] = 1  # the object now has two entries
    del map[0:40]
    assert known() is not None
    items = iter(map.items())
    del map[60:100]
    assert known() is not None  # the iterator will yield it
    assert list(items)[1][1] is known()
    del items
    map[0] = 1
    assert known() is None
    thing = Thing()
    thing.map = RangeMap({range(5): thing})
    known = weakref.ref(thing)
    del thing
    gc.collect()
    assert known() is None


def test_values_that_meddle_when_they_are_dropped():
    map = RangeMap()

    class Meddler:
        def __del__(self):
            map[1000:1010] = "dropped"

    for drop in (
        lambda: map.__setitem__(slice(0, 50), 1),
        lambda: map.__delitem__(slice(0, 50)),
        lambda: map.remove(5),
        lambda: map.clear(),
    ):
        map[0:50] = Meddler()
        drop()
        assert map[1005] == "dropped"
        del map[1000:1010]
        map.verify()


def test_nothing_leaks(operations):
    map = RangeMap()
    for turn in range(max(operations // 100, 100)):
        for number in range(30):
            at = number * 7919 % 5000
            map[at : at + 40] = (turn, number)
            map.get(at)
            if number % 3 == 0:
                del map[at + 10 : at + 20]
        if turn == 60:
            before = map.memory()["total"]
        if turn % 10 == 0:
            kept = map.snapshot()
            with map.transaction() as txn:
                txn.modify(0, 5000, lambda range, value: (turn, range.start))
                txn.move_range(0, 2500, 2000)
            assert kept.diff(map.snapshot())
    map.verify()
    assert map.memory()["total"] <= 2 * before
    assert len([v for v in map.values_by_number() if v is not None]) <= len(map)
    print(f"{max(operations // 100, 100) * 70} operations")
