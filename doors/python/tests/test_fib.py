"""Fib against a table that asks ipaddress, prefix by prefix."""

import collections
import copy
import gc
import ipaddress
import pickle
import weakref
from array import array

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood import Fib

# Few distinct bits, so that prefixes meet.
v4 = st.builds(
    lambda number, length: ipaddress.ip_network(
        (number & (0xFFFFFFFF << (32 - length)) & 0xFFFFFFFF, length)
    ),
    st.sampled_from([0, 1 << 31, 0x0A000000, 0x0A010203, 0x0A0102FF, 0xFFFFFFFF])
    | st.integers(0, 2**32 - 1),
    st.integers(0, 32),
)
v6 = st.builds(
    lambda number, length: ipaddress.ip_network(
        (number >> (128 - length) << (128 - length), length)
    ),
    st.sampled_from([2**32, 0x20010DB8 << 96, (0x20010DB8 << 96) + 1, 2**128 - 1])
    | st.integers(2**32, 2**128 - 1),
    st.integers(0, 128),
).filter(lambda net: net.version == 6)
nets = v4 | v6
addresses = st.builds(ipaddress.IPv4Address, st.integers(0, 2**32 - 1)) | st.builds(
    ipaddress.IPv6Address, st.integers(0, 2**128 - 1)
)
values = st.integers(0, 5) | st.sampled_from(["a", "b", b"a", None, True, 1.0, (1, 2)])


def covers(net, other) -> bool:
    return net.version == other.version and other.subnet_of(net)


class Oracle(dict):
    """Prefixes in a dict, and each question answered by looking at all of them."""

    def above(self, key):
        host = ipaddress.ip_network(key)
        found = [net for net in self if covers(net, host)]
        return sorted(found, key=lambda net: net.prefixlen)

    def ordered(self):
        def order(net):
            return (net.version, int(net.network_address), net.prefixlen)

        return sorted(self, key=order)

    def inside(self, key):
        return [net for net in self.ordered() if covers(key, net)]

    def children(self, key):
        inside = [net for net in self.inside(key) if net != key]
        return [net for net in inside if not any(o != net and covers(o, net) for o in inside)]


def shown(oracle, found):
    return [(str(net), oracle[net]) for net in found]


@given(st.lists(st.tuples(nets, values)), st.lists(nets), st.lists(addresses))
def test_answers_are_those_of_ipaddress(items, asked, hosts):
    fib, oracle = Fib(root_bits=12), Oracle()
    for net, value in items:
        assert fib.insert(str(net), value) == oracle.get(net)
        oracle[net] = value
    fib.verify()
    assert len(fib) == len(oracle)
    assert list(fib) == list(fib.keys()) == [str(net) for net in oracle.ordered()]
    assert list(fib.items()) == shown(oracle, oracle.ordered())
    assert [type(v) for v in fib.values()] == [type(oracle[net]) for net in oracle.ordered()]
    # Addresses at the edges of prefixes, and any.
    hosts = hosts + [net[0] for net in oracle] + [net[-1] for net in oracle]
    expected = []
    for host in hosts:
        found = oracle.above(host)
        expected.append(oracle[found[-1]] if found else None)
        assert fib.get(host) == fib.get(str(host)) == fib.get(host.packed) == expected[-1]
        assert (str(host) in fib) == bool(found)
        assert fib.lookup(host) == (shown(oracle, found)[-1] if found else None)
        assert fib.parents(host) == shown(oracle, found)
    hops = fib.next_hops()
    numbers = fib.lookup_many(hosts).tolist()
    assert [hops[n] if n >= 0 else None for n in numbers] == expected
    assert fib.lookup_many([str(host) for host in hosts], objects=True) == expected
    for net in asked + [net for net, _ in items]:
        assert (net in fib) == (net in oracle)
        assert fib.exact(net) == fib.get(net) == oracle.get(net)
        found = oracle.above(net)
        assert fib.lookup(net) == (shown(oracle, found)[-1] if found else None)
        assert fib.parents(net) == shown(oracle, [n for n in found if n != net])
        assert fib.covering(net) == shown(oracle, found)
        assert fib.covered(net) == shown(oracle, oracle.inside(net))
        assert fib.children(net) == shown(oracle, oracle.children(net))
    for again in (Fib(dict(fib)), copy.copy(fib), pickle.loads(pickle.dumps(fib)), fib.copy()):
        assert again == fib and list(again.items()) == list(fib.items())
        again.verify()
    for net in list(oracle):
        assert fib.remove(net) == oracle.pop(net)
    assert len(fib) == 0 and not any(hop is not None for hop in fib.next_hops())
    fib.verify()


@given(st.lists(st.tuples(nets, values, st.sampled_from("idpsuc"))))
def test_changes_are_those_of_a_dict(steps):
    fib, oracle = Fib(root_bits=6), Oracle()
    for net, value, what in steps:
        if what == "i":
            fib[net] = value
            oracle[net] = value
        elif what == "d":
            if net in oracle:
                del fib[net]
                del oracle[net]
            else:
                with pytest.raises(KeyError):
                    del fib[net]
        elif what == "p":
            assert fib.pop(net, "none") == oracle.pop(net, "none")
        elif what == "s":
            assert fib.setdefault(net, value) == oracle.setdefault(net, value)
        elif what == "u":
            fib.update({str(net): value})
            oracle.update({net: value})
        elif len(fib) > 3:
            fib.clear()
            oracle.clear()
        fib.verify()
    assert list(fib.items()) == shown(oracle, oracle.ordered())


@given(st.lists(st.integers(0, 2**32 - 1)), st.lists(st.tuples(v4, values), min_size=1))
def test_arrays_of_all_kinds_agree(numbers, items):
    fib = Fib(items, root_bits=6)
    expected = [fib.get(ipaddress.IPv4Address(n)) for n in numbers]
    columns = [
        np.array(numbers, dtype=np.uint32),
        np.array(numbers, dtype=np.uint64),
        np.array(numbers, dtype=np.int64),
        np.repeat(np.array(numbers, dtype=np.uint32), 2)[::2],
        np.array([list(n.to_bytes(4, "big")) for n in numbers], dtype=np.uint8).reshape(-1, 4),
        np.array([str(ipaddress.IPv4Address(n)) for n in numbers], dtype=str),
        np.array([ipaddress.IPv4Address(n) for n in numbers], dtype=object),
        array("I", numbers),
        memoryview(array("I", numbers)),
        np.frombuffer(b"x" + array("I", numbers).tobytes(), np.uint32, len(numbers), 1),
        np.frombuffer(b"x" + array("Q", numbers).tobytes(), np.uint64, len(numbers), 1),
        numbers,
        (n.to_bytes(4, "big") for n in numbers),
    ]
    for column in columns:
        assert fib.lookup_many(column, objects=True) == expected
    mapped = np.array([list(bytes(10) + b"\xff\xff" + n.to_bytes(4, "big")) for n in numbers])
    mapped = mapped.astype(np.uint8).reshape(-1, 16)
    assert fib.lookup_many(mapped).tolist() == [-1] * len(numbers)
    fib.update(("::ffff:0:0/96" if net.prefixlen == 0 else f"::ffff:{net.network_address}/{96 + net.prefixlen}", v) for net, v in items)
    assert fib.lookup_many(mapped, objects=True) == expected


class Column:
    """What has an array, as columns of Arrow and polars do."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return self.values


def test_batches_on_several_threads_and_of_columns():
    fib = Fib({"0.0.0.0/1": 1, "128.0.0.0/2": 2})
    column = np.random.default_rng(1).integers(0, 2**32, 200_000, dtype=np.uint32)
    expected = np.where(column < 2**31, 0, np.where(column < 3 * 2**30, 1, -1))
    for threads in (0, 1, 2, 5):
        numbers = fib.lookup_many(column, threads=threads)
        assert numbers.dtype == np.int32 and (numbers == expected).all()
    assert (fib.lookup_many(Column(column)) == expected).all()
    texts = np.array(["1.1.1.1", None, "129.1.1.1"], dtype=object)
    assert fib.lookup_many(Column(texts)).tolist() == [0, -1, 1]
    assert fib.lookup_many(texts, objects=True, default="x") == [1, "x", 2]
    assert fib.lookup_many([]).tolist() == [] and fib.lookup_many([], objects=True) == []


BAD_KEYS = [
    ("10.0.0", ValueError, "\"10.0.0\" is not an IP address"),
    ("", ValueError, "\"\" is not an IP address"),
    ("fe80::1%eth0", ValueError, "\"fe80::1%eth0\" is not an IP address"),
    ("10.0.0.0/33", ValueError, "\"10.0.0.0/33\" is not a prefix: its length is more than 32"),
    ("::/129", ValueError, "\"::/129\" is not a prefix: its length is more than 128"),
    ("10/8", ValueError, "\"10/8\" is not a prefix: it has no address"),
    ("10.0.0.0/x", ValueError, "\"10.0.0.0/x\" is not a prefix: its length is not a number"),
    ("10.0.0.1/8", ValueError, "10.0.0.1/8 has bits set after its length; 10.0.0.0/8 may be meant"),
    (-1, ValueError, "-1 is not an IP address: an integer has 32 or 128 bits, and no sign"),
    (2**128, ValueError, "is not an IP address: an integer has 32 or 128 bits, and no sign"),
    (b"abc", ValueError, "3 bytes are not a packed IP address: it has 4 or 16"),
    (
        ipaddress.ip_address("fe80::1%eth0"),
        ValueError,
        "IPv6Address('fe80::1%eth0') has a scope, which no route has",
    ),
    (
        1.5,
        TypeError,
        "an address or a prefix is a str, an int, bytes or an object of ipaddress, not float",
    ),
    (True, TypeError, "not bool"),
    (None, TypeError, "not NoneType"),
]


@pytest.mark.parametrize("key, error, text", BAD_KEYS, ids=[repr(bad[0]) for bad in BAD_KEYS])
def test_bad_keys_are_errors_that_say_why(key, error, text):
    fib = Fib({"10.0.0.0/8": 1})
    asked = [
        lambda: fib[key],
        lambda: key in fib,
        lambda: fib.get(key),
        lambda: fib.exact(key),
        lambda: fib.lookup(key),
        lambda: fib.insert(key, 1),
        lambda: fib.__setitem__(key, 1),
        lambda: fib.__delitem__(key),
        lambda: fib.remove(key),
        lambda: fib.pop(key, 1),
        lambda: fib.setdefault(key),
        lambda: fib.update([("11.0.0.0/8", 2), (key, 1)]),
        lambda: fib.parents(key),
        lambda: fib.children(key),
        lambda: fib.covered(key),
        lambda: Fib({key: 1}),
    ]
    for ask in asked:
        with pytest.raises(error) as caught:
            ask()
        assert text in str(caught.value)
    if key is not None:
        with pytest.raises(error) as caught:
            fib.lookup_many(["10.0.0.1", key])
        assert str(caught.value).startswith("address 1: ") and text in str(caught.value)
    assert list(fib.items()) == [("10.0.0.0/8", 1)]
    fib.verify()


BAD_BATCHES = [
    ("10.0.0.1", TypeError, "many addresses are an array or an iterable, not str; [] looks up one"),
    (b"abcd", TypeError, "many addresses are an array or an iterable, not bytes"),
    (7, TypeError, "many addresses are an array or an iterable, not int"),
    (np.zeros(3), TypeError, "this one has the format \"d\" and the shape [3]"),
    (np.zeros((3, 5), np.uint8), TypeError, "the format \"B\" and the shape [3, 5]"),
    (np.zeros((3, 4), np.uint32), TypeError, "and the shape [3, 4]"),
    (np.zeros(3, ">u4"), TypeError, "the format \">I\""),
    (np.array([1, 2**32], np.uint64), ValueError, "address 1: 4294967296 is not an IPv4 address"),
    (np.array([-5]), ValueError, "address 0: -5 is not an IPv4 address, a number from 0 to 2**32"),
    (["10.0.0.0/8"], ValueError, "address 0: 10.0.0.0/8 is a prefix, and an address is wanted"),
]


@pytest.mark.parametrize("batch, error, text", BAD_BATCHES, ids=range(len(BAD_BATCHES)))
def test_bad_batches_are_errors_that_say_why(batch, error, text):
    with pytest.raises(error) as caught:
        Fib().lookup_many(batch)
    assert text in str(caught.value)


def test_other_errors_say_why():
    fib = Fib()
    with pytest.raises(KeyError, match="10.0.0.1"):
        fib["10.0.0.1"]
    with pytest.raises(KeyError, match="10.0.0.0/8"):
        fib.pop("10.0.0.0/8")
    with pytest.raises(TypeError, match=r"pop\(\) takes one or two arguments, and 3 were given"):
        fib.pop("10.0.0.0/8", 1, 2)
    with pytest.raises(TypeError, match="items are a mapping or an iterable of pairs, not int"):
        Fib(5)
    with pytest.raises(TypeError, match="item 1 is no pair, but of int"):
        Fib([("10.0.0.0/8", 1), 5])
    with pytest.raises(ValueError, match="item 0 has 1 of two parts"):
        Fib([("10.0.0.0/8",)])
    with pytest.raises(ValueError, match="item 0 has more than two parts"):
        Fib(["10.0.0.0/8"])
    with pytest.raises(ValueError, match="root_bits is 6, 12, 18 or 24, not 7"):
        Fib(root_bits=7)
    with pytest.raises(ValueError, match="not the state of a pickled Fib"):
        Fib().__setstate__((b"\x04\x08", []))
    with pytest.raises(ValueError, match="not the state of a pickled Fib"):
        Fib().__setstate__((b"\x04\x08\x0a\0\0\0\1\0\0\0", []))
    with pytest.raises(TypeError, match="unhashable"):
        hash(fib)


def test_iterators_are_snapshots_and_keep_their_objects():
    class Hop:
        pass

    hop = Hop()
    known = weakref.ref(hop)
    fib = Fib({"10.0.0.0/8": hop, "11.0.0.0/8": 2})
    items = iter(fib.items())
    del fib["10.0.0.0/8"], hop
    fib["10.0.0.0/8"] = 3  # would get the number of the one that has gone
    assert known() is not None
    (first, value), (second, other) = items
    assert (first, second, other) == ("10.0.0.0/8", "11.0.0.0/8", 2) and value is known()
    assert list(items) == []
    del value
    fib["12.0.0.0/8"] = 4
    assert known() is None
    assert iter(fib.items()).__length_hint__() == 3


def test_objects_are_let_go():
    class Hop:
        pass

    fib = Fib()
    hops = [Hop() for _ in range(3)]
    known = [weakref.ref(hop) for hop in hops]
    for index, hop in enumerate(hops):
        fib[f"10.{index}.0.0/16"] = hop
        fib[f"11.{index}.0.0/16"] = hop
    del hop, hops
    assert all(ref() is not None for ref in known)
    del fib["10.0.0.0/16"]
    assert known[0]() is not None
    del fib["11.0.0.0/16"]
    assert known[0]() is None
    fib["10.1.0.0/16"] = fib["11.1.0.0/16"] = 0
    assert known[1]() is None
    fib.clear()
    assert known[2]() is None


def test_the_garbage_collector_finds_cycles():
    class Hop:
        pass

    hop = Hop()
    hop.fib = Fib({"10.0.0.0/8": hop})
    hop.items, hop.view = iter(hop.fib.items()), hop.fib.values()
    next(hop.items)
    known = weakref.ref(hop)
    del hop
    gc.collect()
    assert known() is None


def test_values_with_code_of_users_run_it_outside_of_the_table():
    fib = Fib()

    class Meddler:
        """Uses the table while it is compared and dropped."""

        def __eq__(self, other):
            fib["12.0.0.0/8"] = 1
            return self is other

        def __hash__(self):
            return len(fib)

        def __del__(self):
            fib["13.0.0.0/8"] = len(fib)

    fib["10.0.0.0/8"] = Meddler()
    fib["11.0.0.0/8"] = Meddler()
    assert fib == fib.copy()
    fib["10.0.0.0/8"] = 1
    assert "13.0.0.0/8" in fib
    fib.update({"11.0.0.0/8": 1})
    del fib
    gc.collect()


def test_equal_plain_values_are_kept_once():
    fib = Fib()
    for index in range(100):
        fib[f"10.{index}.0.0/16"] = "a next hop " + str(index % 2)
        fib[f"11.{index}.0.0/16"] = 10**20 + index % 2
    assert len([hop for hop in fib.next_hops() if hop is not None]) == 4
    # Equal, but of other types.
    fib.update({"1.0.0.0/8": 1, "2.0.0.0/8": True, "3.0.0.0/8": 1.0, "4.0.0.0/8": b"1"})
    kinds = collections.Counter(type(hop) for hop in fib.next_hops())
    assert kinds == {str: 2, int: 3, bool: 1, float: 1, bytes: 1}
    assert fib["2.0.0.1"] is True and type(fib["3.0.0.1"]) is float


def test_pickles_keep_what_is_shared_and_cycles():
    shared = ["a"]
    fib = Fib({"10.0.0.0/8": shared, "::/0": shared}, root_bits=6)
    fib["11.0.0.0/8"] = fib
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(fib, protocol))
        assert again["10.0.0.1"] is again["::1"] and again["10.0.0.1"] == shared
        assert again["11.0.0.1"] is again
        again.verify()
    other = copy.deepcopy(fib)
    assert other["10.0.0.1"] == shared and other["10.0.0.1"] is not shared
    assert copy.copy(fib)["10.0.0.1"] is shared


def test_memory_and_repr():
    fib = Fib({"10.0.0.0/8": 1, "::/0": 2}, root_bits=12)
    memory = fib.memory()
    assert memory["total"] == memory["v4"] + memory["v6"] + memory["objects"] < 300_000
    assert repr(fib) == "<sapwood.Fib: 1 IPv4 and 1 IPv6 prefixes, 2 different values>"
    assert fib.__sizeof__() >= memory["total"]
    # A table takes the pages of its root as it uses them.
    assert Fib(root_bits=6).memory()["total"] < Fib().memory()["total"] < 1 << 20
    prefixes = {f"{n}.0.0.0/8": 1 for n in range(256)}
    assert Fib(prefixes).memory()["total"] > 1 << 20 > Fib(prefixes, root_bits=6).memory()["total"]
