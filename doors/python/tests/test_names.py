"""NameMap and NameFile against a sorted list of a dict's keys."""

import bisect
import copy
import gc
import pickle
import threading
import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood import NameFile, NameMap

# Keys that are prefixes of each other, and any.
texts = st.text("ab", max_size=6) | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
binaries = st.binary(max_size=3) | st.text("ab", max_size=6).map(str.encode)
labels = st.text("abA*", min_size=1, max_size=2)
domains = st.lists(labels, max_size=4).map(".".join).map(lambda name: name or ".")


def lower(name):
    name = name.lower().rstrip(".")
    return name or "."


def order(name):
    return [] if name == "." else [label.encode() for label in reversed(name.split("."))]


def check_reading(map, oracle, asked, starts_with, sort=None):
    """Every reading method; `starts_with(key, prefix)` and the order are the kind of keys'."""
    keys = sorted(oracle, key=sort)
    pairs = [(key, oracle[key]) for key in keys]
    places = [sort(key) if sort else key for key in keys]
    assert len(map) == len(oracle)
    assert list(map) == list(map.keys()) == keys
    assert list(map.items()) == pairs and list(map.values()) == [oracle[key] for key in keys]
    assert list(reversed(map)) == keys[::-1]
    assert list(reversed(map.items())) == pairs[::-1]
    assert map.first() == (pairs[0] if pairs else None)
    assert map.last() == (pairs[-1] if pairs else None)
    for key in asked + keys:
        at = sort(key) if sort else key
        left, right = bisect.bisect_left(places, at), bisect.bisect_right(places, at)
        assert (key in map) == (key in oracle)
        assert map.get(key) == oracle.get(key) and map.get(key, "none") == oracle.get(key, "none")
        assert map.predecessor(key) == (pairs[left - 1] if left else None)
        assert map.successor(key) == (pairs[right] if right < len(pairs) else None)
        above = [pair for pair in pairs if starts_with(key, pair[0])]
        assert map.ancestors(key) == above
        assert map.longest_prefix(key) == (above[-1] if above else None)
        below = [pair for pair in pairs if starts_with(pair[0], key)]
        assert list(map.prefix(key)) == below
        assert list(reversed(map.prefix(key))) == below[::-1]
        assert list(map.range(key)) == pairs[left:] and list(map.range(None, key)) == pairs[:left]
    for start, stop in zip(asked, asked[1:]):
        a, b = (sort(start), sort(stop)) if sort else (start, stop)
        expected = pairs[bisect.bisect_left(places, a) : bisect.bisect_left(places, b)]
        assert list(map.range(start, stop)) == expected
        assert list(reversed(map.range(start, stop))) == expected[::-1]


def at_or_below(name, zone):
    return zone == "." or name == zone or name.endswith("." + zone)


@given(st.dictionaries(texts, st.integers()), st.lists(texts))
def test_texts(items, asked):
    check_reading(NameMap(items), items, asked, str.startswith)


@given(st.dictionaries(binaries, st.integers()), st.lists(binaries))
def test_bytes(items, asked):
    check_reading(NameMap(items, key=bytes), items, asked, bytes.startswith)


@given(st.dictionaries(domains, st.integers()), st.lists(domains))
def test_domains(items, asked):
    oracle = {lower(name): value for name, value in items.items()}
    zone = NameMap(items, dns=True)
    check_reading(zone, oracle, [lower(name) for name in asked], at_or_below, order)
    for name in asked:
        found, key = zone.closest(name), lower(name)
        exists = [n for n in [key, *parents(key)] if any(at_or_below(o, n) for o in oracle)]
        assert found.exists == (bool(exists) and exists[0] == key)
        encloser = exists[0] if exists else "."
        assert found.encloser == encloser
        assert found.exact == ((key, oracle[key]) if key in oracle else None)
        assert found.ancestor == zone.longest_prefix(name)
        assert found.predecessor == zone.predecessor(name)
        star = "*" if encloser == "." else "*." + encloser
        expected = None if found.exists or star not in oracle else (star, oracle[star])
        assert found.wildcard == expected
        below = any(at_or_below(o, star) for o in oracle)
        assert found.wildcard_exists == (below and not found.exists)
        assert found.cut is None
        proof = zone.closest(name, is_cut=lambda _, value: value % 3 == 0)
        above = [n for n in [key, *parents(key)] if n in oracle and oracle[n] % 3 == 0]
        assert proof.cut == ((above[-1], oracle[above[-1]]) if above else None)
        assert proof.predecessor == not_below_a_cut(oracle, key)
        expected = None if found.exists else not_below_a_cut(oracle, star)
        assert proof.wildcard_predecessor == expected


def not_below_a_cut(oracle, name):
    def below(other):
        return any(oracle.get(above, 1) % 3 == 0 for above in parents(other))

    less = [n for n in oracle if order(n) < order(name) and not below(n)]
    return max(((n, oracle[n]) for n in less), key=lambda pair: order(pair[0]), default=None)


def test_a_cut_is_asked_for_outside_of_the_search():
    zone = NameMap({"org": 1, "sub.org": 2, "ns.sub.org": 3}, dns=True)
    asked = []

    def is_cut(name, value):
        asked.append(name)
        zone["a.org"] = 4  # the map may be used meanwhile
        return value == 2

    found = zone.closest("t.org", is_cut=is_cut)
    assert found.predecessor == ("sub.org", 2) and found.wildcard_predecessor == ("org", 1)
    assert set(asked) == {"org", "sub.org"}
    with pytest.raises(ZeroDivisionError):
        zone.closest("t.org", is_cut=lambda name, value: 1 // 0)


def parents(name):
    while name != ".":
        name = name.partition(".")[2] or "."
        yield name


@given(st.lists(st.tuples(texts, st.integers(), st.sampled_from("idpsurRflc"))))
def test_changes_are_those_of_a_dict(steps):
    map, oracle = NameMap(), {}
    for key, value, what in steps:
        match what:
            case "i":
                assert map.insert(key, value) == oracle.get(key)
                oracle[key] = value
            case "d" if key in oracle:
                del map[key], oracle[key]
            case "d":
                with pytest.raises(KeyError):
                    del map[key]
            case "p":
                assert map.pop(key, "none") == oracle.pop(key, "none")
            case "s":
                assert map.setdefault(key, value) == oracle.setdefault(key, value)
            case "u":
                map.update({key: value, key + "x": value})
                oracle.update({key: value, key + "x": value})
            case "r":
                gone = [k for k in oracle if k.startswith(key)]
                assert map.remove_prefix(key) == len(gone)
                for k in gone:
                    del oracle[k]
            case "f" if oracle:
                least = min(oracle)
                assert map.pop_first() == (least, oracle.pop(least))
            case "l" if oracle:
                greatest = max(oracle)
                assert map.popitem() == (greatest, oracle.pop(greatest))
            case "c":
                map.compact()
            case "R" if len(oracle) > 4:
                map.clear()
                oracle.clear()
        map.verify()
    assert dict(map) == oracle and list(map) == sorted(oracle)


@given(
    st.dictionaries(texts, st.integers(0, 2**64 - 1))
    | st.dictionaries(texts, st.binary(max_size=50))
    | st.dictionaries(texts, st.text(max_size=50))
)
def test_files(tmp_path_factory, items):
    path = tmp_path_factory.mktemp("names") / "map"
    NameMap(items).save(path)
    text = any(isinstance(value, str) for value in items.values())
    for file in (NameFile.open(path, text=text), NameFile.open(str(path), text=text, verify=False)):
        check_reading(file, items, ["a", "b", "ab"], str.startswith)
        check_reading(pickle.loads(pickle.dumps(file)), items, ["a"], str.startswith)
    binary = {key.encode(): value for key, value in items.items()}
    file = NameFile.open(path, key=bytes, text=text)
    check_reading(file, binary, [b"a"], bytes.startswith)


def test_files_of_domains(tmp_path):
    path = tmp_path / "zone"
    NameMap({"Example.org": 1, "*.org": 2}, dns=True).save(path)
    file = NameFile.open(path, dns=True)
    assert list(file.items()) == [("*.org", 2), ("example.org", 1)]
    assert file.closest("x.org").wildcard == ("*.org", 2)
    assert repr(file.closest("org")).startswith("Closest(exact=None, exists=True, encloser='org'")
    again = pickle.loads(pickle.dumps(file))
    assert again["EXAMPLE.org."] == 1
    assert repr(file) == f'<sapwood.NameFile "{path}" of dns keys: 2 entries>'
    with pytest.raises(KeyError, match="a.org"):
        file["a.org"]


ERRORS = [
    (lambda: NameMap(key=int), TypeError, "key is str or bytes, not <class 'int'>"),
    (lambda: NameMap(key=bytes, dns=True), ValueError, "dns=True is for keys that are str"),
    (lambda: NameMap()[b"a"], TypeError, "a key of this map is a str, not bytes"),
    (lambda: NameMap()[1], TypeError, "a key of this map is a str, not int"),
    (lambda: NameMap(key=bytes)["a"], TypeError, "a key of this map is bytes, not str"),
    (lambda: NameMap()["a"], KeyError, "'a'"),
    (lambda: NameMap().pop("a"), KeyError, "'a'"),
    (lambda: NameMap().pop("a", 1, 2), TypeError, "one or two arguments, and 3 were given"),
    (lambda: NameMap().pop_first(), KeyError, "the map is empty"),
    (lambda: NameMap().popitem(), KeyError, "the map is empty"),
    (lambda: NameMap()["\ud800"], UnicodeEncodeError, "surrogates not allowed"),
    (
        lambda: NameMap()["x" * 65536],
        ValueError,
        "key of 65536 bytes is too long (the limit is 65,535)",
    ),
    (
        lambda: NameMap(dns=True)["a..b"],
        ValueError,
        "'a..b' is not a domain name: empty label at byte 2",
    ),
    (lambda: NameMap().closest("a"), TypeError, "closest() needs a map with dns=True"),
    (lambda: NameMap(5), TypeError, "items are a mapping or an iterable of pairs, not int"),
    (lambda: NameMap([("a", 1), "abc"]), ValueError, "item 1 has more than two parts"),
    (lambda: hash(NameMap()), TypeError, "unhashable"),
    (lambda: NameMap().__setstate__((1, 2)), ValueError, "not the state of a pickled NameMap"),
    (
        lambda: NameMap().__setstate__(([b"b", b"a"], [1, 2])),
        ValueError,
        "entry 1 sorts before the one ahead of it",
    ),
    (
        lambda: NameMap({"a": 1, "b": "x"}).save("none"),
        ValueError,
        "'x' cannot be saved: a file has values that are all int from 0 to 2**64 - 1, all bytes,",
    ),
    (lambda: NameMap({"a": 2**64}).save("none"), ValueError, "18446744073709551616 cannot be"),
    (lambda: NameMap({"a": None}).save("none"), ValueError, "None cannot be saved"),
    (lambda: NameMap({"a": "x", "b": b"x"}).save("none"), ValueError, "b'x' cannot be saved"),
    (lambda: NameMap().save("no/such/folder"), FileNotFoundError, "cannot save no/such/folder"),
    (lambda: NameFile.open("no/such/file"), FileNotFoundError, "cannot open no/such/file"),
    (lambda: NameFile.open(__file__), ValueError, "cannot open "),
]


@pytest.mark.parametrize("ask, error, text", ERRORS, ids=range(len(ERRORS)))
def test_errors_say_why(ask, error, text):
    with pytest.raises(error) as caught:
        ask()
    assert text in str(caught.value)


def test_iterators_notice_changes_as_those_of_a_dict():
    for change in (
        lambda map: map.insert("new", 1),
        lambda map: map.pop("k1"),
        lambda map: map.clear(),
        lambda map: map.remove_prefix("k2"),
        lambda map: map.pop_first(),
    ):
        map = NameMap((f"k{i}", i) for i in range(200))
        items = iter(map.items())
        next(items)
        change(map)
        with pytest.raises(RuntimeError, match="map changed during iteration"):
            next(items)
        assert list(items) == []
    # A value that is replaced is no such change, and the iterator sees it.
    map = NameMap((f"k{i:03}", i) for i in range(200))
    items = iter(map.items())
    next(items)
    map["k001"] = "new"
    assert next(items) == ("k001", "new")
    with pytest.raises(RuntimeError, match="an iterator that has begun cannot be reversed"):
        reversed(items)


def test_pickles_copies_and_cycles():
    for make in (NameMap, lambda: NameMap(key=bytes), lambda: NameMap(dns=True)):
        map = make()
        key = b"a" if "bytes" in repr(map) else "a"
        map[key] = map
        again = pickle.loads(pickle.dumps(map))
        assert again[key] is again and repr(again) == repr(map)
        assert copy.copy(map)[key] is map
        again.verify()
    map = NameMap({"a": [1], "b": 2})
    assert map == map.copy() == copy.deepcopy(map) != NameMap({"a": [1]})
    assert map != NameMap({"a": [1], "c": 2}) and map == {"a": [1], "b": 2}
    assert map.copy()["a"] is map["a"] is not copy.deepcopy(map)["a"]


class Thing:
    pass


def test_objects_are_let_go():
    thing, map = Thing(), NameMap()
    known = weakref.ref(thing)
    for drop in (
        lambda: map.__setitem__("a", 1),
        lambda: map.pop("a"),
        lambda: map.clear(),
        lambda: map.remove_prefix(""),
        lambda: map.pop_last(),
        lambda: map.__setstate__(([], [])),
    ):
        map["a"] = thing
        thing = None
        assert known() is not None
        drop()
        assert known() is None
        thing = Thing()
        known = weakref.ref(thing)
    thing.map = NameMap({"me": thing})
    thing.items = iter(thing.map.items())
    thing.view = thing.map.values()
    del thing
    gc.collect()
    assert known() is None


def test_values_that_meddle_when_they_are_dropped():
    map = NameMap()

    class Meddler:
        def __del__(self):
            map["dropped"] = len(map)

    for drop in (
        lambda: map.__setitem__("a", 1),
        lambda: map.clear(),
        lambda: map.remove_prefix("a"),
        lambda: map.__delitem__("a"),
    ):
        map["a"] = Meddler()
        drop()
        assert map.pop("dropped") >= 0
        map.verify()


def test_threads_share_a_map():
    map, errors = NameMap(), []

    def work(number):
        try:
            for turn in range(3000):
                key = f"{number}.{turn % 50}"
                map[key] = turn
                assert map[key] == turn
                if turn % 7 == 0:
                    del map[key]
                map.successor(key)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    map.verify()


def test_nothing_leaks(operations):
    map = NameMap()
    gc.collect()
    before = None
    rounds = max(operations // 400, 20)
    for turn in range(rounds):
        for number in range(100):
            map[f"name {number * 7919 % 1000}.{number % 9}"] = (turn, number)
        list(map.items())
        map.longest_prefix("name 500.x")
        for number in range(0, 100, 3):
            map.pop(f"name {number * 7919 % 1000}.{number % 9}")
        if turn == 10:
            before = map.memory()["total"]
    assert map.memory()["total"] <= before + 4096
    assert map.memory()["entries"] == len(map) == 66
    print(f"{rounds * 400} operations")
