//! Prefixes of `sapwood_fib` that cover others or lie inside them, differences of tables, and
//! aggregated tables.

use std::ffi::{c_int, c_uint, c_void};

use sapwood::lpm::FibChange;
use sapwood::qsbr::Guard;

use crate::c_api::c_api;
use crate::error::Failure;
use crate::fib::sapwood_fib;
use crate::fib_versions::{sapwood_fib_iter, sapwood_fib_snapshot};
use crate::handle::Handle;
use crate::input;
use crate::output::{as_int, put_found, put_wanted};
use crate::prefix::{self, sapwood_prefix};
use crate::reader::{read, sapwood_reader};
use crate::snapshot::{SAPWOOD_ADDED, SAPWOOD_CHANGED, SAPWOOD_REMOVED};
use crate::versions;

c_api!(
    /// Finds the longest prefix that covers this one, which may be this one itself: (matched),
    /// (value). -ENOENT: there is none. With a reader: its thread. O(bits).
    fn sapwood_fib_lookup_prefix(
        fib: *const sapwood_fib,
        reader: *const sapwood_reader,
        prefix: *const sapwood_prefix,
        matched: *mut sapwood_prefix,
        value: *mut u64,
    ) -> c_int {
        let fib = &Handle::shared(fib)?.table;
        let net = prefix::prefix(prefix)?;
        let answer = |guard: Guard<'_>| {
            let found = fib.view(guard).lookup_net(net);
            found.map(|(net, value)| (net, *value))
        };
        let Some((net, found)) = read(reader, fib.domain(), answer)? else {
            return Ok(-libc::ENOENT);
        };
        put_wanted(matched, net.into());
        Ok(put_found(value, Some(found)))
    }

    /// Finds all prefixes that cover this one, which may be one of them, shortest first. Returns
    /// how many there are, and stores the first (room) of them in (prefixes) and (values). An
    /// address has at most 129. With a reader: its thread. O(bits).
    fn sapwood_fib_covering(
        fib: *const sapwood_fib,
        reader: *const sapwood_reader,
        prefix: *const sapwood_prefix,
        prefixes: *mut sapwood_prefix,
        values: *mut u64,
        room: usize,
    ) -> c_int {
        let fib = &Handle::shared(fib)?.table;
        let net = prefix::prefix(prefix)?;
        let answer = |guard: Guard<'_>| {
            let mut count = 0;
            for (net, value) in fib.view(guard).covering(net) {
                if count < room {
                    // Both are NULL, or have room for as many.
                    put_wanted(
                        prefixes.wrapping_add(if prefixes.is_null() { 0 } else { count }),
                        net.into(),
                    );
                    put_wanted(
                        values.wrapping_add(if values.is_null() { 0 } else { count }),
                        *value,
                    );
                }
                count += 1;
            }
            count
        };
        Ok(as_int(read(reader, fib.domain(), answer)?))
    }

    /// Makes an iterator over a prefix, if the snapshot has it, and all prefixes inside it; or over
    /// this prefix and all that come after it in order.
    fn sapwood_fib_iter_covered(
        snapshot: *const sapwood_fib_snapshot,
        prefix: *const sapwood_prefix,
        out: *mut *mut sapwood_fib_iter,
    ) -> c_int {
        let net = prefix::prefix(prefix)?;
        versions::walk(snapshot, out, |snapshot| Box::new(snapshot.covered_by(net)))
    }

    fn sapwood_fib_iter_from(
        snapshot: *const sapwood_fib_snapshot,
        prefix: *const sapwood_prefix,
        out: *mut *mut sapwood_fib_iter,
    ) -> c_int {
        let net = prefix::prefix(prefix)?;
        versions::walk(snapshot, out, |snapshot| Box::new(snapshot.iter_from(net)))
    }

    /// Makes an iterator over the fewest prefixes that give each address the value that it has in
    /// the snapshot; an address without a prefix stays without one. O(n log n).
    fn sapwood_fib_iter_aggregated(
        snapshot: *const sapwood_fib_snapshot,
        out: *mut *mut sapwood_fib_iter,
    ) -> c_int {
        versions::walk(snapshot, out, |snapshot| {
            Box::new(snapshot.aggregated().into_iter())
        })
    }

    /// A difference between two snapshots.
    #[derive(Clone, Copy, Debug)]
    pub struct sapwood_fib_change {
        /// enum sapwood_change_kind
        pub kind: c_int,
        /// 0
        pub reserved: c_uint,
        pub prefix: sapwood_prefix,
        /// 0
        pub padding: [u8; 6],
        /// its value in the old one; 0 when it is not there
        pub old_value: u64,
        /// its value in the new one; 0 when it is not there
        pub new_value: u64,
    }

    /// Is called with differences in the order of prefixes, IPv4 first. It returns 0 to go on;
    /// another number ends the walk.
    pub type sapwood_fib_diff_fn =
        Option<unsafe extern "C" fn(change: *const sapwood_fib_change, ctx: *mut c_void) -> c_int>;

    /// Calls each(change, ctx) with all that differs, and returns 0 or what `each` returned. The
    /// snapshots may be of one table or of two. A table becomes the other by a transaction that
    /// inserts what was added or changed, and removes what was removed. O(both).
    fn sapwood_fib_diff(
        before: *const sapwood_fib_snapshot,
        after: *const sapwood_fib_snapshot,
        each: sapwood_fib_diff_fn,
        ctx: *mut c_void,
    ) -> c_int {
        let (old, new) = (Handle::shared(before)?, Handle::shared(after)?);
        let each = each.ok_or_else(|| Failure::null("the function"))?;
        for change in old.snapshot.diff(&new.snapshot) {
            let (kind, old_value, new_value) = match change {
                FibChange::Added(_, new) => (SAPWOOD_ADDED, 0, *new),
                FibChange::Removed(_, old) => (SAPWOOD_REMOVED, *old, 0),
                FibChange::Changed(_, old, new) => (SAPWOOD_CHANGED, *old, *new),
            };
            let change = sapwood_fib_change {
                kind,
                reserved: 0,
                prefix: change.net().into(),
                padding: [0; 6],
                old_value,
                new_value,
            };
            let answer = each(&raw const change, ctx);
            if answer != 0 {
                return Ok(answer);
            }
        }
        Ok(0)
    }

    /// The longest prefix that covers all of these. -ENOENT: there is none, since they are of both
    /// families or count is 0. Any thread.
    fn sapwood_prefix_supernet(
        prefixes: *const sapwood_prefix,
        count: usize,
        out: *mut sapwood_prefix,
    ) -> c_int {
        let prefixes = input::items(prefixes, count, "the list of prefixes")?;
        let out = input::place(out, "the prefix")?;
        let all = prefix::families(prefixes)?;
        let net = match all {
            (v4, v6) if v6.is_empty() => {
                sapwood::lpm::supernet::<sapwood::lpm::V4>(v4).map(Into::into)
            }
            (v4, v6) if v4.is_empty() => {
                sapwood::lpm::supernet::<sapwood::lpm::V6>(v6).map(Into::into)
            }
            _ => None,
        };
        let Some(net) = net else {
            return Ok(-libc::ENOENT);
        };
        let net: ipnet::IpNet = net;
        out.write(net.into());
        Ok(0)
    }
);
