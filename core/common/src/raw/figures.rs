//! The text of memory reports.

use core::fmt;

use sapwood_arena::{Kind, Memory};

/// What a report counts, in the plural and in the singular.
pub type Counted = (&'static str, &'static str);

/// What most maps count.
pub const ENTRIES: Counted = ("entries", "an entry");

/// The number and the bytes of the blocks of a kind.
pub fn kind(arena: &Memory, kind: Kind) -> (usize, usize) {
    let kind = &arena.kinds[usize::from(kind.0)];
    (kind.count, kind.bytes)
}

/// All bytes that a structure takes from the system.
pub fn total(arena: &Memory, outside: usize) -> usize {
    arena.committed + arena.overhead + outside
}

/// The sums of a structure with a pool of free blocks.
pub fn sums(arena: &Memory, pooled: usize, outside: usize) -> [(&'static str, usize); 4] {
    [
        ("pooled", pooled),
        ("free", arena.free),
        ("outside", outside + arena.overhead),
        ("total", total(arena, outside)),
    ]
}

/// Writes numbers that are not bytes, a line each.
pub fn counts(f: &mut fmt::Formatter<'_>, counts: &[(&str, u64)]) -> fmt::Result {
    for &(what, count) in counts {
        writeln!(f, "{what:<16} {count:>12}")?;
    }
    Ok(())
}

/// Writes a table: blocks with their numbers and bytes, then sums of bytes, each also divided by
/// the number of things counted.
pub fn table(
    f: &mut fmt::Formatter<'_>,
    (many, one): Counted,
    count: usize,
    blocks: &[(&str, (usize, usize))],
    sums: &[(&str, usize)],
) -> fmt::Result {
    let each = |bytes: usize| bytes as f64 / count.max(1) as f64;
    counts(f, &[(many, count as u64)])?;
    for &(what, (count, bytes)) in blocks {
        let each = each(bytes);
        writeln!(
            f,
            "{what:<16} {count:>12}  {bytes:>12} bytes  {each:>7.2} {one}"
        )?;
    }
    for &(what, bytes) in sums {
        let each = each(bytes);
        writeln!(
            f,
            "{what:<16} {:>12}  {bytes:>12} bytes  {each:>7.2} {one}",
            ""
        )?;
    }
    Ok(())
}
