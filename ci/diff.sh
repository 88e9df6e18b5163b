#!/usr/bin/env bash
# The long comparison with the naive oracles: 100 million operations over six kinds of maps and stores. Not in
# `make test`. SAPWOOD_OPS is the number for each test, SAPWOOD_SEED the first seed. `ci/diff.sh NAME…` runs other tests of
# the library instead, optimized as these.
. "$(dirname "$0")/lib.sh"
export SAPWOOD_OPS="${SAPWOOD_OPS:-17000000}"
chosen cargo test --locked --release -p sapwood --test all -- "${@:-differential::}" --show-output
