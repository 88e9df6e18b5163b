//! Other sources of grace periods. A domain's grace period is over when its sources say so as well.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::Ordering::Acquire;

use crate::sync::{AtomicU64, Mutex, raise};

/// A source of grace periods for readers that the domain does not know, such as the kernel's RCU or
/// another domain.
///
/// ```
/// use sapwood_qsbr::{Domain, Generation, GraceSource};
/// use std::sync::Arc;
///
/// /// Makes one domain wait for the readers of another domain as well.
/// struct Of(Domain);
///
/// impl GraceSource for Of {
///     fn start(&self) -> u64 { self.0.advance().get() }
///     fn elapsed(&self, token: u64) -> bool { self.0.elapsed(Generation::from_raw(token)) }
///     fn name(&self) -> &str { "other domain" }
/// }
///
/// let inner = Domain::new();
/// let outer = Domain::builder().source(Arc::new(Of(inner.clone()))).build();
/// let mut reader = inner.register("reader of the inner one")?;
/// let generation = outer.advance();
/// assert!(!outer.elapsed(generation));
/// reader.quiescent();
/// assert!(outer.elapsed(generation));
/// # Ok::<(), sapwood_qsbr::TooManyReaders>(())
/// ```
pub trait GraceSource: Send + Sync {
    /// Starts a grace period and returns a token for it.
    ///
    /// The start must be ordered after everything that the calling thread did before (a full
    /// fence). A domain has at most one token of each source outstanding, so it asks a source that
    /// costs a system call once for each of the source's periods, not once for each write.
    fn start(&self) -> u64;

    /// Whether the grace period of `token` is over. Must not block.
    ///
    /// It may return `true` only when the period is over for every reader of this source, and their
    /// reads must happen before the return (Acquire).
    fn elapsed(&self, token: u64) -> bool;

    /// The name of this source in stall reports.
    fn name(&self) -> &str;
}

/// A period that was started at every source.
struct InFlight {
    /// Generations up to this one are covered.
    generation: u64,
    /// One per source; `None` once it has elapsed.
    tokens: Vec<Option<u64>>,
    /// When it began, on the domain's clock.
    since: u64,
}

/// All sources of a domain. One period at a time is in flight; generations that begin meanwhile
/// share the next one.
pub(crate) struct Sources {
    list: Vec<Arc<dyn GraceSource>>,
    in_flight: Mutex<Option<InFlight>>,
    /// Generations up to this one are over for all sources.
    done: AtomicU64,
}

impl Sources {
    pub(crate) fn new(list: Vec<Arc<dyn GraceSource>>) -> Self {
        Self {
            list,
            in_flight: Mutex::new(None),
            done: AtomicU64::new(0),
        }
    }

    /// Starts a period unless one is in flight. It does not wait: the holder of the lock does the
    /// same work.
    pub(crate) fn start_if_idle(&self, generation: &AtomicU64, now: impl FnOnce() -> u64) {
        if let Some(mut in_flight) = self.in_flight.try_lock() {
            self.start(&mut in_flight, generation, now);
        }
    }

    fn start(
        &self,
        in_flight: &mut Option<InFlight>,
        generation: &AtomicU64,
        now: impl FnOnce() -> u64,
    ) {
        // An Acquire before the sources are asked: what was unlinked before this generation began
        // is unlinked before their periods begin.
        let generation = generation.load(Acquire);
        if in_flight.is_none() && self.done.load(Acquire) < generation {
            let tokens = self
                .list
                .iter()
                .map(|source| Some(source.start()))
                .collect();
            *in_flight = Some(InFlight {
                generation,
                tokens,
                since: now(),
            });
        }
    }

    /// Asks the sources, starts the next period if one has ended, and returns the newest generation
    /// that is over for all of them. It does not wait.
    pub(crate) fn progress(&self, generation: &AtomicU64, now: impl FnOnce() -> u64) -> u64 {
        if let Some(mut in_flight) = self.in_flight.try_lock() {
            if let Some(period) = in_flight.as_mut() {
                for (source, token) in self.list.iter().zip(&mut period.tokens) {
                    if token.is_some_and(|token| source.elapsed(token)) {
                        *token = None;
                    }
                }
                if period.tokens.iter().all(Option::is_none) {
                    raise(&self.done, period.generation);
                    *in_flight = None;
                }
            }
            self.start(&mut in_flight, generation, now);
        }
        self.done.load(Acquire)
    }

    /// Calls `f` with each source whose period is not over, the generation that waits for it, and
    /// the time since when it waits.
    pub(crate) fn waiting(&self, mut f: impl FnMut(&str, u64, u64)) {
        if let Some(in_flight) = self.in_flight.try_lock() {
            if let Some(period) = in_flight.as_ref() {
                for (source, _) in self
                    .list
                    .iter()
                    .zip(&period.tokens)
                    .filter(|(_, token)| token.is_some())
                {
                    f(source.name(), period.generation, period.since);
                }
            }
        }
    }
}

impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.list.iter().map(|source| source.name()))
            .finish()
    }
}
