//! Maps that follow.

mod feeds;
mod names;
mod ranges;
mod routes;

pub use feeds::{FeedTarget, RouteFeed};
pub use names::{NumberTarget, StoreTarget};
pub use ranges::LiveRangesTarget;
pub use routes::{FibTarget, GroupTarget, Hop, LiveFibTarget, LiveGroupTarget};

use crate::{Changes, Error};

/// What is called with each entry: its key and its value.
pub type Each<'a> = dyn FnMut(&[u8], &[u8]) -> Result<(), Error> + 'a;

/// A map that follows a leader's.
///
/// A follower calls these methods from one thread at a time.
pub trait Target: Send + 'static {
    /// The value of a key, as the leader wrote it.
    fn get(&self, key: &[u8]) -> Option<Vec<u8>>;

    /// Calls a function for each entry, in ascending order of keys, as the leader wrote them. It
    /// ends at the first error of the function.
    ///
    /// # Errors
    /// That of the function.
    fn for_each(&self, each: &mut Each<'_>) -> Result<(), Error>;

    /// Makes changes so that readers see all of them at once, or none if this fails. When a key is
    /// changed twice, the later change counts.
    ///
    /// Tables of routes and maps of ranges publish a commit in several stores, so their readers may
    /// see a part of it for a moment; each target says so.
    ///
    /// # Errors
    /// [`Error::Map`] when the map has no memory left, [`Error::Change`] for an entry that it
    /// cannot hold.
    fn commit(&mut self, changes: &Changes) -> Result<(), Error>;

    /// Frees what readers do not need any more. It is called a few times a second.
    fn reclaim(&mut self) {}
}

/// What would make a map what a sorted list of entries says.
///
/// # Errors
/// [`Error::Change`] for a key that is too long.
pub(crate) fn difference<K: AsRef<[u8]>, V: AsRef<[u8]>>(
    map: &impl Target,
    sorted: impl IntoIterator<Item = (K, V)>,
) -> Result<Changes, Error> {
    let mut differences = Changes::new();
    let mut wanted = sorted.into_iter().peekable();
    map.for_each(&mut |old, old_value| {
        while let Some((key, value)) = wanted.next_if(|(key, _)| key.as_ref() < old) {
            differences.put(key, value)?;
        }
        match wanted.next_if(|(key, _)| key.as_ref() == old) {
            Some((_, value)) if value.as_ref() == old_value => Ok(()),
            Some((key, value)) => differences.put(key, value),
            None => differences.remove(old),
        }
    })?;
    for (key, value) in wanted {
        differences.put(key, value)?;
    }
    Ok(differences)
}
