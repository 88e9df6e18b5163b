"""Live maps: one process writes, others read; writers die and are followed; and what is refused."""

import errno
import gc
import multiprocessing
import os
import pickle
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time

import pytest

if sys.platform != "linux":
    pytest.skip("live maps are for Linux", allow_module_level=True)

import numpy as np

from sapwood import (
    Fib,
    LiveFib,
    LiveNames,
    LiveNamesWriter,
    LiveRanges,
    NameMap,
    NameReader,
    NoGapError,
    OccupiedError,
    RangeMap,
)

NAMES = {"org": 1, "example.org": 2, "www.example.org": 2**64 - 1, "*.example.org": 4, "net": 5}


def process(program, *arguments):
    """Another Python process, which says a line when it is ready."""
    started = subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert started.stdout.readline() == "ready\n"
    return started


# Writes commits of a hundred names, all with the same number, as fast as it can.
NAMES_WRITER = """
import sys
from sapwood import LiveNames
path, first, how = sys.argv[1], int(sys.argv[2]), sys.argv[3]
names = getattr(LiveNames, how)(path)
names.update({f"name {n}": first for n in range(100)})
print("ready", flush=True)
number = first
while True:
    number += 1
    names.update({f"name {n}": number for n in range(100)})
    names.update({"more": number}, remove=["name x"])
    print(number, flush=True)
"""

# Reads whole commits until its input ends; says how many different ones it saw, and the last.
NAMES_READER = """
import sys, threading
from sapwood import LiveNames
names = LiveNames.open(sys.argv[1])
print("ready", flush=True)
done = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), done.set()), daemon=True).start()
seen, last = set(), 0
while not done.is_set():
    # A chunk of 64 entries is one read.
    chunk = [value for (key, value), _ in zip(names.prefix("name "), range(64))]
    assert len(chunk) == 64 and len(set(chunk)) == 1, chunk
    assert chunk[0] >= last, (chunk[0], last)
    last = chunk[0]
    assert names["name 7"] >= last
    seen.add(last)
print(len(seen), last, names.generation)
"""


def test_readers_see_whole_commits_of_writers_that_are_killed(tmp_path):
    path = tmp_path / "names"
    writer = process(NAMES_WRITER, path, 1, "create")
    readers = [process(NAMES_READER, path) for _ in range(2)]
    here = LiveNames.open(path)
    returned = 0
    for round in range(3):
        for _ in range(50):
            returned = int(writer.stdout.readline())
        writer.kill()
        # The last line may have been cut off.
        rest = writer.stdout.read().split("\n")[:-1]
        writer.wait()
        returned = int(rest[-1]) if rest else returned
        assert not here.has_writer()
        # No commit that had returned is lost, and at most one more is there.
        assert returned <= here["name 0"] <= returned + 1
        assert returned - here["more"] in (0, -1)
        writer = process(NAMES_WRITER, path, here["name 0"] + 1, "take_over")
        assert here.has_writer() and here.generation == round + 1
    deadline = time.monotonic() + 60
    while here["name 0"] < returned + 20 and time.monotonic() < deadline:
        time.sleep(0.01)
    for reader in readers:
        seen, last, generation = map(int, reader.communicate()[0].split())
        assert reader.returncode == 0
        assert seen > 1 and last >= returned and generation == 3
    writer.kill()
    writer.communicate()
    with LiveNames.take_over(path) as heir:
        heir.verify()
        assert [reader["pid"] for reader in heir.readers()] == [os.getpid()]
        heir.remove_map()
    assert not path.exists()


def compare(live, expected):
    """All reading methods of a live map give the answers of a NameMap."""
    assert isinstance(live, NameReader)
    assert len(live) == len(expected) and bool(live) == bool(len(expected))
    for method in ("keys", "values", "items"):
        assert list(getattr(live, method)()) == list(getattr(expected, method)())
        backwards = reversed(getattr(live, method)())
        assert list(backwards) == list(reversed(getattr(expected, method)()))
    assert list(live) == list(expected) and list(reversed(live)) == list(reversed(expected))
    assert live.first() == expected.first() and live.last() == expected.last()
    asked = [*expected, "", "a", "example.org.", "host.example.org", "zz"]
    for name in asked:
        assert live.get(name) == expected.get(name) and (name in live) == (name in expected)
        assert live.get(name, "none") == expected.get(name, "none")
        for method in ("predecessor", "successor", "longest_prefix", "ancestors"):
            assert getattr(live, method)(name) == getattr(expected, method)(name), (method, name)
        assert list(live.prefix(name)) == list(expected.prefix(name))
        assert list(live.range(name)) == list(expected.range(name))
        assert list(live.range(None, name)) == list(expected.range(None, name))


def and_pickled(*maps):
    """Readers, and what their pickles make."""
    return (*maps, *(pickle.loads(pickle.dumps(map)) for map in maps))


def test_all_reads_are_those_of_a_map(tmp_path):
    kinds = [
        ({"dns": True}, {}, lambda n: n, NAMES),
        ({}, {"values": int}, lambda n: n, NAMES),
        ({}, {"values": str}, str, NAMES),
        ({"key": str}, {"values": bytes}, lambda n: bytes([n % 256]), {f"key {n}": n for n in range(300)}),
    ]
    for at, (keys, values, value, items) in enumerate(kinds):
        items = {name: value(n) for name, n in items.items()}
        writer = LiveNames.create(tmp_path / str(at), **keys, **values)
        text = {"text": True} if values.get("values") is str else {}
        reader = LiveNames.open(str(tmp_path / str(at)), **keys, **text)
        expected = NameMap(**keys)
        compare(reader, expected)
        writer.update(items)
        expected.update(items)
        silent = LiveNames.open(tmp_path / str(at), **keys, **text, registered=False)
        for map in (writer, *and_pickled(reader, silent)):
            compare(map, expected)
            if keys.get("dns"):
                for name in ("org", "example.org", "a.b.example.org", "com", "eu.net"):
                    ours, theirs = map.closest(name), expected.closest(name)
                    for part in ("exact", "exists", "encloser", "ancestor", "wildcard", "predecessor"):
                        assert getattr(ours, part) == getattr(theirs, part), (name, part)
        with pytest.raises(KeyError, match="'missing'"):
            reader["missing"]
        assert repr(reader).endswith(f"{len(items)} entries>")


def test_bytes_are_keys(tmp_path):
    writer = LiveNames.create(tmp_path / "map", key=bytes, values=bytes)
    writer[b"\0\xff"] = b""
    reader = LiveNames.open(tmp_path / "map", key=bytes)
    assert list(reader.items()) == [(b"\0\xff", b"")]
    with pytest.raises(TypeError, match="a key of this map is bytes, not str"):
        reader["a"]
    with pytest.raises(TypeError, match=r"closest\(\) needs a map with dns=True"):
        reader.closest(b"a")


def test_changes_are_those_of_a_dict(tmp_path):
    writer = LiveNames.create(tmp_path / "map")
    reader = LiveNames.open(tmp_path / "map")
    writer["a"] = 1
    assert (writer.insert("a", 2), writer.insert("b", 3)) == (1, None)
    assert (reader["a"], reader["b"], len(reader)) == (2, 3, 2)
    del writer["a"]
    with pytest.raises(KeyError, match="'a'"):
        del writer["a"]
    with pytest.raises(KeyError, match="'a'"):
        writer.pop("a")
    assert writer.pop("a", None) is None and writer.pop("b") == 3
    with pytest.raises(TypeError, match=r"pop\(\) takes one or two arguments"):
        writer.pop("a", 1, 2)
    writer.update([("x", 1), ("xy", 2), ("z", 3)])
    assert writer.remove_prefix("x") == 2 and list(reader) == ["z"]
    writer.update({"z": 4, "q": 5}, remove=["z", "not there"])
    assert dict(reader.items()) == {"q": 5, "z": 4}
    writer.update(remove=["q"])
    assert list(reader) == ["z"]
    # An error changes nothing.
    for items in ({"m": 1, "n": -1}, {"m": 1, "n": "text"}, {"m": 1, "x" * 70000: 1}, [("m", 1), 5]):
        with pytest.raises((ValueError, TypeError)):
            writer.update(items, remove=["z"])
        assert dict(reader.items()) == {"z": 4}
    writer.clear()
    assert list(reader) == [] and not reader
    writer.verify()


def test_errors_say_what_is_wrong(tmp_path):
    path = tmp_path / "map"
    with pytest.raises(FileNotFoundError, match="map has no live map yet"):
        LiveNames.open(path)
    with pytest.raises(FileNotFoundError, match="map has no live map yet"):
        LiveNames.take_over(path)
    with pytest.raises(TypeError, match="values is int, bytes or str, not <class 'float'>"):
        LiveNames.create(path, values=float)
    with pytest.raises(ValueError, match="dns=True is for keys that are str"):
        LiveNames.create(path, key=bytes, dns=True)
    assert not path.exists()
    writer = LiveNames.create(path, values=str)
    with pytest.raises(FileExistsError, match="map has a live map; open it to take it over"):
        LiveNames.create(path)
    with pytest.raises(BlockingIOError, match="another process writes the live map in "):
        LiveNames.take_over(path)
    with pytest.raises(ValueError, match="b'a' is no value of this map: they are str"):
        writer["a"] = b"a"
    with pytest.raises(ValueError, match="1 is no value of this map: they are str"):
        writer["a"] = 1
    reader = LiveNames.open(path, text=True)
    path.chmod(0o777)
    with pytest.raises(PermissionError, match="not to be trusted: .*: other users can write it"):
        LiveNames.open(path)
    path.chmod(0o755)
    writer.close()
    writer.close()
    for use in (lambda: writer.get("a"), lambda: writer.insert("a", "b"), lambda: len(writer)):
        with pytest.raises(ValueError, match="the live map is closed"):
            use()
    assert not reader.has_writer() and reader.get("a") is None
    (data,) = path.glob("data-*")
    whole = data.read_bytes()
    data.write_bytes(whole[:64])
    with pytest.raises(ValueError, match="the live map in .* is damaged: data-1-0"):
        LiveNames.take_over(path)
    data.write_bytes(whole)
    heir = LiveNames.take_over(path, text=True)
    heir["a"] = "b"
    assert reader["a"] == "b" and (reader.generation, heir.generation) == (1, 1)
    heir.remove_map()
    with pytest.raises(FileNotFoundError, match="was removed"):
        reader.get("a")
    # The next call looks for the map that may have been made in its place.
    with pytest.raises(FileNotFoundError, match="has no live map yet"):
        reader.get("a")
    again = LiveNames.create(path, values=str)
    again["a"] = "c"
    assert reader["a"] == "c"
    again.remove_map()
    with pytest.raises(ValueError, match="the live map is closed"):
        heir.remove_map()
    control = tmp_path / "none" / "control"
    control.parent.mkdir()
    control.write_bytes(bytes([7]) * 4096)
    with pytest.raises(FileNotFoundError, match="control is not that of a live map"):
        LiveNames.open(control.parent)


def test_children_of_a_fork_read_and_do_not_write(tmp_path):
    writer = LiveNames.create(tmp_path / "map")
    reader = LiveNames.open(tmp_path / "map")
    writer["a"] = 1
    assert reader["a"] == 1
    iterator = iter(reader)

    def child(out):
        nonlocal writer, reader
        try:
            writer["a"] = 3
        except RuntimeError as error:
            out.send(str(error))
        out.send([reader["a"], len(reader), list(iterator)])
        writer = reader = None
        gc.collect()
        out.send("dropped")
        out.recv()

    ours, theirs = multiprocessing.Pipe()
    forked = multiprocessing.get_context("fork").Process(target=child, args=(theirs,), daemon=True)
    forked.start()
    for expected in (
        "a child of a fork cannot write the live map of its parent",
        [1, 1, ["a"]],
        "dropped",
    ):
        assert ours.poll(60) and ours.recv() == expected
    # The child has dropped its copies, and with them neither the parent's reader nor its map.
    assert os.getpid() in [entry["pid"] for entry in writer.readers()]
    writer["a"] = 2
    assert reader["a"] == 2
    # The writer's lock ends with the writer, though the child lives.
    assert reader.has_writer()
    writer.close()
    assert not reader.has_writer() and forked.is_alive()
    ours.send("end")
    forked.join()
    assert forked.exitcode == 0
    with LiveNames.take_over(tmp_path / "map") as heir:
        assert [entry["pid"] for entry in heir.readers()] == [os.getpid()]


def test_children_of_a_fork_wait_for_no_thread_of_their_parent(tmp_path):
    """A thread may be anywhere in a batch when its process forks, and the child has no such thread."""
    writer = LiveFib.create(tmp_path / "routes", root_bits=6)
    writer["10.0.0.0/8"] = 1
    routes, done = LiveFib.open(tmp_path / "routes"), threading.Event()
    # Parts of a batch take a reader each.
    addresses = np.full(1 << 16, 0x0A000001, np.uint32)

    def look(table):
        while not done.is_set():
            table.lookup_many(addresses, threads=2)

    threads = [threading.Thread(target=look, args=(table,)) for table in (routes, writer)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(30):
            child = os.fork()
            if child == 0:
                try:
                    assert routes["10.0.0.1"] == 1 and routes == {"10.0.0.0/8": 1}
                    assert routes.lookup_many(addresses[:9000]).tolist() == [1] * 9000
                    for use in (lambda: writer["10.0.0.1"], lambda: writer.__setitem__("::/0", 1)):
                        with pytest.raises(RuntimeError, match="a child of a fork cannot write"):
                            use()
                    writer.close()
                    os._exit(0)
                finally:
                    os._exit(1)
            deadline = time.monotonic() + 120
            while (ended := os.waitpid(child, os.WNOHANG))[0] == 0:
                if time.monotonic() > deadline:
                    os.kill(child, 9)
                    os.waitpid(child, 0)
                    pytest.fail("the child waits")
                time.sleep(0.005)
            assert os.waitstatus_to_exitcode(ended[1]) == 0
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert routes == {"10.0.0.0/8": 1}
    writer.remove_map()


def test_threads_share_a_reader(tmp_path):
    writer = LiveNames.create(tmp_path / "map")
    writer.update({f"{n:03}": 0 for n in range(200)})
    reader = LiveNames.open(tmp_path / "map")
    done, errors, reads = threading.Event(), [], []

    def read():
        last = 0
        try:
            while not done.is_set():
                chunk = [value for value, _ in zip(reader.values(), range(64))]
                assert len(set(chunk)) == 1 and chunk[0] >= last
                last = chunk[0]
            reads.append(last)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for turn in range(1, 200):
        writer.update({f"{n:03}": turn for n in range(200)})
    done.set()
    for thread in threads:
        thread.join()
    assert errors == [] and len(reads) == 4
    writer.verify()
    # A reader that is not asked holds nothing back.
    assert not any(entry["online"] or entry["holds_back"] for entry in writer.readers())


def test_nothing_leaks(tmp_path, operations):
    writer = LiveNames.create(tmp_path / "map", values=bytes)
    reader = LiveNames.open(tmp_path / "map")

    def work(rounds):
        for turn in range(rounds):
            writer.update({f"name {n}": bytes(200) for n in range(turn % 50, 60)})
            writer.pop(f"name {turn % 60}", None)
            list(reader.items())
            next(iter(reader.values()))
            reader.longest_prefix("name 12345")
            with pytest.raises(KeyError):
                reader["missing"]
            if turn % 100 == 0:
                LiveNames.open(tmp_path / "map").first()

    def bytes_now():
        gc.collect()
        with open("/proc/self/statm") as statm:
            resident = int(statm.read().split()[1]) * resource.getpagesize()
        data = sum(file.stat().st_blocks * 512 for file in (tmp_path / "map").glob("data-*"))
        return resident, data

    work(300)
    resident, data = bytes_now()
    work(max(operations // 100, 1))
    more, more_data = bytes_now()
    assert more - resident < 16 << 20 and more_data - data < 4 << 20, (more - resident, more_data - data)
    del reader
    gc.collect()
    assert writer.readers() == [] and len(os.listdir(tmp_path / "map" / "readers")) == 0


def test_a_dropped_writer_ends(tmp_path):
    writer = LiveNames.create(tmp_path / "map")
    assert type(writer) is LiveNamesWriter
    reader = LiveNames.open(tmp_path / "map")
    assert reader.has_writer()
    del writer
    gc.collect()
    assert not reader.has_writer() and len(reader) == 0


def test_shared_maps_of_other_programs_are_read(tmp_path):
    program = os.environ.get("SAPWOOD_LIVE_WRITER")
    if not program:
        pytest.skip("SAPWOOD_LIVE_WRITER names no program; see ci/python.sh")
    numbers = {"ash": 1, "elder": 2, "elm": 3, "oak": 2**64 - 1}
    for kind, text, items in (
        ("shared-numbers", False, numbers),
        ("shared-bytes", True, {name: str(number) for name, number in numbers.items()}),
    ):
        writer = subprocess.Popen(
            [program, kind, tmp_path / kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout.readline() == "ready\n"
        expected = NameMap(items)
        silent = LiveNames.open(tmp_path / kind, text=text, registered=False)
        for live in (silent, LiveNames.open(tmp_path / kind, text=text)):
            assert dict(live.items()) == items and list(reversed(live)) == list(reversed(expected))
            for name in (*items, "", "e", "elms", "zz"):
                assert live.get(name) == expected.get(name) and (name in live) == (name in expected)
                for method in ("predecessor", "successor", "longest_prefix", "ancestors"):
                    assert getattr(live, method)(name) == getattr(expected, method)(name)
                assert list(live.prefix(name)) == list(expected.prefix(name))
            assert (live.first(), live.last()) == (expected.first(), expected.last())
            assert live and live.has_writer() and live.generation == 0
            assert repr(live).endswith("of str keys>")
            with pytest.raises(TypeError, match=r"has many writers and no len\(\)"):
                len(live)
        writer.kill()
        writer.communicate()
        assert live["oak"] == items["oak"] and not live.has_writer()
        with pytest.raises(ValueError, match="is no store, but a shared map"):
            LiveNames.take_over(tmp_path / kind)
    folder = tmp_path / "ranges"
    writer = subprocess.Popen(
        [program, "ranges-of-texts", folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout.readline() == "ready\n"
    for ranges in (LiveRanges.open(folder, registered=False), LiveRanges.open(folder)):
        assert list(ranges.items()) == [(range(10, 20), "free"), (range(30, 2**64), "used")]
        assert ranges[10] == "free" and ranges.get(20) is None
        assert ranges.gaps() == [range(10), range(20, 30)]
    writer.kill()
    writer.communicate()
    with pytest.raises(ValueError, match="has other values"):
        LiveRanges.take_over(folder)
    assert ranges[2**64 - 1] == "used"


# Replaces routes as fast as it can: 10.0.0.0/8 always has a value, and a longer prefix sometimes.
ROUTES_WRITER = """
import sys
from sapwood import LiveFib
routes = getattr(LiveFib, sys.argv[2])(sys.argv[1], root_bits=12)
routes.update({"10.0.0.0/8": 1, "2001:db8::/32": 2})
print("ready", flush=True)
number = 0
while True:
    number += 1
    routes["10.1.0.0/16"] = 1000 + number % 1000
    routes.update({f"10.2.{n}.0/24": number for n in range(20)})
    routes.update(remove=["10.1.0.0/16"])
"""


def test_lookups_beside_a_writer_that_is_killed(tmp_path):
    path = tmp_path / "routes"
    writer = process(ROUTES_WRITER, path, "create")
    routes = LiveFib.open(path)
    addresses = np.full(100_000, 0x0A010203, np.uint32)
    for turn in range(3):
        for threads in (1, 3):
            found = routes.lookup_many(addresses, threads=threads)
            assert found.dtype == np.int64
            assert ((found == 1) | ((found >= 1000) & (found < 2000))).all()
        assert routes["10.0.0.0/8"] == 1 and routes.lookup("2001:db8::1") == ("2001:db8::/32", 2)
        assert {"10.0.0.0/8", "2001:db8::/32"} <= set(routes)
        writer.kill()
        writer.communicate()
        assert not routes.has_writer()
        before = list(routes.items())
        if turn == 2:
            break
        writer = process(ROUTES_WRITER, path, "take_over")
        assert routes.generation == turn + 1 and routes.has_writer()
    heir = LiveFib.take_over(path, root_bits=12)
    heir.verify()
    assert list(heir.items()) == before == list(routes.items()) and routes.generation == 3
    heir.remove_map()
    # Then the next call looks for a map that may have been made in its place.
    for look in (lambda: routes["10.0.0.1"], lambda: routes.lookup_many(addresses)):
        with pytest.raises(FileNotFoundError, match="was removed|has no live map yet"):
            look()


def test_lookups_are_those_of_a_fib(tmp_path):
    items = {"0.0.0.0/0": 0, "10.0.0.0/8": 2**32 - 1, "10.1.0.0/16": 5, "10.1.2.3/32": 6, "2001:db8::/32": 7}
    expected = Fib(items)
    writer = LiveFib.create(tmp_path / "routes", root_bits=6)
    reader = LiveFib.open(tmp_path / "routes")
    assert len(reader) == 0 and list(reader.items()) == []
    writer.update(items)
    silent = LiveFib.open(tmp_path / "routes", registered=False)
    for live in (writer, *and_pickled(reader, silent)):
        assert len(live) == len(expected) and list(live) == list(expected)
        assert list(live.items()) == list(expected.items()) and live == expected
        keys = [*items, "10.1.2.3", "10.1.2.4", "10.2.0.0", "10.1.0.0/17", "1.1.1.1", "::1", "2001:db8::9"]
        for key in keys:
            assert live.get(key, "none") == expected.get(key, "none") and (key in live) == (key in expected)
            assert live.lookup(key) == expected.lookup(key)
            assert live.exact(key) == expected.exact(key)
        addresses = [key for key in keys if "/" not in key] + [None]
        found = [expected.get(key, -1) if key else -1 for key in addresses]
        assert live.lookup_many(addresses).tolist() == found
        of_a_family = np.array([0x0A010203, 0x0A020000, 0x01010101] * 99, np.uint32)
        assert live.lookup_many(of_a_family).tolist() == [6, 2**32 - 1, 0] * 99
    with pytest.raises(KeyError, match="::1"):
        reader["::1"]
    assert writer.insert("10.1.0.0/16", 8) == 5 and reader["10.1.9.9"] == 8
    del writer["10.1.0.0/16"]
    with pytest.raises(KeyError):
        del writer["10.1.0.0/16"]
    assert writer.pop("10.1.0.0/16", None) is None and writer.pop("10.1.2.3/32") == 6
    for value in (-1, 2**32, "a", None):
        with pytest.raises(ValueError, match="is no value of this table: they are int from 0"):
            writer.update({"11.0.0.0/8": 1, "12.0.0.0/8": value})
    with pytest.raises(ValueError, match="has bits set after its length"):
        writer.update(remove=["0.0.0.0/0", "10.0.0.1/8"])
    assert reader["11.1.1.1"] == 0 and len(reader) == 3
    with pytest.raises(ValueError, match="root_bits is 6, 12, 18 or 24, not 7"):
        LiveFib.create(tmp_path / "other", root_bits=7)
    with pytest.raises(ValueError, match="is no table of routes, but a store"):
        LiveNames.create(tmp_path / "names")
        LiveFib.open(tmp_path / "names")
    with pytest.raises(TypeError, match="a writer cannot be pickled"):
        pickle.dumps(writer)


def test_values_that_are_texts(tmp_path):
    """As the program `sapwood` keeps them: a store inside the folder has the texts of numbers."""
    writer = LiveFib.create(tmp_path / "routes")
    texts = LiveNames.create(tmp_path / "routes" / "texts", key=bytes, values=str)
    texts.update({(7).to_bytes(4, "big"): "core", (9).to_bytes(4, "big"): "lab"})
    writer.update({"10.0.0.0/8": 7, "10.1.0.0/16": 9})
    silent = LiveFib.open(tmp_path / "routes", registered=False)
    for routes in (silent, LiveFib.open(tmp_path / "routes")):
        assert routes["10.1.2.3"] == "lab" and routes.lookup("10.2.2.2") == ("10.0.0.0/8", "core")
        assert list(routes.items()) == [("10.0.0.0/8", "core"), ("10.1.0.0/16", "lab")]
        assert routes.names() == {7: "core", 9: "lab"}
        assert routes.lookup_many(["10.1.2.3", "1.1.1.1"]).tolist() == [9, -1]
    writer["10.1.0.0/16"] = 10  # which never gets a text
    with pytest.raises(RuntimeError, match="changed during each attempt"):
        routes["10.1.2.3"]
    assert routes["10.2.2.2"] == "core"
    writer.close()
    with pytest.raises(ValueError, match="whose values are str"):
        LiveFib.take_over(tmp_path / "routes")


def test_other_threads_run_during_a_batch(tmp_path):
    writer = LiveFib.create(tmp_path / "routes")
    writer["10.0.0.0/8"] = 1
    routes = LiveFib.open(tmp_path / "routes")
    addresses = np.full(2_000_000, 0x0A000001, np.uint32)
    times, done = [], threading.Event()

    def tick():
        while not done.is_set():
            times.append(time.perf_counter())

    ticking = threading.Thread(target=tick, daemon=True)
    ticking.start()
    best = 0
    for _ in range(10):
        began = time.perf_counter()
        assert (routes.lookup_many(addresses) == 1).all()
        quarter = (time.perf_counter() - began) / 4
        best = max(best, sum(began + quarter < t < began + 3 * quarter for t in times))
        times.clear()
    done.set()
    ticking.join()
    assert best > 100, f"the other thread ticked {best} times during a batch"


RANGES_WRITER = """
import sys
from sapwood import LiveRanges
ranges = getattr(LiveRanges, sys.argv[2])(sys.argv[1])
ranges[1000:2000] = 5
print("ready", flush=True)
number = 0
while True:
    number += 1
    ranges[0:100] = number
    ranges[20:60] = number + 1
    ranges.alloc(50, number, start=3000, stop=10**6)
    del ranges[3000:10**6]
"""


def test_ranges_beside_a_writer_that_is_killed(tmp_path):
    path = tmp_path / "ranges"
    writer = process(RANGES_WRITER, path, "create")
    ranges = LiveRanges.open(path)
    for turn in range(2):
        for _ in range(300):
            assert ranges[1500] == 5 and 2500 not in ranges
            low = [place for place, _ in ranges.items(0, 100)]
            assert {(place.start, place.stop) for place in low} <= {(0, 20), (20, 60), (60, 100), (0, 100)}
            assert low == sorted(low, key=lambda place: place.stop)
            assert ranges.entry(1000) == (range(1000, 2000), 5)
        writer.kill()
        writer.communicate()
        assert not ranges.has_writer()
        if turn == 0:
            writer = process(RANGES_WRITER, path, "take_over")
            assert ranges.generation == 1 and ranges.has_writer()
    with LiveRanges.take_over(path) as heir:
        heir.verify()
        assert heir.items() == ranges.items()
        heir.remove_map()
    with pytest.raises(FileNotFoundError, match="was removed"):
        ranges[5]


def test_ranges_are_those_of_a_map(tmp_path):
    items = [(range(0, 10), 1), (range(10, 20), 2**64 - 1), (slice(100, None), 3), (150, 4)]
    expected = RangeMap(items)
    writer = LiveRanges.create(tmp_path / "ranges")
    reader = LiveRanges.open(tmp_path / "ranges")
    assert len(reader) == 0 and reader.first() is None and reader.gaps() == [range(0, 2**64)]
    writer.update(items)
    silent = LiveRanges.open(tmp_path / "ranges", registered=False)
    for live in (writer, *and_pickled(reader, silent)):
        assert len(live) == len(expected) and list(live) == list(expected)
        assert list(live.items()) == list(expected.items()) and live == expected
        assert list(live.items(5, 120)) == list(expected.items(5, 120))
        assert (live.first(), live.last()) == (expected.first(), expected.last())
        assert live.gaps(5, 200) == expected.gaps(5, 200)
        assert live.find_gap(16, align=16) == expected.find_gap(16, align=16)
        assert live.find_gap(81) is None
        for window in ({"rest": 5, "align": 7}, {"guard": 3}, {"near": 70}, {"starting_at": 90}):
            assert live.find_gap(2, **window) == expected.find_gap(2, **window)
        assert live[5:120] == expected[5:120] and live[20:50] == []
        assert live["0.0.0.15"] == 2**64 - 1 and live["0.0.0.0":"0.0.0.1"] == [(range(0, 1), 1)]
        for index in (0, 9, 10, 20, 99, 100, 149, 150, 151, 2**64 - 1):
            assert live.get(index, "none") == expected.get(index, "none")
            assert (index in live) == (index in expected)
            for method in ("entry", "next_after", "prev_before"):
                assert getattr(live, method)(index) == getattr(expected, method)(index)
    with pytest.raises(KeyError, match="20"):
        reader[20]
    with pytest.raises(KeyError, match="20"):
        del writer[20]
    with pytest.raises(KeyError, match="20"):
        writer.remove(20)
    with pytest.raises(TypeError, match="a slice is no key"):
        reader.get(slice(1, 2))
    with pytest.raises(OccupiedError):
        writer.insert(range(5, 30), 1)
    with pytest.raises(NoGapError):
        writer.alloc(81, 1)
    for value in (-1, 2**64, "a"):
        with pytest.raises(ValueError, match="is no value of this map: they are int from 0"):
            writer.update([(range(30, 40), 1), (range(40, 50), value)])
    with pytest.raises(ValueError, match="size|0"):
        reader.find_gap(0)
    assert writer.store(range(20, 30), 2**64 - 1, coalesce=True) == range(10, 30)
    assert writer.remove(150) == (range(150, 151), 4) and reader.get(150) is None
    writer.insert("0.0.0.40", 9)
    assert writer.alloc(5, 1, tightest=True, highest=True, stop=100) == range(35, 40)
    del writer[0:10], writer["0.0.0.35":40]
    assert list(reader.items(0, 100)) == [(range(10, 30), 2**64 - 1), (range(40, 41), 9)]
    writer.clear()
    assert list(reader.items()) == []
    writer.verify()
    with pytest.raises(ValueError, match="is no range map, but a store"):
        LiveNames.create(tmp_path / "names")
        LiveRanges.open(tmp_path / "names")


def test_a_full_file_system_is_an_error_also_in_children(tmp_path):
    """Nothing is left behind, no signal comes, and the map goes on when there is room."""
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", tmp_path], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("this process may not mount a file system")
    try:
        path, filler = tmp_path / "map", tmp_path / "filler"

        def fill():
            # Without a buffer, whose rest could not be written at the end.
            with open(filler, "ab", buffering=0) as file:
                with pytest.raises(OSError) as full:
                    while True:
                        file.write(bytes(4096))
            assert full.value.errno == errno.ENOSPC

        fill()
        with pytest.raises(OSError, match="no space left on device") as full:
            LiveNames.create(path)
        assert full.value.errno == errno.ENOSPC and not path.exists()
        filler.unlink()
        writer = LiveNames.create(path)
        writer["a"] = 1
        reader = LiveNames.open(path)
        fill()
        with pytest.raises(OSError, match="no space left on device") as full:
            for number in range(1 << 20):
                writer[f"{number:08}"] = number
        assert full.value.errno == errno.ENOSPC and reader["a"] == 1
        with pytest.raises(OSError, match="no space left on device"):
            LiveNames.open(path)
        # A child has readers of its own, for which there is no room.
        child = os.fork()
        if child == 0:
            try:
                reader.get("a")
            except OSError as error:
                os._exit(error.errno)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == errno.ENOSPC
        writer.close()
        with pytest.raises(OSError, match="no space left on device"):
            LiveNames.take_over(path)
        assert reader["a"] == 1
        filler.unlink()
        heir = LiveNames.take_over(path)
        heir["b"] = 2
        assert reader["b"] == 2
        heir.remove_map()
        assert list(tmp_path.iterdir()) == []
    finally:
        subprocess.run(["umount", "-l", tmp_path], check=True)


OPENED = [LiveNames, LiveFib, LiveRanges]


@pytest.mark.parametrize("kind", OPENED)
def test_a_reader_may_wait_for_a_map(tmp_path, kind):
    path, made = tmp_path / "map", []
    late = threading.Timer(0.3, lambda: made.append(kind.create(path)))
    late.start()
    try:
        readers = [kind.open(path, wait=60), kind.open(path, wait=60, registered=False)]
        assert [list(reader) for reader in readers] == [[], []]
    finally:
        late.join()
    made[0].remove_map()
    for registered in (True, False):
        began = time.monotonic()
        with pytest.raises(FileNotFoundError, match="map has no live map yet"):
            kind.open(path, wait=0.2, registered=registered)
        assert time.monotonic() - began >= 0.2
    for wait in (-1, float("nan")):
        with pytest.raises(ValueError, match="wait is a number of seconds from 0 on, not"):
            kind.open(path, wait=wait)


def test_a_signal_ends_a_wait(tmp_path):
    class Rang(Exception):
        pass

    def ring(*_):
        raise Rang

    old = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(Rang):
            LiveNames.open(tmp_path / "map", wait=float("inf"))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


def test_readers_that_the_writer_does_not_know_read_beside_it(tmp_path):
    """What they read is whole, entry by entry, and the writer waits for none of them."""
    writer = process(NAMES_WRITER, tmp_path / "names", 1, "create")
    routes = process(ROUTES_WRITER, tmp_path / "routes", "create")
    try:
        names = LiveNames.open(tmp_path / "names", registered=False)
        table = LiveFib.open(tmp_path / "routes", registered=False)
        last, addresses = 0, np.full(500, 0x0A010203, np.uint32)
        for _ in range(200):
            number = names["name 7"]
            assert number >= last
            last = number
            assert names.longest_prefix("name 7 and more")[0] == "name 7"
            assert list(names.prefix("name "))[0][0] == "name 0" and names.first()[0] == "more"
            assert names.last()[0] == "name 99"
            found = table.lookup_many(addresses)
            assert ((found == 1) | ((found >= 1000) & (found < 2000))).all()
            assert table.lookup("2001:db8::1") == ("2001:db8::/32", 2)
        assert last > 1
        assert not any((tmp_path / "names" / "readers").iterdir())
        assert not any((tmp_path / "routes" / "readers").iterdir())
        # A writer that ended is followed by another one, to whose data they move.
        writer.kill()
        writer.communicate()
        assert not names.has_writer()
        with LiveNames.take_over(tmp_path / "names") as heir:
            heir["heir"] = 7
            assert names["heir"] == 7 and names.generation == 1 and heir.readers() == []
            heir.remove_map()
        with pytest.raises(FileNotFoundError, match="was removed"):
            names.get("heir")
    finally:
        for child in (writer, routes):
            child.kill()
            child.communicate()


def test_maps_on_read_only_mounts_are_read(tmp_path):
    path, view = tmp_path / "map", tmp_path / "view"
    writer = LiveNames.create(path, dns=True)
    view.mkdir()
    for command in (["--bind", path, view], ["-o", "remount,bind,ro", view]):
        if subprocess.run(["mount", *command], capture_output=True).returncode:
            pytest.skip("this process may not mount a file system")
    try:
        writer.update(NAMES)
        with pytest.raises(PermissionError, match="cannot register as a reader"):
            LiveNames.open(view, dns=True)
        compare(LiveNames.open(view, dns=True, registered=False), NameMap(NAMES, dns=True))
        assert writer.readers() == []
    finally:
        subprocess.run(["umount", "-l", view], check=True)
    writer.remove_map()


NOBODY = 65534


def as_nobody(use):
    """Whether a process of another user can do this."""
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            use()
            os._exit(0)
        except PermissionError:
            os._exit(7)
        finally:
            os._exit(1)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, 7)
    return status == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes maps for other users here")
@pytest.mark.parametrize("kind", OPENED)
def test_the_maker_says_who_may_register(kind):
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        for who, registers, reads in (
            (None, False, True),
            ("owner", False, True),
            ("everybody", True, True),
            (NOBODY, True, True),
            (NOBODY - 1, False, False),
        ):
            path = os.path.join(folder, str(who))
            writer = kind.create(path, read_by=who)
            assert as_nobody(lambda: len(kind.open(path))) == registers, who
            assert as_nobody(lambda: len(kind.open(path, registered=False))) == reads, who
            writer.close()
            # An heir keeps the modes, or gives the map others.
            kind.take_over(path).close()
            assert as_nobody(lambda: len(kind.open(path))) == registers, who
            writer = kind.take_over(path, read_by="everybody")
            assert as_nobody(lambda: len(kind.open(path)))
            writer.remove_map()
        with pytest.raises(ValueError, match='read_by is "owner", "everybody" or the number'):
            kind.create(os.path.join(folder, "other"), read_by="all")
        with pytest.raises(TypeError, match="read_by is a str or the int of a group, not"):
            kind.create(os.path.join(folder, "other"), read_by=1.5)
