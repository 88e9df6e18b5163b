//! Reservations for changes whose ranges are not known yet.

use core::fmt;

use super::map::MapleMap;
use super::raw::table::Writer;
use super::window::Window;
use super::writer::{MapleWriter, rejected};
use super::{Range, bounds};
use crate::{Error, Rejected};

/// What `k` changes may need at worst, taken before their ranges are known: what an address-space
/// manager does before it takes locks under which it may not fail.
///
/// It does not hold the map's lock: others may change the map, and if that makes the worst case
/// worse, it is they who reserve more, or fail. Dropping it gives back what is left.
///
/// Its changes take nothing from the arena and nothing from the process's heap (what a value's own
/// `clone` takes is the value's matter). Room for all that they may retire is made beforehand: 24
/// bytes outside the arena for each node and value of the map. What they retire is freed by later
/// changes of other kinds, and when something is reserved again.
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
pub struct UnknownReservation<V: Clone + Send + Sync + 'static> {
    map: MapleMap<V>,
    remaining: usize,
}

impl<V: Clone + Send + Sync + 'static> UnknownReservation<V> {
    pub(super) fn new(map: &MapleMap<V>, changes: usize) -> Result<Self, Error> {
        let mut writer = map.write();
        let shared = writer.shared();
        let MapleWriter {
            writer, dropped, ..
        } = &mut writer;
        // Not with the changes: they take nothing from the process's heap, as this may.
        shared.tidy(writer, dropped);
        writer.hold_unknown(changes)?;
        Ok(UnknownReservation {
            map: map.clone(),
            remaining: changes,
        })
    }

    /// How many changes are left.
    pub fn remaining(&self) -> usize {
        self.remaining
    }

    /// Changes the range that is found under the lock.
    fn change(
        &mut self,
        value: Option<V>,
        find: impl FnOnce(&MapleWriter<'_, V>) -> Result<(u64, u64), Error>,
    ) -> Result<(u64, u64), (Option<V>, Error)> {
        let mut writer = self.map.write();
        let range = match find(&writer) {
            Ok(range) if self.remaining > 0 => range,
            Ok(_) => return Err((value, Error::ReservationUsedUp)),
            Err(error) => return Err((value, error)),
        };
        let shared = writer.shared();
        shared.change_unknown(&mut writer.writer, range, value);
        // Not before: a change that panics, as a clone does, has not been made.
        self.remaining -= 1;
        Ok(range)
    }

    /// As [`MapleMap::store`], with what was reserved.
    ///
    /// # Errors
    /// [`Error::ReservationUsedUp`] after as many changes as were reserved, [`Error::EmptyRange`];
    /// nothing else.
    pub fn store(&mut self, range: Range, value: V) -> Result<(), Rejected<V>> {
        self.change(Some(value), |_| bounds(&range))
            .map(drop)
            .map_err(rejected)
    }

    /// As [`MapleMap::alloc_range`], with what was reserved.
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
    /// [`Error::Alignment`]; those of [`store`](Self::store); nothing else.
    pub fn alloc_range(
        &mut self,
        size: u64,
        within: impl Into<Window>,
        value: V,
    ) -> Result<Range, Rejected<V>> {
        let found = self.change(Some(value), |writer| {
            let place = writer.view().place(&within.into().fit(size)?);
            place.map(Range::into_inner).ok_or(Error::NoGap { size })
        });
        found.map(|(start, end)| start..=end).map_err(rejected)
    }

    /// As [`MapleMap::clear_range`], with what was reserved.
    ///
    /// # Errors
    /// As [`store`](Self::store).
    pub fn clear_range(&mut self, range: Range) -> Result<(), Error> {
        self.change(None, |_| bounds(&range))
            .map(drop)
            .map_err(|(_, error)| error)
    }
}

impl<V: Clone + Send + Sync + 'static> Drop for UnknownReservation<V> {
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

impl<V: Clone + Send + Sync + 'static> fmt::Debug for UnknownReservation<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnknownReservation")
            .field("remaining", &self.remaining)
            .finish_non_exhaustive()
    }
}
