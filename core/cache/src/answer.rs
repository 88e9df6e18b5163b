//! The answers of the route cache.

/// The result of [`RouteCache::lookup`](super::RouteCache::lookup).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup<V> {
    /// A fresh value.
    Value(V),
    /// The resolver failed less than `negative_ttl` ago. Caches without a `negative_ttl` do not
    /// answer this.
    Negative,
    /// No entry, or none that is fresh.
    Absent,
}

/// Why [`RouteCache::get_or_resolve`](super::RouteCache::get_or_resolve) has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unresolved<E> {
    /// The resolver's error.
    #[error("{0}")]
    Error(E),
    /// The resolver failed less than `negative_ttl` ago, and was not called again.
    #[error("the resolver failed a moment ago")]
    Negative,
}
