//! Plans, reservations and snapshots of `sapwood_ranges`.

use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

use sapwood::maple::{
    ErasePlan, EraseReservation, MapleMap, MapleSnapshot, Reservation, StorePlan,
    UnknownReservation,
};

use crate::call::{call, call_void};
use crate::error::{Failure, Outcome};
use crate::handle::{Body, Handle, free};
use crate::input;
use crate::ranges::{put_entry, put_range, sapwood_range, sapwood_ranges, sapwood_window, window};
use crate::ranges_read::walk;
use crate::turn::{Turn, Turns};

/// A plan of either kind.
#[derive(Debug)]
pub enum PlanBody {
    /// A store.
    Store(StorePlan),
    /// A removal.
    Erase(ErasePlan),
}

impl Body for PlanBody {
    const MAGIC: u32 = u32::from_be_bytes(*b"swRp");
    const NAME: &'static str = "ranges_plan";
}

/// C's `sapwood_ranges_plan`.
pub type sapwood_ranges_plan = Handle<PlanBody>;

/// Makes a plan with a function of the map.
///
/// # Safety
/// C.
unsafe fn plan(
    ranges: *const sapwood_ranges,
    out: *mut *mut sapwood_ranges_plan,
    make: impl FnOnce(&MapleMap<u64>) -> Outcome<PlanBody>,
) -> Outcome {
    let out = input::place(out, "out")?;
    // SAFETY: C.
    let body = unsafe { Handle::shared(ranges) }?;
    body.turns.check()?;
    // SAFETY: C.
    unsafe { *out = Handle::into_c(make(&body.map)?, Handle::rules(ranges)) };
    Ok(0)
}

/// Plans a store.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_ranges_plan_store(
    ranges: *const sapwood_ranges,
    start: u64,
    end: u64,
    out: *mut *mut sapwood_ranges_plan,
) -> c_int {
    call("sapwood_ranges_plan_store", || {
        let make = |map: &MapleMap<u64>| Ok(PlanBody::Store(map.plan_store(start..=end, &0)?));
        // SAFETY: C.
        unsafe { plan(ranges, out, make) }
    })
}

/// Plans a store at a place that no entry has.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_ranges_plan_alloc(
    ranges: *const sapwood_ranges,
    size: u64,
    within: *const sapwood_window,
    out: *mut *mut sapwood_ranges_plan,
) -> c_int {
    call("sapwood_ranges_plan_alloc", || {
        // SAFETY: C.
        let window = unsafe { window(within) }?;
        let make = |map: &MapleMap<u64>| Ok(PlanBody::Store(map.plan_alloc(size, window, &0)?));
        // SAFETY: C.
        unsafe { plan(ranges, out, make) }
    })
}

/// Plans that a range becomes a gap.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_ranges_plan_clear(
    ranges: *const sapwood_ranges,
    start: u64,
    end: u64,
    out: *mut *mut sapwood_ranges_plan,
) -> c_int {
    call("sapwood_ranges_plan_clear", || {
        let make = |map: &MapleMap<u64>| Ok(PlanBody::Erase(map.plan_clear(start..=end)?));
        // SAFETY: C.
        unsafe { plan(ranges, out, make) }
    })
}

/// Plans the removal of the entry that holds an index.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_ranges_plan_remove(
    ranges: *const sapwood_ranges,
    index: u64,
    out: *mut *mut sapwood_ranges_plan,
) -> c_int {
    call("sapwood_ranges_plan_remove", || {
        let make = |map: &MapleMap<u64>| Ok(PlanBody::Erase(map.plan_remove(index)));
        // SAFETY: C.
        unsafe { plan(ranges, out, make) }
    })
}

/// The memory that a plan needs.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_ranges_plan_cost(
    plan: *const sapwood_ranges_plan,
    nodes: *mut usize,
    bytes: *mut usize,
) -> c_int {
    call("sapwood_ranges_plan_cost", || {
        // SAFETY: C.
        let cost = match unsafe { Handle::shared(plan) }? {
            PlanBody::Store(plan) => (plan.nodes(), plan.bytes()),
            PlanBody::Erase(plan) => (plan.nodes(), plan.bytes()),
        };
        if !nodes.is_null() {
            // SAFETY: C.
            unsafe { *nodes = cost.0 };
        }
        if !bytes.is_null() {
            // SAFETY: C.
            unsafe { *bytes = cost.1 };
        }
        Ok(0)
    })
}

/// Frees a plan.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_ranges_plan_free(plan: *mut sapwood_ranges_plan) {
    // SAFETY: C.
    call_void("sapwood_ranges_plan_free", || unsafe { free(plan) });
}

/// A reservation of either kind.
enum Held {
    Store(Reservation<'static, u64>),
    Erase(EraseReservation<'static, u64>),
}

/// The inside of a reservation's handle.
///
/// The fields are dropped in this order: the turn ends, then the reservation with its lock, then
/// the map that the reservation borrows.
pub struct ReservationBody {
    turn: Turn,
    held: Held,
    _map: Arc<MapleMap<u64>>,
}

impl Body for ReservationBody {
    const MAGIC: u32 = u32::from_be_bytes(*b"swRr");
    const NAME: &'static str = "ranges_reservation";
}

/// C's `sapwood_ranges_reservation`.
pub type sapwood_ranges_reservation = Handle<ReservationBody>;

/// Takes the memory of a plan, and the map's lock.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_ranges_reserve(
    ranges: *mut sapwood_ranges,
    plan: *const sapwood_ranges_plan,
    out: *mut *mut sapwood_ranges_reservation,
) -> c_int {
    call("sapwood_ranges_reserve", || {
        let out = input::place(out, "out")?;
        // SAFETY: C.
        let body = unsafe { Handle::shared(ranges) }?;
        // SAFETY: C.
        let plan = unsafe { Handle::shared(plan) }?;
        body.turns.check()?;
        let map = Arc::new(body.map.clone());
        // SAFETY: it lies in the `Arc`, and `ReservationBody` drops that after the reservation.
        let lent: &'static MapleMap<u64> = unsafe { &*Arc::as_ptr(&map) };
        let held = match plan {
            PlanBody::Store(plan) => Held::Store(lent.reserve(plan.clone())?),
            PlanBody::Erase(plan) => Held::Erase(lent.reserve_erase(plan.clone())?),
        };
        let reservation = ReservationBody {
            turn: body.turns.begin(body.checked),
            held,
            _map: map,
        };
        // SAFETY: C.
        unsafe { *out = Handle::into_c(reservation, Handle::rules(ranges)) };
        Ok(0)
    })
}

/// A reservation on its thread.
///
/// # Safety
/// C.
unsafe fn reserved<'a>(at: *const sapwood_ranges_reservation) -> Outcome<&'a ReservationBody> {
    // SAFETY: C.
    let body = unsafe { Handle::shared(at) }?;
    body.turn.check("reservation")?;
    Ok(body)
}

/// The range that a reserved store will fill.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_ranges_reservation_range(
    reservation: *const sapwood_ranges_reservation,
    start: *mut u64,
    end: *mut u64,
) -> c_int {
    call("sapwood_ranges_reservation_range", || {
        // SAFETY: C.
        match &unsafe { reserved(reservation) }?.held {
            // SAFETY: C.
            Held::Store(held) => unsafe { put_range(&held.range(), start, end) },
            Held::Erase(_) => return Err(other_kind("a removal")),
        }
        Ok(0)
    })
}

#[cold]
fn other_kind(kind: &str) -> Failure {
    Failure::new(libc::ENOTSUP, format!("the reservation is for {kind}"))
}

/// Stores with reserved memory, and frees the reservation.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_ranges_reservation_store(
    reservation: *mut sapwood_ranges_reservation,
    value: u64,
) -> c_int {
    call("sapwood_ranges_reservation_store", || {
        // SAFETY: C.
        if let Held::Erase(_) = unsafe { reserved(reservation) }?.held {
            return Err(other_kind("a removal"));
        }
        // SAFETY: C.
        let ReservationBody { turn, held, _map } = unsafe { Handle::take(reservation) }?;
        // Ends before the lock is released: another thread's turn may begin right after that.
        drop(turn);
        if let Held::Store(held) = held {
            held.store(value);
        }
        Ok(0)
    })
}

/// Removes with reserved memory, and frees the reservation.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_ranges_reservation_erase(
    reservation: *mut sapwood_ranges_reservation,
) -> c_int {
    call("sapwood_ranges_reservation_erase", || {
        // SAFETY: C.
        if let Held::Store(_) = unsafe { reserved(reservation) }?.held {
            return Err(other_kind("a store"));
        }
        // SAFETY: C.
        let ReservationBody { turn, held, _map } = unsafe { Handle::take(reservation) }?;
        // As for a store.
        drop(turn);
        if let Held::Erase(held) = held {
            held.erase();
        }
        Ok(0)
    })
}

/// Gives the memory back, and frees the reservation.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_ranges_reservation_free(
    reservation: *mut sapwood_ranges_reservation,
) {
    call_void("sapwood_ranges_reservation_free", || {
        // SAFETY: C.
        if reservation.is_null() || unsafe { Handle::leave(reservation) } {
            return Ok(());
        }
        // SAFETY: C.
        unsafe { reserved(reservation) }?;
        // SAFETY: C.
        drop(unsafe { Handle::take(reservation) }?);
        Ok(())
    });
}

/// The inside of the handle of memory for changes that are not known yet.
pub struct LaterBody {
    later: UnknownReservation<u64>,
    turns: Turns,
}

impl Body for LaterBody {
    const MAGIC: u32 = u32::from_be_bytes(*b"swRl");
    const NAME: &'static str = "ranges_later";
}

/// C's `sapwood_ranges_later`.
pub type sapwood_ranges_later = Handle<LaterBody>;

/// Takes the most memory that some later changes may need.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_ranges_reserve_later(
    ranges: *mut sapwood_ranges,
    changes: usize,
    out: *mut *mut sapwood_ranges_later,
) -> c_int {
    call("sapwood_ranges_reserve_later", || {
        let out = input::place(out, "out")?;
        // SAFETY: C.
        let body = unsafe { Handle::shared(ranges) }?;
        body.turns.check()?;
        let later = LaterBody {
            later: body.map.reserve_unknown(changes)?,
            turns: body.turns.clone(),
        };
        // SAFETY: C.
        unsafe { *out = Handle::into_c(later, Handle::rules(ranges)) };
        Ok(0)
    })
}

/// Memory for a change on this thread.
///
/// # Safety
/// C.
unsafe fn later<'a>(at: *mut sapwood_ranges_later) -> Outcome<&'a mut UnknownReservation<u64>> {
    // SAFETY: C.
    let body = unsafe { Handle::exclusive(at) }?;
    body.turns.check()?;
    Ok(&mut body.later)
}

/// Stores with reserved memory.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_ranges_later_store(
    at: *mut sapwood_ranges_later,
    start: u64,
    end: u64,
    value: u64,
) -> c_int {
    call("sapwood_ranges_later_store", || {
        // SAFETY: C.
        unsafe { later(at) }?.store(start..=end, value)?;
        Ok(0)
    })
}

/// Stores at a place that no entry has, with reserved memory.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_ranges_later_alloc(
    at: *mut sapwood_ranges_later,
    size: u64,
    within: *const sapwood_window,
    value: u64,
    start: *mut u64,
) -> c_int {
    call("sapwood_ranges_later_alloc", || {
        let start = input::place(start, "the place for the start")?;
        // SAFETY: C.
        let window = unsafe { window(within) }?;
        // SAFETY: C.
        let place = unsafe { later(at) }?.alloc_range(size, window, value)?;
        // SAFETY: C.
        unsafe { *start = *place.start() };
        Ok(0)
    })
}

/// Makes a range a gap, with reserved memory.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_ranges_later_clear(
    at: *mut sapwood_ranges_later,
    start: u64,
    end: u64,
) -> c_int {
    call("sapwood_ranges_later_clear", || {
        // SAFETY: C.
        unsafe { later(at) }?.clear_range(start..=end)?;
        Ok(0)
    })
}

/// The number of changes that are left.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_ranges_later_left(
    at: *const sapwood_ranges_later,
    changes: *mut usize,
) -> c_int {
    call("sapwood_ranges_later_left", || {
        let changes = input::place(changes, "changes")?;
        // SAFETY: C.
        unsafe { *changes = Handle::shared(at)?.later.remaining() };
        Ok(0)
    })
}

/// Gives back what is left, and frees the handle.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_ranges_later_free(at: *mut sapwood_ranges_later) {
    call_void("sapwood_ranges_later_free", || {
        // SAFETY: C.
        if at.is_null() || unsafe { Handle::leave(at) } {
            return Ok(());
        }
        // SAFETY: C.
        unsafe { later(at) }?;
        // SAFETY: C.
        drop(unsafe { Handle::take(at) }?);
        Ok(())
    });
}

/// The inside of a snapshot's handle.
pub struct SnapshotBody {
    snapshot: MapleSnapshot<u64>,
}

impl Body for SnapshotBody {
    const MAGIC: u32 = u32::from_be_bytes(*b"swRv");
    const NAME: &'static str = "ranges_snapshot";
}

/// C's `sapwood_ranges_snapshot`.
pub type sapwood_ranges_snapshot = Handle<SnapshotBody>;

/// Makes a snapshot of the map.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_ranges_snapshot_new(
    ranges: *const sapwood_ranges,
    out: *mut *mut sapwood_ranges_snapshot,
) -> c_int {
    call("sapwood_ranges_snapshot_new", || {
        let out = input::place(out, "out")?;
        // SAFETY: C.
        let body = unsafe { Handle::shared(ranges) }?;
        body.turns.check()?;
        let snapshot = body.map.snapshot();
        // SAFETY: C.
        unsafe { *out = Handle::into_c(SnapshotBody { snapshot }, Handle::rules(ranges)) };
        Ok(0)
    })
}

/// Frees a snapshot.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_ranges_snapshot_free(snapshot: *mut sapwood_ranges_snapshot) {
    // SAFETY: C.
    call_void("sapwood_ranges_snapshot_free", || unsafe { free(snapshot) });
}

/// The first entry of a snapshot with an index from `from` on.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_ranges_snapshot_next(
    snapshot: *const sapwood_ranges_snapshot,
    from: u64,
    at: *mut sapwood_range,
) -> c_int {
    call("sapwood_ranges_snapshot_next", || {
        // SAFETY: C.
        let view = unsafe { Handle::shared(snapshot) }?.snapshot.view();
        let found = view.range(from..=u64::MAX).next();
        // SAFETY: C.
        Ok(unsafe { put_entry(found.map(|(range, value)| (range, *value)), at) })
    })
}

/// Calls a function with the entries of a snapshot that have an index in a range.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_ranges_snapshot_each(
    snapshot: *const sapwood_ranges_snapshot,
    start: u64,
    end: u64,
    each: Option<unsafe extern "C" fn(entry: *const sapwood_range, ctx: *mut c_void) -> c_int>,
    ctx: *mut c_void,
) -> c_int {
    call("sapwood_ranges_snapshot_each", || {
        let each = each.ok_or_else(|| Failure::null("the function"))?;
        // SAFETY: C.
        let view = unsafe { Handle::shared(snapshot) }?.snapshot.view();
        // SAFETY: C.
        Ok(unsafe { walk(view, start..=end, each, ctx) })
    })
}

/// Saves a snapshot.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_ranges_snapshot_save(
    snapshot: *const sapwood_ranges_snapshot,
    path: *const c_char,
) -> c_int {
    call("sapwood_ranges_snapshot_save", || {
        // SAFETY: C.
        let body = unsafe { Handle::shared(snapshot) }?;
        // SAFETY: C.
        body.snapshot.save(unsafe { input::path(path) }?)?;
        Ok(0)
    })
}
