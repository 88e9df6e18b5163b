//! Hooks: code of the caller that hears of a cache's events.

use super::raw::table::{WAYS, Writer};
use crate::Plain;

/// Code that hears of the events of a [`RouteCache`](crate::RouteCache): for tracers of the
/// caller's own, and for values that own something.
///
/// The cache calls the methods directly, on the thread that caused the event, after it has released
/// the lock of the set: they may use the cache. Each has a default that does nothing. A method that
/// panics leaves the cache usable, but the later calls for the same event are not made.
///
/// # Values that own something
///
/// A value may be the handle of something that others own or count, such as the number of an
/// object. The cache calls [`left`](Self::left) once for each value that it was given, when it does
/// not have it any more: at once for an answer that it does not store, and else when the entry is
/// replaced, evicted, removed or swept, or when the cache is dropped. Another thread may have
/// copied the value shortly before, and so may the thread that gave it. So the owner does not free
/// the object at once, but when all these threads have passed, as after a grace period.
///
/// ```
/// use std::collections::HashMap;
/// use std::sync::{Arc, Mutex};
/// use sapwood::qsbr::Domain;
/// use sapwood::route::{CacheHooks, RouteCache};
///
/// /// Paths to next hops, by their numbers, which are the values.
/// type Paths = Arc<Mutex<HashMap<u64, String>>>;
/// struct Owner(Domain, Paths);
///
/// impl CacheHooks<u32, u64> for Owner {
///     fn left(&self, _: &u32, path: u64) {
///         let paths = Arc::clone(&self.1);
///         let free = move || drop(paths.lock().unwrap().remove(&path));
///         // Without a hard limit there is always room for garbage.
///         self.0.defer(size_of::<String>(), free).unwrap();
///     }
/// }
///
/// let (domain, paths) = (Domain::new(), Paths::default());
/// let owner = Owner(domain.clone(), Arc::clone(&paths));
/// let cache = RouteCache::builder().capacity(64).hooks(owner).build();
/// paths.lock().unwrap().insert(7, "by eth0".into());
/// cache.insert(&1, cache.hash(&1), 0, 7);
/// {
///     // Whatever leaves the cache meanwhile is freed after the pin.
///     let _guard = domain.pin();
///     let found = cache.get(&1, 5).unwrap();
///     assert_eq!(paths.lock().unwrap()[&found], "by eth0");
/// }
/// cache.invalidate(&1);
/// domain.poll();
/// assert!(paths.lock().unwrap().is_empty());
/// ```
pub trait CacheHooks<K: Plain, V: Plain> {
    /// Whether there are hooks at all. Where it is `false`, no method is called, and the cache's
    /// code is as if there were none.
    const ON: bool = true;

    /// A lookup was answered by the entry of this key, also if that says that there is no answer.
    fn hit(&self, key: &K, hash: u64) {
        let _ = (key, hash);
    }

    /// A lookup found no entry, or one that is too old.
    fn miss(&self, key: &K, hash: u64) {
        let _ = (key, hash);
    }

    /// An entry was stored in a slot of its own. `None`: it says that the resolver failed.
    fn insert(&self, key: &K, value: Option<&V>) {
        let _ = (key, value);
    }

    /// The entry of this key was stored again in its slot.
    fn refresh(&self, key: &K, value: Option<&V>) {
        let _ = (key, value);
    }

    /// The entry of this key made room for another one. `full`: it was not older than `keep`.
    fn evict(&self, key: &K, full: bool) {
        let _ = (key, full);
    }

    /// The entry of this key was invalidated or swept. After an `invalidate_all`, the entries of a
    /// set are told when the set is next written or swept.
    fn remove(&self, key: &K) {
        let _ = key;
    }

    /// A value that the cache was given is not in it any more, or was not stored: once for each.
    fn left(&self, key: &K, value: V) {
        let _ = (key, value);
    }
}

/// No hooks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoHooks;

impl<K: Plain, V: Plain> CacheHooks<K, V> for NoHooks {
    const ON: bool = false;
}

/// The entries that leave a set while its lock is held, to be told of afterwards.
pub(super) struct Gone<K, V> {
    all: [Option<(K, Option<V>)>; WAYS],
    count: usize,
}

impl<K: Copy, V: Copy> Gone<K, V> {
    #[inline(always)]
    pub(super) fn none() -> Self {
        Gone {
            all: [None; WAYS],
            count: 0,
        }
    }

    /// Notes the entry of a way that the caller empties or writes next.
    #[inline(always)]
    pub(super) fn note<P, Q, H>(&mut self, writer: &Writer<'_, K, V>, way: usize)
    where
        P: Plain<Words = K>,
        Q: Plain<Words = V>,
        H: CacheHooks<P, Q>,
        K: crate::Words,
        V: crate::Words,
    {
        if H::ON {
            self.all[self.count % WAYS] = Some((writer.key(way), writer.value(way)));
            self.count += 1;
        }
    }

    /// Tells that the values left.
    #[inline(always)]
    pub(super) fn tell_left<P, Q, H>(self, hooks: &H)
    where
        P: Plain<Words = K>,
        Q: Plain<Words = V>,
        H: CacheHooks<P, Q>,
    {
        self.tell(hooks, |_| {});
    }

    /// Tells that the entries were removed, and that the values left.
    #[inline(always)]
    pub(super) fn tell_removed<P, Q, H>(self, hooks: &H)
    where
        P: Plain<Words = K>,
        Q: Plain<Words = V>,
        H: CacheHooks<P, Q>,
    {
        self.tell(hooks, |key: &P| hooks.remove(key));
    }

    #[inline(always)]
    fn tell<P, Q, H>(self, hooks: &H, first: impl Fn(&P))
    where
        P: Plain<Words = K>,
        Q: Plain<Words = V>,
        H: CacheHooks<P, Q>,
    {
        if !H::ON {
            return;
        }
        for (key, value) in self.all.into_iter().flatten() {
            let key = P::from_words(key);
            first(&key);
            if let Some(value) = value {
                hooks.left(&key, Q::from_words(value));
            }
        }
    }
}
