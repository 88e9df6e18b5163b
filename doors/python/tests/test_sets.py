"""IpSet against ipaddress; aggregated tables and differences against dicts."""

import copy
import ipaddress
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood import Fib, IpSet, supernet

# A space of few addresses at the ends of each family, so that prefixes meet and touch.
ENDS = {4: [0, 2**32 - 32], 6: [2**32, 2**128 - 32]}
places = st.sampled_from([(version, base) for version in ENDS for base in ENDS[version]])


def network(place, offset, length):
    version, base = place
    size = 32 if version == 4 else 128
    make = ipaddress.IPv4Network if version == 4 else ipaddress.IPv6Network
    return make((base + offset >> length << length, size - length))


nets = st.builds(network, places, st.integers(0, 31), st.integers(0, 5))


def hosts(all):
    return {host for net in all for host in net}


def merged(all):
    found = []
    for version in (4, 6):
        mine = [net for net in all if net.version == version]
        found += [str(net) for net in ipaddress.collapse_addresses(mine)]
    return found


@given(st.lists(nets), st.lists(nets))
def test_sets_are_those_of_ipaddress(one, other):
    a, b = IpSet(one), IpSet(map(str, other))
    of_a, of_b = hosts(one), hosts(other)
    assert list(a) == merged(one) and len(a) == len(merged(one))
    assert a.num_addresses == len(of_a) and bool(a) == bool(of_a)
    for made, method, expected in (
        (a | b, a.union, of_a | of_b),
        (a & b, a.intersection, of_a & of_b),
        (a - b, a.difference, of_a - of_b),
        (a ^ b, a.symmetric_difference, of_a ^ of_b),
    ):
        assert made.num_addresses == len(expected)
        assert made == IpSet(expected) == method(other) == method(b)
    assert (a <= b, a < b, a >= b, a > b, a == b, a != b) == (
        of_a <= of_b,
        of_a < of_b,
        of_a >= of_b,
        of_a > of_b,
        of_a == of_b,
        of_a != of_b,
    )
    assert a.isdisjoint(other) == of_a.isdisjoint(of_b)
    assert a.issubset(other) == (of_a <= of_b) and a.issuperset(b) == (of_a >= of_b)
    for net in one + other:
        assert (net in a) == (set(net) <= of_a)
        assert a.overlaps(net) == (not of_a.isdisjoint(net))
        assert all((host in a) == (host in of_a) for host in net)
    assert ~~a == a and not a & ~a and a | ~a == IpSet(["0.0.0.0/0", "::/0"])
    for again in (IpSet(a), IpSet.parse(str(a)), IpSet.from_ranges(a.ranges()), copy.copy(a)):
        assert again == a and hash(again) == hash(a)
    assert pickle.loads(pickle.dumps(a)) == a
    if len(a) < 6:
        assert eval(repr(a)) == a


def test_sizes_and_texts():
    every = ~IpSet()
    assert every.num_addresses == 2**32 + 2**128
    assert (every - IpSet(["::1"])).num_addresses == 2**32 + 2**128 - 1
    assert repr(IpSet()) == "IpSet()" and not IpSet()
    assert "… 128 prefixes" in repr(IpSet(["::/0"]) - IpSet(["::1"]))
    assert IpSet(Fib({"10.0.0.0/9": 1, "10.128.0.0/9": 2})) == IpSet(["10.0.0.0/8"])
    assert supernet([]) is None and supernet(["10.0.0.0/8", "::/0"]) is None
    assert supernet(["2001:db8::1", "2001:db8::2"]) == "2001:db8::/126"
    assert IpSet(["10.0.0.0/8", "::1"]).supernet() is None
    assert IpSet(["10.0.0.1", "10.0.0.2"]).supernet() == "10.0.0.0/30"


def test_what_is_no_set_is_refused():
    for wrong, error, text in (
        (lambda: IpSet("10.0.0.0/8"), TypeError, "IpSet.parse"),
        (lambda: IpSet(["10.0.0.1/8"]), ValueError, "10.0.0.0/8 may be meant"),
        (lambda: IpSet(7), TypeError, "not iterable"),
        (lambda: IpSet.parse("::1\n10.0.0.9-10.0.0.1"), ValueError, "line 2: 10.0.0.1 is before"),
        (lambda: IpSet.from_ranges([("10.0.0.9", "::1")]), ValueError, "different families"),
        (lambda: IpSet.from_ranges([("10.0.0.9",)]), ValueError, "length 2"),
        (lambda: IpSet() | ["10.0.0.0/8"], TypeError, "unsupported operand"),
        (lambda: IpSet() < 5, TypeError, "not supported"),
        (lambda: "host" in IpSet(), ValueError, "host"),
        (lambda: supernet("10.0.0.0/8"), TypeError, "iterable"),
    ):
        with pytest.raises(error, match=text):
            wrong()
    assert IpSet() != 5


values = st.integers(0, 2) | st.sampled_from(["a", None])


@given(st.dictionaries(nets, values))
def test_aggregated_tables_answer_as_the_whole(table):
    fib = Fib(table, root_bits=6)
    small = fib.aggregated()
    small.verify()
    assert len(small) <= len(fib) and len(small.aggregated()) == len(small)
    for version, bases in ENDS.items():
        make = ipaddress.IPv4Address if version == 4 else ipaddress.IPv6Address
        for base in bases:
            for host in map(make, range(base, base + 32)):
                assert small.get(host, "none") == fib.get(host, "none")
    assert IpSet(small) == IpSet(fib)


@given(st.dictionaries(nets, values), st.dictionaries(nets, values))
def test_differences_are_those_of_dicts(old, new):
    changes = Fib(old).diff(Fib(new), default="absent")
    expected = {
        str(net): (old.get(net, "absent"), new.get(net, "absent"))
        for net in old.keys() | new.keys()
        if old.get(net, "absent") != new.get(net, "absent")
    }
    assert {net: (a, b) for net, a, b in changes} == expected
    table = Fib(old)
    for net, _, value in changes:
        if value == "absent":
            del table[net]
        else:
            table[net] = value
    assert table == Fib(new) and not table.diff(Fib(new))
    order = [list(map(int, (":" in n, ipaddress.ip_network(n)[0]))) for n, _, _ in changes]
    assert order == sorted(order)
