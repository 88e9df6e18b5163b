//! Readers and pins: a thread that reads a structure is registered for long, or pinned for a
//! moment.

use core::fmt;

#[cfg(feature = "std")]
use sapwood_qsbr::Pinned;
use sapwood_qsbr::{Domain, Guard, Offline, Reader as Registration, TooManyReaders};

/// The message of the panic about a guard of another domain.
pub const FOREIGN_GUARD: &str = "a guard of another domain protects nothing here: register \
    the reader with this structure's `domain()`";

/// A structure that is read under a guard of its [`Domain`].
///
/// Each structure has these methods itself. The trait is for code that is generic over structures.
///
/// ```
/// use sapwood::{Readable, qp::QpStore, lpm::Ipv4Fib};
///
/// /// Whether anybody but the caller reads the structure now.
/// fn is_read<M: Readable>(map: &M) -> bool {
///     map.domain().readers() > 0
/// }
/// assert!(!is_read(&QpStore::<u32>::new()?));
/// assert!(!is_read(&Ipv4Fib::<u32>::new()?));
/// # Ok::<(), sapwood::Error>(())
/// ```
pub trait Readable {
    /// The type of a structure under a guard.
    type View<'g>
    where
        Self: 'g;

    /// The domain whose grace periods the structure waits for.
    fn domain(&self) -> &Domain;

    /// The structure under a guard that the caller holds. One guard can serve several structures of
    /// a domain.
    ///
    /// # Panics
    /// When the guard belongs to another domain.
    fn view<'g>(&'g self, guard: Guard<'g>) -> Self::View<'g>;
}

/// The methods of [`Readable`], and those that make guards, for the structure itself. The argument
/// is the type of its view with the lifetime `'g`.
#[doc(hidden)]
#[macro_export]
macro_rules! reading_methods {
    ($view:ty) => {
        /// The domain whose grace periods the structure waits for.
        ///
        /// O(1).
        pub fn domain(&self) -> &$crate::raw::qsbr::Domain {
            $crate::Readable::domain(self)
        }

        /// The structure under a guard that the caller holds. One guard can serve several
        /// structures of a domain.
        ///
        /// O(1): one load at most.
        ///
        /// # Panics
        /// When the guard belongs to another domain.
        #[inline]
        pub fn view<'g>(&'g self, guard: $crate::raw::qsbr::Guard<'g>) -> $view {
            $crate::Readable::view(self, guard)
        }

        /// Registers a thread that will read the structure often: this thread, or the one that the
        /// reader is sent to. The reader's guards cost nothing.
        ///
        /// # Errors
        /// When the domain has the most readers that it may have.
        pub fn reader(
            &self,
            name: &str,
        ) -> Result<$crate::Reader<Self>, $crate::raw::qsbr::TooManyReaders> {
            $crate::Reader::new(self, name)
        }

        /// A guard for a few operations on this thread. It costs a few nanoseconds. It needs the
        /// feature `std`.
        #[cfg(feature = "std")]
        #[inline]
        pub fn pin(&self) -> $crate::Pin<'_, Self> {
            $crate::Pin::new(self)
        }

        /// Calls `f` with a view, under a [`pin`](Self::pin).
        #[cfg(feature = "std")]
        #[inline]
        pub fn read<R>(&self, f: impl for<'g> FnOnce($view) -> R) -> R {
            f(self.pin().view())
        }
    };
}
/// A thread that is registered to read a structure. After the registration its guards cost nothing.
///
/// Call [`quiescent`](Self::quiescent) from time to time, such as once in each round of an event
/// loop or for each burst of packets, and go [`offline`](Self::offline) before blocking. A reader
/// that does neither holds back all garbage of the domain.
///
/// ```
/// use sapwood::{Reader, qp::QpStore};
///
/// fn serve(mut reader: Reader<QpStore<u32>>) {
///     for name in ["elm", "oak"] {
///         assert_eq!(reader.view().get(name), None);
///         reader.quiescent();
///     }
/// }
/// serve(QpStore::new()?.reader("worker")?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```compile_fail,E0502
/// # let store = sapwood::qp::QpStore::<u32>::new().unwrap();
/// let mut reader = store.reader("worker").unwrap();
/// let view = reader.view();
/// reader.quiescent(); // the view must be gone by now
/// view.get("a");
/// ```
pub struct Reader<M> {
    registration: Registration,
    map: M,
}

impl<M: Readable> Reader<M> {
    /// Registers this thread, or the one that the reader is sent to.
    ///
    /// As [`Domain::register`](sapwood_qsbr::Domain::register).
    ///
    /// # Errors
    /// When the domain has the most readers that it may have.
    pub fn new(map: &M, name: &str) -> Result<Self, TooManyReaders>
    where
        M: Clone,
    {
        Ok(Reader {
            registration: map.domain().register(name)?,
            map: map.clone(),
        })
    }

    /// A view of the structure. The view of a `QpStore` or a
    /// `BitFib` stays on the version that is newest now. In a view of any
    /// other structure, each call sees what is newest then.
    ///
    /// O(1): one load at most.
    #[inline]
    pub fn view(&self) -> M::View<'_> {
        self.map.view(self.registration.guard())
    }

    /// Calls `f` with a [`view`](Self::view).
    ///
    /// The cost of `f`; the guard costs nothing.
    #[inline]
    pub fn read<R>(&self, f: impl FnOnce(M::View<'_>) -> R) -> R {
        f(self.view())
    }

    /// Declares a quiescent state: this thread holds no reference into the structure. The borrow
    /// checker makes sure that no view is alive.
    ///
    /// A load; also a store if a grace period has begun since the last one.
    #[inline]
    pub fn quiescent(&mut self) {
        self.registration.quiescent();
    }

    /// Takes the reader offline while the result lives. A thread that is about to block calls this.
    ///
    /// O(1): a store and a fence now, and when the result ends.
    pub fn offline(&mut self) -> Offline<'_> {
        self.registration.offline()
    }

    /// The registration with the domain, for the hooks of an event loop.
    ///
    /// O(1).
    pub fn reader_mut(&mut self) -> &mut Registration {
        &mut self.registration
    }
}

impl<M> fmt::Debug for Reader<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("registration", &self.registration)
            .finish_non_exhaustive()
    }
}

/// A guard for a few operations. It stays on its thread, and holds back the domain's garbage while
/// it lives.
///
/// ```
/// use sapwood::qp::QpShared;
/// let map = QpShared::new()?;
/// map.insert("elm", 1)?;
/// let pin = map.pin();
/// assert_eq!(pin.view().get("elm"), Some(&1));
/// # Ok::<(), sapwood::Error>(())
/// ```
#[cfg(feature = "std")]
#[must_use = "references live as long as the pin"]
pub struct Pin<'m, M> {
    map: &'m M,
    pinned: Pinned<'m>,
}

#[cfg(feature = "std")]
impl<'m, M: Readable> Pin<'m, M> {
    /// Pins this thread, which costs a few nanoseconds.
    #[inline]
    pub fn new(map: &'m M) -> Self {
        Pin {
            map,
            pinned: map.domain().pin(),
        }
    }

    /// A view of the structure, like that of a [`Reader`].
    ///
    /// O(1): one load at most.
    #[inline]
    pub fn view(&self) -> M::View<'_> {
        self.map.view(self.pinned.guard())
    }
}

#[cfg(feature = "std")]
impl<M> fmt::Debug for Pin<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pin").finish_non_exhaustive()
    }
}
