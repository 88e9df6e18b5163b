//! Plain words in an arena.

use std::sync::atomic::{AtomicU64, Ordering};

use sapwood_arena::Region;

use crate::arena::{BpfArena, WindowInfo};
use crate::error::Error;
use crate::layout::Kind;
use crate::own_window::OwnWindow;

/// Words in a window of an arena, for example requests to programs, tables of the user, or
/// counters.
///
/// Programs and this process read and write each word atomically. All words are zero at first.
///
/// ```no_run
/// use sapwood_bpf::{BpfArena, Words};
/// let arena = BpfArena::create(64 << 20)?;
/// let words = Words::create(&arena, "counters", 512)?;
/// assert_eq!(words.get(3), 0);
/// # Ok::<(), sapwood_bpf::Error>(())
/// ```
#[derive(Debug)]
pub struct Words {
    window: OwnWindow,
    count: usize,
}

impl Words {
    /// Makes a window with this many words, and takes memory for all of them.
    ///
    /// # Errors
    /// [`Error::NoRoom`], [`Error::TooManyWindows`], [`Error::Name`], [`Error::NoMemory`].
    pub fn create(arena: &BpfArena, name: &str, count: usize) -> Result<Words, Error> {
        let bytes = count.checked_mul(8).ok_or_else(|| Error::NoRoom {
            name: name.to_owned(),
            bytes: usize::MAX,
            left: arena.bytes_left(),
        })?;
        let (mut region, mut window) = arena.cut_window(name, bytes)?;
        region.grow(bytes).map_err(|_| Error::NoMemory { bytes })?;
        window.open(Kind::Words);
        Ok(Words { window, count })
    }

    /// Takes over the words of this name that a dead owner made. `None` if there are none.
    pub fn adopt(arena: &BpfArena, name: &str) -> Option<Words> {
        let info = arena.window(name, Kind::Words).ok()?;
        let count = info.len / 8;
        let window = OwnWindow::adopt(arena, info);
        Some(Words { window, count })
    }

    /// Leaves the words in the arena for another owner.
    pub fn leave(mut self) {
        self.window.leave();
    }

    /// The arena that they lie in.
    pub fn arena(&self) -> &BpfArena {
        self.window.arena()
    }

    /// The window, with its number and its place in the arena.
    pub fn window(&self) -> &WindowInfo {
        &self.window
    }

    /// The number of words.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are no words.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The word of this number.
    ///
    /// # Panics
    /// When `number` is not less than [`len`](Self::len).
    pub fn get(&self, number: usize) -> u64 {
        self.word(number).load(Ordering::Acquire)
    }

    /// Writes a word.
    ///
    /// # Panics
    /// When `number` is not less than [`len`](Self::len).
    pub fn set(&self, number: usize, word: u64) {
        self.word(number).store(word, Ordering::Release);
    }

    fn word(&self, number: usize) -> &AtomicU64 {
        assert!(
            number < self.count,
            "word {number} of {} in an arena",
            self.count
        );
        let memory = self.window.arena().memory();
        memory.u64(self.window.at + number * 8)
    }
}
