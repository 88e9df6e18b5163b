//! Stall reports: who holds garbage back, and for how long.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::domain::Domain;

/// What kind of reader a [`Stall`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StallKind {
    /// A registered [`Reader`](crate::Reader).
    Reader,
    /// A thread inside `Domain::pin`.
    Pinned,
    /// A [`GraceSource`](crate::GraceSource).
    Source,
}

/// A reader that has stood still while garbage waits. From [`Domain::stalls`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stall {
    /// The name it was registered with; the thread's name for a pin; the source's name for a
    /// source.
    pub name: String,
    /// What it is.
    pub kind: StallKind,
    /// How many generations have begun since its last quiescent state.
    pub generations: u64,
    /// For how long it has been known to hold something back; at most how long it has stood still.
    #[cfg(feature = "std")]
    pub stood_for: core::time::Duration,
    /// At most this many bytes wait because of it: the domain's garbage at the time of the report.
    pub bytes: usize,
}

impl Domain {
    /// The readers that have stood still for longer than `stall_after` while garbage waits, the
    /// longest first.
    ///
    /// No reader ever looks at a clock: the time runs from when it was first noticed that a reader
    /// holds something back. A failed [`elapsed`](Self::elapsed) (hence any poll or reclaim)
    /// notices the readers that it fails for, this function notices everyone who is behind; so a
    /// monitor calls it every so often. Without `std` there is no clock, and every reader that is
    /// behind is listed.
    ///
    /// Takes time in proportion to the number of readers; takes each reported reader's name lock.
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
    /// use sapwood_qsbr::Domain;
    /// use std::time::Duration;
    ///
    /// let domain = Domain::builder().stall_after(Duration::ZERO).build();
    /// let mut reader = domain.register("sleepy")?;
    /// domain.defer(100, || ()).unwrap();
    /// let stalls = domain.stalls();
    /// assert_eq!((stalls[0].name.as_str(), stalls[0].bytes), ("sleepy", 100));
    /// reader.quiescent();
    /// assert!(domain.stalls().is_empty());
    /// # }
    /// # Ok::<(), sapwood_qsbr::TooManyReaders>(())
    /// ```
    pub fn stalls(&self) -> Vec<Stall> {
        let shared = self.shared();
        let bytes = self.garbage();
        if bytes == 0 && self.deferred() == 0 {
            return Vec::new();
        }
        let generation = shared.current();
        let now = shared.clock.nanos();
        let mut found = Vec::new();
        for slot in shared.slots.iter() {
            let seen = slot.seen();
            if seen != 0 && seen < generation {
                let since = slot.note_stuck(seen, || now);
                let kind = if slot.is_pinned() {
                    StallKind::Pinned
                } else {
                    StallKind::Reader
                };
                found.push((since, generation - seen, kind, slot.name()));
            }
        }
        if let Some(sources) = &shared.sources {
            sources.waiting(|name, asked, since| {
                found.push((
                    since,
                    generation.saturating_sub(asked) + 1,
                    StallKind::Source,
                    name.to_string(),
                ));
            });
        }
        found.retain(|&(since, ..)| now.saturating_sub(since) >= shared.limits.stall_after);
        found.sort_by_key(|&(since, generations, ..)| (since, u64::MAX - generations));
        let stall = |(since, generations, kind, name)| {
            #[cfg(not(feature = "std"))]
            let _: u64 = since;
            Stall {
                name,
                kind,
                generations,
                #[cfg(feature = "std")]
                stood_for: core::time::Duration::from_nanos(now.saturating_sub(since)),
                bytes,
            }
        };
        found.into_iter().map(stall).collect()
    }
}
