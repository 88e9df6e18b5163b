//! Stall reports: who holds garbage back, and for how long.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::fmt;

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
    /// A kept version of a structure, which its [`Holder`](crate::Holder) reports.
    Snapshot,
}

/// A reader that has stood still while garbage waits, or a snapshot that holds garbage back. From
/// [`Domain::stalls`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stall {
    /// The name it was registered with; the thread's name for a pin; the source's name for a
    /// source; the version, and the thread that made it, for a snapshot.
    pub name: String,
    /// What it is.
    pub kind: StallKind,
    /// How many generations have begun since its last quiescent state; for a snapshot, how many
    /// versions were published after it.
    pub generations: u64,
    /// For how long it has been known to hold something back; at most how long it has stood still.
    /// For a snapshot, its age.
    #[cfg(feature = "std")]
    pub stood_for: core::time::Duration,
    /// At most this many bytes wait because of it: the domain's garbage at the time of the report.
    /// For a snapshot, the bytes that its structure retired after that version: they wait for its
    /// end.
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
    /// The readers that have stood still for longer than `stall_after` while garbage waits, and the
    /// snapshots as old as that which hold garbage back; the longest first.
    ///
    /// No reader ever looks at a clock: the time runs from when it was first noticed that a reader
    /// holds something back. A failed [`elapsed`](Self::elapsed) (hence any poll or reclaim)
    /// notices the readers that it fails for, this function notices everyone who is behind; so a
    /// monitor calls it every so often. Without `std` there is no clock, and every reader that is
    /// behind is listed.
    ///
    /// Takes time in proportion to the number of readers and snapshots; takes each reported
    /// reader's name lock, and no lock that a waiting writer holds: another thread can ask why a
    /// writer is blocked ([`LimitPolicy::Block`](crate::LimitPolicy::Block)).
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
