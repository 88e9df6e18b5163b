//! Bytes of a window: their bounds, copies of them, and which of them nodes occupy.

use std::collections::HashMap;

use sapwood_format::{Window, header};

/// Whether this many bytes from `at` on lie inside the window, behind the header page.
pub(crate) fn inside(window: &impl Window, at: usize, bytes: usize) -> bool {
    let len = window.len() & !7;
    at >= header::PAGE && bytes <= len && at <= len - bytes
}

/// Copies bytes that lie inside the window.
pub(crate) fn copy(window: &impl Window, from: usize, len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len + 16);
    let first = from / 8 * 8;
    for at in (first..from + len).step_by(8) {
        bytes.extend_from_slice(&window.u64(at).to_ne_bytes());
    }
    bytes.truncate(from - first + len);
    bytes.drain(..from - first);
    bytes
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
