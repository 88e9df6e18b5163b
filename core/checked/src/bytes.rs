//! Bytes of a window: their bounds, copies of them, and which of them nodes occupy.

use std::collections::HashMap;

use sapwood_format::{Window, header};

/// Whether this many bytes from `at` on lie inside the window, behind the header page.
pub(crate) fn inside(window: &impl Window, at: usize, bytes: usize) -> bool {
    let len = window.len() & !7;
    at >= header::PAGE && bytes <= len && at <= len - bytes
}

/// A byte that lies inside the window.
pub(crate) fn byte(window: &impl Window, at: usize) -> u8 {
    window.u32(at & !3).to_ne_bytes()[at % 4]
}

/// Calls `take` with pieces of some bytes that lie inside the window, one after the other.
#[inline]
fn pieces(window: &impl Window, from: usize, len: usize, mut take: impl FnMut(&[u8])) {
    let word = |at| window.u64(at).to_ne_bytes();
    let head = len.min((8 - from % 8) % 8);
    if head > 0 {
        take(&word(from & !7)[from % 8..][..head]);
    }
    let (mut at, end) = (from + head, from + len);
    while at + 8 <= end {
        take(&word(at));
        at += 8;
    }
    if at < end {
        take(&word(at)[..end - at]);
    }
}

/// Copies bytes that lie inside the window.
pub(crate) fn copy_to(window: &impl Window, from: usize, mut to: &mut [u8]) {
    pieces(window, from, to.len(), |piece| {
        let (part, rest) = std::mem::take(&mut to).split_at_mut(piece.len());
        part.copy_from_slice(piece);
        to = rest;
    });
}

/// Copies bytes that lie inside the window behind others.
pub(crate) fn append(window: &impl Window, from: usize, len: usize, to: &mut Vec<u8>) {
    pieces(window, from, len, |piece| to.extend_from_slice(piece));
}

/// As [`copy_to`], to the heap.
pub(crate) fn copy(window: &impl Window, from: usize, len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len);
    append(window, from, len, &mut bytes);
    bytes
}

/// The most bytes that are copied to the stack.
const STACK: usize = 64;

/// Calls `take` with a copy of bytes that lie inside the window.
pub(crate) fn with_copy<R>(
    window: &impl Window,
    from: usize,
    len: usize,
    take: impl Fn(&[u8]) -> R,
) -> R {
    let mut bytes = [0; STACK];
    match bytes.get_mut(..len) {
        Some(bytes) => {
            copy_to(window, from, bytes);
            take(bytes)
        }
        None => take(&copy(window, from, len)),
    }
}

/// Whether the bytes from `from` on, which lie inside the window, are these.
pub(crate) fn are(window: &impl Window, from: usize, bytes: &[u8]) -> bool {
    let first = from / 8 * 8;
    let (head, rest) = bytes.split_at(bytes.len().min((8 - from % 8) % 8));
    let starts =
        head.is_empty() || window.u64(first).to_ne_bytes()[from - first..].starts_with(head);
    let first = from.next_multiple_of(8);
    starts
        && (first..).step_by(8).zip(rest.chunks(8)).all(|(at, chunk)| {
            let word = window.u64(at).to_ne_bytes();
            match <[u8; 8]>::try_from(chunk) {
                Ok(chunk) => chunk == word,
                Err(_) => word.starts_with(chunk),
            }
        })
}

/// The units of 8 bytes that nodes occupy, by page.
#[derive(Default)]
pub(crate) struct Met(HashMap<usize, [u64; 8]>);

impl Met {
    /// Marks a block. Returns whether none of it was marked before.
    pub(crate) fn mark(&mut self, (from, to): (usize, usize)) -> bool {
        let mut new = true;
        for unit in from / 8..to / 8 {
            let page = self.0.entry(unit / 512).or_default();
            let (word, bit) = (unit % 512 / 64, 1 << (unit % 64));
            new &= page[word] & bit == 0;
            page[word] |= bit;
        }
        new
    }
}
