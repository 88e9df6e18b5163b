//! Memory that programs use while they run.

use std::fmt;

use sapwood_arena::Region;

use crate::arena::{BpfArena, WindowInfo};
use crate::error::Error;
use crate::layout::Kind;
use crate::raw::window::Window;

/// A window of plain memory for programs: cursors of ordered walks, say ([`layout::CURSOR_BYTES`](crate::layout::CURSOR_BYTES) for
/// each). It is zeros at first, and all of it has memory behind it. Programs find it by its number, as `SW_KIND_SCRATCH`. Who shares it, and
/// how, is up to them.
///
/// ```no_run
/// use sapwood_bpf::{BpfArena, layout};
/// let arena = BpfArena::create(64 << 20)?;
/// let cursors = arena.scratch("cursors", 8 * layout::CURSOR_BYTES)?;
/// println!("programs name it {}", cursors.window().number);
/// # Ok::<(), sapwood_bpf::Error>(())
/// ```
pub struct Scratch {
    arena: BpfArena,
    window: WindowInfo,
    _memory: Window,
}

impl BpfArena {
    /// A window of so many bytes, rounded up to pages, for programs to work in.
    ///
    /// # Errors
    /// [`Error::NoRoom`], [`Error::TooManyWindows`], [`Error::Name`], [`Error::NoMemory`].
    pub fn scratch(&self, name: &str, bytes: usize) -> Result<Scratch, Error> {
        let (mut memory, mut window) = self.take_window(name, bytes)?;
        memory
            .grow(window.len)
            .map_err(|_| Error::NoMemory { bytes: window.len })?;
        self.open_window(&window, Kind::Scratch);
        window.kind = Kind::Scratch;
        Ok(Scratch {
            arena: self.clone(),
            window,
            _memory: memory,
        })
    }
}

impl Scratch {
    /// Its window: the number is how programs name it.
    pub fn window(&self) -> &WindowInfo {
        &self.window
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.arena.close_window(self.window.number);
    }
}

impl fmt::Debug for Scratch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scratch")
            .field("window", &self.window)
            .finish()
    }
}
