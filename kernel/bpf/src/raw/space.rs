//! The division of an arena's address space. The list of windows has the bytes of all published
//! maps, whoever owns them. This process keeps a record of the windows that it holds, which
//! includes those that are not in the list yet and those that are no longer in it.

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};

use super::arena::{Held, Memory, PAGE};
use super::window::Window;
use crate::layout::page;

/// The windows that this process holds.
pub(crate) fn held(memory: &Memory) -> MutexGuard<'_, Vec<Held>> {
    memory.held.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Changes the records of windows, and forgets windows that are neither used nor listed.
pub(crate) fn release(memory: &Memory, change: impl FnMut(&mut Held)) {
    let mut held = held(memory);
    held.iter_mut().for_each(change);
    held.retain(|held| held.region || held.listed);
}

/// The free pieces, given the windows of the list: (place, bytes), in order.
pub(crate) fn gaps(memory: &Memory, listed: &[(usize, usize)]) -> Vec<(usize, usize)> {
    let mut taken: Vec<(usize, usize)> = vec![(0, PAGE)];
    taken.extend(listed);
    taken.extend(held(memory).iter().map(|held| (held.at, held.len)));
    taken.sort_unstable();
    let (mut gaps, mut end) = (Vec::new(), 0);
    for (at, len) in taken {
        if at > end {
            gaps.push((end, at - end));
        }
        end = end.max(at + len);
    }
    if end < memory.len() {
        gaps.push((end, memory.len() - end));
    }
    gaps
}

/// The place behind which no window ever had memory.
pub(crate) fn fresh(memory: &Memory) -> usize {
    let used = memory.u64(page::USED_AT).load(Ordering::Acquire);
    (used as usize).clamp(PAGE, memory.len())
}

/// Records that behind this place no window ever had memory, or all of it was freed.
pub(crate) fn set_fresh(memory: &Memory, at: usize) {
    let used = memory.u64(page::USED_AT);
    used.store(at as u64, Ordering::Release);
}

/// Cuts a window of this many bytes, whole pages, out of unused address space or out of `clean`.
/// `None` when no free piece is large enough.
///
/// The only caller is `BpfArena`. It guarantees that this process owns the arena, and that no other
/// thread cuts windows meanwhile. `listed` has the windows of the list. The pieces in `clean` are
/// in no window and held by nobody, and their memory was freed when no program could be reading it.
pub(crate) fn cut(
    memory: &Arc<Memory>,
    listed: &[(usize, usize)],
    clean: &[(usize, usize)],
    number: u32,
    bytes: usize,
) -> Option<Window> {
    let fresh = fresh(memory);
    let unused = gaps(memory, listed).into_iter().filter_map(|(at, len)| {
        let end = at + len;
        (end > fresh).then(|| (at.max(fresh), end - at.max(fresh)))
    });
    let mut enough = clean
        .iter()
        .copied()
        .chain(unused)
        .filter(|(_, len)| *len >= bytes);
    let (at, _) = enough.next()?;
    held(memory).push(Held {
        number,
        at,
        len: bytes,
        region: true,
        listed: true,
    });
    if at + bytes > fresh {
        set_fresh(memory, at + bytes);
    }
    // SAFETY: by the guarantees above, the bytes are in no window and held by nobody. They are
    // zeros, or have no memory yet, and new memory is zeros.
    Some(unsafe { Window::new(memory, number, at, bytes) })
}
