#!/usr/bin/env bash
# The long comparison with the naive oracles: 100 million operations over six kinds of maps and stores. Not in
# `make test`. SAPWOOD_OPS is the number for each test, SAPWOOD_SEED the first seed.
. "$(dirname "$0")/lib.sh"
export SAPWOOD_OPS="${SAPWOOD_OPS:-17000000}"
run cargo test --locked --release -p sapwood --test differential -- --nocapture
