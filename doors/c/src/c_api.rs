//! The macro in which this crate declares what C sees, and what it records for the header.
//!
//! `include/sapwood.h` is printed from these records: the declarations and their comments stand in
//! one place, beside the code.

/// One declaration of the header.
#[derive(Clone, Copy, Debug)]
pub struct Item {
    /// The lines of its comment. None: it belongs to what stands above it.
    pub docs: &'static [&'static str],
    /// Its name; of a section, its title.
    pub name: &'static str,
    /// What is declared.
    pub what: What,
}

/// What an [`Item`] declares. Types are written as in Rust.
#[derive(Clone, Copy, Debug)]
pub enum What {
    /// A part of the header begins.
    Section,
    /// A structure that is used before it is declared.
    Forward,
    /// A handle, or a pointer to a function.
    Type(&'static str),
    /// Constants of one subject.
    Enum(&'static [Constant]),
    /// A flag.
    Flag(u32),
    /// A structure.
    Struct(Layout),
    /// A union.
    Union(Layout),
    /// A function: the arguments, and what it returns, if it does.
    Function(
        &'static [(&'static str, &'static str)],
        Option<&'static str>,
    ),
}

/// A constant of an enumeration.
#[derive(Clone, Copy, Debug)]
pub struct Constant {
    /// The lines of its comment.
    pub docs: &'static [&'static str],
    /// Its name.
    pub name: &'static str,
    /// Its value.
    pub value: i32,
}

/// How a structure or a union lies in memory.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Its size in bytes.
    pub size: usize,
    /// Its fields in their order.
    pub fields: &'static [Field],
}

/// A field of a structure or a union.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The lines of its comment.
    pub docs: &'static [&'static str],
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub r#type: &'static str,
    /// Its place: bytes from the beginning of the structure.
    pub offset: usize,
}

/// Declares what C sees of a module, in the order of the header, and records it as `API`.
///
/// - `fn` makes a function of C. Its body is one of [`Outcome`](crate::error::Outcome), or of
///   `Outcome<()>` where C gets nothing: a failure becomes `-errno` and a message, a panic becomes
///   `-EFAULT`. The header's contract covers the whole body, which is unsafe.
/// - `unsafe extern "C" fn` is the same without a guard: the body sees to panics.
/// - `struct`, `union`, `enum`, `type` and `const` are C's types, enumerations and flags. A
///   constant SECTION begins a part of the header, and `struct x;` is a forward declaration.
/// - `twins!(...);` calls another macro, which goes on with `c_api!(@ [done] ... rest)`.
///
/// Docs become the header's comments. What has none belongs to the comment above it.
macro_rules! c_api {
    (@ [$($done:tt)*]) => {
        /// What the header declares of this module.
        pub const API: &[$crate::c_api::Item] = &[$($done)*];
    };

    (@ [$($done:tt)*] $(#[doc = $doc:literal])* const SECTION: &str = $title:literal;
     $($rest:tt)*) => {
        $crate::c_api::c_api!(@ [$($done)* $crate::c_api::Item {
            docs: &[$($doc),*], name: $title, what: $crate::c_api::What::Section,
        },] $($rest)*);
    };

    (@ [$($done:tt)*] $twins:ident!($($of:tt)*); $($rest:tt)*) => {
        $twins!([$($done)*] [$($rest)*] $($of)*);
    };

    (@ [$($done:tt)*] struct $name:ident; $($rest:tt)*) => {
        $crate::c_api::c_api!(@ [$($done)* $crate::c_api::Item {
            docs: &[], name: stringify!($name), what: $crate::c_api::What::Forward,
        },] $($rest)*);
    };

    (@ [$($done:tt)*] $(#[doc = $doc:literal])* pub const $name:ident: c_uint = $value:literal;
     $($rest:tt)*) => {
        $(#[doc = $doc])*
        pub const $name: std::ffi::c_uint = $value;
        $crate::c_api::c_api!(@ [$($done)* $crate::c_api::Item {
            docs: &[$($doc),*], name: stringify!($name), what: $crate::c_api::What::Flag($name),
        },] $($rest)*);
    };

    (@ [$($done:tt)*] $(#[doc = $doc:literal])* pub type $name:ident = $type:ty; $($rest:tt)*) => {
        #[doc = concat!("C's `", stringify!($name), "`.\n")]
        $(#[doc = $doc])*
        pub type $name = $type;
        $crate::c_api::c_api!(@ [$($done)* $crate::c_api::Item {
            docs: &[$($doc),*], name: stringify!($name),
            what: $crate::c_api::What::Type(stringify!($type)),
        },] $($rest)*);
    };

    (@ [$($done:tt)*] $(#[doc = $doc:literal])* pub enum $name:ident {
        $($(#[doc = $each:literal])* $constant:ident = $value:literal),* $(,)?
     } $($rest:tt)*) => {
        $(
            #[doc = concat!("Of C's `enum ", stringify!($name), "`.\n")]
            $(#[doc = $each])*
            pub const $constant: std::ffi::c_int = $value;
        )*
        $crate::c_api::c_api!(@ [$($done)* $crate::c_api::Item {
            docs: &[$($doc),*], name: stringify!($name),
            what: $crate::c_api::What::Enum(&[$($crate::c_api::Constant {
                docs: &[$($each),*], name: stringify!($constant), value: $constant,
            }),*]),
        },] $($rest)*);
    };

    (@ [$($done:tt)*] $(#[doc = $doc:literal])* $(#[derive($($derive:ident),*)])?
     pub struct $name:ident $fields:tt $($rest:tt)*) => {
        $crate::c_api::c_api!(@fields struct Struct [$($doc)*] [$($($derive)*)?] $name $fields
            [$($done)*] $($rest)*);
    };

    (@ [$($done:tt)*] $(#[doc = $doc:literal])* $(#[derive($($derive:ident),*)])?
     pub union $name:ident $fields:tt $($rest:tt)*) => {
        $crate::c_api::c_api!(@fields union Union [$($doc)*] [$($($derive)*)?] $name $fields
            [$($done)*] $($rest)*);
    };

    (@fields $kind:ident $what:ident [$($doc:literal)*] [$($derive:ident)*] $name:ident {
        $($(#[doc = $each:literal])* $vis:vis $field:ident: $type:ty),* $(,)?
     } [$($done:tt)*] $($rest:tt)*) => {
        #[doc = concat!("C's `", stringify!($name), "`.\n")]
        $(#[doc = $doc])*
        #[repr(C)]
        #[derive($($derive),*)]
        pub $kind $name {
            $(
                #[doc = concat!("C's `", stringify!($field), "`:")]
                $(#[doc = $each])*
                $vis $field: $type,
            )*
        }
        $crate::c_api::c_api!(@ [$($done)* $crate::c_api::Item {
            docs: &[$($doc),*], name: stringify!($name),
            what: $crate::c_api::What::$what($crate::c_api::Layout {
                size: size_of::<$name>(),
                fields: &[$($crate::c_api::Field {
                    docs: &[$($each),*], name: stringify!($field), r#type: stringify!($type),
                    offset: std::mem::offset_of!($name, $field),
                }),*],
            }),
        },] $($rest)*);
    };

    (@ [$($done:tt)*] $(#[doc = $doc:literal])*
     fn $name:ident($($arg:ident: $type:ty),* $(,)?) -> c_int $body:block $($rest:tt)*) => {
        $crate::c_api::c_api!(@function [$($doc)*] $name [$(($arg: $type))*] [c_int] {
            // SAFETY: C.
            $crate::call::call(stringify!($name), || unsafe { $body })
        } [$($done)*] $($rest)*);
    };

    (@ [$($done:tt)*] $(#[doc = $doc:literal])*
     fn $name:ident($($arg:ident: $type:ty),* $(,)?) $body:block $($rest:tt)*) => {
        $crate::c_api::c_api!(@function [$($doc)*] $name [$(($arg: $type))*] [] {
            // SAFETY: C.
            $crate::call::call_void(stringify!($name), || unsafe { $body })
        } [$($done)*] $($rest)*);
    };

    (@ [$($done:tt)*] $(#[doc = $doc:literal])*
     unsafe extern "C" fn $name:ident($($arg:ident: $type:ty),* $(,)?) -> $result:ty $body:block
     $($rest:tt)*) => {
        $crate::c_api::c_api!(@function [$($doc)*] $name [$(($arg: $type))*] [$result] {
            // SAFETY: C.
            unsafe { $body }
        } [$($done)*] $($rest)*);
    };

    (@function [$($doc:literal)*] $name:ident [$(($arg:ident: $type:ty))*] [$($result:ty)?]
     $body:block [$($done:tt)*] $($rest:tt)*) => {
        $(#[doc = $doc])*
        ///
        /// # Safety
        /// As `sapwood.h` says.
        #[allow(unused_unsafe, reason = "some bodies do nothing that is unsafe")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $type),*) $(-> $result)? $body
        $crate::c_api::c_api!(@ [$($done)* $crate::c_api::Item {
            docs: &[$($doc),*], name: stringify!($name),
            what: $crate::c_api::What::Function(
                &[$((stringify!($arg), stringify!($type))),*],
                $crate::c_api::c_api!(@result $($result)?),
            ),
        },] $($rest)*);
    };

    (@result $result:ty) => { Some(stringify!($result)) };
    (@result) => { None };

    (@ [$($done:tt)*] $($wrong:tt)*) => {
        compile_error!(concat!("no declaration of C: ", stringify!($($wrong)*)));
    };

    ($($items:tt)*) => { $crate::c_api::c_api!(@ [] $($items)*); };
}
pub(crate) use c_api;

/// Functions of C that look for the entry of a key, of which each calls `$search` with a way of its
/// own.
macro_rules! searches {
    (
        [$($done:tt)*] [$($rest:tt)*] $at:ident: $handle:ty, $out:ident: $place:ty, $search:ident,
        $($(#[doc = $doc:literal])* $name:ident: $way:expr),*
    ) => {
        $crate::c_api::c_api!(@ [$($done)*]
            $(
                $(#[doc = $doc])*
                fn $name(
                    $at: $handle,
                    key: *const c_void,
                    key_len: usize,
                    $out: $place,
                ) -> c_int {
                    $search($at, (key, key_len), $out, $way)
                }
            )*
            $($rest)*
        );
    };
}
pub(crate) use searches;
