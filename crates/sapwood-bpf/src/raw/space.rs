//! Which bytes of an arena's address space are whose: the list of windows says what maps have, of
//! whatever owner; what this process has cut and not listed, or taken off the list and not let go,
//! it knows by itself.

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};

use super::arena::{Held, Memory, PAGE};
use super::window::Window;
use crate::layout::page;

/// What this process has.
pub(crate) fn held(memory: &Memory) -> MutexGuard<'_, Vec<Held>> {
    memory.held.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Changes what is said of windows, and forgets those that nobody has.
pub(crate) fn release(memory: &Memory, change: impl FnMut(&mut Held)) {
    let mut held = held(memory);
    held.iter_mut().for_each(change);
    held.retain(|held| held.region || held.listed);
}

/// What nobody has, given what the list says is taken: (place, bytes), in order.
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

/// Where memory begins that no window ever had.
pub(crate) fn fresh(memory: &Memory) -> usize {
    let used = memory.u64(page::USED_AT).load(Ordering::Acquire);
    (used as usize).clamp(PAGE, memory.len())
}

/// From here on, no window had any memory, or all of it was given back.
pub(crate) fn set_fresh(memory: &Memory, at: usize) {
    let used = memory.u64(page::USED_AT);
    used.store(at as u64, Ordering::Release);
}

/// Cuts a window of this many bytes, whole pages, out of what was never used, or out of `clean`.
/// `None` when there is not so much in one piece.
///
/// Its only caller is `BpfArena`, which knows that this process owns the arena, and that no other
/// thread of it cuts windows meanwhile: `listed` are the windows of the list; what is clean is in
/// none and held by nobody, and was given back to the kernel when no program could be reading it.
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
    // SAFETY: as above, the bytes are in no window and held by nobody; they are zeros, or have no
    // memory yet, which is zeros when it comes.
    Some(unsafe { Window::new(memory, number, at, bytes) })
}
