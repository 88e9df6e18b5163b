"""Ordered maps for routes, names and ranges."""

from collections.abc import (
    Callable,
    ItemsView,
    Iterable,
    Iterator,
    KeysView,
    Mapping,
    MutableMapping,
    ValuesView,
)
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from os import PathLike
from types import GenericAlias
from typing import (
    Any,
    Generic,
    Literal,
    Protocol,
    Self,
    SupportsIndex,
    TypeAlias,
    TypeVar,
    final,
    overload,
)

from typing_extensions import disjoint_base

__all__ = [
    "Closest",
    "Fib",
    "FibFile",
    "IpSet",
    "LiveFib",
    "LiveFibWriter",
    "LiveNames",
    "LiveNamesWriter",
    "LiveRanges",
    "LiveRangesWriter",
    "NameFile",
    "NameIter",
    "NameMap",
    "NameReader",
    "NoGapError",
    "OccupiedError",
    "RangeMap",
    "RangeSnapshot",
    "RangeTransaction",
    "SnapshotIter",
    "supernet",
    "unmapped",
]

__version__: str

_T = TypeVar("_T")
_D = TypeVar("_D")
_K = TypeVar("_K", str, bytes)
# What [] takes, the keys that a mapping yields, and its values; _I is what [] stores.
_Q = TypeVar("_Q")
_R = TypeVar("_R")
_V = TypeVar("_V")
_T_co = TypeVar("_T_co", covariant=True)
_K_co = TypeVar("_K_co", covariant=True)
_V_co = TypeVar("_V_co", covariant=True)
_I = TypeVar("_I")
_A = TypeVar("_A")

_Path: TypeAlias = str | PathLike[str]
# Who may register as a reader of a live map; an int is the number of a group.
_ReadBy: TypeAlias = Literal["owner", "everybody"] | int
# An address, alone or where a prefix is wanted.
_Address: TypeAlias = str | int | bytes | IPv4Address | IPv6Address
_Prefix: TypeAlias = _Address | IPv4Network | IPv6Network
# An index of a map of ranges: IPv4 addresses are read as their numbers.
_Index: TypeAlias = SupportsIndex | str | bytes | IPv4Address
_Slice: TypeAlias = slice[_Index | None, _Index | None, Literal[1] | None]
# A key of a map of ranges: a range or a prefix, or an index in it.
_Place: TypeAlias = range | IPv4Network | _Index
_Range: TypeAlias = _Slice | _Place

class _HasArray(Protocol):
    def __array__(self) -> Any: ...

class _HasItems(Protocol[_K_co, _V_co]):
    def items(self) -> Iterable[tuple[_K_co, _V_co]]: ...

class _HasKeys(Protocol[_I, _V_co]):
    def keys(self) -> Iterable[_I]: ...
    def __getitem__(self, key: _I, /) -> _V_co: ...

_Items: TypeAlias = (
    _HasItems[_K_co, _V_co] | _HasKeys[_K_co, _V_co] | Iterable[tuple[_K_co, _V_co]]
)
# Arrays of addresses, what has one, or an iterable of addresses, in which None is no address.
_Addresses: TypeAlias = _HasArray | Iterable[_Address | None]

@overload
def unmapped(address: str | int | bytes | IPv6Address, /) -> Any: ...
@overload
def unmapped(address: _A, /) -> _A: ...

class NoGapError(ValueError): ...
class OccupiedError(ValueError): ...

def supernet(prefixes: Iterable[_Prefix], /) -> str | None: ...
@final
class IpSet:
    def __new__(cls, items: Iterable[_Prefix] | None = None, /) -> Self: ...
    @classmethod
    def parse(cls, text: str, /) -> IpSet: ...
    @classmethod
    def from_ranges(cls, ranges: Iterable[tuple[_Address, _Address]], /) -> IpSet: ...
    def __contains__(self, key: _Prefix, /) -> bool: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...
    def __bool__(self) -> bool: ...
    def __or__(self, value: IpSet, /) -> IpSet: ...
    def __ror__(self, value: IpSet, /) -> IpSet: ...
    def __and__(self, value: IpSet, /) -> IpSet: ...
    def __rand__(self, value: IpSet, /) -> IpSet: ...
    def __sub__(self, value: IpSet, /) -> IpSet: ...
    def __rsub__(self, value: IpSet, /) -> IpSet: ...
    def __xor__(self, value: IpSet, /) -> IpSet: ...
    def __rxor__(self, value: IpSet, /) -> IpSet: ...
    def __invert__(self) -> IpSet: ...
    def __eq__(self, value: object, /) -> bool: ...
    def __ne__(self, value: object, /) -> bool: ...
    def __le__(self, value: IpSet, /) -> bool: ...
    def __lt__(self, value: IpSet, /) -> bool: ...
    def __ge__(self, value: IpSet, /) -> bool: ...
    def __gt__(self, value: IpSet, /) -> bool: ...
    def __hash__(self) -> int: ...
    @property
    def num_addresses(self) -> int: ...
    def overlaps(self, prefix: _Prefix, /) -> bool: ...
    def ranges(self) -> list[tuple[str, str]]: ...
    def supernet(self) -> str | None: ...
    def union(self, other: Iterable[_Prefix], /) -> IpSet: ...
    def intersection(self, other: Iterable[_Prefix], /) -> IpSet: ...
    def difference(self, other: Iterable[_Prefix], /) -> IpSet: ...
    def symmetric_difference(self, other: Iterable[_Prefix], /) -> IpSet: ...
    def complement(self) -> IpSet: ...
    def isdisjoint(self, other: Iterable[_Prefix], /) -> bool: ...
    def issubset(self, other: Iterable[_Prefix], /) -> bool: ...
    def issuperset(self, other: Iterable[_Prefix], /) -> bool: ...

@final
class SnapshotIter(Generic[_T_co]):
    def __class_getitem__(cls, key: Any) -> GenericAlias: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> _T_co: ...
    def __length_hint__(self) -> int: ...

@final
class NameIter(Generic[_T_co]):
    def __class_getitem__(cls, key: Any) -> GenericAlias: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> _T_co: ...
    def __reversed__(self) -> NameIter[_T_co]: ...

# What classes have in common, as in _mapping.py and in Rust. No such class is there at run time.

class _Reading(Mapping[_R, _V], Generic[_Q, _R, _V]):
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[_R]: ...
    def __reversed__(self) -> Iterator[_R]: ...
    def __getitem__(self, key: _Q, /) -> _V: ...  # type: ignore[override]
    def __contains__(self, key: _Q, /) -> bool: ...  # type: ignore[override]
    def __eq__(self, value: object, /) -> bool: ...
    __hash__: None  # type: ignore[assignment]
    @overload  # type: ignore[override]
    def get(self, key: _Q, default: None = None, /) -> _V | None: ...
    @overload
    def get(self, key: _Q, default: _D, /) -> _V | _D: ...

class _Writing(_Reading[_Q, _R, _V], MutableMapping[_R, _V], Generic[_Q, _R, _V, _I]):
    def __setitem__(self, key: _Q, value: _I, /) -> None: ...  # type: ignore[override]
    def __delitem__(self, key: _Q, /) -> None: ...  # type: ignore[override]
    @overload  # type: ignore[override]
    def pop(self, key: _Q, /) -> _I: ...
    @overload
    def pop(self, key: _Q, default: _D, /) -> _I | _D: ...
    def setdefault(self, key: _Q, default: _I | None = None, /) -> _I: ...  # type: ignore[override]
    def popitem(self) -> tuple[_R, _I]: ...  # type: ignore[override]
    def clear(self) -> None: ...
    def verify(self) -> None: ...

class _InMemory(_Writing[_Q, _R, _V, _V]):
    def update(  # type: ignore[override]
        self, items: _Items[_Q, _V] | None = None, /, **others: _V
    ) -> None: ...
    def __or__(self, other: Mapping[_Q, _V] | Mapping[_R, _V], /) -> Self: ...
    def __ror__(self, other: Mapping[_Q, _V] | Mapping[_R, _V], /) -> Self: ...
    def __ior__(self, other: _Items[_Q, _V], /) -> Self: ...  # type: ignore[misc]
    def copy(self) -> Self: ...
    def __copy__(self) -> Self: ...
    def __setstate__(self, state: tuple[Any, ...]) -> None: ...
    def memory(self) -> dict[str, int]: ...
    def __sizeof__(self) -> int: ...
    def save(self, path: _Path, /) -> None: ...

class _Live:
    @property
    def generation(self) -> int: ...
    def has_writer(self) -> bool: ...

class _LiveWriting(_Writing[_Q, _R, _V, _I]):
    def update(  # type: ignore[override]
        self,
        items: _Items[_Q, _I] | None = None,
        /,
        *,
        remove: Iterable[_Q] | None = None,
        **others: _I,
    ) -> None: ...
    def __ior__(self, other: _Items[_Q, _I], /) -> Self: ...
    def readers(self) -> list[dict[str, Any]]: ...
    def close(self) -> None: ...
    def remove_map(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *_error: object) -> None: ...

class _Names(_Reading[_K, _K, _V]):
    def __iter__(self) -> NameIter[_K]: ...
    def __reversed__(self) -> NameIter[_K]: ...
    def first(self) -> tuple[_K, _V] | None: ...
    def last(self) -> tuple[_K, _V] | None: ...
    def predecessor(self, key: _K, /) -> tuple[_K, _V] | None: ...
    def successor(self, key: _K, /) -> tuple[_K, _V] | None: ...
    def longest_prefix(self, key: _K, /) -> tuple[_K, _V] | None: ...
    def ancestors(self, key: _K, /) -> list[tuple[_K, _V]]: ...
    def prefix(self, prefix: _K, /) -> NameIter[tuple[_K, _V]]: ...
    def range(
        self, start: _K | None = None, stop: _K | None = None, /
    ) -> NameIter[tuple[_K, _V]]: ...
    def closest(
        self, name: _K, /, *, is_cut: Callable[[str, _V], object] | None = None
    ) -> Closest[_V]: ...

class _Routes(_Reading[_Prefix, str, _V]):
    @overload
    def exact(self, prefix: _Prefix, default: None = None, /) -> _V | None: ...
    @overload
    def exact(self, prefix: _Prefix, default: _D, /) -> _V | _D: ...
    def lookup(self, key: _Prefix, /) -> tuple[str, _V] | None: ...

class _Ranges(_Reading[_Place, range, _V]):
    @overload  # type: ignore[override]
    def __getitem__(self, key: _Place, /) -> _V: ...
    @overload
    def __getitem__(self, key: _Slice, /) -> list[tuple[range, _V]]: ...
    def entry(self, index: _Index, /) -> tuple[range, _V] | None: ...
    def first(self) -> tuple[range, _V] | None: ...
    def last(self) -> tuple[range, _V] | None: ...
    def next_after(self, index: _Index, /) -> tuple[range, _V] | None: ...
    def prev_before(self, index: _Index, /) -> tuple[range, _V] | None: ...
    def keys(
        self, start: _Index | None = None, stop: _Index | None = None, /
    ) -> KeysView[range]: ...
    def values(
        self, start: _Index | None = None, stop: _Index | None = None, /
    ) -> ValuesView[_V]: ...
    def items(
        self, start: _Index | None = None, stop: _Index | None = None, /
    ) -> ItemsView[range, _V]: ...
    def gaps(
        self, start: _Index | None = None, stop: _Index | None = None, /
    ) -> list[range]: ...
    def find_gap(
        self,
        size: int,
        /,
        *,
        start: _Index | None = None,
        stop: _Index | None = None,
        align: int = 1,
        rest: int | None = None,
        guard: int = 0,
        tightest: bool = False,
        highest: bool = False,
        near: _Index | None = None,
        starting_at: _Index | None = None,
    ) -> range | None: ...

class _RangesWriting(Generic[_I]):
    # A slice stores and deletes, and is no key.
    def __setitem__(self, key: _Range, value: _I, /) -> None: ...
    def __delitem__(self, key: _Range, /) -> None: ...
    def store(self, range: _Range, value: _I, /, *, coalesce: bool = False) -> range: ...
    def insert(self, range: _Range, value: _I, /) -> None: ...
    def remove(self, index: _Index, /) -> tuple[range, _I]: ...
    def alloc(
        self,
        size: int,
        value: _I,
        /,
        *,
        start: _Index | None = None,
        stop: _Index | None = None,
        align: int = 1,
        rest: int | None = None,
        guard: int = 0,
        tightest: bool = False,
        highest: bool = False,
        near: _Index | None = None,
        starting_at: _Index | None = None,
    ) -> range: ...

@final
class Fib(_Routes[_V], _InMemory[_Prefix, str, _V]):
    def __new__(cls, items: _Items[_Prefix, _V] | None = None, *, root_bits: int = 18) -> Self: ...
    def __class_getitem__(cls, key: Any) -> GenericAlias: ...
    def __iter__(self) -> SnapshotIter[str]: ...
    @overload
    @classmethod
    def fromkeys(
        cls, keys: Iterable[_Prefix], value: None = None, /, *, root_bits: int = 18
    ) -> Fib[None]: ...
    @overload
    @classmethod
    def fromkeys(
        cls, keys: Iterable[_Prefix], value: _D, /, *, root_bits: int = 18
    ) -> Fib[_D]: ...
    def __reversed__(self) -> SnapshotIter[str]: ...
    def insert(self, prefix: _Prefix, value: _V, /) -> _V | None: ...
    def remove(self, prefix: _Prefix, /) -> _V: ...
    def parents(self, key: _Prefix, /) -> list[tuple[str, _V]]: ...
    def children(self, prefix: _Prefix, /) -> list[tuple[str, _V]]: ...
    def covered(self, prefix: _Prefix, /) -> list[tuple[str, _V]]: ...
    def covering(self, key: _Prefix, /) -> list[tuple[str, _V]]: ...
    def aggregated(self) -> Fib[_V]: ...
    @overload
    def diff(
        self, newer: Fib[_V], /, *, default: None = None
    ) -> list[tuple[str, _V | None, _V | None]]: ...
    @overload
    def diff(
        self, newer: Fib[_V], /, *, default: _D
    ) -> list[tuple[str, _V | _D, _V | _D]]: ...
    # A numpy.ndarray of int32, or a memoryview.
    @overload
    def lookup_many(
        self,
        addresses: _Addresses,
        *,
        objects: Literal[False] = False,
        default: None = None,
        threads: int = 1,
        mapped: bool = False,
    ) -> Any: ...
    @overload
    def lookup_many(
        self,
        addresses: _Addresses,
        *,
        objects: Literal[True],
        default: _D = ...,
        threads: int = 1,
        mapped: bool = False,
    ) -> list[_V | _D]: ...
    def next_hops(self) -> list[_V | None]: ...
    @classmethod
    def load(cls, path: _Path, /) -> Fib[Any]: ...
    @classmethod
    def from_text(cls, source: _Path, /, *, truncate: bool = False) -> Fib[str]: ...
    @overload
    @classmethod
    def from_mrt(
        cls,
        source: _Path,
        /,
        *,
        value: Literal["next_hop"] = "next_hop",
        peer: _Address | None = None,
    ) -> Fib[str]: ...
    @overload
    @classmethod
    def from_mrt(
        cls,
        source: _Path,
        /,
        *,
        value: Literal["origin"],
        peer: _Address | None = None,
    ) -> Fib[int | None]: ...

@final
class FibFile(_Routes[int | str]):
    @classmethod
    def open(cls, path: _Path, /, *, verify: bool = True) -> FibFile: ...
    # A numpy.ndarray of int64, or a memoryview.
    def lookup_many(
        self, addresses: _Addresses, *, threads: int = 1, mapped: bool = False
    ) -> Any: ...
    def names(self) -> list[str]: ...

@final
class Closest(Generic[_V_co]):
    def __class_getitem__(cls, key: Any) -> GenericAlias: ...
    @property
    def exact(self) -> tuple[str, _V_co] | None: ...
    @property
    def exists(self) -> bool: ...
    @property
    def encloser(self) -> str: ...
    @property
    def ancestor(self) -> tuple[str, _V_co] | None: ...
    @property
    def wildcard(self) -> tuple[str, _V_co] | None: ...
    @property
    def wildcard_exists(self) -> bool: ...
    @property
    def predecessor(self) -> tuple[str, _V_co] | None: ...
    @property
    def wildcard_predecessor(self) -> tuple[str, _V_co] | None: ...
    @property
    def cut(self) -> tuple[str, _V_co] | None: ...

@disjoint_base
class NameReader(_Names[_K, Any]):
    def __class_getitem__(cls, key: Any) -> GenericAlias: ...
    def get(self, key: _K, default: Any = None, /) -> Any: ...  # type: ignore[override]
    def __bool__(self) -> bool: ...

@final
class NameMap(_Names[_K, _V], _InMemory[_K, _K, _V]):
    @overload
    def __new__(
        cls,
        items: _Items[str, _V] | None = None,
        *,
        key: type[str] | None = None,
        dns: bool = False,
    ) -> NameMap[str, _V]: ...
    @overload
    def __new__(
        cls,
        items: _Items[bytes, _V] | None = None,
        *,
        key: type[bytes],
        dns: Literal[False] = False,
    ) -> NameMap[bytes, _V]: ...
    def __class_getitem__(cls, key: Any) -> GenericAlias: ...
    def insert(self, key: _K, value: _V, /) -> _V | None: ...
    def pop_first(self) -> tuple[_K, _V]: ...
    def pop_last(self) -> tuple[_K, _V]: ...
    @overload
    @classmethod
    def fromkeys(
        cls,
        keys: Iterable[str],
        value: None = None,
        /,
        *,
        key: type[str] | None = None,
        dns: bool = False,
    ) -> NameMap[str, None]: ...
    @overload
    @classmethod
    def fromkeys(
        cls,
        keys: Iterable[str],
        value: _D,
        /,
        *,
        key: type[str] | None = None,
        dns: bool = False,
    ) -> NameMap[str, _D]: ...
    @overload
    @classmethod
    def fromkeys(
        cls,
        keys: Iterable[bytes],
        value: None = None,
        /,
        *,
        key: type[bytes],
        dns: Literal[False] = False,
    ) -> NameMap[bytes, None]: ...
    @overload
    @classmethod
    def fromkeys(
        cls,
        keys: Iterable[bytes],
        value: _D,
        /,
        *,
        key: type[bytes],
        dns: Literal[False] = False,
    ) -> NameMap[bytes, _D]: ...
    def remove_prefix(self, prefix: _K, /) -> int: ...
    def compact(self) -> None: ...

@final
class NameFile(NameReader[_K]):
    def __class_getitem__(cls, key: Any) -> GenericAlias: ...
    @overload
    @classmethod
    def open(
        cls,
        path: _Path,
        /,
        *,
        key: type[str] | None = None,
        dns: bool = False,
        text: bool = False,
        verify: bool = True,
    ) -> NameFile[str]: ...
    @overload
    @classmethod
    def open(
        cls,
        path: _Path,
        /,
        *,
        key: type[bytes],
        dns: Literal[False] = False,
        text: bool = False,
        verify: bool = True,
    ) -> NameFile[bytes]: ...

class LiveNames(NameReader[_K], _Live):
    def __class_getitem__(cls, key: Any) -> GenericAlias: ...
    @overload
    @classmethod
    def open(
        cls,
        path: _Path,
        /,
        *,
        key: type[str] | None = None,
        dns: bool = False,
        text: bool = False,
        wait: float | None = None,
        registered: bool = True,
    ) -> LiveNames[str]: ...
    @overload
    @classmethod
    def open(
        cls,
        path: _Path,
        /,
        *,
        key: type[bytes],
        dns: Literal[False] = False,
        text: bool = False,
        wait: float | None = None,
        registered: bool = True,
    ) -> LiveNames[bytes]: ...
    @overload
    @classmethod
    def create(
        cls,
        path: _Path,
        /,
        *,
        key: type[str] | None = None,
        dns: bool = False,
        values: type[int] | type[bytes] | type[str] | None = None,
        read_by: _ReadBy | None = None,
    ) -> LiveNamesWriter[str]: ...
    @overload
    @classmethod
    def create(
        cls,
        path: _Path,
        /,
        *,
        key: type[bytes],
        dns: Literal[False] = False,
        values: type[int] | type[bytes] | type[str] | None = None,
        read_by: _ReadBy | None = None,
    ) -> LiveNamesWriter[bytes]: ...
    @overload
    @classmethod
    def take_over(
        cls,
        path: _Path,
        /,
        *,
        key: type[str] | None = None,
        dns: bool = False,
        text: bool = False,
        read_by: _ReadBy | None = None,
    ) -> LiveNamesWriter[str]: ...
    @overload
    @classmethod
    def take_over(
        cls,
        path: _Path,
        /,
        *,
        key: type[bytes],
        dns: Literal[False] = False,
        text: bool = False,
        read_by: _ReadBy | None = None,
    ) -> LiveNamesWriter[bytes]: ...

@final
class LiveNamesWriter(LiveNames[_K], _LiveWriting[_K, _K, Any, Any]):
    def __class_getitem__(cls, key: Any) -> GenericAlias: ...
    def insert(self, key: _K, value: int | bytes | str, /) -> Any: ...
    def remove_prefix(self, prefix: _K, /) -> int: ...

@final
class RangeMap(_RangesWriting[_V], _Ranges[_V], _InMemory[_Place, range, _V]):  # type: ignore[misc]
    def __new__(cls, items: _Items[_Range, _V] | None = None) -> Self: ...
    def __class_getitem__(cls, key: Any) -> GenericAlias: ...
    def update(  # type: ignore[override]
        self, items: _Items[_Range, _V] | None = None, /, **others: _V
    ) -> None: ...
    def __iter__(self) -> SnapshotIter[range]: ...
    @overload
    @classmethod
    def fromkeys(cls, keys: Iterable[_Range], value: None = None, /) -> RangeMap[None]: ...
    @overload
    @classmethod
    def fromkeys(cls, keys: Iterable[_Range], value: _D, /) -> RangeMap[_D]: ...
    def __reversed__(self) -> SnapshotIter[range]: ...
    # A numpy.ndarray of int32, or a memoryview.
    def lookup_many(self, indices: _HasArray | Iterable[_Index | None], /) -> Any: ...
    def values_by_number(self) -> list[_V | None]: ...
    def take(
        self, start: _Index | None = None, stop: _Index | None = None, /
    ) -> list[tuple[range, _V]]: ...
    def move_range(self, start: _Index | None, stop: _Index | None, to: _Index, /) -> None: ...
    def modify(
        self, start: _Index | None, stop: _Index | None, f: Callable[[range, _V], _V], /
    ) -> None: ...
    def transaction(self) -> RangeTransaction[_V]: ...
    def snapshot(self) -> RangeSnapshot[_V]: ...
    @classmethod
    def load(cls, path: _Path, /) -> RangeMap[int | str]: ...

@final
class RangeSnapshot(_Ranges[_V]):
    def __class_getitem__(cls, key: Any) -> GenericAlias: ...
    @overload
    def diff(
        self, newer: RangeSnapshot[_V], /, *, default: None = None
    ) -> list[tuple[range, _V | None, _V | None]]: ...
    @overload
    def diff(
        self, newer: RangeSnapshot[_V], /, *, default: _D
    ) -> list[tuple[range, _V | _D, _V | _D]]: ...
    @overload
    def overlay(
        self, other: RangeSnapshot[_T], /, *, default: None = None
    ) -> list[tuple[range, _V | None, _T | None]]: ...
    @overload
    def overlay(
        self, other: RangeSnapshot[_T], /, *, default: _D
    ) -> list[tuple[range, _V | _D, _T | _D]]: ...

@final
class RangeTransaction(Generic[_V]):
    def __class_getitem__(cls, key: Any) -> GenericAlias: ...
    def __enter__(self) -> RangeMap[_V]: ...
    def __exit__(
        self, kind: type[BaseException] | None, _error: object, _trace: object, /
    ) -> Literal[False]: ...

@disjoint_base
class LiveFib(_Routes[int | str], _Live):
    @classmethod
    def open(
        cls, path: _Path, /, *, wait: float | None = None, registered: bool = True
    ) -> LiveFib: ...
    @classmethod
    def create(
        cls, path: _Path, /, *, root_bits: int = 18, read_by: _ReadBy | None = None
    ) -> LiveFibWriter: ...
    @classmethod
    def take_over(
        cls, path: _Path, /, *, root_bits: int = 18, read_by: _ReadBy | None = None
    ) -> LiveFibWriter: ...
    # A numpy.ndarray of int64, or a memoryview.
    def lookup_many(
        self, addresses: _Addresses, *, threads: int = 1, mapped: bool = False
    ) -> Any: ...
    def names(self) -> dict[int, str]: ...

@final
class LiveFibWriter(LiveFib, _LiveWriting[_Prefix, str, int | str, int]):
    def insert(self, prefix: _Prefix, value: int, /) -> int | None: ...

@disjoint_base
class LiveRanges(_Ranges[int | str], _Live):
    @classmethod
    def open(
        cls, path: _Path, /, *, wait: float | None = None, registered: bool = True
    ) -> LiveRanges: ...
    @classmethod
    def create(
        cls, path: _Path, /, *, read_by: _ReadBy | None = None
    ) -> LiveRangesWriter: ...
    @classmethod
    def take_over(
        cls, path: _Path, /, *, read_by: _ReadBy | None = None
    ) -> LiveRangesWriter: ...

@final
class LiveRangesWriter(  # type: ignore[misc]
    _RangesWriting[int], LiveRanges, _LiveWriting[_Place, range, int | str, int]
):
    def update(  # type: ignore[override]
        self,
        items: _Items[_Range | int, int] | None = None,
        /,
        *,
        remove: Iterable[_Range] | None = None,
        **others: int,
    ) -> None: ...
