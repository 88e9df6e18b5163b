//! Plans and reservations of `sapwood_ranges`.

use std::ffi::c_int;
use std::sync::Arc;

use sapwood::maple::{
    ErasePlan, EraseReservation, MapleMap, Reservation, StorePlan, UnknownReservation,
};

use crate::c_api::c_api;
use crate::error::{Failure, Outcome};
use crate::handle::{Body, Handle, free};
use crate::input;
use crate::output::{hand_out, put, put_wanted};
use crate::ranges::{put_range, sapwood_ranges, sapwood_window, window_at};
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
    unsafe { hand_out(out, make(&body.table)?, Handle::rules(ranges)) }
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

    fn may_end(&self) -> Outcome<()> {
        self.turn.check("reservation")
    }
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

#[cold]
fn other_kind(what: &str, kind: &str) -> Failure {
    Failure::new(libc::ENOTSUP, format!("the {what} is for {kind}"))
}

/// The inside of the handle of memory for changes that are not known yet.
pub struct LaterBody {
    later: UnknownReservation<u64>,
    turns: Turns,
}

impl Body for LaterBody {
    const MAGIC: u32 = u32::from_be_bytes(*b"swRl");
    const NAME: &'static str = "ranges_later";

    fn may_end(&self) -> Outcome<()> {
        self.turns.check()
    }
}

/// Memory for a change on this thread.
///
/// # Safety
/// C.
unsafe fn later_at<'a>(at: *mut sapwood_ranges_later) -> Outcome<&'a mut UnknownReservation<u64>> {
    // SAFETY: C.
    let body = unsafe { Handle::exclusive(at) }?;
    body.turns.check()?;
    Ok(&mut body.later)
}

c_api!(
    /// A plan: what a change would need of memory. It holds nothing.
    pub type sapwood_ranges_plan = Handle<PlanBody>;

    /// Plan what the functions of the map without plan_ do, with their failures.
    fn sapwood_ranges_plan_store(
        ranges: *const sapwood_ranges,
        start: u64,
        end: u64,
        out: *mut *mut sapwood_ranges_plan,
    ) -> c_int {
        let make = |map: &MapleMap<u64>| Ok(PlanBody::Store(map.plan_store(start..=end, &0)?));
        plan(ranges, out, make)
    }

    fn sapwood_ranges_plan_insert_new(
        ranges: *const sapwood_ranges,
        start: u64,
        end: u64,
        out: *mut *mut sapwood_ranges_plan,
    ) -> c_int {
        let make = |map: &MapleMap<u64>| Ok(PlanBody::Store(map.plan_insert_new(start..=end, &0)?));
        plan(ranges, out, make)
    }

    fn sapwood_ranges_plan_alloc(
        ranges: *const sapwood_ranges,
        size: u64,
        window: *const sapwood_window,
        out: *mut *mut sapwood_ranges_plan,
    ) -> c_int {
        let window = window_at(window)?;
        let make = |map: &MapleMap<u64>| Ok(PlanBody::Store(map.plan_alloc(size, window, &0)?));
        plan(ranges, out, make)
    }

    fn sapwood_ranges_plan_clear(
        ranges: *const sapwood_ranges,
        start: u64,
        end: u64,
        out: *mut *mut sapwood_ranges_plan,
    ) -> c_int {
        let make = |map: &MapleMap<u64>| Ok(PlanBody::Erase(map.plan_clear(start..=end)?));
        plan(ranges, out, make)
    }

    fn sapwood_ranges_plan_remove(
        ranges: *const sapwood_ranges,
        index: u64,
        out: *mut *mut sapwood_ranges_plan,
    ) -> c_int {
        let make = |map: &MapleMap<u64>| Ok(PlanBody::Erase(map.plan_remove(index)));
        plan(ranges, out, make)
    }

    /// The (nodes) and (bytes) that the planned change makes, if the map stays as it is until then.
    fn sapwood_ranges_plan_cost(
        plan: *const sapwood_ranges_plan,
        nodes: *mut usize,
        bytes: *mut usize,
    ) -> c_int {
        let cost = match Handle::shared(plan)? {
            PlanBody::Store(plan) => (plan.nodes(), plan.bytes()),
            PlanBody::Erase(plan) => (plan.nodes(), plan.bytes()),
        };
        put_wanted(nodes, cost.0);
        put_wanted(bytes, cost.1);
        Ok(0)
    }

    /// Lets a plan keep its range: if somebody has stored there when it is reserved, that fails
    /// with -EEXIST. A plan of sapwood_ranges_plan_alloc would search another place, one of
    /// sapwood_ranges_plan_store would store over it; sapwood_ranges_plan_insert_new plans so.
    /// -ENOTSUP: the plan is for a removal. One thread at a time. O(1).
    fn sapwood_ranges_plan_if_free(plan: *mut sapwood_ranges_plan) -> c_int {
        match Handle::exclusive(plan)? {
            PlanBody::Store(plan) => *plan = plan.clone().if_free(),
            PlanBody::Erase(_) => return Err(other_kind("plan", "a removal")),
        }
        Ok(0)
    }

    /// Frees a plan.
    fn sapwood_ranges_plan_free(plan: *mut sapwood_ranges_plan) {
        free(plan)
    }

    /// The memory of a planned change, and the map's lock. It stays on its thread.
    pub type sapwood_ranges_reservation = Handle<ReservationBody>;

    /// Takes the memory of a plan, and the map's lock: this is the only step that can fail. The
    /// plan stays the caller's. If the map was changed since, it is planned anew. -ENOSPC: the gap
    /// has gone. -EEXIST: the plan keeps its range, and an entry is in the way. Other threads that
    /// change the map wait until the reservation ends.
    fn sapwood_ranges_reserve(
        ranges: *mut sapwood_ranges,
        plan: *const sapwood_ranges_plan,
        out: *mut *mut sapwood_ranges_reservation,
    ) -> c_int {
        let out = input::place(out, "out")?;
        let body = Handle::shared(ranges)?;
        let plan = Handle::shared(plan)?;
        body.turns.check()?;
        let map = Arc::new(body.table.clone());
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
        hand_out(out, reservation, Handle::rules(ranges))
    }

    /// The range that will be filled: (start), (end). -ENOTSUP: it is for a removal. Its thread.
    fn sapwood_ranges_reservation_range(
        reservation: *const sapwood_ranges_reservation,
        start: *mut u64,
        end: *mut u64,
    ) -> c_int {
        match &reserved(reservation)?.held {
            Held::Store(held) => put_range(&held.range(), start, end),
            Held::Erase(_) => return Err(other_kind("reservation", "a removal")),
        }
        Ok(0)
    }

    /// Store, or remove, and free the handle. They take no memory. -ENOTSUP: it is for the other.
    fn sapwood_ranges_reservation_store(
        reservation: *mut sapwood_ranges_reservation,
        value: u64,
    ) -> c_int {
        if let Held::Erase(_) = reserved(reservation)?.held {
            return Err(other_kind("reservation", "a removal"));
        }
        let ReservationBody { turn, held, _map } = Handle::take(reservation)?;
        // Ends before the lock is released: another thread's turn may begin right after that.
        drop(turn);
        if let Held::Store(held) = held {
            held.store(value);
        }
        Ok(0)
    }

    fn sapwood_ranges_reservation_erase(reservation: *mut sapwood_ranges_reservation) -> c_int {
        if let Held::Store(_) = reserved(reservation)?.held {
            return Err(other_kind("reservation", "a store"));
        }
        let ReservationBody { turn, held, _map } = Handle::take(reservation)?;
        // As for a store.
        drop(turn);
        if let Held::Erase(held) = held {
            held.erase();
        }
        Ok(0)
    }

    /// Gives the memory and the lock back without a change. Its thread.
    fn sapwood_ranges_reservation_free(reservation: *mut sapwood_ranges_reservation) {
        free(reservation)
    }

    /// The most memory that some changes may need, wherever they will be. It does not hold the
    /// lock; one thread at a time uses it. Its changes cannot fail for want of memory. -ENOBUFS:
    /// all are made.
    pub type sapwood_ranges_later = Handle<LaterBody>;

    fn sapwood_ranges_reserve_later(
        ranges: *mut sapwood_ranges,
        changes: usize,
        out: *mut *mut sapwood_ranges_later,
    ) -> c_int {
        let out = input::place(out, "out")?;
        let body = Handle::shared(ranges)?;
        body.turns.check()?;
        let later = LaterBody {
            later: body.table.reserve_unknown(changes)?,
            turns: body.turns.clone(),
        };
        hand_out(out, later, Handle::rules(ranges))
    }

    fn sapwood_ranges_later_store(
        later: *mut sapwood_ranges_later,
        start: u64,
        end: u64,
        value: u64,
    ) -> c_int {
        later_at(later)?.store(start..=end, value)?;
        Ok(0)
    }

    fn sapwood_ranges_later_alloc(
        later: *mut sapwood_ranges_later,
        size: u64,
        window: *const sapwood_window,
        value: u64,
        start: *mut u64,
    ) -> c_int {
        let start = input::place(start, "the place for the start")?;
        let window = window_at(window)?;
        let place = later_at(later)?.alloc_range(size, window, value)?;
        *start = *place.start();
        Ok(0)
    }

    fn sapwood_ranges_later_clear(later: *mut sapwood_ranges_later, start: u64, end: u64) -> c_int {
        later_at(later)?.clear_range(start..=end)?;
        Ok(0)
    }

    fn sapwood_ranges_later_left(later: *const sapwood_ranges_later, changes: *mut usize) -> c_int {
        put(changes, "changes", Handle::shared(later)?.later.remaining())
    }

    fn sapwood_ranges_later_free(later: *mut sapwood_ranges_later) {
        free(later)
    }
);
