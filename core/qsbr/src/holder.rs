//! Holders: owners of garbage that is held back by something else than a reader, such as snapshots.

use alloc::string::String;
use alloc::sync::Weak;
use alloc::vec::Vec;
use core::time::Duration;

use crate::domain::Domain;
use crate::sync::ColdMutex;

/// A report of one thing that holds garbage back although its grace period is over. From a
/// [`Holder`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Its name in stall reports.
    pub name: String,
    /// How long it has been holding garbage back.
    pub age: Duration,
    /// How many versions were published since it began.
    pub versions: u64,
    /// Bytes that wait because of it.
    pub bytes: usize,
}

/// An owner of garbage that may have to keep it after its grace period, and knows why.
///
/// A structure whose snapshots hold back its [`RetireQueue`](crate::RetireQueue) is one.
/// [`Domain::stalls`] asks it, and so explains why a writer waits at the hard limit.
///
/// ```
/// use sapwood_qsbr::{Domain, Hold, Holder, StallKind};
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// struct Backup;
///
/// impl Holder for Backup {
///     fn holds(&self) -> Vec<Hold> {
///         let (name, age) = ("backup".to_string(), Duration::from_secs(60));
///         vec![Hold { name, age, versions: 3, bytes: 100 }]
///     }
/// }
///
/// let domain = Domain::builder().stall_after(Duration::ZERO).build();
/// let backup: Arc<dyn Holder> = Arc::new(Backup);
/// domain.add_holder(Arc::downgrade(&backup));
/// domain.add_garbage(100);
/// let stalls = domain.stalls();
/// assert_eq!((stalls[0].kind, stalls[0].name.as_str()), (StallKind::Snapshot, "backup"));
/// drop(backup);
/// assert!(domain.stalls().is_empty());
/// ```
pub trait Holder: Send + Sync {
    /// The things that hold garbage back now. It must not wait for a writer, as it explains why a
    /// writer waits.
    fn holds(&self) -> Vec<Hold>;
}

/// The holders of a domain, as long as they live.
pub(crate) struct Holders(ColdMutex<Vec<Weak<dyn Holder>>>);

impl Holders {
    pub(crate) fn new() -> Self {
        Self(ColdMutex::new(Vec::new()))
    }

    fn add(&self, holder: Weak<dyn Holder>) {
        let mut list = self.0.lock();
        if list.len() == list.capacity() {
            // Removes dropped holders, and reserves twice the room, so that this is rare.
            list.retain(|holder| holder.strong_count() > 0);
            let len = list.len();
            list.reserve(len + 1);
        }
        list.push(holder);
    }

    /// The reports of all holders. The holders are asked without the lock.
    pub(crate) fn holds(&self) -> Vec<Hold> {
        let holders: Vec<_> = self.0.lock().iter().filter_map(Weak::upgrade).collect();
        holders.iter().flat_map(|holder| holder.holds()).collect()
    }
}

impl Domain {
    /// Adds a holder, which [`stalls`](Self::stalls) asks as long as it lives.
    ///
    /// Amortized O(1) in the number of holders that live.
    pub fn add_holder(&self, holder: Weak<dyn Holder>) {
        self.shared().holders.add(holder);
    }
}
