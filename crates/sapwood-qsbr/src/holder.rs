//! What holds garbage back and is no reader: the kept versions of a structure, say.

use alloc::string::String;
use alloc::sync::Weak;
use alloc::vec::Vec;
use core::time::Duration;

use crate::domain::Domain;
use crate::sync::ColdMutex;

/// One thing that holds garbage back although its grace period is over. From a [`Holder`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// What stall reports call it.
    pub name: String,
    /// How long it has been holding garbage back.
    pub age: Duration,
    /// How many versions were published since it began.
    pub versions: u64,
    /// Bytes that wait because of it.
    pub bytes: usize,
}

/// An owner of garbage that does not free it when its grace period is over, and knows why.
///
/// A structure whose snapshots hold back its [`RetireQueue`](crate::RetireQueue) is one.
/// [`Domain::stalls`] asks it, so that a writer that waits at the hard limit is explained.
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
    /// What holds garbage back now. Must not wait for a writer: a writer may wait for the answer.
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
            // Those that are gone make room; as much again is reserved, so that this is rare.
            list.retain(|holder| holder.strong_count() > 0);
            let len = list.len();
            list.reserve(len + 1);
        }
        list.push(holder);
    }

    /// What holds garbage back. The holders are asked without the lock.
    pub(crate) fn holds(&self) -> Vec<Hold> {
        let holders: Vec<_> = self.0.lock().iter().filter_map(Weak::upgrade).collect();
        holders.iter().flat_map(|holder| holder.holds()).collect()
    }
}

impl Domain {
    /// [`stalls`](Self::stalls) asks this one, too, as long as it lives.
    ///
    /// Amortized O(1) in the number of holders that live.
    pub fn add_holder(&self, holder: Weak<dyn Holder>) {
        self.shared().holders.add(holder);
    }
}
