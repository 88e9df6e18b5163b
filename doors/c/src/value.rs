//! Values and keys as C sees them, and the three kinds of values that a map can have.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use sapwood::qp::{Error, IntoValue, Rejected, Value};

use crate::c_api::c_api;
use crate::error::{Failure, Outcome};
use crate::input::bytes;
use crate::output::as_int;
use crate::retire::{Owner, Pointer};

impl sapwood_bytes {
    /// The bytes for C.
    #[inline(always)]
    pub fn new(bytes: &[u8]) -> Self {
        sapwood_bytes {
            data: bytes.as_ptr().cast(),
            len: bytes.len(),
        }
    }
}

/// A key of an array that C gave, which [`Key::all`] has looked at.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Key(sapwood_bytes);

impl Key {
    /// Looks at each key: none but an empty one is NULL.
    ///
    /// # Safety
    /// The bytes of each key do not change as long as the result is used.
    pub unsafe fn all(keys: &[sapwood_bytes]) -> Outcome<&[Key]> {
        for key in keys {
            // SAFETY: the caller's promise.
            unsafe { bytes(key.data, key.len, "a key") }?;
        }
        // SAFETY: both have the same layout.
        Ok(unsafe { std::slice::from_raw_parts(keys.as_ptr().cast(), keys.len()) })
    }
}

impl AsRef<[u8]> for Key {
    #[inline(always)]
    fn as_ref(&self) -> &[u8] {
        if self.0.len == 0 {
            return &[];
        }
        // SAFETY: `all` has looked at it, and its caller promises the bytes.
        unsafe { std::slice::from_raw_parts(self.0.data.cast(), self.0.len) }
    }
}

impl sapwood_entry {
    /// What stands for no entry.
    pub const NONE: Self = sapwood_entry {
        key: sapwood_bytes {
            data: std::ptr::null(),
            len: 0,
        },
        value: sapwood_value {
            bytes: sapwood_bytes {
                data: std::ptr::null(),
                len: 0,
            },
        },
    };

    /// An entry for C.
    #[inline(always)]
    pub fn new<V: ?Sized + CValue>((key, value): (&[u8], &V)) -> Self {
        sapwood_entry {
            key: sapwood_bytes::new(key),
            value: value.output(),
        }
    }
}

/// A kind of values. A pointer without a function that takes it back is kept as a number.
pub trait CValue: Value + Send + Sync + 'static {
    /// What is inserted.
    type In<'a>: IntoValue<Self>;

    /// The value for C.
    fn output(&self) -> sapwood_value;

    /// A value from C.
    ///
    /// # Safety
    /// The value is of this kind, and its bytes do not change as long as the result is used.
    unsafe fn input<'a>(
        value: &'a sapwood_value,
        owner: &Option<Arc<Owner>>,
    ) -> Outcome<Self::In<'a>>;

    /// Leaves a value that was not inserted to the caller.
    fn leave(held: Self::Held);
}

impl CValue for u64 {
    type In<'a> = u64;

    #[inline(always)]
    fn output(&self) -> sapwood_value {
        sapwood_value { number: *self }
    }

    #[inline(always)]
    unsafe fn input(value: &sapwood_value, _: &Option<Arc<Owner>>) -> Outcome<u64> {
        // SAFETY: the caller says that it is a number, or a pointer of the same size.
        Ok(unsafe { value.number })
    }

    fn leave(_: u64) {}
}

impl CValue for Pointer {
    type In<'a> = Pointer;

    #[inline(always)]
    fn output(&self) -> sapwood_value {
        sapwood_value {
            pointer: self.value,
        }
    }

    unsafe fn input(value: &sapwood_value, owner: &Option<Arc<Owner>>) -> Outcome<Pointer> {
        // SAFETY: the caller says that it is a pointer.
        Ok(Pointer::new(unsafe { value.pointer }, owner))
    }

    fn leave(held: Pointer) {
        held.keep();
    }
}

impl CValue for [u8] {
    type In<'a> = &'a [u8];

    #[inline(always)]
    fn output(&self) -> sapwood_value {
        sapwood_value {
            bytes: sapwood_bytes::new(self),
        }
    }

    unsafe fn input<'a>(value: &'a sapwood_value, _: &Option<Arc<Owner>>) -> Outcome<&'a [u8]> {
        // SAFETY: the caller says that they are bytes.
        unsafe { bytes(value.bytes.data, value.bytes.len, "the value") }
    }

    fn leave((): ()) {}
}

/// The failure of an insertion, after which the value is the caller's.
#[cold]
pub fn refused<V: ?Sized + CValue>(rejected: Rejected<V::Held>) -> Failure {
    V::leave(rejected.value);
    rejected.error.into()
}

/// The same structure with one of the three kinds of values.
pub enum Kinds<N, P, B> {
    /// Values are numbers, or pointers that nobody takes back.
    Numbers(N),
    /// Values are pointers that an [`Owner`] takes back.
    Pointers(P),
    /// Values are byte strings.
    Bytes(B),
}

/// Runs the same body with the structure of any kind; `V` is the kind in it.
macro_rules! each {
    ($kinds:expr, $structure:pat => $body:expr) => {
        $crate::value::each!(@ $kinds, $structure =>
            Numbers u64 => $body, Pointers $crate::retire::Pointer => $body, Bytes [u8] => $body)
    };
    (@ $kinds:expr, $structure:pat => $($kind:ident $type:ty => $body:expr),*) => {
        match $kinds {
            $($crate::value::Kinds::$kind($structure) => {
                #[allow(dead_code, reason = "not all bodies name the kind")]
                type V = $type;
                $body
            })*
        }
    };
}
pub(crate) use each;

/// Makes one structure of another of the same kind.
macro_rules! map_kinds {
    ($kinds:expr, $structure:pat => $body:expr) => {
        $crate::value::each!(@ $kinds, $structure =>
            Numbers u64 => $crate::value::Kinds::Numbers($body),
            Pointers $crate::retire::Pointer => $crate::value::Kinds::Pointers($body),
            Bytes [u8] => $crate::value::Kinds::Bytes($body))
    };
}
pub(crate) use map_kinds;

/// A structure of the kind that the options choose.
macro_rules! of_kind {
    ($kind:expr, $body:expr) => {
        $crate::value::map_kinds!($kind, () => $body)
    };
}
pub(crate) use of_kind;

/// A kind alone.
pub type Kind = Kinds<(), (), ()>;

/// `enum sapwood_values`.
pub fn kind_of(values: c_int, retire: bool) -> Outcome<Kind> {
    match values {
        SAPWOOD_NUMBERS => Ok(Kinds::Numbers(())),
        SAPWOOD_POINTERS if retire => Ok(Kinds::Pointers(())),
        SAPWOOD_POINTERS => Ok(Kinds::Numbers(())),
        SAPWOOD_BYTES => Ok(Kinds::Bytes(())),
        other => Err(Failure::invalid(format!(
            "{other} is no kind of values: see enum sapwood_values"
        ))),
    }
}

/// The failure of an operation on files with pointers as values.
pub fn no_pointers() -> Failure {
    Failure::new(
        libc::ENOTSUP,
        "pointers that are retired cannot lie in a file",
    )
}

/// How many keys are looked up at once.
pub const BATCH: usize = 64;

/// Looks up many keys in batches; returns how many were found.
///
/// # Safety
/// `values` and `found` have room for as many items as there are keys.
pub unsafe fn get_many<'a, V: ?Sized + CValue>(
    keys: &[Key],
    values: *mut sapwood_value,
    found: *mut u8,
    mut look_up: impl FnMut(&[Key], &mut [Option<&'a V>]),
) -> Outcome {
    if !keys.is_empty() && (values.is_null() || found.is_null()) {
        return Err(Failure::null("values or found"));
    }
    let mut count = 0usize;
    let mut out: [Option<&V>; BATCH] = [None; BATCH];
    for (batch, keys) in keys.chunks(BATCH).enumerate() {
        let out = &mut out[..keys.len()];
        look_up(keys, out);
        for (i, value) in out.iter().enumerate() {
            let at = batch * BATCH + i;
            // SAFETY: `at` is less than the number of keys.
            unsafe {
                if let Some(value) = value {
                    *values.add(at) = value.output();
                    count += 1;
                }
                *found.add(at) = u8::from(value.is_some());
            }
        }
    }
    Ok(as_int(count))
}

/// Which keys an insertion is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// All.
    Put,
    /// Those that are absent.
    New,
    /// Those that are there.
    Replace,
}

impl Mode {
    /// The answer if the mode excludes the key, for structures that have one writer.
    #[inline]
    pub fn excludes(self, there: impl FnOnce() -> bool) -> Option<c_int> {
        match self {
            Mode::Put => None,
            Mode::New => there().then_some(-libc::EEXIST),
            Mode::Replace => (!there()).then_some(-libc::ENOENT),
        }
    }
}

/// C's functions that insert into a map, of which each calls `insert` with a mode of its own.
macro_rules! insertions {
    (
        [$($done:tt)*] [$($rest:tt)*] $map:ident: $pointer:ty,
        $($(#[doc = $doc:literal])* $name:ident: $mode:ident),*
    ) => {
        $crate::c_api::c_api!(@ [$($done)*]
            $(
                $(#[doc = $doc])*
                fn $name(
                    $map: $pointer,
                    key: *const c_void,
                    key_len: usize,
                    value: *const sapwood_value,
                ) -> c_int {
                    insert($map, (key, key_len), value, $crate::value::Mode::$mode)
                }
            )*
            $($rest)*
        );
    };
}
pub(crate) use insertions;

/// The answer of an insertion that did not happen, after which the value is the caller's. What the
/// caller asked about is an answer, and no failure with a message.
#[cold]
pub fn not_inserted<V: ?Sized + CValue>(rejected: Rejected<V::Held>) -> Outcome {
    let answer = match rejected.error {
        Error::Exists => -libc::EEXIST,
        Error::Absent => -libc::ENOENT,
        Error::Differs => -libc::ESTALE,
        _ => return Err(refused::<V>(rejected)),
    };
    V::leave(rejected.value);
    Ok(answer)
}

/// A kind whose values can be compared.
pub trait Lent: CValue + PartialEq {
    /// Calls `f` with the value.
    ///
    /// # Safety
    /// As for [`CValue::input`].
    unsafe fn with<R>(value: &sapwood_value, f: impl FnOnce(&Self) -> Outcome<R>) -> Outcome<R>;
}

impl Lent for u64 {
    unsafe fn with<R>(value: &sapwood_value, f: impl FnOnce(&Self) -> Outcome<R>) -> Outcome<R> {
        // SAFETY: the caller's promise.
        f(&unsafe { value.number })
    }
}

impl Lent for Pointer {
    unsafe fn with<R>(value: &sapwood_value, f: impl FnOnce(&Self) -> Outcome<R>) -> Outcome<R> {
        // SAFETY: the caller's promise. It has no owner, so nobody takes it back.
        f(&Pointer::new(unsafe { value.pointer }, &None))
    }
}

impl Lent for [u8] {
    unsafe fn with<R>(value: &sapwood_value, f: impl FnOnce(&Self) -> Outcome<R>) -> Outcome<R> {
        // SAFETY: the caller's promise.
        f(unsafe { bytes(value.bytes.data, value.bytes.len, "the value") }?)
    }
}

c_api!(
    const SECTION: &str = "Values";

    /// The kinds of values. A structure has values of one kind.
    pub enum sapwood_values {
        /// uint64_t
        SAPWOOD_NUMBERS = 0,
        /// pointers, which the library never follows
        SAPWOOD_POINTERS = 1,
        /// byte strings of up to 256 MiB, which are copied in
        SAPWOOD_BYTES = 2,
    }

    #[derive(Clone, Copy, Debug)]
    pub struct sapwood_bytes {
        /// may be NULL if len is 0
        pub data: *const c_void,
        pub len: usize,
    }

    #[derive(Clone, Copy)]
    pub union sapwood_value {
        pub number: u64,
        pub pointer: *mut c_void,
        pub bytes: sapwood_bytes,
    }

    /// Keys are byte strings of 0 to 65,535 bytes, in lexicographic order. An entry that a function
    /// gives out, its key and its bytes lie inside the map: they are valid as long as the view, or
    /// until the reader's next quiescent state. Of stores, their snapshots and transactions, and of
    /// files only the value does: the key is a copy, which is valid until the iterator's next call,
    /// or until the function that it is given to returns, or, from other functions, until the
    /// thread's next call that stores an entry of a store or a file. Copy what is needed longer.
    #[derive(Clone, Copy)]
    pub struct sapwood_entry {
        /// data is NULL where there is no entry; that of an empty key is not
        pub key: sapwood_bytes,
        pub value: sapwood_value,
    }

    /// Takes a value (a pointer) back when the library has let go of it, after the grace period. It
    /// is called exactly once for each value, by the thread that frees it: one that changes or
    /// frees the structure, reclaims, or polls the domain. A value that was not inserted stays the
    /// caller's: the insertion failed, or found that the key is (not) there.
    pub type sapwood_retire_fn = Option<unsafe extern "C" fn(value: *mut c_void, ctx: *mut c_void)>;
);
