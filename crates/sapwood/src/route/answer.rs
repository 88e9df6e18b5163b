//! What the route cache answers.

/// What [`RouteCache::lookup`](super::RouteCache::lookup) found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup<V> {
    /// A value.
    Value(V),
    /// The resolver failed a moment ago; only with a `negative_ttl`.
    Negative,
    /// Nothing, or nothing that is fresh.
    Absent,
}

/// Why [`RouteCache::get_or_resolve`](super::RouteCache::get_or_resolve) has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unresolved<E> {
    /// What the resolver said.
    #[error("{0}")]
    Error(E),
    /// The resolver failed a moment ago, and was not asked again.
    #[error("the resolver failed a moment ago")]
    Negative,
}
