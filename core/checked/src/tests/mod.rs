//! Tests of the reader's parts over plain words.

mod build;
mod damage;
mod meanwhile;
mod nodes;
mod tries;

use std::sync::atomic::{AtomicU64, Ordering};

use sapwood_format::header;

use crate::find::Lookup;
use crate::nodes::Nodes;
use crate::{Trouble, Window};

/// The nodes of a map of numbers that has clusters of both kinds, and dead slots.
fn nodes<W: Window>(window: W) -> Nodes<W> {
    Nodes {
        dead_slots: true,
        ..Nodes::new(window, 8).of_format(8, header::INLINE_FORMAT)
    }
}

/// The bytes of a key's value.
fn get(nodes: &Nodes<impl Window>, key: &[u8]) -> Result<Option<Vec<u8>>, Trouble> {
    Lookup::default().get(nodes, key, <[u8]>::to_vec)
}

/// A window in plain memory.
pub(super) struct Words(pub(super) Vec<AtomicU64>);

impl Words {
    pub(super) fn new(words: usize) -> Words {
        Words((0..words).map(|_| AtomicU64::new(0)).collect())
    }

    /// Writes bytes from place `at` on.
    pub(super) fn write(&self, at: usize, bytes: &[u8]) {
        for (at, byte) in (at..).zip(bytes) {
            let word = &self.0[at / 8];
            let mut all = word.load(Ordering::Relaxed).to_ne_bytes();
            all[at % 8] = *byte;
            word.store(u64::from_ne_bytes(all), Ordering::Release);
        }
    }

    pub(super) fn byte(&self, at: usize) -> u8 {
        self.0[at / 8].load(Ordering::Relaxed).to_ne_bytes()[at % 8]
    }
}

impl Window for Words {
    fn len(&self) -> usize {
        self.0.len() * 8
    }

    fn u32(&self, at: usize) -> u32 {
        assert!(at % 4 == 0);
        let word = self.u64(at / 8 * 8).to_ne_bytes();
        let half: [u8; 4] = word[at % 8..at % 8 + 4].try_into().unwrap();
        u32::from_ne_bytes(half)
    }

    fn u64(&self, at: usize) -> u64 {
        assert!(at % 8 == 0);
        self.0[at / 8].load(Ordering::Acquire)
    }
}
