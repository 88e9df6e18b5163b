//! The values that a program asks for when it opens a file.

/// The size and the alignment in the layout of maps of byte strings. No type has both.
pub const BYTE_STRINGS: (usize, usize) = (1, 8);

/// A type of values.
pub struct Asked {
    /// The name of the type.
    pub name: &'static str,
    /// Size and alignment; `None` for byte strings.
    pub values: Option<(usize, usize)>,
}
