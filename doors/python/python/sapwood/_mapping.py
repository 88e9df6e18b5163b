"""What makes mappings of the classes that are written in Rust.

A class in Rust has what only it can do, or does quicker: [], len(), in, get(), iter(), and
_walk(kind, back), which yields its keys, values or items in either direction. The rest of
collections.abc's Mapping and MutableMapping, and of what a dict has besides, is here once for all
of them; complete() gives a class what it lacks. So a lookup runs no code of Python's.
"""

import functools
from collections import abc

from ._native import _window as _window_of  # type: ignore[import-not-found]

_ABSENT = object()


class _View(abc.MappingView):
    """Keys, values or items of a map as they are now; `within` a range if the map is of ranges."""

    __slots__ = ("_within",)
    _kind = ""

    def __init__(self, mapping, *within):
        super().__init__(mapping)
        self._within = within

    def __len__(self):
        return sum(1 for _ in self) if self._within else len(self._mapping)

    def __iter__(self):
        return self._mapping._walk(self._kind, False, *self._within)

    def __reversed__(self):
        return self._mapping._walk(self._kind, True, *self._within)

    def _value(self, key):
        """The value of exactly this key; what cannot be a key has none."""
        try:
            value = self._mapping._exact(key, _ABSENT)
        except (TypeError, ValueError, IndexError):
            return _ABSENT
        if value is _ABSENT:
            return value
        # A range that is a key is within a window if they have an index in common.
        for window in self._within:
            if key.start >= window.stop or key.stop <= window.start:
                return _ABSENT
        return value


class KeysView(_View, abc.KeysView):
    __slots__ = ()
    _kind = "keys"

    def __contains__(self, key):
        return self._value(key) is not _ABSENT


class ValuesView(_View, abc.ValuesView):
    __slots__ = ()
    _kind = "values"

    def __contains__(self, value):
        return any(known is value or known == value for known in self)


class ItemsView(_View, abc.ItemsView):
    __slots__ = ()
    _kind = "items"

    def __contains__(self, item):
        if not isinstance(item, tuple) or len(item) != 2:
            return False
        value = self._value(item[0])
        return value is not _ABSENT and (value is item[1] or value == item[1])


class Reading:
    """A mapping that is read."""

    def keys(self):
        """A view of the keys, in order: a set that follows the map. reversed() reverses it."""
        return KeysView(self)

    def values(self):
        """A view of the values, in the order of their keys. reversed() reverses it."""
        return ValuesView(self)

    def items(self):
        """A view of pairs of key and value, in order. reversed() reverses it."""
        return ItemsView(self)

    def __iter__(self):
        return self._walk("keys", False)

    def __reversed__(self):
        return self._walk("keys", True)

    def __eq__(self, other):
        if not isinstance(other, abc.Mapping):
            return NotImplemented
        return dict(self.items()) == dict(other.items())

    __hash__ = None  # type: ignore[assignment]

    def _exact(self, key, default):
        return self.get(key, default)


class Writing(Reading):
    """A mapping that is written."""

    def setdefault(self, key, default=None, /):
        """The value of exactly this key; inserts `default` when the key is not there."""
        value = self._exact(key, _ABSENT)
        if value is not _ABSENT:
            return value
        self[key] = default
        return default

    def popitem(self):
        """Removes the first entry and returns its key and its value; KeyError when there is
        none."""
        while True:
            for key in self:
                value = self.pop(key, _ABSENT)
                if value is not _ABSENT:
                    return key, value
                break  # another thread has removed it
            else:
                raise KeyError("the map is empty")

    def __ior__(self, other):
        self.update(other)
        return self


class Opened(Reading):
    """A mapping that a class opens by its path."""

    def __reduce__(self):
        path, how = self._opened()
        return functools.partial(type(self).open, **how), (path,)


class LiveReading(Opened):
    """A reader of a live map."""

    @property
    def generation(self):
        """How many times processes have taken the map over."""
        return self._live("generation")

    def has_writer(self):
        """Whether the map's writer lives. Without one, the map stays as it is until a process
        takes it over."""
        return self._live("has_writer")


class LiveWriting(Writing):
    """The writer of a live map, which is a context that closes it."""

    def __setitem__(self, key, value):
        self.insert(key, value)

    def __delitem__(self, key):
        if self._take(key) is None:
            raise KeyError(key)

    def pop(self, key, /, *default):
        """Removes a key and returns its value. When it is not there, returns `default` or raises
        KeyError."""
        if len(default) > 1:
            given = 1 + len(default)
            raise TypeError(f"pop() takes one or two arguments, and {given} were given")
        value = self._take(key)
        if value is not None:
            return value
        if not default:
            raise KeyError(key)
        return default[0]

    def update(self, items=None, /, *, remove=None, **others):
        """Removes the keys of an iterable, as far as they are there, and then inserts all items of
        a mapping or of an iterable of pairs, and the other named arguments, in one commit or
        transaction. Readers of routes may see a part of it for a moment. Ranges are cleared, and
        then stored one after the other. All are read first: a wrong one changes nothing."""
        self._change((items, remove, others))

    def readers(self):
        """The readers in all processes: a list of dicts with "pid", "name", "online" and
        "holds_back", which says that what was replaced cannot be freed because of this reader."""
        return self._live("readers")

    def verify(self):
        """Checks every invariant of the map; ValueError says what is wrong. For tests."""
        self._live("verify")

    def close(self):
        """Ends writing, so that another process may take the map over. Every later call raises
        ValueError."""
        self._live("close")

    def remove_map(self):
        """Deletes the map and its folder. From then on, readers raise FileNotFoundError."""
        self._live("remove_map")

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        self.close()


class InMemory(Writing):
    """A mapping of this process, of which there may be copies."""

    @classmethod
    def fromkeys(cls, keys, value=None, /, **options):
        """A map of the keys of an iterable, all with the same value. The options are those of the
        class."""
        return cls(((key, value) for key in keys), **options)

    def __copy__(self):
        return self.copy()

    def __or__(self, other):
        if not isinstance(other, abc.Mapping):
            return NotImplemented
        both = self.copy()
        both.update(other)
        return both

    def __ror__(self, other):
        if not isinstance(other, abc.Mapping):
            return NotImplemented
        both = self._like()
        both.update(other)
        both.update(self)
        return both


class Routes:
    """A mapping whose [] takes more than its keys: addresses, for their longest prefixes."""

    def _exact(self, key, default):
        return self.exact(key, default)


class Ranges:
    """A mapping whose [] takes more than its keys: indices, for the entries that hold them."""

    def keys(self, start=None, stop=None, /):
        """A view of the ranges of the entries that have an index from `start` to before `stop`,
        each whole, in order: a set that follows the map. reversed() reverses it."""
        return KeysView(self, *_window(start, stop))

    def values(self, start=None, stop=None, /):
        """A view of the values of the entries of keys()."""
        return ValuesView(self, *_window(start, stop))

    def items(self, start=None, stop=None, /):
        """A view of pairs of range and value of the entries of keys()."""
        return ItemsView(self, *_window(start, stop))

    def _exact(self, key, default):
        return self.get(key, default) if isinstance(key, range) else default


def _window(start, stop):
    """The window of a view; none for a view of everything."""
    return () if start is None and stop is None else (_window_of(start, stop),)


def complete(cls, surface, *special):
    """Gives a class what it lacks of a mapping's surface, and registers it. What is special to it
    comes before the rest."""
    own = {name for part in cls.__mro__[:-1] for name in vars(part)}
    parts = [*special, *surface.__mro__[:-1]]
    for part in parts:
        for name, member in vars(part).items():
            given = callable(member) or isinstance(member, (classmethod, property))
            given |= name == "__hash__"
            if given and name not in own:
                setattr(cls, name, member)
                own.add(name)
    (abc.MutableMapping if Writing in parts else abc.Mapping).register(cls)
