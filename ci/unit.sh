#!/usr/bin/env bash
# All tests and all examples in the documentation, except the test programs of sapwood-bpf and
# sapwood-capi (see bpf.sh and capi.sh), the benchmarks (see bench.sh), and what needs other servers
# (see services.sh and sync.sh); then the tests of the core alone. The program has its feature for
# BPF, if it can be built here. SAPWOOD_OPS is the number of operations in each comparison of the
# libraries with the oracles (ci/diff.sh makes long ones).
. "$(dirname "$0")/lib.sh"
! bpf_tools || bpf_ready
libraries=() folders=()
for folder in $CRATES; do
    case $folder in
    core/checked) folders+=("$folder") ;;
    core/*) libraries+=("$folder") ;;
    kernel/* | doors/c | services/sync | services/lists | program/cli) ;;
    *) folders+=("$folder") ;;
    esac
done
bad=0
# shellcheck disable=SC2046 # words
tests --lib --bin sapwood-tour $(programs "${folders[@]}") || bad=1
# shellcheck disable=SC2046,SC2086
SAPWOOD_OPS=${SAPWOOD_OPS:-10000} tests $(programs "${libraries[@]}") -- $(without $HEAVY) || bad=1
# shellcheck disable=SC2046,SC2086
tests $(programs services/sync services/lists program/cli) -- $(without $SERVICES $FAULTS) || bad=1
# shellcheck disable=SC2046
run cargo test --locked --no-fail-fast --workspace $(all_features) --doc || bad=1
# The tests of the core alone.
run cargo test --locked -p sapwood-qsbr --no-default-features --tests || bad=1
run cargo test --locked -p sapwood-vswitch --tests || bad=1
exit $bad
