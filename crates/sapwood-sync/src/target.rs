//! Maps that follow.

use std::ops::Deref;

use sapwood::qp::QpStore;

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
    /// # Errors
    /// [`Error::Map`] when the map has no memory left, [`Error::Change`] for an entry that it
    /// cannot hold.
    fn commit(&mut self, changes: &Changes) -> Result<(), Error>;

    /// Frees what readers do not need any more. It is called a few times a second.
    fn reclaim(&mut self) {}
}

/// About how many old nodes are freed at a time.
const BUDGET: usize = 1 << 16;

/// A store of byte strings that follows: one of this process, or a live one that other processes
/// read. `S` is what leads to the store: an `Arc<QpStore<[u8]>>`, or a `Live<QpStore<[u8]>>`.
pub struct StoreTarget<S>(pub S);

impl<S> Target for StoreTarget<S>
where
    S: Deref<Target = QpStore<[u8]>> + Send + 'static,
{
    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.0.get(key)
    }

    fn for_each(&self, each: &mut Each<'_>) -> Result<(), Error> {
        let snapshot = self.0.snapshot();
        let mut entries = snapshot.iter();
        entries.try_for_each(|(key, value)| each(key, value))
    }

    fn commit(&mut self, changes: &Changes) -> Result<(), Error> {
        let mut txn = self.0.begin();
        for change in changes.iter() {
            let made = match change.value {
                Some(value) => txn.insert(change.key, value).map(drop).map_err(Error::map),
                None => txn.remove(change.key).map(drop).map_err(Error::map),
            };
            // A transaction that is dropped leaves nothing.
            made?;
        }
        txn.commit();
        Ok(())
    }

    fn reclaim(&mut self) {
        self.0.reclaim(BUDGET);
    }
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
