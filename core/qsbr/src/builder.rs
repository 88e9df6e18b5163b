//! The limits of a domain, their errors, and the builder of domains.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::domain::Domain;
use crate::source::GraceSource;

/// The error of a request that would cross the garbage limit. Nothing was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{requested} more bytes would cross the garbage limit: {garbage} of {limit} bytes already wait \
     for a grace period{}",
    match requested > limit {
        true => ". The request alone is more than the limit",
        false => ". Readers, pins and snapshots that hold them back for long are in the domain's \
                  `stalls()`",
    }
)]
#[non_exhaustive]
pub struct GarbageLimit {
    /// Bytes that waited for readers or snapshots when the request was refused.
    pub garbage: usize,
    /// Bytes that were asked for.
    pub requested: usize,
    /// The domain's hard limit in bytes.
    pub limit: usize,
}

/// The error of a wait for a grace period that this thread itself holds back. The grace period has
/// begun, and nothing else was done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the grace period would never end: {} is of this thread, and it would wait for itself. Drop the \
     pin; call the reader's own `synchronize`, or take it offline",
    match reader {
        Some(reader) => alloc::format!("the reader \"{reader}\", which is online,"),
        None => "a pin of the same domain".into(),
    }
)]
#[non_exhaustive]
pub struct WaitsForItself {
    /// The name of the thread's own reader; `None` for a pin.
    pub reader: Option<alloc::string::String>,
}

/// The error of a registration in a domain that has the most readers it allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("all {max} readers that this domain allows are registered")]
#[non_exhaustive]
pub struct TooManyReaders {
    /// The limit that [`DomainBuilder::max_readers`] set.
    pub max: usize,
}

/// The policy for writes that would cross the hard limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LimitPolicy {
    /// The write fails with [`GarbageLimit`].
    #[default]
    Error,
    /// The write waits, and polls, until there is room.
    ///
    /// A thread must not wait for itself: it must go offline first, and keep no snapshot of the
    /// structure. A thread inside `Domain::pin` gets the error. Another thread can call
    /// [`Domain::stalls`], which names the readers and snapshots that the writer waits for.
    Block,
}

/// The limits in the units that the domain compares with.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    pub(crate) soft: usize,
    pub(crate) hard: usize,
    pub(crate) policy: LimitPolicy,
    pub(crate) max_readers: usize,
    /// Nanoseconds.
    pub(crate) stall_after: u64,
}

/// A builder of a [`Domain`], which sets its limits and sources. From [`Domain::builder`].
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
                // Without a clock, every reader that is behind is reported.
                stall_after: if cfg!(feature = "std") {
                    1_000_000_000
                } else {
                    0
                },
            },
            sources: Vec::new(),
        }
    }

    /// The bytes of garbage above which [`Domain::over_soft_limit`] is true. Then writers should
    /// reclaim more.
    pub fn soft_limit(mut self, bytes: usize) -> Self {
        self.limits.soft = bytes;
        self
    }

    /// The most bytes of garbage. [`Domain::try_add_garbage`], [`Domain::defer`],
    /// [`RetireQueue::reserve`](crate::RetireQueue::reserve) and
    /// [`RetireQueue::make_room`](crate::RetireQueue::make_room) check the limit and count in one
    /// step. So any number of writers stay within it if each reserves what its write may unlink.
    ///
    /// [`Domain::admit`] only checks the limit. [`Domain::add_garbage`], and a
    /// [`push`](crate::RetireQueue::push) without a reservation, only count.
    pub fn hard_limit(mut self, bytes: usize) -> Self {
        self.limits.hard = bytes;
        self
    }

    /// Whether a write at the hard limit fails or waits.
    pub fn policy(mut self, policy: LimitPolicy) -> Self {
        self.limits.policy = policy;
        self
    }

    /// The most [`Reader`](crate::Reader)s that may be registered at once. Threads that pin are not
    /// counted.
    pub fn max_readers(mut self, readers: usize) -> Self {
        self.limits.max_readers = readers;
        self
    }

    /// How long a reader may have no quiescent state, or a snapshot be kept, before
    /// [`Domain::stalls`] lists it.
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

    /// Makes the domain.
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
