"""Live maps: one process writes, others read; writers die and are followed; and what is refused."""

import gc
import multiprocessing
import os
import pickle
import resource
import subprocess
import sys
import threading
import time

import pytest

if sys.platform != "linux":
    pytest.skip("live maps are for Linux", allow_module_level=True)

from sapwood import LiveNames, LiveNamesWriter, NameMap, NameReader

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
threading.Thread(target=lambda: (sys.stdin.read(), done.set())).start()
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
        for map in (writer, reader, pickle.loads(pickle.dumps(reader))):
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
    with pytest.raises(FileNotFoundError, match="map has no live map: there is no "):
        LiveNames.open(path)
    with pytest.raises(FileNotFoundError, match="no file control"):
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
    with pytest.raises(FileNotFoundError, match="has removed it"):
        reader.get("a")
    with pytest.raises(ValueError, match="the live map is closed"):
        heir.remove_map()
    control = tmp_path / "none" / "control"
    control.parent.mkdir()
    control.write_bytes(bytes(4096))
    with pytest.raises(FileNotFoundError, match="control is not that of a live map"):
        LiveNames.open(control.parent)


def test_children_of_a_fork_read_and_do_not_write(tmp_path):
    writer = LiveNames.create(tmp_path / "map")
    reader = LiveNames.open(tmp_path / "map")
    writer["a"] = 1
    assert reader["a"] == 1

    def child(out):
        try:
            writer["a"] = 3
        except RuntimeError as error:
            out.send(str(error))
        values = [reader["a"], len(reader)]
        out.send(values)

    get, put = multiprocessing.Pipe(False)
    forked = multiprocessing.get_context("fork").Process(target=child, args=(put,))
    forked.start()
    assert get.recv() == "a child of a fork cannot write the live map of its parent"
    assert get.recv() == [1, 1]
    forked.join()
    assert forked.exitcode == 0
    # The child has neither removed the parent's reader nor taken it offline while it reads.
    assert [entry["pid"] for entry in writer.readers()] == [os.getpid()]
    writer["a"] = 2
    assert reader["a"] == 2


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
            next(reader.values())
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
