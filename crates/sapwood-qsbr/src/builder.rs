//! Limits of a domain, their errors, and the builder that sets them.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::domain::Domain;
use crate::source::GraceSource;

/// The garbage limit would be crossed; nothing was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{requested} more bytes would cross the garbage limit: {garbage} of {limit} bytes already wait \
     for readers or snapshots: the domain's `stalls()` names them"
)]
#[non_exhaustive]
pub struct GarbageLimit {
    /// Bytes that waited when it was refused, for readers or for snapshots.
    pub garbage: usize,
    /// Bytes asked for.
    pub requested: usize,
    /// The domain's hard limit in bytes.
    pub limit: usize,
}

/// The domain has as many readers as it allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("all {max} readers that this domain allows are registered")]
#[non_exhaustive]
pub struct TooManyReaders {
    /// The limit that [`DomainBuilder::max_readers`] set.
    pub max: usize,
}

/// What a write does that would cross the hard limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LimitPolicy {
    /// It fails with [`GarbageLimit`].
    #[default]
    Error,
    /// It waits, and polls, until there is room.
    ///
    /// A thread must not wait for itself: go offline first, and keep no snapshot of the structure.
    /// A thread inside `Domain::pin` gets the error. [`Domain::stalls`], asked by another thread,
    /// names who is waited for.
    Block,
}

/// Limits in the units that the domain compares with.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    pub(crate) soft: usize,
    pub(crate) hard: usize,
    pub(crate) policy: LimitPolicy,
    pub(crate) max_readers: usize,
    /// Nanoseconds.
    pub(crate) stall_after: u64,
}

/// Sets the limits and sources of a [`Domain`]. From [`Domain::builder`].
///
/// | setting | default |
/// |---|---|
/// | `soft_limit`, `hard_limit` | none |
/// | `policy` | [`LimitPolicy::Error`] |
/// | `max_readers` | 65,536 |
/// | `stall_after` | 1 second |
///
/// ```
/// use sapwood_qsbr::{Domain, LimitPolicy};
///
/// let domain = Domain::builder()
///     .soft_limit(16 << 20)
///     .hard_limit(64 << 20)
///     .policy(LimitPolicy::Error)
///     .max_readers(256)
///     .build();
/// assert_eq!(domain.hard_limit(), Some(64 << 20));
/// ```
#[must_use = "nothing is made before `build`"]
#[derive(Clone)]
pub struct DomainBuilder {
    limits: Limits,
    sources: Vec<Arc<dyn GraceSource>>,
}

impl DomainBuilder {
    pub(crate) fn new() -> Self {
        Self {
            limits: Limits {
                soft: usize::MAX,
                hard: usize::MAX,
                policy: LimitPolicy::Error,
                max_readers: 65_536,
                // Without a clock, whoever is behind is reported at once.
                stall_after: if cfg!(feature = "std") {
                    1_000_000_000
                } else {
                    0
                },
            },
            sources: Vec::new(),
        }
    }

    /// Above this many bytes of garbage [`Domain::over_soft_limit`] is true, and writers should try
    /// harder.
    pub fn soft_limit(mut self, bytes: usize) -> Self {
        self.limits.soft = bytes;
        self
    }

    /// The most bytes of garbage. [`Domain::try_add_garbage`], [`Domain::defer`],
    /// [`RetireQueue::reserve`](crate::RetireQueue::reserve) and
    /// [`RetireQueue::make_room`](crate::RetireQueue::make_room) ask and count in one step, so
    /// writers that reserve what a write may unlink never pass it, however many there are.
    ///
    /// [`Domain::admit`] only asks, and [`Domain::add_garbage`] and a
    /// [`push`](crate::RetireQueue::push) without a reservation only count.
    pub fn hard_limit(mut self, bytes: usize) -> Self {
        self.limits.hard = bytes;
        self
    }

    /// Whether a write at the hard limit fails or waits.
    pub fn policy(mut self, policy: LimitPolicy) -> Self {
        self.limits.policy = policy;
        self
    }

    /// How many [`Reader`](crate::Reader)s may be registered at once. Threads that pin are not
    /// counted.
    pub fn max_readers(mut self, readers: usize) -> Self {
        self.limits.max_readers = readers;
        self
    }

    /// How long a reader may stand still, or a snapshot be kept, before [`Domain::stalls`] lists
    /// it.
    #[cfg(feature = "std")]
    pub fn stall_after(mut self, after: core::time::Duration) -> Self {
        self.limits.stall_after = u64::try_from(after.as_nanos()).unwrap_or(u64::MAX);
        self
    }

    /// Adds a source that every grace period of the domain waits for as well.
    pub fn source(mut self, source: Arc<dyn GraceSource>) -> Self {
        self.sources.push(source);
        self
    }

    /// The domain.
    #[must_use]
    pub fn build(self) -> Domain {
        Domain::from_parts(self.limits, self.sources)
    }
}

impl core::fmt::Debug for DomainBuilder {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("DomainBuilder")
            .field("limits", &self.limits)
            .field("sources", &self.sources.len())
            .finish()
    }
}
