//! Readers, one for each thread, and the guards that borrow them.

use alloc::string::String;
use core::cell::Cell;
use core::fmt;
use core::marker::PhantomData;

use crate::domain::Domain;
use crate::slots::Claim;

/// A registered reader of a [`Domain`], for one thread. It hands out [`Guard`]s and announces
/// quiescent states.
///
/// A reader is online or offline. While it is online, it holds back every grace period that began
/// since its last [`quiescent`](Self::quiescent) call, **whether it has a guard or not**: that is
/// why a guard costs nothing. So a reader belongs into a loop that calls `quiescent` once in each
/// turn, and goes [`offline`](Self::offline) before it blocks. [`Domain::register`] returns it
/// online.
///
/// Dropping a reader unregisters it, also on unwinding, so a thread that panics holds nothing back.
/// A reader that is leaked ([`core::mem::forget`]) while online holds garbage back for ever. That
/// is safe, and [`Domain::stalls`] names it.
///
/// It can move to another thread (`Send`) but not be shared (not `Sync`).
///
/// ```
/// use sapwood_qsbr::Domain;
///
/// let domain = Domain::new();
/// let mut reader = domain.register("worker")?;
/// for _turn in 0..3 {
///     let guard = reader.guard();
///     // ... read shared structures; references live as long as `guard` ...
///     let _ = guard;
///     reader.quiescent();
/// }
/// # Ok::<(), sapwood_qsbr::TooManyReaders>(())
/// ```
///
/// The borrow checker refuses a reference under a guard that crosses a quiescent state:
///
/// ```compile_fail,E0502
/// let domain = sapwood_qsbr::Domain::new();
/// let mut reader = domain.register("worker").unwrap();
/// let guard = reader.guard();
/// reader.quiescent(); // error: `guard` is used below
/// drop(guard);
/// ```
///
/// nor an offline section:
///
/// ```compile_fail,E0502
/// let domain = sapwood_qsbr::Domain::new();
/// let mut reader = domain.register("worker").unwrap();
/// let guard = reader.guard();
/// let offline = reader.offline();
/// drop(guard);
/// ```
///
/// and a guard within one:
///
/// ```compile_fail,E0502
/// let domain = sapwood_qsbr::Domain::new();
/// let mut reader = domain.register("worker").unwrap();
/// let offline = reader.offline();
/// let guard = reader.guard();
/// drop(offline);
/// ```
///
/// A reader is not `Sync`:
///
/// ```compile_fail,E0277
/// fn share<T: Sync>(_: T) {}
/// let domain = sapwood_qsbr::Domain::new();
/// share(domain.register("worker").unwrap());
/// ```
pub struct Reader {
    /// Declared before `domain`, so that the slot is offline before the last handle runs the
    /// remaining closures.
    claim: Claim,
    domain: Domain,
    /// A copy of the slot's value, so that `guard` reads no shared memory. 0 while offline.
    seen: Cell<u64>,
}

impl Reader {
    pub(crate) fn new(domain: Domain, name: String) -> Self {
        let claim = domain.shared().slots.claim(name, false);
        let reader = Self {
            claim,
            domain,
            seen: Cell::new(0),
        };
        reader.come_online();
        reader
    }

    /// A guard: permission to follow shared references while it lives.
    ///
    /// While the reader is online, a guard costs one test of the thread's own memory, without a
    /// shared write or a fence. An offline reader comes online by itself, with one store and one
    /// full fence, so the guard is sound then, too.
    #[inline]
    pub fn guard(&self) -> Guard<'_> {
        if self.seen.get() == 0 {
            self.come_online();
        }
        Guard {
            domain: &self.domain,
            _local: StaysOnItsThread::default(),
        }
    }

    #[cold]
    fn come_online(&self) {
        let generation = self.domain.shared().current();
        self.claim.come_online(generation);
        self.claim.note_thread();
        self.seen.set(generation);
    }

    /// Announces a quiescent state: this reader holds no reference.
    ///
    /// The cost is one load, and two stores to this reader's own cache line if a grace period has
    /// begun since the last call. There is no fence. It does nothing while the reader is offline,
    /// which counts as quiescent all the time.
    #[inline]
    pub fn quiescent(&mut self) {
        let seen = self.seen.get();
        let generation = self.domain.shared().current();
        if seen != 0 && seen != generation {
            self.claim.announce(generation);
            self.claim.note_thread();
            self.seen.set(generation);
        }
    }

    /// Takes the reader offline until the returned value is dropped, for a thread that is about to
    /// block.
    ///
    /// ```
    /// # let domain = sapwood_qsbr::Domain::new();
    /// # let mut reader = domain.register("worker")?;
    /// let offline = reader.offline();
    /// domain.synchronize(); // does not wait for `reader`
    /// drop(offline);
    /// assert!(reader.is_online());
    /// # Ok::<(), sapwood_qsbr::TooManyReaders>(())
    /// ```
    #[must_use = "the reader is online again as soon as this is dropped"]
    pub fn offline(&mut self) -> Offline<'_> {
        self.set_offline();
        Offline { reader: self }
    }

    /// Takes the reader offline until [`set_online`](Self::set_online) or the next
    /// [`guard`](Self::guard).
    ///
    /// It is for event loops whose hooks before sleeping and after waking are two functions.
    pub fn set_offline(&mut self) {
        if self.seen.replace(0) != 0 {
            self.claim.go_offline();
        }
    }

    /// Takes the reader online, with one store and one full fence. If it is online already, this is
    /// a quiescent state.
    pub fn set_online(&mut self) {
        if self.is_online() {
            self.quiescent();
        } else {
            self.come_online();
        }
    }

    /// Whether this reader is online, and so holds grace periods back.
    #[inline]
    pub fn is_online(&self) -> bool {
        self.seen.get() != 0
    }

    /// Waits for a grace period, with this reader offline: [`Domain::synchronize`] would wait for
    /// this reader for ever.
    ///
    /// # Panics
    ///
    /// As [`Domain::synchronize`].
    pub fn synchronize(&mut self) {
        let offline = self.offline();
        offline.reader.domain.synchronize();
    }

    /// The domain that this reader is registered with.
    #[inline]
    pub fn domain(&self) -> &Domain {
        &self.domain
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // The claim takes the slot offline and gives it back.
        self.domain.shared().reader_gone();
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("name", &self.claim.name())
            .field("seen", &self.seen.get())
            .finish()
    }
}

/// A guard: proof that its holder may follow references into structures of one [`Domain`].
///
/// It comes from [`Reader::guard`] or, with `std`, from `Pinned::guard`. Inside it is a plain
/// reference, so copying and dropping it cost nothing. A structure that takes a guard must check
/// with [`belongs_to`](Self::belongs_to) that it belongs to the structure's own domain.
///
/// It stays on its thread:
///
/// ```compile_fail,E0277
/// let domain = sapwood_qsbr::Domain::new();
/// let reader = domain.register("worker").unwrap();
/// let guard = reader.guard();
/// std::thread::scope(|s| { s.spawn(move || guard); });
/// ```
///
/// also by reference:
///
/// ```compile_fail,E0277
/// let domain = sapwood_qsbr::Domain::new();
/// let reader = domain.register("worker").unwrap();
/// let guard = &reader.guard();
/// std::thread::scope(|s| { s.spawn(move || { guard.domain(); }); });
/// ```
///
/// and does not outlive its reader:
///
/// ```compile_fail,E0505
/// let domain = sapwood_qsbr::Domain::new();
/// let reader = domain.register("worker").unwrap();
/// let guard = reader.guard();
/// drop(reader);
/// guard.domain();
/// ```
#[derive(Clone, Copy)]
pub struct Guard<'r> {
    pub(crate) domain: &'r Domain,
    /// The marker is needed because `&Domain` alone would be `Send`.
    pub(crate) _local: StaysOnItsThread,
}

/// The reason why guards, and what is read under them, are neither `Send` nor `Sync`: a grace
/// period waits for the thread that took the guard. The compiler names this type where one of them
/// would cross threads. Take a snapshot instead, or copy the values.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default)]
pub struct StaysOnItsThread(PhantomData<*const ()>);

impl<'r> Guard<'r> {
    /// The domain whose structures this guard protects.
    #[inline]
    pub fn domain(&self) -> &'r Domain {
        self.domain
    }

    /// Whether this guard protects structures of `domain`. It compares two pointers.
    ///
    /// ```
    /// let (ours, other) = (sapwood_qsbr::Domain::new(), sapwood_qsbr::Domain::new());
    /// let reader = ours.register("worker")?;
    /// assert!(reader.guard().belongs_to(&ours));
    /// assert!(!reader.guard().belongs_to(&other));
    /// # Ok::<(), sapwood_qsbr::TooManyReaders>(())
    /// ```
    #[inline]
    pub fn belongs_to(&self, domain: &Domain) -> bool {
        self.domain.ptr_eq(domain)
    }
}

impl fmt::Debug for Guard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Guard")
    }
}

/// A [`Reader`] that is offline while this lives; dropping this takes it online. From
/// [`Reader::offline`].
///
/// If this is leaked, the reader stays offline until its next guard.
#[derive(Debug)]
pub struct Offline<'r> {
    reader: &'r mut Reader,
}

impl Drop for Offline<'_> {
    fn drop(&mut self) {
        self.reader.set_online();
    }
}
