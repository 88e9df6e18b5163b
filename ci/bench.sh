#!/usr/bin/env bash
# The tests of the benchmarks: each engine gives the right answers to short lists of each suite, and
# records, tables and pictures have their shape.
. "$(dirname "$0")/lib.sh"
! bpf_tools || bpf_ready
# shellcheck disable=SC2046 # words
run cargo test --locked --no-fail-fast --workspace $(all_features) --bin sapwood-bench $(programs proof/bench)
