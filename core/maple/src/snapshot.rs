//! Snapshots: versions of a map that stay as they are.

use core::fmt;

use super::iter::Iter;
use super::raw::table::Snapshot;
use super::view::MapleView;
use crate::{Index, Range};

/// A version of a [`MapleMap`](super::MapleMap) that stays alive until this is dropped. Any thread
/// may read it, and it may be sent to any thread.
///
/// [`view`](Self::view) gives all reading methods. Reading takes no lock and no guard. The snapshot
/// holds back every node and value that the map has replaced since it was made;
/// [`MapleMap::oldest_snapshot`](super::MapleMap::oldest_snapshot) and
/// [`Domain::stalls`](sapwood_qsbr::Domain::stalls) say how many bytes these are.
///
/// ```
/// use sapwood::maple::MapleMap;
/// let map = MapleMap::from_iter([(0..=9, 'a'), (20..=29, 'b')]);
/// let before = map.snapshot();
/// map.clear()?;
/// let reader = std::thread::spawn(move || before.view().get(25).copied());
/// assert_eq!(reader.join().unwrap(), Some('b'));
/// assert_eq!((map.snapshots(), map.get(25)), (0, None));
/// # Ok::<(), sapwood::Error>(())
/// ```
pub struct MapleSnapshot<V: Send + Sync + 'static, K: Index = u64> {
    kept: Snapshot<V, K::Word>,
}

impl<V: Send + Sync + 'static, K: Index> MapleSnapshot<V, K> {
    pub(super) fn new(kept: Snapshot<V, K::Word>) -> Self {
        MapleSnapshot { kept }
    }

    /// The version, for reading.
    ///
    /// O(1).
    #[inline]
    pub fn view(&self) -> MapleView<'_, V, K> {
        MapleView::new(self.kept.view())
    }
}

impl<V: Send + Sync + 'static, K: Index> Clone for MapleSnapshot<V, K> {
    fn clone(&self) -> Self {
        MapleSnapshot::new(self.kept.clone())
    }
}

impl<V: Send + Sync + fmt::Debug + 'static, K: Index> fmt::Debug for MapleSnapshot<V, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.view().fmt(f)
    }
}

impl<'s, V: Send + Sync + 'static, K: Index> IntoIterator for &'s MapleSnapshot<V, K> {
    type Item = (Range<K>, &'s V);
    type IntoIter = Iter<'s, V, K>;

    fn into_iter(self) -> Iter<'s, V, K> {
        self.view().iter()
    }
}
