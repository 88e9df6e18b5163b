//! Failures: a negative number of `errno`, and a message that the thread keeps.

use std::borrow::Cow;
use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_int};

use sapwood::qp::{OpenCause, OpenError, SaveCause, SaveError};
use sapwood::{Error, TableError, lpm, maple, qp};

use crate::c_api::c_api;
use crate::output::as_int;

/// Why a call failed.
#[derive(Debug)]
pub struct Failure {
    /// The number of `errno`, positive.
    pub code: c_int,
    /// The whole message.
    pub message: Cow<'static, str>,
    /// Whether the caller broke the rules for a handle that is checked. Such a call ends the
    /// process.
    pub fatal: bool,
}

/// What the body of a function returns: 0 or a positive number, or a failure.
pub type Outcome<T = c_int> = Result<T, Failure>;

impl Failure {
    /// A failure with a message.
    pub fn new(code: c_int, message: impl Into<Cow<'static, str>>) -> Self {
        Failure {
            code,
            message: message.into(),
            fatal: false,
        }
    }

    /// An argument that has no meaning.
    pub fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(libc::EINVAL, message)
    }

    /// An argument that is NULL.
    #[cold]
    #[inline(never)]
    pub fn null(what: &str) -> Self {
        Self::invalid(format!("{what} is NULL"))
    }

    /// A use of a handle against its rules.
    #[cold]
    #[inline(never)]
    pub fn misuse(message: String, checked: bool) -> Self {
        Failure {
            code: libc::EPERM,
            message: message.into(),
            fatal: checked,
        }
    }
}

impl From<Error> for Failure {
    #[cold]
    fn from(error: Error) -> Self {
        let code = match &error {
            _ if error.garbage_limit().is_some() => libc::EAGAIN,
            Error::Qp(error) => match error {
                qp::Error::KeyTooLong { .. } | qp::Error::ValueTooLong { .. } => libc::E2BIG,
                qp::Error::ArenaFull(full) => lack_of(full),
                qp::Error::Full { .. } => libc::ENOSPC,
                qp::Error::Exists => libc::EEXIST,
                qp::Error::Absent => libc::ENOENT,
                qp::Error::Differs => libc::ESTALE,
                _ => libc::EINVAL,
            },
            Error::Maple(error) => match error {
                maple::Error::ArenaFull(full) => lack_of(full),
                maple::Error::NoGap { .. } => libc::ENOSPC,
                maple::Error::Occupied { .. } => libc::EEXIST,
                maple::Error::Absent => libc::ENOENT,
                maple::Error::EmptyRange { .. } | maple::Error::WindowTooSmall { .. } => {
                    libc::ERANGE
                }
                maple::Error::ReservationUsedUp => libc::ENOBUFS,
                _ => libc::EINVAL,
            },
            Error::Lpm(error) => match error {
                lpm::Error::ArenaFull(full) => lack_of(full),
                lpm::Error::Full { .. } => libc::ENOSPC,
                lpm::Error::PrefixTooLong { .. } | lpm::Error::NameTooLong { .. } => libc::E2BIG,
                _ => libc::EINVAL,
            },
            other => other.arena_full().map_or(libc::EINVAL, lack_of),
        };
        Failure::new(code, error.to_string())
    }
}

/// The number of what an arena lacks.
fn lack_of(full: &sapwood::arena::ArenaFull) -> c_int {
    use sapwood::arena::Lack;
    match full.lack {
        Lack::Space => libc::ENOSPC,
        Lack::Readers => libc::EAGAIN,
        _ => libc::ENOMEM,
    }
}

/// The failure is that of the structure's error, whichever structure it is.
macro_rules! of_structures {
    ($($error:ty),*) => {$(
        impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Error::from(error).into()
            }
        }
    )*};
}
of_structures!(
    qp::Error,
    maple::Error,
    lpm::Error,
    sapwood::route::CacheError
);

impl<V, E> From<sapwood::Rejected<V, E>> for Failure
where
    Error: From<E>,
{
    fn from(rejected: sapwood::Rejected<V, E>) -> Self {
        Error::from(rejected.error).into()
    }
}

impl From<sapwood::qsbr::TooManyReaders> for Failure {
    fn from(error: sapwood::qsbr::TooManyReaders) -> Self {
        Failure::new(libc::EAGAIN, error.to_string())
    }
}

/// The number of an error of the system, otherwise `other`.
fn number_of(error: &std::io::Error, other: c_int) -> c_int {
    error.raw_os_error().unwrap_or(other)
}

impl From<SaveError> for Failure {
    #[cold]
    fn from(error: SaveError) -> Self {
        let code = match &error.cause {
            SaveCause::ArenaFull(full) => lack_of(full),
            SaveCause::Io(error) => number_of(error, libc::EIO),
            _ => libc::EIO,
        };
        Failure::new(code, error.to_string())
    }
}

impl From<OpenError> for Failure {
    #[cold]
    fn from(error: OpenError) -> Self {
        Failure::new(cause_of(&error.cause), error.to_string())
    }
}

/// The number of a cause. A file that the system opened, and that is not a sound map, is a protocol
/// error.
fn cause_of(cause: &OpenCause) -> c_int {
    use sapwood::arena::OpenError;
    match cause {
        OpenCause::Image(OpenError::Io(error)) => number_of(error, libc::EIO),
        OpenCause::Table(TableError::ArenaFull(full)) => lack_of(full),
        _ => libc::EPROTO,
    }
}

thread_local! {
    static LAST: RefCell<Cow<'static, str>> = const { RefCell::new(Cow::Borrowed("")) };
}

/// Keeps the message of a failure for [`sapwood_last_error`].
#[cold]
pub fn record(message: Cow<'static, str>) {
    // A thread that ends may have no memory for it any more.
    let _ = LAST.try_with(|last| *last.borrow_mut() = message);
}

c_api!(
    const SECTION: &str = "Failures";

    /// A fixed text for a result. It belongs to the library. Any thread.
    unsafe extern "C" fn sapwood_strerror(result: c_int) -> *const c_char {
        let text: &CStr = match result.checked_neg().unwrap_or(c_int::MAX) {
            ..=0 => c"success",
            libc::ENOENT => c"there is no such entry or file",
            libc::EEXIST => c"it is there already",
            libc::ENOMEM => c"the memory limit is reached, or the system has no more memory",
            libc::EAGAIN => c"a limit is reached that readers or their end can lift",
            libc::ENOSPC => c"there is no room for it, in the map or on the device",
            libc::EINVAL => c"an argument is NULL or has no meaning",
            libc::E2BIG => c"a key, value or structure is too long",
            libc::ERANGE => c"a range is empty or too small",
            libc::EBUSY => c"it is in use",
            libc::EFAULT => c"an internal error was caught; the structure is as the header says",
            libc::EPERM => c"a handle was used against its rules, or in a child of fork",
            libc::EPROTO => c"the file is damaged, or not one of this kind",
            libc::ESTALE => c"it has changed since it was read",
            libc::ENOBUFS => c"the reservation is used up",
            libc::ENOTSUP => c"this kind of map or value does not have the operation",
            libc::EIO => c"the file could not be read or written",
            libc::EACCES => c"the system does not permit it",
            libc::EDEADLK => {
                c"the thread would wait for itself, or for one that a fork left behind"
            }
            libc::EUCLEAN => c"an invariant does not hold; see sapwood_last_error",
            libc::ENODATA => c"the resolver failed a moment ago, and is not asked again",
            libc::ENOSYS => c"the kernel does not have what this needs",
            libc::ENOEXEC => c"the program is none that the library and the kernel load",
            libc::ECANCELED => c"a callback asked to end",
            _ => c"another error of the system; see errno(3)",
        };
        text.as_ptr()
    }

    /// Copies the message of this thread's last failure, cut to len - 1 bytes and ended by a zero.
    /// Returns the length of the whole message. buf may be NULL if only that is wanted. It never
    /// fails.
    unsafe extern "C" fn sapwood_last_error(buf: *mut c_char, len: usize) -> c_int {
        let copy = |last: &RefCell<Cow<'static, str>>| {
            let last = last.borrow();
            if !buf.is_null() && len > 0 {
                let mut bytes = last.len().min(len - 1);
                while !last.is_char_boundary(bytes) {
                    bytes -= 1;
                }
                // At most `len - 1` bytes and a zero are written.
                buf.cast::<u8>()
                    .copy_from_nonoverlapping(last.as_ptr(), bytes);
                *buf.add(bytes) = 0;
            }
            as_int(last.len())
        };
        LAST.try_with(copy).unwrap_or(0)
    }
);
