"""Where the module touches files, other people's code, the garbage collector and the end."""

import copy
import errno
import faulthandler
import gc
import os
import pickle
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest

import sapwood
from sapwood import Fib, FibFile, NameFile, NameMap, RangeMap


@pytest.fixture(autouse=True)
def no_deadlock():
    """A test that waits for itself ends the run, and shows where."""
    faulthandler.dump_traceback_later(300, exit=True, file=sys.__stderr__)
    yield
    faulthandler.cancel_dump_traceback_later()


# What makes a map with so many entries of numbers, and what opens its file.
SAVED = {
    "names": (lambda n: NameMap((f"name {i:06}", i) for i in range(n)), NameFile.open),
    "texts": (
        lambda n: NameMap((f"name {i:06}", f"text {i}") for i in range(n)),
        lambda path: NameFile.open(path, text=True),
    ),
    "routes": (
        lambda n: Fib((f"10.{i >> 8}.{i & 255}.0/24", i) for i in range(n)),
        FibFile.open,
    ),
    "ranges": (lambda n: RangeMap((range(2 * i, 2 * i + 1), i) for i in range(n)), RangeMap.load),
}
OPENERS = [*(open for _, open in SAVED.values()), Fib.load]


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 512 KiB."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=512k", "none", str(place)]
    if not hasattr(os, "geteuid") or os.geteuid() != 0 or subprocess.call(mount) != 0:
        pytest.skip("mounting a small file system needs root")
    yield place
    subprocess.call(["umount", "-l", str(place)])


@pytest.mark.parametrize("kind", SAVED)
def test_a_full_file_system_is_an_error_with_its_number_and_the_old_file_stays(small_disk, kind):
    make, opened = SAVED[kind]
    path, few, many = small_disk / "map", make(50), make(20_000)
    few.save(path)
    # Full from the beginning, and full at some point of the writing.
    for left in (0, 4096, 100_000):
        room = os.statvfs(small_disk)
        filler = small_disk / "filler"
        filler.write_bytes(bytes(max(room.f_bavail * room.f_frsize - left, 0)))
        with pytest.raises(OSError) as caught:
            many.save(path)
        assert caught.value.errno == errno.ENOSPC and type(caught.value) is OSError
        assert f"cannot save {path}: No space left on device" in str(caught.value)
        assert opened(path) == few
        # Nothing of it is left behind.
        assert sorted(os.listdir(small_disk)) == ["filler", "map"]
        filler.unlink()
    few.save(path)
    assert opened(path) == few


@pytest.mark.parametrize("kind", SAVED)
def test_files_that_are_torn_or_foreign_say_which_they_are(tmp_path, kind):
    make, opened = SAVED[kind]
    path = tmp_path / "map"
    make(50).save(path)
    whole = path.read_bytes()
    for length in [*range(0, len(whole), 97), len(whole) - 1]:
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match=f"cannot open {path}: "):
            opened(path)
    path.write_bytes(whole)
    assert opened(path) == make(50)
    for other, (make_other, _) in SAVED.items():
        if {other, kind} not in ({"names", "texts"}, {other}):
            make_other(50).save(path)
            with pytest.raises(ValueError, match=f"{path}"):
                opened(path)


@pytest.mark.parametrize("opened", OPENERS)
def test_what_cannot_be_opened_is_the_systems_error_with_the_path(tmp_path, opened):
    with pytest.raises(FileNotFoundError, match=f"cannot open {tmp_path}/none: ") as caught:
        opened(tmp_path / "none")
    assert caught.value.errno == errno.ENOENT
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(NotADirectoryError, match=f"cannot open {tmp_path}/file/map") as caught:
        opened(tmp_path / "file" / "map")
    assert caught.value.errno == errno.ENOTDIR
    with pytest.raises((ValueError, IsADirectoryError), match=f"cannot open {tmp_path}: "):
        opened(tmp_path)
    for wrong in (5, None, 1.5):
        with pytest.raises(TypeError):
            opened(wrong)
    with pytest.raises(ValueError):
        opened("nul\0byte")


def test_texts_and_dumps_that_cannot_be_read_are_the_systems_errors(tmp_path):
    for read in (Fib.from_text, Fib.from_mrt):
        with pytest.raises(FileNotFoundError, match=f"cannot read {tmp_path}/none") as caught:
            read(tmp_path / "none")
        assert caught.value.errno == errno.ENOENT
        with pytest.raises(IsADirectoryError, match=f"cannot read {tmp_path}") as caught:
            read(tmp_path)
        assert caught.value.errno == errno.EISDIR


def test_what_cannot_be_written_is_the_systems_error(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "folder").mkdir()
    for kind, (make, _) in SAVED.items():
        map = make(5)
        for path, error in (
            (tmp_path / "file" / "map", NotADirectoryError),
            (tmp_path / "none" / "map", FileNotFoundError),
            (tmp_path / "folder", FileExistsError),
        ):
            with pytest.raises(error, match=f"cannot save {path}: "):
                map.save(path)
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"] and os.listdir(tmp_path / "folder") == []


MAPS = {
    "names": (NameMap, ["a", "b", "c", "d"]),
    "routes": (lambda: Fib(root_bits=6), ["10.0.0.0/8", "10.1.0.0/16", "::/0", "2001:db8::/32"]),
    "ranges": (RangeMap, [range(5), range(5, 9), range(20, 30), range(100, 2**64)]),
}


@pytest.fixture(params=MAPS)
def kind(request):
    return MAPS[request.param]


def everything(map, keys, value):
    """Calls all that a map has."""
    map[keys[0]] = value()
    map.get(keys[0])
    map.insert(keys[1], value()) if keys[1] not in map else None
    map.setdefault(keys[2], value())
    map.update({keys[3]: value(), keys[0]: value()})
    list(map.items()), list(reversed(map.values())), len(map), repr(map)
    same = map.copy()
    assert same == map
    same |= {keys[1]: value()}
    (same | map).clear()
    pickle.dumps({"no": "values"}), copy.copy(map)
    if isinstance(map, NameMap):
        map.successor(keys[0])
        map.ancestors(keys[3])
        list(map.prefix(keys[0])), list(map.range(keys[0], keys[2]))
        map.remove_prefix(keys[3])
        map.compact()
    elif isinstance(map, Fib):
        map.lookup(keys[0]), map.parents(keys[1]), map.children(keys[0]), map.covered(keys[0])
        map.next_hops()
        map.lookup_many(["10.1.2.3", "::1"], objects=True)
    else:
        map.entry(3), map.first(), map.last(), map.values_by_number()
        map.lookup_many([1, 2, 3])
        map.store(range(2, 7), value(), coalesce=True)
        map.alloc(3, value())
        map.remove(25)
        map[keys[0]] = value()
    map.memory(), sys.getsizeof(map), map.verify()
    map.pop(keys[0])
    map.popitem()
    map.clear()


def test_the_garbage_collector_may_run_code_at_any_time(kind):
    """Objects in cycles are dropped whenever something is allocated, and their code uses the map."""
    make, keys = kind
    map, calls = make(), []

    class Cycle:
        def __init__(self):
            self.me = self

        def __del__(self):
            calls.append(len(map))
            map.get(keys[0])
            list(map.items())
            map[keys[3]] = "of a cycle"

        def __eq__(self, other):
            return True

        __hash__ = None

    before = gc.get_threshold()
    gc.set_threshold(1, 1, 1)
    try:
        for _ in range(30):
            try:
                Cycle()
                everything(map, keys, Cycle)
            except (KeyError, RuntimeError, AssertionError, sapwood.OccupiedError):
                pass  # the map was changed meanwhile
    finally:
        gc.set_threshold(*before)
    gc.collect()
    assert len(calls) > 100
    map.clear()
    gc.collect()
    map.verify()


def test_values_may_use_the_map_while_they_are_compared_and_dropped(kind):
    make, keys = kind
    map = make()
    used = []

    class Meddler:
        def __init__(self, *_):
            pass

        def __eq__(self, other):
            used.append("eq")
            map[keys[3]] = 1
            map.pop(keys[2], None)
            return self is other

        def __hash__(self):
            used.append("hash")
            map[keys[3]] = 2
            return 1

        def __del__(self):
            used.append("del")
            map[keys[3]] = len(map)
            map.get(keys[0])

        def __repr__(self):
            map.clear()
            return "Meddler"

    for _ in range(5):
        try:
            everything(map, keys, Meddler)
        except (KeyError, RuntimeError, AssertionError, sapwood.OccupiedError):
            pass
        map.verify()
    map[keys[0]] = Meddler()
    assert map != {keys[0]: Meddler()} and map.items() != {keys[0]: 1}.items()
    assert (keys[0], 5) not in map.items() and 5 not in map.values()
    assert {"eq", "del"} <= set(used)
    map.clear()
    map.verify()


def test_keys_may_use_the_map_while_they_are_read():
    map, fib = RangeMap({range(10): "a"}), Fib({"10.0.0.0/8": "a"})

    class Index:
        def __index__(self):
            map[20:30] = "b"
            fib["11.0.0.0/8"] = len(fib)
            map.clear() if len(map) > 3 else None
            return 0x0A000001

    for _ in range(3):
        map[Index()] = 1
        map[Index() :] = 2
        map.get(Index()), map.lookup_many([Index()] * 3), map.pop(Index(), None)
        fib[Index()] = 1
        fib.update([(Index(), 1)] * 3)
        fib.lookup_many([Index()] * 3), fib.get(Index()), fib.pop(Index(), None)
    map.verify()
    fib.verify()


class LyingLength(list):
    def __init__(self, items, length):
        super().__init__(items)
        self.length = length

    def __len__(self):
        if isinstance(self.length, Exception):
            raise self.length
        return self.length

    def __length_hint__(self):
        return 2**62


def test_lengths_that_lie_cost_nothing(kind):
    make, keys = kind
    pairs = [(key, 1) for key in keys]
    for length in (0, 1, 2**62, sys.maxsize, -1, ValueError("no")):
        map = make()
        map.update(LyingLength(pairs, length))
        assert len(map) == 4
        assert Fib({"::/0": 1}).lookup_many(LyingLength(["::1", None], length)).tolist() == [0, -1]
        assert RangeMap({5: 1}).lookup_many(LyingLength([5, 6], length)).tolist() == [0, -1]
        map.verify()


def test_iterables_that_lie_are_errors(kind):
    make, keys = kind
    map = make({keys[0]: 1}) if make in (NameMap, RangeMap) else Fib({keys[0]: 1}, root_bits=6)

    class NoIterator:
        def __iter__(self):
            return 5

    class Changes:
        """Has other items each time."""

        def __init__(self):
            self.left = [[(keys[1], 1)], [(keys[2], 2)], 5]

        def items(self):
            return self.left.pop(0)

    class Grows:
        def __iter__(self):
            for key in keys:
                map[key] = 0
                yield key, len(map)

    class Clears:
        def __iter__(self):
            for key in keys:
                map.clear()
                yield key, 1

    for bad in (NoIterator(), "abc", b"abc", [("a",)], [NoIterator()], {1.5: 2}, 5):
        with pytest.raises((TypeError, ValueError)):
            map.update(bad)
    for use in (lambda: Fib().lookup_many(NoIterator()), lambda: RangeMap().lookup_many(NoIterator())):
        with pytest.raises(TypeError):
            use()
    changes = Changes()
    map.update(changes)
    map.update(changes)
    assert keys[1] in map and keys[2] in map
    with pytest.raises(TypeError):
        map.update(changes)
    map.update(Grows())
    assert len(map) == 4
    map.update(Clears())
    assert keys[3] in map
    map.verify()


def test_a_map_in_itself_is_shown_compared_pickled_and_collected(kind):
    make, keys = kind
    map = make()
    map[keys[0]] = map
    assert len(repr(map)) < 100 and repr(map.items())
    same = pickle.loads(pickle.dumps(map))
    assert same[keys[0]] is same and copy.deepcopy(map)[keys[0]] is not map
    assert map == map.copy()  # the values are one object
    with pytest.raises(RecursionError):
        map == same
    deep = make()
    for _ in range(20_000 if make is NameMap else 2_000):
        outer = make()
        outer[keys[0]] = deep
        deep = outer
    assert len(repr(deep)) < 100
    # Nor does dropping them, one in the other, take the stack.
    known = weakref.ref(deep)
    del outer, deep
    gc.collect()
    assert known() is None
    known = weakref.ref(map)
    del map, same
    gc.collect()
    assert known() is None


class Thing:
    pass


def test_cycles_through_everything_are_collected(kind):
    make, keys = kind
    for part in (
        lambda map: map,
        lambda map: map.keys(),
        lambda map: map.values(),
        lambda map: map.items(),
        iter,
        lambda map: iter(map.items()),
        lambda map: reversed(map.values()),
        lambda map: [next(steps := iter(map.items())), steps],
        lambda map: map.copy(),
        lambda map: map.fromkeys([keys[0]], map),
    ):
        thing, map = Thing(), make()
        map[keys[0]] = map[keys[1]] = thing
        thing.part = part(map)
        known = weakref.ref(thing)
        del thing, map
        gc.collect()
        assert known() is None
    if make is NameMap:
        thing, zone = Thing(), NameMap(dns=True)
        zone["a"] = thing
        thing.part = zone.closest("b.a")
        known = weakref.ref(thing)
        del thing, zone
        gc.collect()
        assert known() is None


def ended(program, *arguments):
    """What a program says until it ends."""
    run = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", program, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, (run.returncode, run.stdout, run.stderr)
    return run.stdout, run.stderr


def test_the_interpreter_ends_with_living_objects(tmp_path):
    program = """
import sys, threading, gc
import numpy as np, sapwood
from sapwood import Fib, NameMap, RangeMap

class Value:
    def __init__(self, map): self.map = map
    def __del__(self):
        try:
            len(self.map), list(self.map.items())
        except Exception:
            pass  # modules are gone

fib, names, ranges = Fib(), NameMap(), RangeMap()
fib["10.0.0.0/8"], names["a"], ranges[5] = Value(fib), Value(names), Value(ranges)
sys.keep = fib, names, ranges
open_ones = [iter(fib.items()), iter(names), ranges.values(), names.items()]
next(open_ones[0])
NameMap({"a": 1}).save(sys.argv[1] + "/names")
files = [sapwood.NameFile.open(sys.argv[1] + "/names")]
if hasattr(sapwood, "LiveFib"):
    for name in ("LiveFib", "LiveNames", "LiveRanges"):
        cls = getattr(sapwood, name)
        files += [cls.create(sys.argv[1] + "/" + name), cls.open(sys.argv[1] + "/" + name)]
        list(files[-1])
gc.disable()
print("done", flush=True)
"""
    assert ended(program, tmp_path) == ("done\n", "")
    if hasattr(sapwood, "LiveFib"):
        # The writers ended with the process.
        for name in ("LiveFib", "LiveNames", "LiveRanges"):
            getattr(sapwood, name).take_over(tmp_path / name).remove_map()


def test_the_interpreter_ends_while_threads_look_up():
    program = """
import threading, time
import numpy as np
from sapwood import Fib
fib = Fib({"10.0.0.0/8": "a", "0.0.0.0/0": "b"})
addresses = np.random.default_rng(1).integers(0, 2**32, 3_000_000, dtype=np.uint32)
started = threading.Barrier(3)
def work():
    started.wait()
    while True:
        fib.lookup_many(addresses)
        fib.lookup_many(addresses[:1000], objects=True)
for _ in range(2):
    threading.Thread(target=work, daemon=True).start()
started.wait()
time.sleep(0.2)
print("done", flush=True)
"""
    assert ended(program) == ("done\n", "")


def test_children_of_a_fork_use_copies_beside_threads_of_the_parent():
    maps = [make() for make, _ in MAPS.values()]
    keys = [keys for _, keys in MAPS.values()]
    done = threading.Event()

    def change():
        while not done.is_set():
            for map, names in zip(maps, keys):
                map[names[0]] = [1]
                map.pop(names[0], None)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(20):
            child = os.fork()
            if child == 0:
                try:
                    for map, names in zip(maps, keys):
                        map[names[1]] = 5
                        assert map[names[1]] == 5 and map.popitem() and map.copy() == map
                        map.verify()
                    os._exit(0)
                finally:
                    os._exit(1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        done.set()
        thread.join()
    assert all(keys[1] not in map for map, (_, keys) in zip(maps, MAPS.values()))


def test_threads_change_one_map_by_all_methods(kind):
    make, keys = kind
    map, errors = make(), []

    def work(seed):
        nonlocal map
        try:
            random = np.random.default_rng(seed)
            for what, at in random.integers(0, 8, (1500, 2)).tolist():
                key = keys[at % 4]
                match what:
                    case 0:
                        map[key] = [seed]
                    case 1:
                        map.pop(key, None)
                    case 2:
                        map.setdefault(key, seed)
                    case 3:
                        map |= {key: [seed]}
                    case 4:
                        map.copy(), map == {}
                    case 5:
                        key in map.keys(), len(map.items())
                    case 6:
                        map | {key: 1}
                    case 7:
                        map.clear()
        except RuntimeError as error:
            # A map of names says that it was changed while it was walked.
            if "changed during iteration" not in str(error):
                errors.append(error)
        except BaseException as error:
            errors.append(error)

    map_before = map
    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == [] and map is map_before
    map.verify()
