//! Range maps as data of `serde`: a sequence of entries, each with its first index, its last one
//! and its value.

use core::fmt;
use core::marker::PhantomData;

use serde::de::{Error as _, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};
use serde::{Deserialize, Deserializer};

#[cfg(feature = "std")]
use super::snapshot::MapleSnapshot;
use super::view::MapleView;
use crate::{Index, RangeMap};

/// The entries in order. O(entries).
impl<V: Serialize, K: Index + Serialize> Serialize for MapleView<'_, V, K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let entries = self.iter();
        serializer.collect_seq(entries.map(|(range, value)| (*range.start(), *range.end(), value)))
    }
}

/// As its [view](RangeMap::view).
///
/// ```
/// use sapwood::maple::RangeMap;
/// let map = RangeMap::from_iter([(0..=9, "a".to_owned()), (20..=29, "b".to_owned())]);
/// let text = serde_json::to_string(&map)?;
/// assert_eq!(text, r#"[[0,9,"a"],[20,29,"b"]]"#);
/// let read: RangeMap<String> = serde_json::from_str(&text)?;
/// assert_eq!(read, map);
/// // An entry over another one is no map.
/// let refused = serde_json::from_str::<RangeMap<u8>>("[[0,9,1],[5,7,2]]").unwrap_err();
/// assert!(refused.to_string().starts_with("entry 1: the entry 0..=9 is in the way"));
/// # Ok::<(), serde_json::Error>(())
/// ```
impl<V: Serialize, K: Index + Serialize> Serialize for RangeMap<V, K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.view().serialize(serializer)
    }
}

/// As its [view](MapleSnapshot::view).
#[cfg(feature = "std")]
impl<V: Serialize + Send + Sync + 'static, K: Index + Serialize> Serialize for MapleSnapshot<V, K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.view().serialize(serializer)
    }
}

/// Entries in any order. One that is empty, or has an index of another one, is an error that says
/// which it is.
impl<'de, V, K> Deserialize<'de> for RangeMap<V, K>
where
    V: Clone + Deserialize<'de>,
    K: Index + Deserialize<'de>,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Entries(PhantomData))
    }
}

struct Entries<V, K>(PhantomData<(V, K)>);

impl<'de, V, K> Visitor<'de> for Entries<V, K>
where
    V: Clone + Deserialize<'de>,
    K: Index + Deserialize<'de>,
{
    type Value = RangeMap<V, K>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sequence of entries: first index, last index, value")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let mut map = RangeMap::default();
        let mut number = 0_usize;
        while let Some((start, end, value)) = entries.next_element::<(K, K, V)>()? {
            let stored = map.insert_new(start..=end, value);
            stored.map_err(|refused| {
                A::Error::custom(format_args!("entry {number}: {}", refused.error))
            })?;
            number += 1;
        }
        Ok(map)
    }
}
