//! Values made from numbers of the model, so that one test runs on maps with every kind of value:
//! plain words, heap memory, and byte strings of any length.
#![allow(dead_code)] // Each program uses only a part of it.

use std::fmt::Debug;

use sapwood::qp::{
    Closest, Denial, Exchange, Order, QpMap, QpTxn, ReadEntry, SharedMap, SharedView,
};
use sapwood::qp::{Error, Rejected};
use sapwood_model::ops::is_cut;
use sapwood_model::oracle;

/// A kind of value, with the methods that take such a value.
pub trait Value: sapwood::qp::Value + PartialEq + Debug + Send + Sync + 'static {
    /// The number from which the value was made.
    fn number(&self) -> u64;

    // Owned maps.
    fn taken(taken: Self::Taken) -> u64;
    fn map_insert(map: &mut QpMap<Self>, key: &[u8], n: u64) -> Result<Option<u64>, Error>;
    fn map_retain(map: &mut QpMap<Self>, keep: impl FnMut(u64) -> bool);
    fn map_of(list: &[(Vec<u8>, u64)]) -> QpMap<Self>;

    // Transactions.
    fn txn_insert(txn: &mut QpTxn<'_, Self>, key: &[u8], n: u64) -> Result<Option<u64>, Error>;
    fn txn_insert_all(txn: &mut QpTxn<'_, Self>, list: &[(Vec<u8>, u64)]) -> Result<(), Error>;

    // Maps for many writers.
    fn shared_get<O: Order>(map: &SharedMap<O, Self>, key: &[u8]) -> Option<u64>;
    fn insert<O: Order>(map: &SharedMap<O, Self>, key: &[u8], n: u64) -> Result<bool, Error>;
    fn insert_new<O: Order>(map: &SharedMap<O, Self>, key: &[u8], n: u64) -> Result<(), Error>;
    fn replace<O: Order>(map: &SharedMap<O, Self>, key: &[u8], n: u64) -> Result<(), Error>;
    fn exchange<O: Order>(
        map: &SharedMap<O, Self>,
        key: &[u8],
        current: u64,
        new: u64,
    ) -> Result<(), Error>;
    fn get_or_insert<O: Order>(map: &SharedMap<O, Self>, key: &[u8], n: u64) -> Result<u64, Error>;
    fn update<O: Order>(
        map: &SharedMap<O, Self>,
        key: &[u8],
        new: impl FnMut(u64) -> u64,
    ) -> Result<bool, Error>;

    // Their views.
    fn view_insert<O: Order>(
        view: SharedView<'_, O, Self>,
        key: &[u8],
        n: u64,
    ) -> Result<Option<u64>, Error>;
    fn view_insert_new<O: Order>(
        view: SharedView<'_, O, Self>,
        key: &[u8],
        n: u64,
    ) -> Result<u64, Error>;
    fn view_replace<O: Order>(
        view: SharedView<'_, O, Self>,
        key: &[u8],
        n: u64,
    ) -> Result<u64, Error>;
    #[allow(clippy::type_complexity)]
    fn view_exchange<O: Order>(
        view: SharedView<'_, O, Self>,
        key: &[u8],
        current: u64,
        new: u64,
    ) -> Result<Result<u64, Option<u64>>, Error>;
    fn view_get_or_insert<O: Order>(
        view: SharedView<'_, O, Self>,
        key: &[u8],
        n: u64,
    ) -> Result<u64, Error>;
    fn view_update<O: Order>(
        view: SharedView<'_, O, Self>,
        key: &[u8],
        new: impl FnMut(u64) -> u64,
    ) -> Result<Option<u64>, Error>;
}

/// A value of a fixed size.
pub trait Fixed: Clone + PartialEq + Debug + Send + Sync + 'static {
    fn new(n: u64) -> Self;
    fn get(&self) -> u64;
}

impl Fixed for u64 {
    fn new(n: u64) -> Self {
        n
    }

    fn get(&self) -> u64 {
        *self
    }
}

/// A value in heap memory: a sanitizer sees a second drop and a leak.
impl Fixed for Box<u64> {
    fn new(n: u64) -> Self {
        Box::new(n)
    }

    fn get(&self) -> u64 {
        **self
    }
}

/// The error of a refused change, after a check of the returned value.
fn refused<V: Fixed>(n: u64) -> impl FnOnce(Rejected<V>) -> Error {
    move |rejected| {
        assert_eq!(rejected.value.get(), n, "another value was returned");
        rejected.error
    }
}

impl<V: Fixed> Value for V {
    fn number(&self) -> u64 {
        Fixed::get(self)
    }

    fn taken(taken: V) -> u64 {
        Fixed::get(&taken)
    }

    fn map_insert(map: &mut QpMap<V>, key: &[u8], n: u64) -> Result<Option<u64>, Error> {
        let old = map.insert(key, V::new(n)).map_err(refused(n))?;
        Ok(old.as_ref().map(Fixed::get))
    }

    fn map_retain(map: &mut QpMap<V>, mut keep: impl FnMut(u64) -> bool) {
        map.retain(|_, value| keep(Fixed::get(value)));
    }

    fn map_of(list: &[(Vec<u8>, u64)]) -> QpMap<V> {
        list.iter().map(|(k, n)| (k, V::new(*n))).collect()
    }

    fn txn_insert(txn: &mut QpTxn<'_, V>, key: &[u8], n: u64) -> Result<Option<u64>, Error> {
        let old = txn.insert(key, V::new(n)).map_err(refused(n))?;
        Ok(old.map(Fixed::get))
    }

    fn txn_insert_all(txn: &mut QpTxn<'_, V>, list: &[(Vec<u8>, u64)]) -> Result<(), Error> {
        let list = list.iter().map(|(k, n)| (k, V::new(*n)));
        txn.insert_many(list).map(drop).map_err(Error::from)
    }

    fn shared_get<O: Order>(map: &SharedMap<O, V>, key: &[u8]) -> Option<u64> {
        map.get(key).as_ref().map(Fixed::get)
    }

    fn insert<O: Order>(map: &SharedMap<O, V>, key: &[u8], n: u64) -> Result<bool, Error> {
        map.insert(key, V::new(n)).map_err(refused(n))
    }

    fn insert_new<O: Order>(map: &SharedMap<O, V>, key: &[u8], n: u64) -> Result<(), Error> {
        map.insert_new(key, V::new(n)).map_err(refused(n))
    }

    fn replace<O: Order>(map: &SharedMap<O, V>, key: &[u8], n: u64) -> Result<(), Error> {
        map.replace(key, V::new(n)).map_err(refused(n))
    }

    fn exchange<O: Order>(
        map: &SharedMap<O, V>,
        key: &[u8],
        current: u64,
        new: u64,
    ) -> Result<(), Error> {
        let done = map.compare_exchange(key, &V::new(current), V::new(new));
        done.map_err(refused(new))
    }

    fn get_or_insert<O: Order>(map: &SharedMap<O, V>, key: &[u8], n: u64) -> Result<u64, Error> {
        let there = map.get_or_insert_with(key, || V::new(n))?;
        Ok(Fixed::get(&there))
    }

    fn update<O: Order>(
        map: &SharedMap<O, V>,
        key: &[u8],
        mut new: impl FnMut(u64) -> u64,
    ) -> Result<bool, Error> {
        map.update(key, |old| V::new(new(Fixed::get(old))))
    }

    fn view_insert<O: Order>(
        view: SharedView<'_, O, V>,
        key: &[u8],
        n: u64,
    ) -> Result<Option<u64>, Error> {
        let old = view.insert(key, V::new(n)).map_err(refused(n))?;
        Ok(old.map(Fixed::get))
    }

    fn view_insert_new<O: Order>(
        view: SharedView<'_, O, V>,
        key: &[u8],
        n: u64,
    ) -> Result<u64, Error> {
        let new = view.insert_new(key, V::new(n)).map_err(refused(n))?;
        Ok(Fixed::get(new))
    }

    fn view_replace<O: Order>(
        view: SharedView<'_, O, V>,
        key: &[u8],
        n: u64,
    ) -> Result<u64, Error> {
        let old = view.replace(key, V::new(n)).map_err(refused(n))?;
        Ok(Fixed::get(old))
    }

    fn view_exchange<O: Order>(
        view: SharedView<'_, O, V>,
        key: &[u8],
        current: u64,
        new: u64,
    ) -> Result<Result<u64, Option<u64>>, Error> {
        let done = view.compare_exchange(key, &V::new(current), V::new(new));
        Ok(match done.map_err(refused(new))? {
            Exchange::Done(old) => Ok(Fixed::get(old)),
            Exchange::Refused { found, value } => {
                assert_eq!(Fixed::get(&value), new);
                Err(found.map(Fixed::get))
            }
        })
    }

    fn view_get_or_insert<O: Order>(
        view: SharedView<'_, O, V>,
        key: &[u8],
        n: u64,
    ) -> Result<u64, Error> {
        let there = view.get_or_insert_with(key, || V::new(n))?;
        Ok(Fixed::get(there))
    }

    fn view_update<O: Order>(
        view: SharedView<'_, O, V>,
        key: &[u8],
        mut new: impl FnMut(u64) -> u64,
    ) -> Result<Option<u64>, Error> {
        let old = view.update(key, |old| V::new(new(Fixed::get(old))))?;
        Ok(old.map(Fixed::get))
    }
}

/// The bytes made from a number: its own eight bytes, then more bytes computed from it. Their
/// lengths cover all forms of a length, and are mostly short.
pub fn bytes(n: u64) -> Vec<u8> {
    let more = match n % 64 {
        63 => 240 + n / 64 % 32,
        62 => 1_000 + n / 64 % 2_000,
        61 if n / 64 % 64 == 0 => 65_500 + n / 4096 % 80,
        few => few,
    };
    let mut bytes = n.to_le_bytes().to_vec();
    bytes.extend((0..more).map(|i| (n >> (i % 8 * 8)) as u8 ^ i as u8));
    bytes
}

impl Value for [u8] {
    fn number(&self) -> u64 {
        let n = u64::from_le_bytes(self[..8].try_into().unwrap());
        assert_eq!(self, bytes(n), "the value of {n} is another");
        n
    }

    fn taken(taken: Box<[u8]>) -> u64 {
        taken.number()
    }

    fn map_insert(map: &mut QpMap<[u8]>, key: &[u8], n: u64) -> Result<Option<u64>, Error> {
        let old = map.insert(key, &bytes(n))?;
        Ok(old.as_deref().map(Value::number))
    }

    fn map_retain(map: &mut QpMap<[u8]>, mut keep: impl FnMut(u64) -> bool) {
        map.retain(|_, value| keep(value.number()));
    }

    fn map_of(list: &[(Vec<u8>, u64)]) -> QpMap<[u8]> {
        let mut map = QpMap::new();
        let list = list.iter().map(|(k, n)| (k, bytes(*n)));
        for (key, value) in list {
            map.insert(key, &value).unwrap();
        }
        map
    }

    fn txn_insert(txn: &mut QpTxn<'_, [u8]>, key: &[u8], n: u64) -> Result<Option<u64>, Error> {
        Ok(txn.insert(key, &bytes(n))?.map(Value::number))
    }

    fn txn_insert_all(txn: &mut QpTxn<'_, [u8]>, list: &[(Vec<u8>, u64)]) -> Result<(), Error> {
        let list: Vec<_> = list.iter().map(|(k, n)| (k, bytes(*n))).collect();
        let list = list.iter().map(|(k, value)| (k, value));
        txn.insert_many(list).map(drop).map_err(Error::from)
    }

    fn shared_get<O: Order>(map: &SharedMap<O, [u8]>, key: &[u8]) -> Option<u64> {
        map.get(key).as_deref().map(Value::number)
    }

    fn insert<O: Order>(map: &SharedMap<O, [u8]>, key: &[u8], n: u64) -> Result<bool, Error> {
        Ok(map.insert(key, &bytes(n))?)
    }

    fn insert_new<O: Order>(map: &SharedMap<O, [u8]>, key: &[u8], n: u64) -> Result<(), Error> {
        Ok(map.insert_new(key, &bytes(n))?)
    }

    fn replace<O: Order>(map: &SharedMap<O, [u8]>, key: &[u8], n: u64) -> Result<(), Error> {
        Ok(map.replace(key, &bytes(n))?)
    }

    fn exchange<O: Order>(
        map: &SharedMap<O, [u8]>,
        key: &[u8],
        current: u64,
        new: u64,
    ) -> Result<(), Error> {
        Ok(map.compare_exchange(key, &bytes(current), &bytes(new))?)
    }

    fn get_or_insert<O: Order>(map: &SharedMap<O, [u8]>, key: &[u8], n: u64) -> Result<u64, Error> {
        let there = map.get_or_insert_with(key, || bytes(n).into())?;
        Ok(there.number())
    }

    fn update<O: Order>(
        map: &SharedMap<O, [u8]>,
        key: &[u8],
        mut new: impl FnMut(u64) -> u64,
    ) -> Result<bool, Error> {
        map.update(key, |old| bytes(new(old.number())).into())
    }

    fn view_insert<O: Order>(
        view: SharedView<'_, O, [u8]>,
        key: &[u8],
        n: u64,
    ) -> Result<Option<u64>, Error> {
        Ok(view.insert(key, &bytes(n))?.map(Value::number))
    }

    fn view_insert_new<O: Order>(
        view: SharedView<'_, O, [u8]>,
        key: &[u8],
        n: u64,
    ) -> Result<u64, Error> {
        Ok(view.insert_new(key, &bytes(n)).map(Value::number)?)
    }

    fn view_replace<O: Order>(
        view: SharedView<'_, O, [u8]>,
        key: &[u8],
        n: u64,
    ) -> Result<u64, Error> {
        Ok(view.replace(key, &bytes(n)).map(Value::number)?)
    }

    fn view_exchange<O: Order>(
        view: SharedView<'_, O, [u8]>,
        key: &[u8],
        current: u64,
        new: u64,
    ) -> Result<Result<u64, Option<u64>>, Error> {
        let done = view.compare_exchange(key, &bytes(current), &bytes(new))?;
        Ok(match done {
            Exchange::Done(old) => Ok(old.number()),
            Exchange::Refused { found, .. } => Err(found.map(Value::number)),
        })
    }

    fn view_get_or_insert<O: Order>(
        view: SharedView<'_, O, [u8]>,
        key: &[u8],
        n: u64,
    ) -> Result<u64, Error> {
        let there = view.get_or_insert_with(key, || bytes(n).into())?;
        Ok(there.number())
    }

    fn view_update<O: Order>(
        view: SharedView<'_, O, [u8]>,
        key: &[u8],
        mut new: impl FnMut(u64) -> u64,
    ) -> Result<Option<u64>, Error> {
        let old = view.update(key, |old| bytes(new(old.number())).into())?;
        Ok(old.map(Value::number))
    }
}

/// The key of an entry.
fn key<'a, V: ?Sized>(entry: &'a Option<ReadEntry<'_, V>>) -> Option<&'a [u8]> {
    entry.as_ref().map(|(key, _)| &key[..])
}

/// The answer of `closest`, as keys.
pub fn keys_of<'a, V: ?Sized + sapwood::qp::Value>(
    found: &'a Closest<'_, V>,
) -> oracle::Closest<'a> {
    oracle::Closest {
        exact: key(&found.exact),
        exists: found.exists,
        encloser: found.encloser,
        ancestor: key(&found.ancestor),
        wildcard: key(&found.wildcard),
        predecessor: key(&found.predecessor),
        cut: key(&found.cut),
    }
}

/// The answer of `denial`, as keys.
pub fn denial_of<'a, V: ?Sized + sapwood::qp::Value>(
    found: &'a Denial<'_, V>,
) -> oracle::Denial<'a> {
    oracle::Denial {
        closest: keys_of(&found.closest),
        wildcard_exists: found.wildcard_exists,
        predecessor: key(&found.predecessor),
        wildcard_predecessor: key(&found.wildcard_predecessor),
    }
}

/// Whether an entry is a cut by its number.
pub fn cuts<V: ?Sized + Value>(_: &[u8], value: &V) -> bool {
    is_cut(value.number())
}
