#!/usr/bin/env bash
# The tests of the benchmarks: each engine gives the right answers to short lists of each suite, and
# records, tables, pictures and the page of records have their shape.
. "$(dirname "$0")/lib.sh"
! bpf_tools || bpf_ready
# The suite of the Go module asks for Go in the path.
go_ready || absent "There is no Go $GO_OLDEST or newer; see ci/setup.sh."
browser || say "skipped: what a browser makes of the page of records; Chromium is not installed"
# shellcheck disable=SC2046 # words
run cargo test --locked --no-fail-fast --workspace $(all_features) --bin sapwood-bench $(programs proof/bench)
