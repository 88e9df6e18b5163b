//! Plain words in an arena.

use std::sync::atomic::{AtomicU64, Ordering};

use sapwood_arena::Region;

use crate::arena::{BpfArena, WindowInfo};
use crate::error::Error;
use crate::layout::Kind;
use crate::own_window::OwnWindow;

/// Words in a window of an arena: questions for programs, tables of one's own, counters.
///
/// Every word is read and written whole, by programs and by this process alike. They begin as
/// zeros.
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
    /// This many words, all with memory behind them.
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

    /// The words of this name that another owner made, which lives no more. `None` if there are none.
    pub(crate) fn adopt(arena: &BpfArena, name: &str) -> Option<Words> {
        let info = arena.window(name, Kind::Words).ok()?;
        let count = info.len / 8;
        let window = OwnWindow::adopt(arena, info);
        Some(Words { window, count })
    }

    /// Leaves them in the arena for another owner.
    pub(crate) fn leave(mut self) {
        self.window.leave();
    }

    /// The window: its number, and where it begins in the arena.
    pub fn window(&self) -> &WindowInfo {
        &self.window
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The word of this number.
    ///
    /// # Panics
    /// When there is none.
    pub fn get(&self, number: usize) -> u64 {
        self.word(number).load(Ordering::Acquire)
    }

    /// Writes a word.
    ///
    /// # Panics
    /// When there is none of this number.
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
