//! Snapshots: versions of a map that stay as they are.

use core::fmt;

use super::Range;
use super::iter::Iter;
use super::raw::table::Snapshot;
use super::view::MapleView;

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
pub struct MapleSnapshot<V: Send + Sync + 'static> {
    kept: Snapshot<V>,
}

impl<V: Send + Sync + 'static> MapleSnapshot<V> {
    pub(super) fn new(kept: Snapshot<V>) -> Self {
        MapleSnapshot { kept }
    }

    /// The version, for reading.
    ///
    /// O(1).
    #[inline]
    pub fn view(&self) -> MapleView<'_, V> {
        MapleView::new(self.kept.view())
    }
}

impl<V: Send + Sync + 'static> Clone for MapleSnapshot<V> {
    fn clone(&self) -> Self {
        MapleSnapshot::new(self.kept.clone())
    }
}

impl<V: Send + Sync + fmt::Debug + 'static> fmt::Debug for MapleSnapshot<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.view().fmt(f)
    }
}

impl<'s, V: Send + Sync + 'static> IntoIterator for &'s MapleSnapshot<V> {
    type Item = (Range, &'s V);
    type IntoIter = Iter<'s, V>;

    fn into_iter(self) -> Iter<'s, V> {
        self.view().iter()
    }
}
