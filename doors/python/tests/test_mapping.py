"""The classes as mappings: CPython's own tests, and what dicts do, for each class once."""

import collections
import copy
import functools
import pickle
import types
from collections.abc import Mapping, MutableMapping, Set

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sapwood
from sapwood import Fib, NameFile, NameMap, RangeMap

try:
    from test import mapping_tests
except ImportError:  # an interpreter without its tests
    mapping_tests = None

# For each kind of map: what makes an empty one, and keys in order, as the map gives them back.
KINDS = {
    "texts": (NameMap, ["ash", "elder", "elm", "oak"]),
    "bytes": (functools.partial(NameMap, key=bytes), [b"\0", b"a", b"ab", b"\xff"]),
    "domains": (functools.partial(NameMap, dns=True), ["org", "example.org", "*.example.org", "a.b"]),
    "routes": (
        functools.partial(Fib, root_bits=6),
        ["10.0.0.0/8", "10.1.0.0/16", "10.1.2.3/32", "2001:db8::/32"],
    ),
    "ranges": (RangeMap, [range(5), range(5, 9), range(100, 200), range(2**63, 2**64)]),
}
KINDS["domains"][1].sort(key=lambda name: name.split(".")[::-1])


def other_spelling(key):
    """What is not a key of the map, although [] may take it for one."""
    if isinstance(key, range):
        return key.start
    if isinstance(key, str) and "/" in key:
        return key.partition("/")[0]
    return key + key


@pytest.fixture(params=KINDS)
def kind(request):
    return KINDS[request.param]


@pytest.fixture
def full(kind):
    make, keys = kind
    return make(zip(keys, "pqrs"))


def cpython(name, make, keys):
    """CPython's tests of the protocol, with keys of this kind."""

    class Tests(mapping_tests.BasicTestMappingProtocol):
        type2test = staticmethod(make)

        def _reference(self):
            return dict(zip(keys, ["2", "value1", (1, 2, 3)]))

        if name not in ("texts", "domains"):
            test_update = None  # it has keys that are str, and sorts
        if name == "ranges":
            test_values = test_items = None  # they take the edges of a window

    Tests.__name__ = Tests.__qualname__ = f"TestCPythonsProtocolOf{name.title()}"
    return Tests


if mapping_tests is not None:
    for name, (make, keys) in KINDS.items():
        tests = cpython(name, make, keys)
        globals()[tests.__name__] = tests
    del tests


def test_maps_are_registered_and_match_patterns(kind, full):
    make, keys = kind
    assert isinstance(full, MutableMapping) and issubclass(type(full), MutableMapping)
    match full:
        case {**rest}:
            assert rest == dict(full) == dict(zip(keys, "pqrs"))
    match {"outer": full}:
        case {"outer": [*_]}:
            pytest.fail("a mapping is no sequence")
        case {"outer": {}}:
            pass
    assert not isinstance(full, collections.abc.Sequence)
    assert type(full)[int].__origin__ is type(full)


def test_views_are_sets_that_follow_the_map(kind, full):
    make, keys = kind
    names, values, items = full.keys(), full.values(), full.items()
    assert isinstance(names, collections.abc.KeysView) and isinstance(names, Set)
    assert isinstance(values, collections.abc.ValuesView)
    assert isinstance(items, collections.abc.ItemsView) and isinstance(items, Set)
    pairs = list(zip(keys, "pqrs"))
    for view, expected in ((names, keys), (values, list("pqrs")), (items, pairs)):
        assert list(view) == expected and len(view) == 4
        assert list(reversed(view)) == expected[::-1]
        assert list(view) == expected  # again: a view is no iterator
    assert list(reversed(full)) == keys[::-1]
    few = set(keys[1:3]) | {other_spelling(keys[0])}
    assert names & few == few & names == set(keys[1:3])
    assert names | few == set(keys) | few
    assert names - few == {keys[0], keys[3]} and few - names == {other_spelling(keys[0])}
    assert names ^ few == set(keys) ^ few
    assert names == set(keys) == make(full).keys() and names != few
    assert names >= set(keys[:2]) and names > set(keys[:2]) and not names < set(keys)
    assert names.isdisjoint({other_spelling(keys[0])}) and not names.isdisjoint(few)
    assert items & {pairs[0], (keys[1], "x")} == {pairs[0]}
    assert items == dict(full).items() and dict(full).items() == items
    assert pairs[2] in items and (keys[2], "x") not in items and keys[2] not in items
    assert "p" in values and "x" not in values
    # They follow the map.
    value = full.pop(keys[0])
    assert keys[0] not in names and (keys[0], value) not in items and value not in values
    assert len(names) == len(values) == len(items) == 3
    full[keys[0]] = "new"
    assert (keys[0], "new") in items and "new" in values
    full.clear()
    assert list(names) == list(values) == list(items) == []
    assert repr(names) == f"KeysView({full!r})"


def test_views_hold_keys_and_nothing_else(kind, full):
    make, keys = kind
    for foreign in (other_spelling(keys[0]), None, 1.5, "", (), [], object(), "x/y", slice(0, 1)):
        assert foreign not in full.keys()
        assert (foreign, "p") not in full.items()
    for key in keys:
        assert key in full.keys()


def test_windows_of_ranges_are_views():
    map = RangeMap({range(0, 10): "a", range(20, 30): "b", range(40, 50): "c"})
    keys, items = map.keys(5, 25), map.items(5, 25)
    assert list(keys) == [range(0, 10), range(20, 30)] and len(keys) == 2
    assert range(0, 10) in keys and range(40, 50) not in keys and 5 not in keys
    assert (range(20, 30), "b") in items and (range(40, 50), "c") not in items
    assert list(reversed(map.values(5, 25))) == ["b", "a"]
    map[12:15] = "new"
    assert list(keys) == [range(0, 10), range(12, 15), range(20, 30)]
    assert keys & {range(12, 15), range(40, 50)} == {range(12, 15)}
    with pytest.raises(ValueError, match="the range 5:5 is empty"):
        map.keys(5, 5)
    with pytest.raises(IndexError, match="index -1 is not from 0"):
        map.values(-1)


def test_ranges_are_keys_of_exactly_their_entries():
    map = RangeMap({range(0, 10): "a", range(10, 20): "b"})
    assert map[range(0, 10)] == "a" and map.get(range(0, 10)) == "a" and range(0, 10) in map
    for other in (range(0, 9), range(1, 10), range(0, 11), range(0, 20), range(30, 31)):
        assert other not in map and map.get(other, "none") == "none"
        with pytest.raises(KeyError):
            map[other]
        with pytest.raises(KeyError):
            map.pop(other)
        assert map.pop(other, "none") == "none"
    assert map.pop(range(0, 10)) == "a" and list(map) == [range(10, 20)]
    # An index is taken from its entry, as by del.
    assert map.pop(15) == "b" and list(map) == [range(10, 15), range(16, 20)]
    assert map.setdefault(range(10, 15), "x") == "b" and map.setdefault(17, "x") == "b"
    assert map.setdefault(range(12, 18), "x") == "x"
    assert list(map.items()) == [(range(10, 12), "b"), (range(12, 18), "x"), (range(18, 20), "b")]
    map.verify()


class OnlyKeys:
    """What dict.update() takes for a mapping: keys() and []."""

    def __init__(self, items):
        self.inside = items

    def keys(self):
        return self.inside.keys()

    def __getitem__(self, key):
        return self.inside[key]


def test_updates_take_what_a_dict_takes(kind):
    make, keys = kind
    items = dict(zip(keys, range(4)))
    for given in (items, OnlyKeys(items), items.items(), iter(items.items()), make(items), [*items.items()]):
        map = make()
        map.update(given)
        assert dict(map) == items
        map.verify()
    map = make()
    map.update()
    map.update(None)
    map.update(make(items))
    map.update(map)
    assert dict(map) == items
    # A generator of the map itself: values are replaced, and nothing else happens.
    map.update((key, value + 1) for key, value in map.items())
    assert dict(map) == {key: value + 1 for key, value in items.items()}
    map.verify()


def test_updates_take_named_arguments(tmp_path):
    names = NameMap({"x": 1})
    names.update({"x": 2}, y=3, x=4)
    names.update(z=5)
    assert dict(names) == {"x": 4, "y": 3, "z": 5}
    fib = Fib()
    fib.update({"::/0": 0}, **{"10.0.0.0/8": 1, "10.1.0.0/16": 2})
    assert list(fib) == ["10.0.0.0/8", "10.1.0.0/16", "::/0"]
    with pytest.raises(ValueError, match='"x" is not an IP address'):
        RangeMap().update(x=1)
    with pytest.raises(TypeError, match="a key of this map is bytes, not str"):
        NameMap(key=bytes).update(x=1)


class Failing(Exception):
    pass


def test_updates_pass_on_the_errors_of_others(kind):
    make, keys = kind
    map = make({keys[0]: 0})

    class Iterator:
        left = [(keys[1], 1)]

        def __iter__(self):
            return self

        def __next__(self):
            if self.left:
                return self.left.pop()
            raise Failing

    class NoKeys:
        def keys(self):
            raise Failing

    class NoValues(OnlyKeys):
        def __getitem__(self, key):
            raise Failing

    for bad in (Iterator(), NoKeys(), NoValues({keys[1]: 1})):
        with pytest.raises(Failing):
            map.update(bad)
        map.verify()
    for bad in (42, [1], [(keys[1], 1, 2)], [(keys[1],)]):
        with pytest.raises((TypeError, ValueError)):
            map.update(bad)
    assert map[keys[0]] == 0
    map.verify()


def test_unions_are_those_of_dicts(kind):
    make, keys = kind
    one, other = make({keys[0]: 1, keys[1]: 2}), make({keys[1]: 3, keys[2]: 4})
    ours, theirs = dict(one), dict(other)
    for right in (other, theirs, types.MappingProxyType(theirs)):
        both = one | right
        assert type(both) is type(one) and both == ours | theirs
        both.verify()
    both = theirs | one
    assert type(both) is type(one) and both == theirs | ours
    assert dict(one) == ours and dict(other) == theirs
    with pytest.raises(TypeError, match="unsupported operand"):
        one | [(keys[2], 4)]
    with pytest.raises(TypeError, match="unsupported operand"):
        [(keys[2], 4)] | one
    same = one
    same |= other
    assert same is one and one == ours | theirs
    one |= [(keys[3], 5)]
    assert one[keys[3]] == 5
    with pytest.raises(TypeError, match="items are a mapping or an iterable"):
        one |= 5


def test_unions_keep_what_a_map_is():
    assert repr(NameMap({"A.b": 1}, dns=True) | {"c.B": 2}).startswith("<sapwood.NameMap of dns keys: 2")
    assert list({"C.b": 2} | NameMap({"a.b": 1}, dns=True)) == ["a.b", "c.b"]
    small = Fib({"10.0.0.0/8": 1}, root_bits=6)
    for both in (small | {"::/0": 1}, {"::/0": 1} | small, small.copy()):
        assert both.memory()["total"] < 1 << 20
    # The ranges on the right are stored over those on the left.
    left, right = {range(0, 10): "a"}, RangeMap({range(5, 15): "b"})
    assert dict(left | right) == {range(0, 5): "a", range(5, 15): "b"}
    assert dict(right | left) == {range(0, 10): "a", range(10, 15): "b"}


def test_equality_is_that_of_dicts(kind, full):
    make, keys = kind
    items = dict(zip(keys, "pqrs"))
    equal = [items, make(items), collections.UserDict(items), types.MappingProxyType(items)]
    for other in equal:
        assert full == other and other == full and not full != other
    for other in ({}, {**items, keys[0]: "x"}, {keys[0]: "p"}, list(items.items()), None, 1):
        assert full != other and other != full and not full == other
    nan = float("nan")
    assert make({keys[0]: nan}) == make({keys[0]: nan})  # as dicts: it is the same object
    with pytest.raises(TypeError, match="unhashable"):
        hash(full)
    assert make() == {} and not make() and full

    class Uncomparable:
        def __eq__(self, other):
            raise Failing

    with pytest.raises(Failing):
        make({keys[0]: Uncomparable()}) == make({keys[0]: Uncomparable()})


def test_the_other_methods_are_those_of_a_dict(kind, full):
    make, keys = kind
    assert full.setdefault(keys[0]) == "p" and full.setdefault(keys[0], "x") == "p"
    assert full.pop(keys[1]) == "q" and full.pop(keys[1], None) is None
    asked = [lambda: full.pop(keys[1]), lambda: full[keys[1]], lambda: full.__delitem__(keys[1])]
    # A range that is deleted is cleared, whether an entry has it or not.
    for ask in asked[:2] if isinstance(full, RangeMap) else asked:
        with pytest.raises(KeyError) as caught:
            ask()
        assert caught.value.args == (keys[1],)
    assert full.setdefault(keys[1]) is None and full[keys[1]] is None
    assert full.get(keys[2]) == "r" and full.get(keys[3], "x") == "s"
    with pytest.raises(TypeError, match="takes one or two arguments"):
        full.pop(keys[0], 1, 2)
    same = full.copy()
    assert same == full and same is not full and type(same) is type(full)
    seen = {}
    while full:
        key, value = full.popitem()
        assert key not in full and key not in seen
        seen[key] = value
    assert seen == {keys[0]: "p", keys[1]: None, keys[2]: "r", keys[3]: "s"} == same
    with pytest.raises(KeyError, match="is empty"):
        full.popitem()
    for wrong in (lambda: full.popitem(1), lambda: full.copy(1), lambda: full.clear(1)):
        with pytest.raises(TypeError):
            wrong()
    same.clear()
    assert same == {} and len(same) == 0
    full.verify()


def test_fromkeys_makes_the_same_kind_of_map(kind):
    make, keys = kind
    options = getattr(make, "keywords", {})
    cls = getattr(make, "func", make)
    value = []
    map = cls.fromkeys(iter(keys), value, **options)
    assert type(map) is cls and list(map) == keys and all(found is value for found in map.values())
    assert cls.fromkeys(keys[:1], **options) == {keys[0]: None}
    assert map.fromkeys([], **options) == {}
    with pytest.raises(TypeError):
        cls.fromkeys(3, **options)
    with pytest.raises(TypeError):
        cls.fromkeys()


def test_classes_cannot_be_subclassed_and_say_so(kind, full):
    cls = type(full)
    with pytest.raises(TypeError, match="is not an acceptable base type"):
        type("Sub", (cls,), {})


def test_iterators_beside_changes(kind, full):
    """A map of names says that it changed; routes and ranges are snapshots."""
    make, keys = kind
    for view in (full, full.keys(), full.values(), full.items()):
        steps = iter(view)
        next(steps)
        del full[keys[2]]
        if isinstance(full, NameMap):
            with pytest.raises(RuntimeError, match="map changed during iteration"):
                next(steps)
        else:
            assert len(list(steps)) == 3
        full[keys[2]] = "r"
    with pytest.raises(KeyError):
        make().popitem()
    if isinstance(full, NameMap):
        empty = make()
        steps = iter(empty)
        with pytest.raises(KeyError):
            empty.pop_first()
        assert list(steps) == []  # nothing was changed


@given(st.sampled_from(list(KINDS)), st.data())
def test_any_operations_are_those_of_a_dict(which, data):
    make, keys = KINDS[which]
    map, oracle = make(), {}
    steps = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.sampled_from("sdpPuorf|^i")))
    for at, value, what in data.draw(steps):
        key = keys[at]
        match what:
            case "s":
                map[key] = oracle[key] = value
            case "d" if key in oracle:
                del map[key], oracle[key]
            case "p":
                assert map.pop(key, "none") == oracle.pop(key, "none")
            case "P" if oracle:
                gone, found = map.popitem()
                assert oracle.pop(gone) == found
            case "u":
                map.update({key: value})
                oracle.update({key: value})
            case "o":
                assert map.setdefault(key, value) == oracle.setdefault(key, value)
            case "r":
                map, oracle = {key: value} | map, {key: value} | oracle
            case "|":
                map, oracle = map | {key: value}, oracle | {key: value}
            case "^":
                assert map.keys() ^ {key} == oracle.keys() ^ {key}
                assert map.items() - {(key, value)} == oracle.items() - {(key, value)}
            case "i":
                map |= {key: value}
                oracle |= {key: value}
        assert map == oracle and len(map) == len(oracle)
        assert map.keys() == oracle.keys() and map.items() == oracle.items()
        assert list(map.values()) == [oracle[key] for key in map]
        assert list(reversed(map)) == list(map)[::-1] == [key for key in keys if key in oracle][::-1]
    map.verify()


def test_readers_are_mappings(tmp_path):
    path = tmp_path / "names"
    NameMap({"a": 1, "b": 2}).save(path)
    names = NameFile.open(path)
    Fib({"10.0.0.0/8": 1, "::/0": 2}).save(tmp_path / "fib")
    routes = sapwood.FibFile.open(tmp_path / "fib")
    assert routes.exact("10.0.0.0/8") == 1 and routes.exact("10.0.0.1", "none") == "none"
    for file, items in ((names, {"a": 1, "b": 2}), (routes, {"10.0.0.0/8": 1, "::/0": 2})):
        assert isinstance(file, Mapping) and not isinstance(file, MutableMapping)
        check_reader(file, items)
        for copied in (copy.copy(file), copy.deepcopy(file), pickle.loads(pickle.dumps(file))):
            check_reader(copied, items)


def check_reader(map, items):
    assert map == items and items == map and map != {} and dict(map) == items
    assert list(map) == list(map.keys()) == list(items)
    assert list(map.items()) == list(items.items()) and list(map.values()) == list(items.values())
    for view in ("keys", "values", "items"):
        assert list(reversed(getattr(map, view)())) == list(getattr(items, view)())[::-1]
    assert list(reversed(map)) == list(items)[::-1]
    assert map.keys() == items.keys() and map.items() == items.items()
    assert len(map.values()) == len(items)
    first = next(iter(items))
    assert first in map.keys() and other_spelling(first) not in map.keys() and None not in map.keys()
    match map:
        case {**rest}:
            assert rest == items
    with pytest.raises(TypeError, match="unhashable"):
        hash(map)


LIVE = {
    "names": ("LiveNames", ["ash", "elm", "oak"]),
    "routes": ("LiveFib", ["10.0.0.0/8", "10.1.0.0/16", "::/0"]),
    "ranges": ("LiveRanges", [range(0, 10), range(10, 20), range(100, 2**64)]),
}


@pytest.mark.skipif(not hasattr(sapwood, "LiveFib"), reason="live maps are for Linux")
@pytest.mark.parametrize("which", LIVE)
def test_live_maps_share_one_surface(tmp_path, which):
    name, keys = LIVE[which]
    cls = getattr(sapwood, name)
    items = dict(zip(keys, (1, 2, 3)))
    with cls.create(tmp_path / "map") as writer:
        assert type(writer) is getattr(sapwood, name + "Writer") and isinstance(writer, cls)
        assert isinstance(writer, MutableMapping) and writer.has_writer() and writer.generation == 0
        reader = cls.open(tmp_path / "map")
        assert isinstance(reader, Mapping) and not isinstance(reader, MutableMapping)
        assert reader.has_writer() and reader == {} and not reader
        writer.update(items)
        for map in (reader, writer, pickle.loads(pickle.dumps(reader)), copy.copy(reader)):
            check_reader(map, items)
        writer.update({keys[0]: 4}, remove=[keys[1], keys[0]])
        assert reader == {keys[0]: 4, keys[2]: 3}
        writer |= {keys[1]: 5}
        assert writer.setdefault(keys[1], 9) == 5 and writer.setdefault(keys[2]) == 3
        assert writer.pop(keys[1]) == 5 and writer.setdefault(keys[1], 6) == 6 == reader[keys[1]]
        assert writer.pop(keys[1], None) == 6 and writer.pop(keys[1], None) is None
        for ask in (lambda: writer.pop(keys[1]), lambda: writer[keys[1]], lambda: reader[keys[1]]):
            with pytest.raises(KeyError) as caught:
                ask()
            assert caught.value.args == (keys[1],)
        del writer[keys[0]]
        assert writer.popitem() == (keys[2], 3) and reader == {}
        with pytest.raises(KeyError, match="the map is empty"):
            writer.popitem()
        writer.update(items)
        # An error changes nothing.
        with pytest.raises(ValueError, match="is no value of this"):
            writer.update({keys[0]: 7, keys[1]: -1}, remove=keys)
        assert reader == items
        writer.clear()
        assert reader == {} and writer.readers()[0]["pid"] > 0
        for use in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="a writer cannot be pickled"):
                use(writer)
        writer.verify()
    with cls.take_over(tmp_path / "map") as heir:
        assert heir.generation == 1 == reader.generation and heir == {}
        heir.remove_map()


def test_live_maps_have_the_same_methods():
    if not hasattr(sapwood, "LiveFib"):
        pytest.skip("live maps are for Linux")
    for part in ("", "Writer"):
        names, routes, ranges = (
            {n for n in dir(getattr(sapwood, name + part)) if not n.startswith("_")}
            for name, _ in LIVE.values()
        )
        common = names & routes & ranges
        mapping = {n for n in dir(MutableMapping if part else Mapping) if not n.startswith("_")}
        assert common >= mapping | {"open", "create", "take_over", "generation", "has_writer"}
        if part:
            assert common >= {"insert", "readers", "verify", "close", "remove_map"}


def test_live_names_take_named_arguments(tmp_path):
    if not hasattr(sapwood, "LiveFib"):
        pytest.skip("live maps are for Linux")
    writer = sapwood.LiveNames.create(tmp_path / "map")
    writer.update({"a": 1}, b=2)
    writer.update(c=3, remove=["a"])
    assert writer == {"b": 2, "c": 3}
    writer.remove_map()


def test_every_object_is_pickled_or_says_that_it_is_not(kind, full):
    make, keys = kind
    # A view is pickled with its map.
    assert pickle.loads(pickle.dumps(full.items())) == full.items()
    for other in (iter(full), iter(full.items())):
        for use in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="cannot pickle"):
                use(other)


def test_an_answer_of_a_zone_is_not_pickled_and_says_so():
    found = NameMap({"a": 1}, dns=True).closest("b.a")
    with pytest.raises(TypeError, match="cannot pickle 'sapwood.Closest' object"):
        pickle.dumps(found)
