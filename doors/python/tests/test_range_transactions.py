"""Transactions and snapshots of RangeMap against a list of cells, alone and beside threads."""

import gc
import os
import pickle
import signal
import threading
import weakref

import pytest
from cells import SIZE, Oracle, Thing, bases, changed, steps
from hypothesis import given
from hypothesis import strategies as st

from sapwood import RangeMap


@given(bases, st.lists(st.tuples(st.lists(steps, max_size=8), st.sampled_from("cri")), max_size=6))
def test_transactions_are_those_of_cells(base, blocks):
    map, oracle = RangeMap(), Oracle(base)
    for block, end in blocks:
        before, kept = oracle.items(), map.snapshot()
        cells = Oracle(base)
        cells.cells = list(oracle.cells)
        try:
            with map.transaction() as txn:
                for step in block:
                    changed(txn, cells, step)
                    txn.verify()
                    assert list(txn.items()) == cells.items() and list(map.items()) == before
                if end == "i":  # a transaction inside, which ends well
                    with txn.transaction() as inner:
                        for step in block:
                            changed(inner, cells, step)
                    assert list(txn.items()) == cells.items()
                if end == "r":
                    raise KeyError("rolled back")
        except KeyError:
            assert list(map.items()) == before
        else:
            oracle = cells
            assert list(map.items()) == cells.items()
        map.verify()
        assert list(kept.items()) == before
        values = [dict.fromkeys(range(base, base + SIZE)) for _ in range(2)]
        for old, items in zip(values, (before, oracle.items())):
            old.update((index, value) for where, value in items for index in where)
        differs = {at: (old, values[1][at]) for at, old in values[0].items() if old != values[1][at]}
        found = kept.diff(map.snapshot())
        assert {at: (old, new) for where, old, new in found for at in where} == differs
        pieces = kept.overlay(map.snapshot())
        assert all(len(where) and (old, new) != (None, None) for where, old, new in pieces)
        here = {at: (old, new) for where, old, new in pieces for at in where}
        assert here == {
            at: (old, values[1][at])
            for at, old in values[0].items()
            if (old, values[1][at]) != (None, None)
        }


def test_a_transaction_is_seen_at_its_end():
    map = RangeMap({range(0, 10): "a", range(20, 30): "b"})
    with map.transaction() as txn:
        assert type(txn) is RangeMap and txn == map
        del txn[0:5]
        txn["0.0.0.40":"0.0.0.50"] = "c"
        assert txn.pop(range(20, 30)) == "b" and txn.setdefault(60, "d") == "d"
        assert map == {range(0, 10): "a", range(20, 30): "b"} and len(txn) == 3
        inside = iter(txn.items())
        kept = txn.snapshot()
    assert list(map.items()) == [(range(5, 10), "a"), (range(40, 50), "c"), (range(60, 61), "d")]
    # What began to read in the block reads on.
    assert list(inside) == list(kept.items()) == list(map.items())
    map.verify()


FINISHED = [
    lambda txn: txn[5],
    lambda txn: 5 in txn,
    len,
    list,
    lambda txn: list(txn.items()),
    lambda txn: txn.find_gap(1),
    lambda txn: txn.__setitem__(5, 1),
    lambda txn: txn.clear(),
    lambda txn: txn.take(),
    lambda txn: txn.modify(0, 10, lambda range, value: value),
    lambda txn: txn.move_range(0, 10, 20),
    lambda txn: txn.alloc(1, 1),
    lambda txn: txn.copy(),
    lambda txn: txn.snapshot(),
    lambda txn: txn.lookup_many([1]),
    lambda txn: pickle.dumps(txn),
    lambda txn: txn.save("none"),
    lambda txn: txn.verify(),
    lambda txn: txn.transaction().__enter__(),
]


@pytest.mark.parametrize("use", FINISHED, ids=range(len(FINISHED)))
@pytest.mark.parametrize("error", [None, KeyError])
def test_a_transaction_that_has_ended_is_refused(use, error):
    map = RangeMap({range(0, 10): "a"})
    try:
        with map.transaction() as txn:
            txn[5] = "b"
            if error:
                raise error
    except KeyError:
        pass
    with pytest.raises(ValueError, match="the transaction has ended"):
        use(txn)
    assert len(map) == (1 if error else 3)
    map.verify()


def test_a_transaction_has_one_block():
    map = RangeMap()
    block = map.transaction()
    with pytest.raises(ValueError, match="the transaction is not in its block"):
        block.__exit__(None, None, None)
    with block as txn:
        txn[1] = "a"
        with pytest.raises(ValueError, match="a transaction has one block"):
            block.__enter__()
    for again in (block.__enter__, lambda: block.__exit__(None, None, None)):
        with pytest.raises(ValueError):
            again()
    assert map == {range(1, 2): "a"}
    # A block that nobody ends changes nothing, and lets others change the map.
    txn = map.transaction().__enter__()
    map[1] = "b"
    with pytest.raises(ValueError, match="the transaction has ended"):
        txn[2] = "c"


def test_the_thread_of_a_transaction_changes_nothing_else():
    map = RangeMap({range(0, 10): "a"})
    outside = [
        lambda: map.__setitem__(5, "b"),
        lambda: map.__delitem__(5),
        lambda: map.pop(5),
        lambda: map.popitem(),
        lambda: map.setdefault(50, "b"),
        lambda: map.insert(50, "b"),
        lambda: map.remove(5),
        lambda: map.clear(),
        lambda: map.take(),
        lambda: map.alloc(1, "b"),
        lambda: map.move_range(0, 5, 50),
        lambda: map.modify(0, 5, lambda range, value: "b"),
        lambda: map.transaction().__enter__(),
    ]
    with map.transaction() as txn:
        for change in outside:
            with pytest.raises(RuntimeError, match="this thread has a transaction"):
                change()
        txn[5] = "c"
        assert map[5] == "a"

    def meddle(range, value):
        with pytest.raises(RuntimeError, match="this thread has a transaction or a modify"):
            map[100] = value
        return value

    map.modify(0, 10, meddle)
    assert list(map.values()) == ["a", "c", "a"]

    def fail(range, value):
        if value == "c":
            raise LookupError(value)
        return "d"

    with pytest.raises(LookupError, match="c"):
        map.modify(None, None, fail)
    assert list(map.values()) == ["a", "c", "a"]
    map[5] = "again"
    map.verify()


def test_threads_wait_for_a_transaction():
    map, order = RangeMap({range(0, 10): "a"}), []
    inside, written = threading.Event(), threading.Event()

    def transact():
        with map.transaction() as txn:
            txn[0:10] = "b"
            inside.set()
            assert not written.wait(0.2)
            order.append(map[0])
            txn[20:30] = "b"

    def write():
        inside.wait()
        map[0:5] = "c"
        order.append(map[20])
        written.set()

    threads = [threading.Thread(target=work) for work in (transact, write)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert order == ["a", "b"] and written.is_set()
    assert list(map.items()) == [(range(0, 5), "c"), (range(5, 10), "b"), (range(20, 30), "b")]
    map.verify()


def test_threads_share_a_transaction():
    map, errors = RangeMap(), []

    def work(txn, number):
        try:
            for turn in range(200):
                txn.alloc(3, number)
                txn.modify(0, 50, lambda range, value: value)
                assert len(map) == 0
        except BaseException as error:
            errors.append(error)

    with map.transaction() as txn:
        threads = [threading.Thread(target=work, args=(txn, number)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        txn.verify()
    assert errors == []
    found = [value for where, value in map.items() for _ in where]
    assert [found.count(number) for number in range(3)] == [600] * 3
    assert map.gaps() == [range(1800, 2**64)]
    map.verify()


def test_a_signal_ends_the_wait_for_a_transaction():
    map, inside, done = RangeMap(), threading.Event(), threading.Event()

    def transact():
        with map.transaction() as txn:
            txn[1] = "a"
            inside.set()
            done.wait()

    class Alarm(Exception):
        pass

    def alarm(*_):
        raise Alarm

    thread = threading.Thread(target=transact)
    before = signal.signal(signal.SIGALRM, alarm)
    try:
        thread.start()
        inside.wait()
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(Alarm):
            map[2] = "b"
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(Alarm):
            with map.transaction():
                pytest.fail("the map has a transaction")
    finally:
        signal.signal(signal.SIGALRM, before)
        done.set()
        thread.join()
    assert map == {range(1, 2): "a"}
    map.verify()


def test_readers_see_whole_transactions():
    """Two threads move an entry to and fro; two others find it once in each snapshot."""
    map, errors = RangeMap({range(0, 10): "a"}), []
    map[1000:1010] = 0

    def move():
        for _ in range(300):
            with map.transaction() as txn:
                (place,) = [where for where, value in txn.items() if value == "a"]
                txn.move_range(place.start, place.stop, 990 - place.start)
                txn[1000:1010] = txn[1000] + 1

    def read():
        for _ in range(1500):
            seen = map.snapshot()
            if list(seen.values()).count("a") != 1 or len(seen) != 2:
                errors.append(seen[:])
            assert -1 not in map.lookup_many(range(1000, 1010)).tolist()

    def attempt(work):
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=attempt, args=(work,)) for work in (move, move, read, read)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert map[1000] == 600 and map[0] == "a"
    map.verify()


def test_the_child_of_a_fork_does_not_wait_for_a_transaction_of_another_thread():
    map, inside, done = RangeMap({range(0, 10): "a"}), threading.Event(), threading.Event()

    def transact():
        with map.transaction() as txn:
            txn[0] = "b"
            inside.set()
            done.wait()

    thread = threading.Thread(target=transact)
    thread.start()
    inside.wait()
    child = os.fork()
    if child == 0:
        try:
            map[5] = "c"
            with map.transaction() as txn:
                txn[6] = "d"
            os._exit(0 if [map[at] for at in (0, 5, 6)] == ["a", "c", "d"] else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    done.set()
    thread.join()
    assert map[0] == "b" and map[5] == "a"


def test_snapshots_stay_as_they_are():
    map, thing = RangeMap({range(0, 10): "a"}), Thing()
    known = weakref.ref(thing)
    map[20:30] = thing
    before = map.snapshot()
    items = list(map.items())
    map.clear()
    map["10.0.0.0/8"] = thing = "new"
    assert list(before.items()) == items and before == dict(items) and len(before) == 2
    assert before[25] is known() and before[5:25] == [(range(5, 10), "a"), (range(20, 25), known())]
    assert before["0.0.0.5"] == before.get(5) == "a" and before.get(15, "none") == "none"
    assert 5 in before and range(0, 10) in before.keys() and 15 not in before
    assert list(reversed(before)) == [range(20, 30), range(0, 10)]
    assert before.entry(25) == before.last() == before.next_after(5) == items[1]
    assert before.first() == before.prev_before(20) == items[0]
    assert before.gaps(0, 40) == [range(10, 20), range(30, 40)]
    assert before.find_gap(10, highest=True, stop=40) == range(30, 40)
    assert RangeMap(before) == before and "2 entries" in repr(before)
    after = map.snapshot()
    net = range(10 << 24, 11 << 24)
    assert before.diff(after) == [
        (range(0, 10), "a", None), (range(20, 30), known(), None), (net, None, "new")
    ]
    assert after.diff(before, default=0)[2] == (net, "new", 0) and before.diff(before) == []
    # Snapshots of different maps, of which equal objects have different numbers.
    other = RangeMap({range(5, 25): (1,), range(0, 5): "a"}).snapshot()
    mine = RangeMap({range(0, 25): (1,)}).snapshot()
    assert mine.diff(other) == [(range(0, 5), (1,), "a")]
    assert mine.overlay(before, default=0) == [
        (range(0, 10), (1,), "a"), (range(10, 20), (1,), 0), (range(20, 25), (1,), known()),
        (range(25, 30), 0, known()),
    ]
    with pytest.raises(TypeError):
        before.diff(map)
    with pytest.raises(TypeError):
        before[5] = 1
    with pytest.raises(TypeError, match="cannot pickle"):
        pickle.dumps(before)
    with pytest.raises(TypeError, match="unhashable"):
        hash(before)
    del before, items
    assert known() is None
    map.verify()


def test_values_of_snapshots_may_be_hard_to_compare():
    class Bad:
        def __eq__(self, other):
            raise LookupError("no")

    left, right = (RangeMap({5: Bad()}).snapshot() for _ in range(2))
    with pytest.raises(LookupError):
        left.diff(right)
    assert left.diff(left) == [] and len(left.overlay(right)) == 1


def test_cycles_through_snapshots_and_transactions_are_collected():
    map, thing = RangeMap(), Thing()
    map[0] = thing
    thing.snapshot, thing.block, thing.map = map.snapshot(), map.transaction(), map
    thing.txn = thing.block.__enter__()
    known = weakref.ref(thing)
    del map, thing
    gc.collect()
    assert known() is None


def test_a_transaction_lets_go_of_its_values():
    map, first, second, third = RangeMap(), Thing(), Thing(), Thing()
    known = [weakref.ref(thing) for thing in (first, second, third)]
    map[0] = first
    with map.transaction() as txn:
        txn[0] = second
        txn[1] = third
        del txn[1]
    del first, second, third
    assert [ref() is None for ref in known] == [True, False, True]
    with pytest.raises(KeyError):
        with map.transaction() as txn:
            txn.clear()
            raise KeyError
    assert known[1]() is map[0]
    map.clear()
    assert known[1]() is None

    class Meddler:
        def __del__(self):
            map[1000] = "dropped"

    map[0] = Meddler()
    with map.transaction() as txn:
        txn[0] = 1
    assert list(map.values()) == [1, "dropped"]
    map[0] = Meddler()
    map.modify(0, 1, lambda range, value: 2)
    assert list(map.values()) == [2, "dropped"]
    map.verify()
