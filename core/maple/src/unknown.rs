//! Reservations for changes whose ranges are not known yet.

use core::fmt;

use super::map::MapleMap;
use super::raw::table::Writer;
use super::window::Window;
use super::writer::{MapleWriter, rejected};
use crate::index::{bounds, span};
use crate::{Error, Index, IndexRange, Range, Rejected, Words};

/// The most memory that `k` changes may need, reserved before their ranges are known. An
/// address-space manager makes such a reservation before it takes locks under which it must not
/// fail.
///
/// The reservation does not hold the map's lock. Others may change the map; a change that makes the
/// worst case worse reserves more first, or fails. Dropping the reservation gives back what is
/// left.
///
/// Its changes take nothing from the arena and nothing from the process's heap; only the `clone` of
/// a value may. The reservation makes room for all blocks that they may retire: 24 bytes outside
/// the arena for each node and value of the map. Later changes of other kinds, and later
/// reservations, free these blocks. Until then they count as garbage: a hard limit of garbage does
/// not refuse the reserved changes, so they can pass it.
///
/// ```
/// use sapwood::maple::MapleMap;
/// let map = MapleMap::new();
/// let mut later = map.reserve_unknown(2)?;
/// map.store(0..=99, 'a')?;
/// later.store(10..=19, 'b')?;
/// later.clear_range(50..=59)?;
/// assert_eq!(later.remaining(), 0);
/// assert!(later.store(0..=0, 'c').is_err());
/// assert_eq!(map.len(), 4);
/// # Ok::<(), sapwood::Error>(())
/// ```
pub struct UnknownReservation<V: Clone + Send + Sync + 'static, K: Index = u64> {
    map: MapleMap<V, K>,
    remaining: usize,
}

impl<V: Clone + Send + Sync + 'static, K: Index> UnknownReservation<V, K> {
    pub(super) fn new(map: &MapleMap<V, K>, changes: usize) -> Result<Self, Error<K>> {
        let mut writer = map.write();
        let shared = writer.shared();
        let MapleWriter {
            writer, dropped, ..
        } = &mut writer;
        // Not with the changes: this may take memory from the process's heap, and they must not.
        shared.tidy(writer, dropped);
        writer.hold_unknown(changes)?;
        Ok(UnknownReservation {
            map: map.clone(),
            remaining: changes,
        })
    }

    /// How many changes are left.
    ///
    /// O(1).
    pub fn remaining(&self) -> usize {
        self.remaining
    }

    /// Changes the range that is found under the lock.
    fn change(
        &mut self,
        value: Option<V>,
        find: impl FnOnce(&MapleWriter<'_, V, K>) -> Result<Words<K>, Error<K>>,
    ) -> Result<Words<K>, (Option<V>, Error<K>)> {
        let mut writer = self.map.write();
        let range = match find(&writer) {
            Ok(range) if self.remaining > 0 => range,
            Ok(_) => return Err((value, Error::ReservationUsedUp)),
            Err(error) => return Err((value, error)),
        };
        let shared = writer.shared();
        shared.change_unknown(&mut writer.writer, range, value);
        // Counted afterwards: a change that panics, as a clone may, has not been made.
        self.remaining -= 1;
        Ok(range)
    }

    /// As [`MapleMap::store`], with reserved memory.
    ///
    /// # Errors
    /// [`Error::ReservationUsedUp`] after as many changes as were reserved; [`Error::EmptyRange`].
    /// There are no others.
    pub fn store(&mut self, range: impl IndexRange<K>, value: V) -> Result<(), Rejected<V, K>> {
        self.change(Some(value), |_| bounds(range))
            .map(drop)
            .map_err(rejected)
    }

    /// As [`MapleMap::alloc_range`], with reserved memory.
    ///
    /// ```
    /// use sapwood::maple::MapleMap;
    /// let map = MapleMap::from_iter([(0..=9, 'a')]);
    /// let mut later = map.reserve_unknown(1)?;
    /// assert_eq!(later.alloc_range(5, 0..=99, 'b')?, 10..=14);
    /// assert_eq!(later.remaining(), 0);
    /// # Ok::<(), sapwood::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoGap`], which uses up nothing; [`Error::ZeroSize`], [`Error::WindowTooSmall`],
    /// [`Error::Alignment`]; those of [`store`](Self::store). There are no others.
    pub fn alloc_range(
        &mut self,
        size: K::Word,
        within: impl Into<Window<K>>,
        value: V,
    ) -> Result<Range<K>, Rejected<V, K>> {
        let found = self.change(Some(value), |writer| {
            let place = writer.view().place(&within.into().fit(size)?);
            let words = |place: Range<K>| (place.start().to_word(), place.end().to_word());
            place.map(words).ok_or(Error::NoGap { size })
        });
        found.map(span::<K>).map_err(rejected)
    }

    /// As [`MapleMap::clear_range`], with reserved memory.
    ///
    /// # Errors
    /// As [`store`](Self::store).
    pub fn clear_range(&mut self, range: impl IndexRange<K>) -> Result<(), Error<K>> {
        self.change(None, |_| bounds(range))
            .map(drop)
            .map_err(|(_, error)| error)
    }
}

impl<V: Clone + Send + Sync + 'static, K: Index> Drop for UnknownReservation<V, K> {
    fn drop(&mut self) {
        // A second panic would end the process: the blocks stay reserved instead.
        if std::thread::panicking() && self.map.shared().is_written_here() {
            return;
        }
        let mut writer = self.map.write();
        let Writer { space, unknown, .. } = &mut *writer.writer;
        unknown.release(space, self.remaining);
    }
}

impl<V: Clone + Send + Sync + 'static, K: Index> fmt::Debug for UnknownReservation<V, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnknownReservation")
            .field("remaining", &self.remaining)
            .finish_non_exhaustive()
    }
}
