#!/usr/bin/env bash
# Undefined behaviour and data races in the unsafe code, by interpretation: short runs, two at a time. SAPWOOD_OPS makes
# those against the oracles longer, MIRI_ALL=1 takes every test of the libraries (hours).
. "$(dirname "$0")/lib.sh"
cargo "+$NIGHTLY" miri --version >/dev/null 2>&1 || fail "Miri is missing: run ci/setup.sh"
# Saved files and clocks are the host's.
export MIRIFLAGS="-Zmiri-disable-isolation ${MIRIFLAGS:-}" CARGO_TARGET_DIR="$TARGET/miri"
export SAPWOOD_OPS="${SAPWOOD_OPS:-40}"
miri() { chosen cargo "+$NIGHTLY" miri test --locked "$@"; }

if [ -n "${MIRI_ALL:-}" ]; then
    miri -p sapwood-arena -p sapwood-qsbr -p sapwood --lib --tests
    exit
fi

# Compiled first, because only one can compile at a time.
miri -p sapwood-arena -p sapwood-qsbr -p sapwood --lib --tests --no-run
structures() {
    # Every branch size with every label takes an hour here, and the index's own tests take minutes; the runs below meet
    # most of them.
    miri -p sapwood --lib -- qp:: --skip every_size_finds --skip index::
    miri -p sapwood --test all -- differential::map_small_and_dense differential::store_with_poisoned
    miri -p sapwood --test all -- lpm::values_are_dropped_once
    miri -p sapwood --lib -- route::raw --skip nothing_is_allocated
    miri -p sapwood --test all -- maple::drops::every maple::drops::values_stay
}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
structures >"$log" 2>&1 &
both=0
{
    miri -p sapwood-qsbr --lib --tests &&
        miri -p sapwood-arena --lib -- --skip classes_are_monotone &&
        miri -p sapwood --lib -- index::tests::owned::removal index::tests::owned::no_memory &&
        miri -p sapwood --test all -- shared::a_panic_in shared::a_comparison &&
        miri -p sapwood --test all -- point_map::a_test_may &&
        miri -p sapwood --test all -- shared_threads::values_are_dropped_once
} || both=1
wait $! || both=1
cat "$log"
exit $both
