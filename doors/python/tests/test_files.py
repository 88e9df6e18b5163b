"""Tables in files: saved, opened, read from texts and MRT dumps; and what is wrong with them."""

import bz2
import gzip
import ipaddress
import pickle
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_fib import nets

from sapwood import Fib, FibFile, NameFile, NameMap

ROUTES = {"10.0.0.0/8": 64500, "10.1.2.0/24": 2**32 - 1, "0.0.0.0/0": 0, "2001:db8::/32": 7}


@given(st.dictionaries(nets, st.integers(0, 2**32 - 1) | st.just(5)))
def test_numbers_come_back(tmp_path_factory, routes):
    fib = Fib(routes, root_bits=6)
    check_file(fib, tmp_path_factory.mktemp("fib") / "numbers")


@given(st.dictionaries(nets, st.text(max_size=5)))
def test_texts_come_back(tmp_path_factory, routes):
    routes = {net: "x" + text for net, text in routes.items()}
    fib = Fib(routes, root_bits=6)
    file = check_file(fib, tmp_path_factory.mktemp("fib") / "texts")
    assert set(file.names()) >= set(routes.values())


def check_file(fib, path):
    fib.save(path)
    again = Fib.load(path)
    again.verify()
    assert again == fib
    for file in (FibFile.open(path), FibFile.open(str(path), verify=False)):
        assert len(file) == len(fib)
        assert list(file) == list(fib) and list(file.items()) == list(fib.items())
        assert file == fib and file.items() == fib.items()
        file = pickle.loads(pickle.dumps(file))
        for prefix in fib:
            net = ipaddress.ip_network(prefix)
            assert file[net] == fib[net] and net in file
            for key in (net, net[0], net[-1], net.supernet() if net.prefixlen else net):
                assert file.lookup(key) == fib.lookup(key)
                assert file.get(key, "none") == fib.get(key, "none")
        hosts = [ipaddress.ip_network(prefix)[-1] for prefix in fib] + ["1.2.3.4", "::1"]
        answers = file.lookup_many(hosts)
        assert answers.dtype == np.int64
        names = file.names()
        found = [names[n] if names and n >= 0 else n for n in answers.tolist()]
        assert found == [fib.get(host, -1) for host in hosts]
    return file


def test_batches_of_a_file_take_all_kinds_of_arrays(tmp_path):
    path = tmp_path / "routes"
    Fib(ROUTES).save(path)
    file = FibFile.open(path)
    numbers = np.array([0x0A010203, 1, 0x0A000001], np.uint32)
    assert file.lookup_many(numbers, threads=2).tolist() == [2**32 - 1, 0, 64500]
    packed = ipaddress.ip_address("2001:db8::1").packed
    sixes = np.frombuffer(packed + bytes(16), np.uint8).reshape(2, 16)
    assert file.lookup_many(sixes).tolist() == [7, -1]
    assert repr(file) == f'<sapwood.FibFile "{path}": 4 prefixes>'
    with pytest.raises(KeyError, match="::1"):
        file["::1"]


def test_saving_again_replaces_the_file(tmp_path):
    fib, names = tmp_path / "fib", tmp_path / "names"
    Fib({"10.0.0.0/8": 1}).save(fib)
    NameMap({"a": 1}).save(names)
    open_fib, open_names = FibFile.open(fib), NameFile.open(names)
    Fib({"10.0.0.0/8": 2}).save(fib)
    NameMap({"a": 2}).save(names)
    assert (open_fib["10.0.0.1"], open_names["a"]) == (1, 1)
    assert (FibFile.open(fib)["10.0.0.1"], NameFile.open(names)["a"]) == (2, 2)


def test_what_cannot_be_saved(tmp_path):
    wanted = r"cannot be saved: a file has values that are all int from 0 to 2\*\*32 - 1, or all str"
    for values in ([1, "a"], ["a", 1], [-1, 1], [2**32, 1], [None, 1], [1.5, 1], [b"a", 1]):
        fib = Fib({"10.0.0.0/8": values[0], "11.0.0.0/8": values[1]})
        with pytest.raises(ValueError, match=wanted):
            fib.save(tmp_path / "none")
    with pytest.raises(FileNotFoundError, match="cannot save .*no/such/folder"):
        Fib(ROUTES).save(tmp_path / "no/such/folder")
    assert list(tmp_path.iterdir()) == []


def test_files_that_are_none(tmp_path):
    with pytest.raises(FileNotFoundError, match="cannot open .*missing"):
        FibFile.open(tmp_path / "missing")
    with pytest.raises(FileNotFoundError, match="cannot open .*missing"):
        Fib.load(tmp_path / "missing")
    path = tmp_path / "routes"
    Fib(ROUTES).save(path)
    whole = path.read_bytes()
    for damaged in (b"", b"text", whole[:-1], whole[:100] + b"x" + whole[101:], whole[:-4] + b"abcd"):
        path.write_bytes(damaged)
        for open in (FibFile.open, Fib.load):
            with pytest.raises(ValueError, match="cannot open .*routes: "):
                open(path)
    with pytest.raises(ValueError, match="not a regular file"):
        FibFile.open(tmp_path)


def test_texts_are_read(tmp_path):
    text = "# routes\n10.0.0.0/8 192.0.2.1\n10.1.2.3 dev eth0 # a host\n::/0\n"
    expected = {"10.0.0.0/8": "192.0.2.1", "10.1.2.3/32": "dev eth0", "::/0": ""}
    for name, pack in (("plain", bytes), ("gz", gzip.compress), ("bz2", bz2.compress)):
        path = tmp_path / name
        path.write_bytes(pack(text.encode()))
        assert dict(Fib.from_text(path).items()) == expected
    path.write_text("10.0.0.0/8 a\n\n10.0.0.1/8 b\n")
    with pytest.raises(ValueError, match=f"{path}: line 3: 10.0.0.1/8 has bits set after its length"):
        Fib.from_text(path)
    assert dict(Fib.from_text(path, truncate=True).items()) == {"10.0.0.0/8": "b"}
    path.write_bytes(peers("192.0.2.1"))
    with pytest.raises(ValueError, match=r"not a text; Fib.from_mrt\(\) reads MRT dumps"):
        Fib.from_text(path)
    path.write_bytes(bytes(20))
    with pytest.raises(ValueError, match="a binary file of a kind that is not known"):
        Fib.from_text(path)
    path.write_text("blackhole 10.9.9.0/24\n10.0.0.0/8 via 192.0.2.1 dev r0 metric 7\n")
    assert dict(Fib.from_text(path).items()) == {
        "10.0.0.0/8": "192.0.2.1",
        "10.9.9.0/24": "blackhole",
    }
    path.write_bytes(gzip.compress(text.encode())[:-9])
    with pytest.raises(OSError, match="cannot read"):
        Fib.from_text(path)
    with pytest.raises(FileNotFoundError, match="cannot read .*missing"):
        Fib.from_text(tmp_path / "missing")


def record(subtype, body):
    return struct.pack(">IHHI", 0, 13, subtype, len(body)) + body


def peers(*addresses):
    body = bytes(4) + struct.pack(">HH", 0, len(addresses))
    for address in addresses:
        body += b"\x02" + bytes(4) + ipaddress.IPv4Address(address).packed + struct.pack(">I", 64999)
    return record(1, body)


def rib(prefix, *entries):
    """A record of a prefix with, for each entry, the peer, the next hop and the path."""
    net = ipaddress.ip_network(prefix)
    length = (net.prefixlen + 7) // 8
    body = bytes(4) + bytes([net.prefixlen]) + net.network_address.packed[:length]
    body += struct.pack(">H", len(entries))
    for peer, hop, path in entries:
        hop = ipaddress.ip_address(hop).packed
        segments = b"".join(
            bytes([kind, len(numbers)]) + struct.pack(f">{len(numbers)}I", *numbers)
            for kind, numbers in path
        )
        attributes = b"\x40\x01\x01\x00" + bytes([0x40, 2, len(segments)]) + segments
        if net.version == 4:
            attributes += b"\x40\x03\x04" + hop
        else:
            attributes += bytes([0x80, 14, 1 + len(hop), len(hop)]) + hop
        body += struct.pack(">HIH", peer, 0, len(attributes)) + attributes
    return record(2 if net.version == 4 else 4, body)


def test_mrt_dumps_are_read(tmp_path):
    path = tmp_path / "rib.bz2"
    sequence, a_set = 2, 1
    dump = peers("192.0.2.1", "192.0.2.2")
    dump += rib(
        "10.0.0.0/8",
        (0, "192.0.2.1", [(sequence, [64500, 64501])]),
        (1, "192.0.2.2", [(sequence, [64502])]),
    )
    dump += rib("10.1.0.0/16", (1, "192.0.2.2", [(sequence, [64503]), (a_set, [1, 2])]))
    dump += rib("2001:db8::/32", (0, "2001:db8::1", [(sequence, [64500, 2**32 - 2])]))
    path.write_bytes(bz2.compress(dump))
    assert dict(Fib.from_mrt(path).items()) == {
        "10.0.0.0/8": "192.0.2.1",
        "10.1.0.0/16": "192.0.2.2",
        "2001:db8::/32": "2001:db8::1",
    }
    assert dict(Fib.from_mrt(path, value="origin").items()) == {
        "10.0.0.0/8": 64501,
        "10.1.0.0/16": None,
        "2001:db8::/32": 2**32 - 2,
    }
    of_peer = Fib.from_mrt(path, value="origin", peer="192.0.2.2")
    assert dict(of_peer.items()) == {"10.0.0.0/8": 64502, "10.1.0.0/16": None}
    with pytest.raises(ValueError, match="the dump has no peer 192.0.2.9; its peers"):
        Fib.from_mrt(path, peer="192.0.2.9")
    with pytest.raises(ValueError, match='value is "next_hop" or "origin", not "x"'):
        Fib.from_mrt(path, value="x")
    path.write_bytes(dump[:-3])
    with pytest.raises(ValueError, match="record 4: at byte .*: the file ends within the record"):
        Fib.from_mrt(path)
    path.write_text("10.0.0.0/8 x\n")
    with pytest.raises(ValueError, match=r"not an MRT dump; Fib.from_text\(\) reads texts"):
        Fib.from_mrt(path)
