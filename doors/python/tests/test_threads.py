"""Threads: batches run without the interpreter's lock, beside writers, and nothing leaks."""

import gc
import os
import resource
import threading
import time

import numpy as np
import pytest

from sapwood import Fib, NameMap, RangeMap


def a_table(many=100_000):
    rng = np.random.default_rng(7)
    return Fib((f"{n >> 24}.{n >> 16 & 255}.{n >> 8 & 255}.0/24", int(n % 100)) for n in rng.integers(0, 2**32, many))


def test_other_threads_run_during_a_batch():
    fib = a_table()
    addresses = np.random.default_rng(8).integers(0, 2**32, 2_000_000, dtype=np.uint32)
    times = []
    done = threading.Event()

    def tick():
        while not done.is_set():
            times.append(time.perf_counter())

    ticking = threading.Thread(target=tick, daemon=True)
    ticking.start()
    best = 0
    for _ in range(20):
        began = time.perf_counter()
        fib.lookup_many(addresses)
        ended = time.perf_counter()
        # Ticks in the middle half of the call. If the batch held the interpreter's lock, no other
        # thread would tick there.
        quarter = (ended - began) / 4
        best = max(best, sum(began + quarter < t < ended - quarter for t in times))
        times.clear()
    done.set()
    ticking.join()
    assert best > 100, f"the other thread ticked {best} times during a batch"


@pytest.mark.parametrize("objects", [False, True])
def test_batches_beside_writers_see_old_or_new_values(objects):
    fib = Fib({"10.0.0.0/8": ("core", -1)})
    addresses = np.full(50_000, 0x0A010203, np.uint32)
    done = threading.Event()
    errors = []

    def write():
        turn = 0
        while not done.is_set():
            # A new object each time, whose number was another's before.
            fib["10.1.0.0/16"] = ("lab", turn)
            if turn % 3 == 0:
                del fib["10.1.0.0/16"]
            turn += 1

    def read():
        try:
            for _ in range(20):
                found = fib.lookup_many(addresses, objects=objects)
                if objects:
                    assert all(value[0] in ("core", "lab") for value in found)
                    turns = [value[1] for value in found if value[0] == "lab"]
                    assert turns == sorted(turns)
                else:
                    assert (found >= 0).all()
                value = fib["10.1.2.3"]
                assert value[0] in ("core", "lab")
                assert {v[0] for v in fib.values()} <= {"core", "lab"}
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=read) for _ in range(3)]
    threads.append(threading.Thread(target=write, daemon=True))
    for thread in threads:
        thread.start()
    for thread in threads[:3]:
        thread.join()
    done.set()
    threads[3].join()
    assert errors == []
    fib.verify()


def test_a_child_has_a_copy():
    fib, names, ranges = Fib({"10.0.0.0/8": 1}), NameMap({"a": 1}), RangeMap({range(5): 1})
    fib.lookup_many(["10.0.0.1"])
    child = os.fork()
    if child == 0:
        try:
            fib["10.1.0.0/16"] = names["b"] = ranges[2] = 2
            found = (fib.lookup_many(["10.0.0.1", "10.1.0.1"], objects=True), names["b"], ranges[2])
            os._exit(0 if found == ([1, 2], 2, 2) else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert (fib["10.1.0.1"], "b" in names, ranges[2]) == (1, False, 1)


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def test_nothing_leaks(operations):
    """Inserts, replaces, removes, looks up, copies and batches; memory stays where it was."""
    fib = Fib(root_bits=12)
    rng = np.random.default_rng(9)

    def work(rounds):
        for _ in range(rounds):
            numbers = rng.integers(0, 2**32, 100).tolist()
            prefixes = [f"10.{n & 63}.{n >> 6 & 255}.0/24" for n in numbers]
            for prefix, number in zip(prefixes, numbers):
                fib[prefix] = (number,)
                fib.insert(prefix, str(number))
                fib.lookup(number)
                fib.get(prefix)
                fib.exact(number, number)
            fib.lookup_many(numbers, objects=True)
            fib.lookup_many(numbers)
            for prefix in prefixes[::2]:
                fib.pop(prefix, None)
            with pytest.raises(ValueError):
                fib["10.0.0.1/8"] = 1
            with pytest.raises(KeyError):
                del fib["10.255.0.0/16"]
            fib.parents(prefixes[1])
            fib.children("10.0.0.0/8")
            next(iter(fib.items()))
            if len(fib) > 10_000:
                fib.clear()

    each = 100 * 5 + 50 + 6
    work(100)
    gc.collect()
    objects, before = len(gc.get_objects()), peak()
    work(max(operations // each, 1))
    gc.collect()
    fib.verify()
    grown = peak() - before
    assert grown < 32 << 20, f"{grown} bytes more"
    assert abs(len(gc.get_objects()) - objects) < 30_000
    fib.clear()
    gc.collect()
    assert len(gc.get_objects()) - objects < 2_000
    print(f"{max(operations // each, 1) * each} operations")
