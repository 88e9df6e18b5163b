//! Copies of files' words, for checked readers.
#![allow(dead_code)] // Each test uses only a part of it.

use std::path::Path;

use sapwood_format::Window;

/// The words of a file, copied. A read outside panics.
#[derive(Clone)]
pub struct Words(pub Vec<u64>);

impl Words {
    pub fn of(path: &Path) -> Words {
        let bytes = std::fs::read(path).unwrap();
        let words = bytes.chunks_exact(8);
        Words(
            words
                .map(|word| u64::from_ne_bytes(word.try_into().unwrap()))
                .collect(),
        )
    }
}

impl Window for Words {
    fn len(&self) -> usize {
        self.0.len() * 8
    }

    fn u32(&self, at: usize) -> u32 {
        assert_eq!(at % 4, 0);
        (self.0[at / 8] >> (at % 8 * 8)) as u32
    }

    fn u64(&self, at: usize) -> u64 {
        assert_eq!(at % 8, 0);
        self.0[at / 8]
    }
}
