//! What a reader of a live map can look up: one trait for all structures, for readers that trust
//! the memory and for those that check it. What a structure does not have is a failure.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use sapwood::lpm::IpFib;
use sapwood::maple::MapleMap;
use sapwood::qp::{OrderedRead, PointMap, QpShared, QpStore};
use sapwood_live::{
    CheckedLiveReader, CheckedMap, Error, LiveMap, LiveOffline, LiveReader, LiveValue, NameMap,
};

use crate::error::{Failure, Outcome};
use crate::ordered::Source;
use crate::prefix::in_parts;
use crate::ranges::Found;
use crate::value::{CValue, Key, Kinds, get_many, sapwood_entry, sapwood_value};
use crate::view::AnySource;

/// Which entry is to be copied.
#[derive(Clone, Copy, Debug)]
pub enum Which {
    /// That of the key.
    Exact,
    /// That with the least greater key.
    After,
    /// That with the longest key that is a prefix of the key.
    LongestPrefix,
}

/// What an entry's key and value are given to.
pub type Give<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> Outcome;

/// What is told of each entry until it returns another number than 0.
pub type Tell<'a> = &'a mut dyn FnMut(sapwood_entry) -> i32;

fn none<R>(what: &str) -> Outcome<R> {
    Err(Failure::new(
        libc::ENOTSUP,
        format!("this reader of a live map has no {what}"),
    ))
}

/// How a reader takes part in grace periods.
pub trait Stands {
    /// See [`LiveReader::offline`].
    fn offline(&mut self) -> LiveOffline<'_>;
    /// See [`LiveReader::quiescent`].
    fn quiescent(&mut self) -> Result<(), Error>;
    /// See [`LiveReader::generation`].
    fn generation(&self) -> u64;
    /// See [`LiveReader::has_writer`].
    fn has_writer(&self) -> Result<bool, Error>;
}

macro_rules! stands {
    ($reader:ident, $map:ident) => {
        impl<M: $map> Stands for $reader<M> {
            fn offline(&mut self) -> LiveOffline<'_> {
                $reader::offline(self)
            }
            fn quiescent(&mut self) -> Result<(), Error> {
                $reader::quiescent(self)
            }
            fn generation(&self) -> u64 {
                $reader::generation(self)
            }
            fn has_writer(&self) -> Result<bool, Error> {
                $reader::has_writer(self)
            }
        }
    };
}
stands!(LiveReader, LiveMap);
stands!(CheckedLiveReader, CheckedMap);

/// The lookups of a reader.
pub trait Lookups: Stands {
    /// What a view reads.
    ///
    /// # Safety
    /// The source is used only until the reader's next quiescent state.
    unsafe fn source(&'static self) -> Outcome<AnySource> {
        none("views")
    }

    /// The value of a key, which lies in the map.
    fn get(&self, _key: &[u8]) -> Outcome<Option<sapwood_value>> {
        none("values that lie in the map; see sapwood_live_copy")
    }

    /// The values of many keys.
    ///
    /// # Safety
    /// As for [`get_many`].
    unsafe fn get_many(
        &self,
        _keys: &[Key],
        _values: *mut sapwood_value,
        _found: *mut u8,
    ) -> Outcome {
        none("values that lie in the map; see sapwood_live_copy")
    }

    /// Gives an entry, and returns what that returns.
    fn copy(&self, which: Which, _key: &[u8], _give: Give<'_>) -> Outcome<Option<i32>> {
        let _ = which;
        none("keys that are byte strings")
    }

    /// Tells of all entries.
    fn each(&self, _tell: Tell<'_>) -> Outcome {
        none("keys that are byte strings")
    }

    /// The longest prefix of an address.
    fn prefix(&self, _addr: IpAddr) -> Outcome<Option<(IpNet, u64)>> {
        none("prefixes")
    }

    /// The value of the longest prefix of an address.
    fn route(&self, addr: IpAddr) -> Outcome<Option<u64>> {
        Ok(self.prefix(addr)?.map(|(_, value)| value))
    }

    /// The values of many IPv4 addresses, one after the other.
    fn routes4(&self, addrs: &[u32], none: u64, values: &mut [u64]) -> Outcome<()> {
        for (addr, value) in addrs.iter().zip(values) {
            *value = self.route(Ipv4Addr::from(*addr).into())?.unwrap_or(none);
        }
        Ok(())
    }

    /// The values of many IPv6 addresses, one after the other.
    fn routes6(&self, addrs: &[[u8; 16]], none: u64, values: &mut [u64]) -> Outcome<()> {
        for (addr, value) in addrs.iter().zip(values) {
            *value = self.route(Ipv6Addr::from(*addr).into())?.unwrap_or(none);
        }
        Ok(())
    }

    /// The entry that holds an index; or the first that ends there or later.
    fn range(&self, _index: u64, _or_later: bool) -> Outcome<Option<Found>> {
        none("ranges")
    }
}

/// A kind of values that a live map may have.
pub trait Plain: CValue + LiveValue {
    /// The source for a view.
    fn wrap(source: Source<Self>) -> AnySource;
}

impl Plain for u64 {
    fn wrap(source: Source<u64>) -> AnySource {
        Kinds::Numbers(source)
    }
}

impl Plain for [u8] {
    fn wrap(source: Source<[u8]>) -> AnySource {
        Kinds::Bytes(source)
    }
}

fn given<V: ?Sized + Plain>(
    found: Option<(impl AsRef<[u8]>, &V)>,
    give: Give<'_>,
) -> Outcome<Option<i32>> {
    found
        .map(|(key, value)| give(key.as_ref(), value.as_bytes()))
        .transpose()
}

/// Tells of entries whose values lie in the map.
fn told<'a, V: ?Sized + Plain>(
    entries: impl Iterator<Item = (impl AsRef<[u8]>, &'a V)>,
    tell: Tell<'_>,
) -> Outcome {
    for (key, value) in entries {
        let answer = tell(sapwood_entry::new((key.as_ref(), value)));
        if answer != 0 {
            return Ok(answer);
        }
    }
    Ok(0)
}

/// The lookups by whole keys, which all trusting readers of names have.
macro_rules! by_key {
    () => {
        fn get(&self, key: &[u8]) -> Outcome<Option<sapwood_value>> {
            Ok(self.view().get(key).map(CValue::output))
        }

        unsafe fn get_many(
            &self,
            keys: &[Key],
            values: *mut sapwood_value,
            found: *mut u8,
        ) -> Outcome {
            let view = self.view();
            // SAFETY: the caller's promise.
            unsafe { get_many(keys, values, found, |keys, out| view.get_many(keys, out)) }
        }

        fn each(&self, tell: Tell<'_>) -> Outcome {
            told(self.view().iter(), tell)
        }
    };
}

/// The lookups in order, which trusting readers of stores and shared maps have, too.
macro_rules! in_order {
    ($source:ident) => {
        unsafe fn source(&'static self) -> Outcome<AnySource> {
            Ok(V::wrap(Source::$source(self.view())))
        }

        fn copy(&self, which: Which, key: &[u8], give: Give<'_>) -> Outcome<Option<i32>> {
            let view = self.view();
            let found = match which {
                Which::Exact => OrderedRead::get_key_value(&view, key),
                Which::After => OrderedRead::successor(&view, key),
                Which::LongestPrefix => OrderedRead::longest_prefix(&view, key),
            };
            given(found, give)
        }
    };
}

impl<V: ?Sized + Plain> Lookups for LiveReader<QpStore<V>> {
    by_key!();
    in_order!(Store);
}

impl<V: ?Sized + Plain> Lookups for LiveReader<QpShared<V>> {
    by_key!();
    in_order!(Attached);
}

const NO_ORDER: &str = "order, because a point map has none";

impl<V: ?Sized + Plain> Lookups for LiveReader<PointMap<V>> {
    by_key!();

    fn copy(&self, which: Which, key: &[u8], give: Give<'_>) -> Outcome<Option<i32>> {
        match which {
            Which::Exact => given(self.view().get_key_value(key), give),
            Which::After | Which::LongestPrefix => none(NO_ORDER),
        }
    }
}

/// A map over byte strings that is read with checks.
trait Strings: NameMap {
    /// Whether it has an order.
    const ORDERED: bool;
}

impl<V: ?Sized + Plain> Strings for QpStore<V> {
    const ORDERED: bool = true;
}

impl<V: ?Sized + Plain> Strings for QpShared<V> {
    const ORDERED: bool = true;
}

impl<V: ?Sized + Plain> Strings for PointMap<V> {
    const ORDERED: bool = false;
}

impl<M: Strings> Lookups for CheckedLiveReader<M>
where
    M::Value: Plain,
{
    fn copy(&self, which: Which, key: &[u8], give: Give<'_>) -> Outcome<Option<i32>> {
        let names = M::names(self.view()?);
        let found = match which {
            Which::Exact => {
                let found = names.get(key)?;
                let value = found.as_ref().map(M::Value::of_read);
                return given(value.map(|value| (key, value)), give);
            }
            _ if !M::ORDERED => return none(NO_ORDER),
            Which::After => names.successor(key)?,
            Which::LongestPrefix => names.longest_prefix(key)?,
        };
        let found = found.as_ref();
        given(
            found.map(|(key, value)| (key, M::Value::of_read(value))),
            give,
        )
    }

    fn each(&self, tell: Tell<'_>) -> Outcome {
        let names = M::names(self.view()?);
        let (ordered, unordered) = match M::ORDERED {
            true => (Some(names.iter()), None),
            false => (None, Some(names.unordered())),
        };
        for entry in (ordered.into_iter().flatten()).chain(unordered.into_iter().flatten()) {
            let (key, value) = entry?;
            let answer = tell(sapwood_entry::new((&key, M::Value::of_read(&value))));
            if answer != 0 {
                return Ok(answer);
            }
        }
        Ok(0)
    }
}

impl Lookups for LiveReader<IpFib<u64>> {
    fn prefix(&self, addr: IpAddr) -> Outcome<Option<(IpNet, u64)>> {
        let found = self.view().lookup(addr);
        Ok(found.map(|(net, value)| (net, *value)))
    }

    fn route(&self, addr: IpAddr) -> Outcome<Option<u64>> {
        Ok(self.view().lookup_value(addr).copied())
    }

    fn routes4(&self, addrs: &[u32], none: u64, values: &mut [u64]) -> Outcome<()> {
        let view = self.view().v4();
        in_parts(addrs, &none, values, |_, addrs: &[Ipv4Addr], found| {
            view.lookup_batch_or(addrs, &none, found);
        });
        Ok(())
    }

    fn routes6(&self, addrs: &[[u8; 16]], none: u64, values: &mut [u64]) -> Outcome<()> {
        let view = self.view().v6();
        in_parts(addrs, &none, values, |_, addrs: &[Ipv6Addr], found| {
            view.lookup_batch_or(addrs, &none, found);
        });
        Ok(())
    }
}

impl Lookups for CheckedLiveReader<IpFib<u64>> {
    fn prefix(&self, addr: IpAddr) -> Outcome<Option<(IpNet, u64)>> {
        let Some((len, value)) = self.view()?.lookup(addr)? else {
            return Ok(None);
        };
        let net = IpNet::new(addr, len).map_err(|error| {
            Failure::new(libc::EPROTO, format!("a prefix of {len} bits: {error}"))
        })?;
        Ok(Some((net.trunc(), value)))
    }

    fn route(&self, addr: IpAddr) -> Outcome<Option<u64>> {
        Ok(self.view()?.lookup(addr)?.map(|(_, value)| value))
    }
}

impl Lookups for LiveReader<MapleMap<u64>> {
    fn range(&self, index: u64, or_later: bool) -> Outcome<Option<Found>> {
        let view = self.view();
        let found = match or_later {
            false => view.get_entry(index),
            true => view.range(index..=u64::MAX).next(),
        };
        Ok(found.map(|(range, value)| (range, *value)))
    }
}

impl Lookups for CheckedLiveReader<MapleMap<u64>> {
    fn range(&self, index: u64, or_later: bool) -> Outcome<Option<Found>> {
        let view = self.view()?;
        Ok(match or_later {
            false => view.get(index)?,
            true => view.at_or_after(index)?,
        })
    }
}
