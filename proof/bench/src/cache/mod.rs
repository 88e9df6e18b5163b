//! The caches that the suite `cache` compares: `(u128, u32)` to 32 bytes, shared by threads.
//!
//! # To add an engine
//!
//! Write a file in `peers` that implements [`CacheEngine`], and name the type in `lanes` of
//! `suite/cache.rs`. All engines use foldhash, the fastest hash for such keys, unless their names
//! say otherwise.
//!
//! The peers keep no time stamps, so their operations are measured without the work that the age of
//! an entry would cost.

mod sapwood;

pub use self::sapwood::{Sapwood, SapwoodApart, SapwoodFront};

/// A destination and a flow's hash.
pub type Key = (u128, u32);

/// A next hop.
pub type Value = [u8; 32];

/// The hasher of all engines that can choose one.
pub type Hasher = foldhash::fast::RandomState;

/// A cache that threads share.
pub trait CacheEngine: Send + Sync + 'static {
    /// The name in tables and records.
    const NAME: &'static str;
    /// Whether the engine is only of interest to more than one thread.
    const SEVERAL: bool = false;

    /// An empty cache that holds `capacity` entries. An engine that cannot evict refuses new keys
    /// when it is full and `bounded`, as the first route cache did.
    fn new(capacity: usize, bounded: bool) -> Self;

    /// The value of a key, for the thread with this number.
    fn get(&self, thread: usize, key: &Key) -> Option<Value>;

    /// Lookups by one thread, the one with this number.
    fn reader(&self, thread: usize) -> impl FnMut(&Key) -> Option<Value> {
        move |key| self.get(thread, key)
    }

    /// Stores the value of a key that is probably absent.
    fn insert(&self, thread: usize, key: Key, value: Value);

    /// Stores the value of a key that is probably present.
    fn refresh(&self, thread: usize, key: Key, value: Value) {
        self.insert(thread, key, value);
    }

    /// Removes a key.
    fn remove(&self, thread: usize, key: &Key);

    /// Advances the engine's clock by one step.
    fn tick() {}

    /// Does the work that the engine has put off.
    fn settle(&self) {}
}

/// The value that belongs to a key.
#[inline]
pub fn value_of(key: &Key) -> Value {
    let mut value = [0; 32];
    value[..16].copy_from_slice(&key.0.to_le_bytes());
    value[16..20].copy_from_slice(&key.1.to_le_bytes());
    value[24..].copy_from_slice(&(key.0 as u64 ^ u64::from(key.1)).to_le_bytes());
    value
}

/// The sum of a value's words, by which a wrong value is recognized.
#[inline]
pub fn sum_of(value: &Value) -> u64 {
    let words = value
        .chunks_exact(8)
        .map(|word| u64::from_le_bytes(word.try_into().expect("there are eight bytes")));
    words.fold(0, u64::wrapping_add)
}

#[cfg(test)]
mod tests;
