//! Pins: scoped guards for threads without a loop of their own.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use core::cell::{Cell, RefCell};
use core::fmt;

use core::ptr::{self, NonNull};

use crate::domain::Domain;
use crate::reader::{Guard, StaysOnItsThread};
use crate::slots::{Claim, Slots};

#[cfg(loom)]
use loom::thread_local;
#[cfg(not(loom))]
use std::thread_local;

/// The slot of one thread in one domain, kept between pins.
///
/// Its [`Owner`] and the [`Pinned`]s that `depth` counts share its box, all on one thread, and the
/// last of them frees it. An `Rc` would do the same, but its second count would be a good part of
/// the cost of a pin.
struct Local {
    claim: Claim,
    /// The number of pins that this thread holds. The slot is online while it is not 0.
    depth: Cell<usize>,
    /// Whether there is an owner.
    owned: Cell<bool>,
}

impl Local {
    fn new(domain: &Domain, name: String, owned: bool) -> NonNull<Self> {
        let claim = domain.shared().slots.claim(name, true);
        NonNull::from(Box::leak(Box::new(Self {
            claim,
            depth: Cell::new(0),
            owned: Cell::new(owned),
        })))
    }
}

/// The owner of a thread's slot, from the first pin until the thread ends or the domain is dropped.
struct Owner(NonNull<Local>);

impl Owner {
    fn local(&self) -> &Local {
        // SAFETY: it comes from `Local::new`, and is freed only once `owned` is false, which only
        // our drop sets.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // The cache must not have it any more when it is freed.
        let _ = LAST.try_with(|last| {
            if last.get().local == self.0.as_ptr() {
                last.set(Last::NONE);
            }
        });
        self.local().owned.set(false);
        if self.local().depth.get() == 0 {
            // SAFETY: boxed in `Local::new`. No pin is left (depth 0), this is the owner, and the
            // cache does not have it: so this is the only pointer. If a pin were left, its drop
            // would free the box.
            drop(unsafe { Box::from_raw(self.0.as_ptr()) });
        }
    }
}

/// The local that this thread used last, so that most pins need no search.
#[derive(Clone, Copy)]
struct Last {
    /// For comparison only. `local` keeps this list alive, so no other domain has the same address.
    slots: *const Slots,
    /// It has an owner while it is here.
    local: *mut Local,
}

impl Last {
    const NONE: Self = Self {
        slots: ptr::null(),
        local: ptr::null_mut(),
    };
}

/// The number of slots up to which those of dropped domains are looked for at each new one.
const FEW: usize = 16;

/// The slots of one thread, by the address of the domain's list of slots. Each keeps its list
/// alive, so no two lists have one address. A process may have tens of thousands of domains, so
/// nothing here looks at all of them each time.
struct Locals {
    by_slots: BTreeMap<*const Slots, Owner>,
    /// The number of slots at which those of dropped domains are removed.
    sweep_at: usize,
}

impl Locals {
    const fn new() -> Self {
        Self {
            by_slots: BTreeMap::new(),
            sweep_at: 0,
        }
    }

    fn of(&self, domain: &Domain) -> Option<&Owner> {
        self.by_slots.get(&Arc::as_ptr(&domain.shared().slots))
    }
}

// Loom's macro does not have `const` initialisers.
#[cfg(loom)]
thread_local! {
    static LOCALS: RefCell<Locals> = RefCell::new(Locals::new());
    static LAST: Cell<Last> = Cell::new(Last::NONE);
}
#[cfg(not(loom))]
thread_local! {
    static LOCALS: RefCell<Locals> = const { RefCell::new(Locals::new()) };
    // No destructor, so that an access is a plain load.
    static LAST: Cell<Last> = const { Cell::new(Last::NONE) };
}

/// This thread's local for `domain`. It has an owner, or is made for the pin that the caller is
/// about to count.
#[inline]
fn local(domain: &Domain) -> NonNull<Local> {
    let last = LAST.try_with(Cell::get).unwrap_or(Last::NONE);
    match NonNull::new(last.local) {
        Some(local) if ptr::eq(last.slots, Arc::as_ptr(&domain.shared().slots)) => local,
        _ => find_local(domain),
    }
}

#[cold]
fn find_local(domain: &Domain) -> NonNull<Local> {
    let found = LOCALS.try_with(|locals| {
        let found = locals.borrow().of(domain).map(|owner| owner.0);
        let local = found.unwrap_or_else(|| add_local(locals, domain));
        let _ = LAST.try_with(|last| {
            last.set(Last {
                slots: Arc::as_ptr(&domain.shared().slots),
                local: local.as_ptr(),
            })
        });
        local
    });
    // This thread's locals have been dropped already, and the destructor of another thread-local
    // pins: use a slot for this pin only.
    found.unwrap_or_else(|_| Local::new(domain, "ending thread".to_string(), false))
}

fn add_local(locals: &RefCell<Locals>, domain: &Domain) -> NonNull<Local> {
    let thread = std::thread::current();
    let local = Local::new(
        domain,
        thread.name().unwrap_or("unnamed thread").to_string(),
        true,
    );
    let mut locals = locals.borrow_mut();
    if locals.by_slots.len() >= locals.sweep_at {
        let open = |owner: &Owner| !owner.local().claim.slots().is_closed();
        locals.by_slots.retain(|_, owner| open(owner));
        let open = locals.by_slots.len();
        locals.sweep_at = if open < FEW { 0 } else { 2 * open };
    }
    let slots = Arc::as_ptr(&domain.shared().slots);
    locals.by_slots.insert(slots, Owner(local));
    local
}

/// Whether this thread is inside a pin of `domain`.
pub(crate) fn is_pinned(domain: &Domain) -> bool {
    let pinned = |locals: &RefCell<Locals>| {
        let locals = locals.borrow();
        let owner = locals.of(domain);
        owner.is_some_and(|owner| owner.local().depth.get() > 0)
    };
    LOCALS.try_with(pinned).unwrap_or(false)
}

impl Domain {
    /// Pins this thread, which needs no loop: it is online until the result is dropped.
    ///
    /// A thread's first pin of a domain takes a slot, which the thread keeps until it ends. Later
    /// pins cost a look at a thread-local, one store and one full fence. Pins nest: only the
    /// outermost one announces anything, so a thread that always holds one holds garbage back. Pins
    /// are independent of any [`Reader`](crate::Reader) of the thread, and do not count for
    /// [`max_readers`](crate::DomainBuilder::max_readers).
    ///
    /// # Panics
    ///
    /// If this thread holds `usize::MAX` pins of the domain, which is possible only by leaking
    /// them.
    ///
    /// ```
    /// let domain = sapwood_qsbr::Domain::new();
    /// let pinned = domain.pin();
    /// let guard = pinned.guard();
    /// // ... read shared structures; references live as long as `pinned` ...
    /// assert!(guard.belongs_to(&domain));
    /// ```
    #[inline]
    pub fn pin(&self) -> Pinned<'_> {
        let local = local(self);
        {
            // SAFETY: the local has an owner, or was made for this pin just now; this block does
            // not free it.
            let local = unsafe { local.as_ref() };
            let depth = local.depth.get();
            if depth == 0 {
                local.claim.come_online(self.shared().current());
            }
            // A count that wraps, after as many leaked pins, would take the slot offline under a
            // guard.
            local
                .depth
                .set(depth.checked_add(1).expect("fewer pins than addresses"));
        }
        Pinned {
            local,
            domain: self,
        }
    }
}

/// A pinned thread: it is online in a domain while this lives. From [`Domain::pin`].
///
/// A pin stays on its thread:
///
/// ```compile_fail,E0277
/// let domain = sapwood_qsbr::Domain::new();
/// let pinned = domain.pin();
/// std::thread::scope(|s| { s.spawn(move || drop(pinned)); });
/// ```
///
/// and its guards do not outlive it:
///
/// ```compile_fail,E0505
/// let domain = sapwood_qsbr::Domain::new();
/// let pinned = domain.pin();
/// let guard = pinned.guard();
/// drop(pinned);
/// guard.domain();
/// ```
#[must_use = "the thread is inside the domain only while this lives"]
pub struct Pinned<'d> {
    /// The pointer also keeps the pin on its thread.
    local: NonNull<Local>,
    domain: &'d Domain,
}

impl Pinned<'_> {
    /// The guard that structures ask for.
    #[inline]
    pub fn guard(&self) -> Guard<'_> {
        Guard {
            domain: self.domain,
            _local: StaysOnItsThread::default(),
        }
    }
}

impl Drop for Pinned<'_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the local is freed only when `depth` is 0, and it counts this pin.
        let local = unsafe { self.local.as_ref() };
        let depth = local.depth.get() - 1;
        local.depth.set(depth);
        if depth == 0 {
            local.claim.go_offline();
            if !local.owned.get() {
                // SAFETY: boxed in `Local::new`; the owner is gone and this was the last pin.
                // `local` is not used after this.
                drop(unsafe { Box::from_raw(self.local.as_ptr()) });
            }
        }
    }
}

impl fmt::Debug for Pinned<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pinned")
            .field("domain", &self.domain)
            .finish_non_exhaustive()
    }
}
