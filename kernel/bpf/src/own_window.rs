//! A window that this process made.

use std::ops::Deref;

use crate::arena::{BpfArena, WindowInfo};
use crate::layout::Kind;

/// A window that this process cut out of an arena. The drop closes the window, or discards it if it
/// is not in the arena's list.
#[derive(Debug)]
pub(crate) struct OwnWindow {
    arena: BpfArena,
    info: WindowInfo,
    /// Whether the drop removes the window from the list.
    closes: bool,
}

impl OwnWindow {
    /// A window that is not in the arena's list yet.
    pub(crate) fn new(arena: &BpfArena, info: WindowInfo) -> OwnWindow {
        OwnWindow {
            arena: arena.clone(),
            info,
            closes: false,
        }
    }

    /// A window that is in the list, and that another owner made.
    pub(crate) fn adopt(arena: &BpfArena, info: WindowInfo) -> OwnWindow {
        arena.hold(&info);
        OwnWindow {
            arena: arena.clone(),
            info,
            closes: true,
        }
    }

    /// Publishes the window to programs and other processes, with this kind.
    pub(crate) fn open(&mut self, kind: Kind) {
        self.info.kind = kind;
        self.arena.open_window(&self.info, kind);
        self.closes = true;
    }

    /// Publishes this window in place of an older one with the same number and kind.
    pub(crate) fn replace(&mut self, old: &WindowInfo) {
        self.info.kind = old.kind;
        self.arena.replace_window(old, &self.info);
        self.closes = true;
    }

    /// Leaves the window in the list when this is dropped, for another owner.
    pub(crate) fn leave(&mut self) {
        self.closes = false;
    }

    pub(crate) fn arena(&self) -> &BpfArena {
        &self.arena
    }
}

impl Deref for OwnWindow {
    type Target = WindowInfo;

    fn deref(&self) -> &WindowInfo {
        &self.info
    }
}

impl Drop for OwnWindow {
    fn drop(&mut self) {
        // The memory stays as it is for programs that are running.
        match self.closes {
            true => self.arena.close_window(self.info.number),
            false => self.arena.discard_window(&self.info),
        }
    }
}
