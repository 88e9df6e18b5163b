"""A list of cells, one for each index, as what a map of ranges is compared with."""

import itertools

from hypothesis import strategies as st

SIZE = 40
TOP = 2**64
# Small indices, or those at the very end.
bases = st.sampled_from([0, TOP - SIZE])
ends = st.tuples(st.integers(0, SIZE - 1), st.integers(1, SIZE)).map(
    lambda ends: (min(ends[0], ends[1] - 1), max(ends[0] + 1, ends[1]))
)
values = st.integers(0, 2) | st.sampled_from(["a", (1,), None])
steps = st.tuples(st.sampled_from("sjdtmfar"), ends, st.integers(0, 2), st.integers(0, SIZE))


class Oracle:
    """What each index has: an entry (an object of its own) with a value, or None."""

    def __init__(self, base):
        self.base, self.cells = base, [None] * SIZE

    def store(self, lo, hi, value):
        # An entry that is cut in two becomes two.
        after = self.cells[hi - 1] if hi < SIZE and self.cells[hi - 1] else None
        if after and lo and self.cells[lo - 1] is after:
            for index in range(hi, SIZE):
                if self.cells[index] is not after:
                    break
                self.cells[index] = other = self.cells[index - 1] if index > hi else [after[0]]
        self.cells[lo:hi] = [value if value is None else [value[0]]] * (hi - lo)

    def join(self, lo, hi):
        """Joins the entry that has exactly these indices with neighbours of the same value."""
        cell = self.cells[lo]
        for step, at in ((-1, lo - 1), (1, hi)):
            if 0 <= at < SIZE and (other := self.cells[at]) and other[0] == cell[0]:
                while 0 <= at < SIZE and self.cells[at] is other:
                    self.cells[at], at = cell, at + step

    def parts(self, lo, hi):
        """The parts of entries between two indices."""
        found = itertools.groupby(range(lo, hi), lambda at: id(self.cells[at]))
        found = [list(at) for _, at in found]
        return [(at[0], at[-1] + 1, self.cells[at[0]][0]) for at in found if self.cells[at[0]]]

    def take(self, lo, hi):
        parts = self.parts(lo, hi)
        self.store(lo, hi, None)
        return parts

    def move(self, lo, hi, to):
        parts = self.take(lo, hi)
        self.store(to, to + hi - lo, None)
        for first, stop, value in parts:
            self.store(first - lo + to, stop - lo + to, [value])

    def modify(self, lo, hi, f):
        for first, stop, value in self.parts(lo, hi):
            self.store(first, stop, [f(value)])
            self.join(first, stop)

    def entries(self):
        found, at = [], 0
        while at < SIZE:
            stop = at + 1
            while stop < SIZE and self.cells[stop] is self.cells[at]:
                stop += 1
            found.append((range(self.base + at, self.base + stop), self.cells[at]))
            at = stop
        return found

    def items(self):
        return [(r, cell[0]) for r, cell in self.entries() if cell]

    def gaps(self):
        return [r for r, cell in self.entries() if cell is None]


def changed(map, oracle, step):
    """Makes one change of a map and of its cells."""
    what, (lo, hi), value, to = step
    base = oracle.base
    start, stop, to = base + lo, base + hi, min(to, SIZE - (hi - lo))
    wide = lambda parts: [(range(base + first, base + end), value) for first, end, value in parts]
    match what:
        case "s":
            map[start:stop] = value
            oracle.store(lo, hi, [value])
        case "j":
            map.store(slice(start, stop), value, coalesce=True)
            oracle.store(lo, hi, [value])
            oracle.join(lo, hi)
        case "d":
            del map[start:stop]
            oracle.store(lo, hi, None)
        case "t":
            assert map[start:stop] == wide(oracle.parts(lo, hi))
            assert map.take(start, stop) == wide(oracle.take(lo, hi))
        case "m":
            map.move_range(start, stop, base + to)
            oracle.move(lo, hi, to)
        case "f":
            asked = []
            map.modify(start, stop, lambda range, old: asked.append((range, old)) or value)
            assert asked == wide(oracle.parts(lo, hi))
            oracle.modify(lo, hi, lambda old: value)
        case "a":
            place = map.find_gap(hi - lo, start=base, stop=base + SIZE)
            if place:
                assert map.alloc(hi - lo, value, start=base, stop=base + SIZE) == place
                oracle.store(place.start - base, place.stop - base, [value])
        case "r" if oracle.cells[lo]:
            range_, _ = map.remove(start)
            oracle.store(range_.start - base, range_.stop - base, None)


class Thing:
    pass
