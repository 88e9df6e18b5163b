//! Stall reports: which readers and snapshots hold garbage back, and for how long.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::fmt;

use crate::domain::Domain;

/// The kind of a [`Stall`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StallKind {
    /// A registered [`Reader`](crate::Reader).
    Reader,
    /// A thread inside `Domain::pin`.
    Pinned,
    /// A [`GraceSource`](crate::GraceSource).
    Source,
    /// A kept version of a structure, which its [`Holder`](crate::Holder) reports.
    Snapshot,
}

/// A report of a reader that had no quiescent state while garbage waits, or of a snapshot that
/// holds garbage back. From [`Domain::stalls`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stall {
    /// The name with which a reader was registered, the name of a pinned thread or of a source, or
    /// the version of a snapshot with the thread that made it.
    pub name: String,
    /// The kind.
    pub kind: StallKind,
    /// The number of generations that have begun since its last quiescent state. For a snapshot,
    /// the number of versions that were published after it.
    pub generations: u64,
    /// For how long the domain has known that it holds garbage back; this is at most the time since
    /// its last quiescent state. For a snapshot, its age.
    #[cfg(feature = "std")]
    pub stood_for: core::time::Duration,
    /// The most bytes that wait because of it: the domain's garbage at the time of the report. For
    /// a snapshot, the bytes that its structure retired after that version, which wait for its end.
    pub bytes: usize,
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            StallKind::Reader => "reader",
            StallKind::Pinned => "pin of thread",
            StallKind::Source => "source",
            StallKind::Snapshot => "snapshot of",
        };
        write!(f, "{what} {}", self.name)?;
        #[cfg(feature = "std")]
        write!(f, " for {:.3} s", self.stood_for.as_secs_f64())?;
        write!(f, ": {} bytes wait", self.bytes)
    }
}

impl Domain {
    /// The readers without a quiescent state for longer than `stall_after` while garbage waits, and
    /// the snapshots of that age that hold garbage back. The longest come first.
    ///
    /// Readers do not read a clock. The time runs from the moment when somebody first noticed that
    /// a reader holds garbage back. A failed [`elapsed`](Self::elapsed), and so any poll or
    /// reclaim, notices the readers that it fails for; this function notices every reader that is
    /// behind. So a monitor should call it regularly. Without `std` there is no clock, and every
    /// reader that is behind is listed.
    ///
    /// It takes time in proportion to the number of readers and snapshots, and the lock of each
    /// reported reader's name. It takes no lock that a waiting writer holds, so another thread can
    /// ask why a writer is blocked ([`LimitPolicy::Block`](crate::LimitPolicy::Block)).
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
                let stood = now.saturating_sub(since);
                found.push((stood, generation - seen, kind, slot.name(), bytes));
            }
        }
        if let Some(sources) = &shared.sources {
            sources.waiting(|name, asked, since| {
                found.push((
                    now.saturating_sub(since),
                    generation.saturating_sub(asked) + 1,
                    StallKind::Source,
                    name.to_string(),
                    bytes,
                ));
            });
        }
        for hold in shared.holders.holds() {
            if hold.bytes > 0 {
                let age = u64::try_from(hold.age.as_nanos()).unwrap_or(u64::MAX);
                found.push((
                    age,
                    hold.versions,
                    StallKind::Snapshot,
                    hold.name,
                    hold.bytes,
                ));
            }
        }
        found.retain(|&(stood, ..)| stood >= shared.limits.stall_after);
        found.sort_by_key(|&(stood, generations, ..)| Reverse((stood, generations)));
        let stall = |(stood, generations, kind, name, bytes)| {
            #[cfg(not(feature = "std"))]
            let _: u64 = stood;
            Stall {
                name,
                kind,
                generations,
                #[cfg(feature = "std")]
                stood_for: core::time::Duration::from_nanos(stood),
                bytes,
            }
        };
        found.into_iter().map(stall).collect()
    }
}
