"""What stands for an address, a key, an index or a value, and what does not, although it looks so."""

import enum
import ipaddress
from array import array

import numpy as np
import pytest

import sapwood
from sapwood import Fib, FibFile, NameFile, NameMap, RangeMap, unmapped

TEN = 0x0A000001  # 10.0.0.1


class Number(enum.IntEnum):
    TEN = TEN


class Indexed:
    """An integer by its method, as numpy's scalars are."""

    def __init__(self, number):
        self.number = number

    def __index__(self):
        return self.number


class Int(int):
    pass


class Text(str):
    pass


class Packed(bytes):
    pass


def test_interfaces_are_read_as_their_texts_are():
    """The prefix of an interface is what is meant, and bits after its length are refused."""
    fib = Fib({"10.0.0.0/8": 1, "fe80::/10": 2})
    for text in ("10.0.0.1/24", "fe80::1/64"):
        interface = ipaddress.ip_interface(text)
        asked = [
            lambda key: fib.__setitem__(key, 1),
            lambda key: fib.insert(key, 1),
            lambda key: fib.update({key: 1}),
            lambda key: Fib({key: 1}),
            lambda key: Fib.fromkeys([key]),
            lambda key: fib.setdefault(key, 1),
            lambda key: fib[key],
            lambda key: fib.get(key),
            lambda key: fib.lookup(key),
            lambda key: fib.exact(key),
            lambda key: key in fib,
            lambda key: fib.pop(key, None),
            lambda key: fib.parents(key),
            lambda key: fib.covered(key),
            lambda key: fib.lookup_many([key]),
        ]
        for ask in asked:
            refused = []
            for key in (text, interface):
                with pytest.raises(ValueError, match="has bits set after its length; .* may be meant") as caught:
                    ask(key)
                refused.append(str(caught.value))
            assert refused[0] == refused[1]
        assert interface not in fib.keys()
    assert list(fib.items()) == [("10.0.0.0/8", 1), ("fe80::/10", 2)]
    fib[ipaddress.ip_interface("10.1.0.0/16")] = 3
    fib[ipaddress.ip_interface("10.1.2.3")] = 4
    assert fib["10.1.0.0/16"] == fib[ipaddress.ip_interface("10.1.0.0/16")] == 3
    assert fib["10.1.2.3/32"] == fib[ipaddress.ip_interface("10.1.2.3/32")] == 4
    assert fib.get(ipaddress.ip_interface("10.1.2.4/32")) is None  # a prefix, as its text
    with pytest.raises(ValueError, match="10.1.0.0/16 is a prefix, and an address is wanted"):
        fib.lookup_many([ipaddress.ip_interface("10.1.0.0/16")])
    with pytest.raises(ValueError, match="has a scope, which no route has"):
        fib[ipaddress.ip_interface("fe80::1%eth0/128")]


@pytest.mark.parametrize(
    "key",
    [
        np.uint32(TEN),
        np.int64(TEN),
        np.uint64(TEN),
        np.array(TEN),
        np.str_("10.0.0.1"),
        np.bytes_(b"\x0a\0\0\1"),
        Number.TEN,
        Int(TEN),
        Indexed(TEN),
        Text("10.0.0.1"),
        Packed(b"\x0a\0\0\1"),
    ],
    ids=repr,
)
def test_scalars_are_the_addresses_that_they_stand_for(key):
    fib = Fib({"10.0.0.0/8": 1})
    assert fib[key] == 1 and key in fib and fib.lookup(key) == ("10.0.0.0/8", 1)
    assert fib.lookup_many([key]).tolist() == [0]
    fib[key] = 2
    assert fib.exact("10.0.0.1") == 2 and fib.pop(key) == 2
    assert unmapped(key) is key


@pytest.mark.parametrize("number", [np.uint8(7), np.int64(7), np.array(7), Int(7), Indexed(7)], ids=repr)
def test_scalars_are_the_indices_that_they_stand_for(number):
    map = RangeMap()
    map[number : np.uint64(9)] = "a"
    assert map[number] == "a" and number in map and map.entry(number) == (range(7, 9), "a")
    assert list(map.items(number, number + 1 if isinstance(number, np.ndarray) else 8)) == [(range(7, 9), "a")]
    assert map.lookup_many([number]).tolist() == [0]
    assert map.alloc(number, "b", near=number, start=number) == range(9, 16)
    assert map.remove(number) == (range(7, 9), "a")


def test_scalars_are_keys_of_names():
    map = NameMap({np.str_("a"): 1, Text("b"): 2})
    assert map == {"a": 1, "b": 2} and map[np.str_("b")] == 2
    assert all(type(key) is str for key in map)
    assert all(type(key) is bytes for key in NameMap({np.bytes_(b"a"): 1, Packed(b"b"): 2}, key=bytes))


def test_scalars_are_values_of_files_and_live_maps(tmp_path):
    numbers = {"a": np.uint64(2**64 - 1), "b": np.int8(1), "c": Number.TEN, "d": Indexed(5), "e": 6}
    expected = {"a": 2**64 - 1, "b": 1, "c": TEN, "d": 5, "e": 6}
    NameMap(numbers).save(tmp_path / "names")
    assert NameFile.open(tmp_path / "names") == expected
    NameMap({"a": np.str_("x"), "b": Text("y")}).save(tmp_path / "texts")
    assert NameFile.open(tmp_path / "texts", text=True) == {"a": "x", "b": "y"}
    NameMap({"a": np.bytes_(b"x")}).save(tmp_path / "bytes")
    assert NameFile.open(tmp_path / "bytes") == {"a": b"x"}
    Fib({"10.0.0.0/8": np.uint32(7), "::/0": np.int64(8)}).save(tmp_path / "fib")
    assert FibFile.open(tmp_path / "fib") == Fib.load(tmp_path / "fib") == {"10.0.0.0/8": 7, "::/0": 8}
    RangeMap({range(5): np.uint64(2**64 - 1)}).save(tmp_path / "ranges")
    assert RangeMap.load(tmp_path / "ranges") == {range(5): 2**64 - 1}
    if hasattr(sapwood, "LiveFib"):
        names = sapwood.LiveNames.create(tmp_path / "1")
        names.update(numbers)
        assert names == expected
        routes = sapwood.LiveFib.create(tmp_path / "2", root_bits=6)
        routes["10.0.0.0/8"] = np.uint32(7)
        ranges = sapwood.LiveRanges.create(tmp_path / "3")
        ranges[np.uint64(5)] = np.uint64(2**64 - 1)
        assert routes == {"10.0.0.0/8": 7} and ranges == {range(5, 6): 2**64 - 1}


def test_a_bool_is_no_number(tmp_path):
    fib, map = Fib({"0.0.0.0/0": 1}), RangeMap({range(10): 1})
    for flag in (True, False, np.True_):
        for ask in (
            lambda: fib[flag],
            lambda: map[flag],
            lambda: map.__setitem__(flag, 1),
            lambda: map.__setitem__(slice(flag, 5), 1),
            lambda: map.lookup_many([flag]),
            lambda: map.lookup_many(np.array([flag])),
            lambda: fib.lookup_many([flag]),
            lambda: fib.lookup_many(np.array([flag])),
        ):
            with pytest.raises(TypeError, match="bool|'\\?'|\"\\?\""):
                ask()
        for map_of in (lambda v: NameMap({"a": 1, "b": v}), lambda v: Fib({"::/0": v}), lambda v: RangeMap({range(5): v})):
            with pytest.raises(ValueError, match="cannot be saved"):
                map_of(flag).save(tmp_path / "none")
    assert list(tmp_path.iterdir()) == []
    if hasattr(sapwood, "LiveFib"):
        with pytest.raises(ValueError, match="True is no value of this map"):
            sapwood.LiveNames.create(tmp_path / "map")["a"] = True


NOTHING = [
    None,
    float("nan"),
    np.float64("nan"),
    np.float32("nan"),
    np.ma.masked,
]


def nulls():
    pandas, pyarrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    yield from NOTHING
    yield from (pandas.NA, pandas.NaT, pyarrow.scalar(None), pyarrow.scalar(None, pyarrow.uint32()))


def test_what_is_missing_finds_nothing_in_batches_and_is_no_key():
    fib, names, ranges = Fib({"::/0": 1, "0.0.0.0/0": 1}), NameMap({"nan": 1}), RangeMap({range(10): 1})
    for null in nulls():
        assert fib.lookup_many([null, "10.0.0.1"]).tolist() == [-1, 0]
        assert fib.lookup_many(["10.0.0.1", null], objects=True) == [1, None]
        assert fib.lookup_many([null], objects=True, default="x") == ["x"]
        assert ranges.lookup_many([null, 5]).tolist() == [-1, 0]
        for ask in (
            lambda: fib[null],
            lambda: fib.get(null),
            lambda: null in fib,
            lambda: fib.__setitem__(null, 1),
            lambda: Fib({null: 1}) if null.__hash__ else fib[null],
            lambda: names[null],
            lambda: names.__setitem__(null, 1),
            lambda: ranges[null],
            lambda: ranges.__setitem__(null, 1),
            lambda: null in ranges,
        ):
            with pytest.raises(TypeError):
                ask()
    # A number below a mask is none.
    hidden = np.ma.masked_array(5, mask=True)
    for ask in (lambda: ranges[hidden], lambda: fib[hidden]):
        with pytest.raises(TypeError, match="not MaskedArray"):
            ask()


def columns():
    """Columns of 10.0.0.1, a null, and 1.1.1.1, of each library and type."""
    pandas, polars, pyarrow = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    numbers, texts = [TEN, None, 0x01010101], ["10.0.0.1", None, "1.1.1.1"]
    packed = [b"\x0a\0\0\1", None, b"\1\1\1\1"]
    for dtype in ("Int64", "UInt32", "UInt64", None, object, pandas.ArrowDtype(pyarrow.uint32())):
        yield pandas.Series(numbers, dtype=dtype)
    for dtype in (None, "string", "category", object, pandas.ArrowDtype(pyarrow.string())):
        yield pandas.Series(texts, dtype=dtype)
    yield pandas.Index(texts)
    yield pandas.array(numbers, dtype="UInt32")
    for dtype in (polars.UInt32, polars.UInt64, polars.Int64):
        yield polars.Series(numbers, dtype=dtype)
    yield from (polars.Series(texts), polars.Series(packed))
    yield polars.concat([polars.Series(numbers[:2], dtype=polars.UInt32), polars.Series(numbers[2:], dtype=polars.UInt32)], rechunk=False)
    for kind in (pyarrow.uint32(), pyarrow.uint64(), pyarrow.int64()):
        yield pyarrow.array(numbers, type=kind)
        yield pyarrow.chunked_array([numbers[:1], numbers[1:]], type=kind)
    for kind in (pyarrow.string(), pyarrow.large_string(), pyarrow.string_view()):
        yield pyarrow.array(texts, type=kind)
    yield pyarrow.array(texts).dictionary_encode()
    yield pyarrow.array(packed, type=pyarrow.binary(4))
    yield list(pyarrow.array(numbers, type=pyarrow.uint32()))
    yield np.ma.masked_array(np.array([TEN, TEN, 0x01010101], np.uint32), [False, True, False])
    yield np.ma.masked_array(np.array(["10.0.0.1", "10.0.0.1", "1.1.1.1"]), [False, True, False])
    yield np.array([TEN, None, 0x01010101], dtype=object)
    yield np.array(["10.0.0.1", np.nan, "1.1.1.1"], dtype=object)
    yield np.array(["10.0.0.1", None, "1.1.1.1"], dtype=np.dtypes.StringDType(na_object=None))


def test_nulls_of_columns_are_no_addresses(tmp_path):
    fib = Fib({"0.0.0.0/0": "all", "10.0.0.0/8": "ten"})
    number = {hop: at for at, hop in enumerate(fib.next_hops())}
    Fib({"0.0.0.0/0": 8, "10.0.0.0/8": 9}).save(tmp_path / "fib")
    files = [FibFile.open(tmp_path / "fib")]
    if hasattr(sapwood, "LiveFib"):
        files.append(sapwood.LiveFib.create(tmp_path / "live", root_bits=6))
        files[1].update({"0.0.0.0/0": 8, "10.0.0.0/8": 9})
    for column in columns():
        assert fib.lookup_many(column, objects=True) == ["ten", None, "all"], repr(column)
        assert fib.lookup_many(column).tolist() == [number["ten"], -1, number["all"]]
        for file in files:
            assert file.lookup_many(column).tolist() == [9, -1, 8]


def test_nulls_of_columns_are_no_indices_and_large_ones_stay_exact():
    pandas, polars, pyarrow = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    large = 2**60 + 1
    map = RangeMap({range(large, large + 1): "large", range(0, 5): "small"})
    numbers = [large, None, 3]
    for column in (
        numbers,
        polars.Series(numbers, dtype=polars.UInt64),
        polars.Series(numbers, dtype=polars.Int64),
        pyarrow.array(numbers, type=pyarrow.uint64()),
        pyarrow.chunked_array([numbers[:1], numbers[1:]], type=pyarrow.int64()),
        pandas.Series(numbers, dtype="UInt64"),
        pandas.Series(numbers, dtype=object),
        np.ma.masked_array(np.array([large, 3, 3], np.uint64), [False, True, False]),
    ):
        found = map.lookup_many(column).tolist()
        values = map.values_by_number()
        assert [values[n] if n >= 0 else None for n in found] == ["large", None, "small"], repr(column)
    # pandas made floats of integers, and nobody knows any more which ones they were.
    with pytest.raises(ValueError, match=r"1.15\d*e\+18 may have been an integer, and was rounded"):
        map.lookup_many(pandas.Series(numbers))
    assert map.lookup_many(pandas.Series([3, None])).tolist() == [map.values_by_number().index("small"), -1]
    with pytest.raises(ValueError, match="address 0: 1.5 may have been an integer, and was rounded"):
        Fib().lookup_many(pandas.Series([1.5, None]))


def test_arrays_that_are_no_addresses_say_why():
    fib = Fib({"0.0.0.0/0": 1})
    wanted = "an array of addresses has the dtype uint32"
    for column in (
        np.zeros(2, [("a", "u4")]),
        np.zeros(2, ">u4"),
        np.zeros(2, np.int32),
        np.zeros(2, np.uint16),
        np.zeros(2, np.float64),
        np.zeros(2, np.float32),
        np.zeros(2, bool),
        np.array([b"\x0a\0\0\0"]),  # numpy takes the zeros at the end away
        np.zeros((1, 2, 4), np.uint8),
        np.zeros((2, 3), np.uint32),
        memoryview(bytes(4)),
        bytearray(4),
    ):
        with pytest.raises(TypeError, match=wanted):
            fib.lookup_many(column)
    for column in (np.array(TEN, np.uint32), np.array("10.0.0.1", object), np.uint32(TEN), 5):
        with pytest.raises(TypeError, match="dtype|many addresses are an array or an iterable, not"):
            fib.lookup_many(column)
    with pytest.raises(TypeError, match="a masked array of addresses has one dimension"):
        fib.lookup_many(np.ma.masked_array(np.zeros((2, 4), np.uint8), True))
    with pytest.raises(TypeError, match="address 0: .* not datetime64"):
        fib.lookup_many(np.array(["2020-01-01"], "datetime64[s]"))
    for key in (bytearray(4), memoryview(bytes(4)), array("I", [1]), np.array([1, 2]), np.uint32, {}, 1 + 0j):
        with pytest.raises(TypeError, match="an address or a prefix is a str, an int, bytes or"):
            fib[key]
    for key in (bytearray(b"a"), memoryview(b"a")):
        with pytest.raises(TypeError, match="a key of this map is bytes, not"):
            NameMap(key=bytes)[key] = 1


def test_arrays_with_strides_and_orders_are_read_as_numpy_reads_them():
    fib = Fib({"10.0.0.0/8": 0, "1.0.0.0/8": 1})
    numbers = np.array([TEN, 0x01010101, 5, TEN], np.uint32)
    expected = fib.lookup_many(numbers).tolist()
    octets = np.array([[10, 0, 0, 1], [1, 1, 1, 1], [0, 0, 0, 5], [10, 0, 0, 1]], np.uint8)
    for column in (numbers[::-1][::-1], np.repeat(numbers, 3)[::3], np.asfortranarray(octets), octets):
        assert fib.lookup_many(column).tolist() == expected
    assert fib.lookup_many(numbers[::-1]).tolist() == expected[::-1]
    assert fib.lookup_many(octets[:, ::-1][:, ::-1]).tolist() == expected
    read_only = numbers.copy()
    read_only.flags.writeable = False
    assert fib.lookup_many(read_only).tolist() == expected


def test_an_array_that_changes_meanwhile_was_read_before():
    """A batch copies its addresses before it lets other threads run."""
    import threading

    fib = Fib({"10.0.0.0/8": 1})
    buffer = array("I", [TEN]) * 500_000
    done = threading.Event()

    def spoil():
        while not done.is_set():
            for at in range(0, len(buffer), 1000):
                buffer[at] = 1
                buffer[at] = TEN

    thread = threading.Thread(target=spoil, daemon=True)
    thread.start()
    found = [fib.lookup_many(buffer) for _ in range(5)]
    done.set()
    thread.join()
    assert all(set(numbers.tolist()) <= {0, -1} for numbers in found)
    assert len(buffer) == 500_000


def test_mapped_addresses_find_ipv4_where_it_is_asked_for(tmp_path):
    fib = Fib({"192.0.2.0/24": 7, "2001:db8::/32": 8})
    mapped = "::ffff:192.0.2.1"
    forms = [
        mapped,
        ipaddress.ip_address(mapped),
        int(ipaddress.ip_address(mapped)),
        ipaddress.ip_address(mapped).packed,
        np.str_(mapped),
    ]
    for form in forms:
        # Not silently otherwise.
        assert form not in fib and fib.get(form) is None and fib.lookup(form) is None
        assert fib.lookup_many([form]).tolist() == [-1]
        found = unmapped(form)
        assert found == ipaddress.IPv4Address("192.0.2.1") and fib[found] == 7
        assert fib.lookup_many([form], mapped=True, objects=True) == [7]
    for other in ("192.0.2.1", "2001:db8::1", "::1", "::192.0.2.1", "::ffff:0:0/96", "10.0.0.0/8", 5):
        assert unmapped(other) is other
    for bad in ("x", None, 1.5, "::ffff:192.0.2.256"):
        with pytest.raises((TypeError, ValueError)):
            unmapped(bad)
    fib.save(tmp_path / "fib")
    tables = [FibFile.open(tmp_path / "fib")]
    if hasattr(sapwood, "LiveFib"):
        tables.append(sapwood.LiveFib.create(tmp_path / "live", root_bits=6))
        tables[1].update(fib)
    sixes = np.frombuffer(b"".join(ipaddress.ip_address(a).packed for a in (mapped, "2001:db8::1", "::1")), np.uint8)
    column = [mapped, "192.0.2.2", "2001:db8::1", None]
    for table in tables:
        assert table.lookup_many(column).tolist() == [-1, 7, 8, -1]
        assert table.lookup_many(column, mapped=True).tolist() == [7, 7, 8, -1]
        assert table.lookup_many(sixes.reshape(3, 16)).tolist() == [-1, 8, -1]
        assert table.lookup_many(sixes.reshape(3, 16), mapped=True).tolist() == [7, 8, -1]
        assert table.lookup_many(np.array([0xC0000201], np.uint32), mapped=True).tolist() == [7]
    # A table of mapped prefixes is one, and is found when nothing else is asked for.
    fib["::ffff:192.0.2.0/120"] = 9
    assert fib[mapped] == 9 and fib[unmapped(mapped)] == 7


def test_numbers_out_of_range_say_so():
    fib, map = Fib(), RangeMap()
    for number in (-1, 2**128, np.int64(-1), Indexed(-1), Int(2**128)):
        with pytest.raises(ValueError, match="is not an IP address: an integer has 32 or 128 bits"):
            fib[number]
    for number in (-1, 2**64, np.int64(-1), Indexed(2**70)):
        with pytest.raises(IndexError, match=r"is not from 0 to 2\*\*64 - 1"):
            map[number]

    class Fails:
        def __index__(self):
            raise RuntimeError("no number today")

    class Lies:
        def __index__(self):
            return "5"

    for ask in (lambda: fib[Fails()], lambda: map[Fails()]):
        with pytest.raises(RuntimeError, match="no number today"):
            ask()
    for ask in (lambda: fib[Lies()], lambda: map[Lies()], lambda: map[np.array([1, 2])]):
        with pytest.raises(TypeError):
            ask()
