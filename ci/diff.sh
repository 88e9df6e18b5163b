#!/usr/bin/env bash
# The long comparison with the naive oracles: 100 million operations over all kinds of maps and
# stores. Not in `make test`. SAPWOOD_OPS is the number of operations for each kind of map and
# store in a test, 29 times as many in all. SAPWOOD_SEED is the first seed. `ci/diff.sh PROGRAM
# NAME…` runs other tests of the library instead, optimized in the same way.
. "$(dirname "$0")/lib.sh"
[ $# -gt 0 ] || set -- all differential::
export SAPWOOD_OPS="${SAPWOOD_OPS:-3500000}"
program=$1
shift
# shellcheck disable=SC2086 # words
chosen cargo test --locked --release $STRUCTURES --test "$program" -- "$@" --show-output
