#!/usr/bin/env bash
# Undefined behaviour and data races in the unsafe code, found by interpretation: the crates below,
# and short tests of each structure, two at a time. SAPWOOD_OPS lengthens the comparisons with the
# oracles, MIRI_MORE=1 adds the unit tests of the tries, MIRI_ALL=1 runs every test of the libraries
# (hours).
. "$(dirname "$0")/lib.sh"
cargo "+$NIGHTLY" miri --version >/dev/null 2>&1 || fail "Miri is missing: run ci/setup.sh"
# Saved files and clocks come from the host.
export MIRIFLAGS="-Zmiri-disable-isolation ${MIRIFLAGS:-}" CARGO_TARGET_DIR="$TARGET/miri"
export SAPWOOD_OPS="${SAPWOOD_OPS:-40}"
# The backtrace of an expected panic takes seconds under Miri.
export RUST_BACKTRACE="${RUST_BACKTRACE:-0}"
miri() { chosen cargo "+$NIGHTLY" miri test --locked "$@"; }
# One choice of packages and features for the tests of the structures, so that nothing is compiled
# twice.
# shellcheck disable=SC2086 # words
structures() { miri $STRUCTURES "$@"; }

if [ -n "${MIRI_ALL:-}" ]; then
    miri -p sapwood-arena -p sapwood-qsbr -p sapwood-common --lib
    structures --lib --test all --test threads
    exit
fi

# Compiled first, because only one process can compile at a time.
structures --lib --test all --test threads --no-run
one() {
    miri -p sapwood-arena --lib -- --skip classes_are_monotone
    # shellcheck disable=SC2086 # one word or none
    structures --test all -- differential::map_small_and_dense differential::store_with_poisoned \
        lpm::values_are_dropped_once maple::drops::every maple::drops::values_stay \
        maple::snapshots::a_small_map owned::each_value owned::values_in owned::offsets \
        owned::a_split spaces::owned spaces::windows ${SHOW:-}
    # The test of every branch size with every label takes an hour under Miri.
    [ -z "${MIRI_MORE:-}" ] || miri -p sapwood-qp --lib -- --skip every_size_finds
}
other() {
    miri -p sapwood-qsbr --lib --test all --test threads
    structures --lib -- raw::slot:: raw::tags:: raw::table::tests:: raw::crashes::attached raw::crashes::a_page_of \
        index::tests::owned::removal index::tests::owned::no_memory \
        slots::tests::leaves_go_in_and_out change::tests::borders_out_of_reach \
        raw::inline::tests inline_change::tests::each_value inline_change::tests::a_block_whose \
        inline_change::tests::maps_of_byte_strings
    structures --test all -- shared::a_panic_in shared::a_comparison shared::a_test_may
    structures --test threads -- shared_threads::values_are_dropped_once
}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# Both run in the background and end at their first failure.
(one) >"$log" 2>&1 &
one=$!
(other) &
other=$!
code=0
wait $other || code=1
wait $one || code=1
cat "$log"
exit $code
