#!/usr/bin/env bash
# All tests and all examples in the documentation, except the test programs of sapwood-bpf and
# sapwood-capi (see bpf.sh and capi.sh), and those that need nodes of etcd (see services.sh); then
# the tests of the core alone. The program and the benchmarks have their feature for BPF, if it can
# be built here.
. "$(dirname "$0")/lib.sh"
! bpf_tools || bpf_ready
folders=()
for folder in crates/* bench; do
    case $folder in
    */sapwood-bpf | */sapwood-capi | */sapwood-sync) ;;
    *) folders+=("$folder") ;;
    esac
done
# One choice of packages and features for all tests, here, in bpf.sh, capi.sh and services.sh, so
# that each crate is compiled once.
# shellcheck disable=SC2046 # words
run cargo test --locked --no-fail-fast --workspace $(all_features) --lib --bins $(programs "${folders[@]}")
# shellcheck disable=SC2046
run cargo test --locked --no-fail-fast --workspace $(all_features) $(programs crates/sapwood-sync) -- \
    --skip etcd:: --skip faults:: --skip refusals::
# shellcheck disable=SC2046
run cargo test --locked --no-fail-fast --workspace $(all_features) --doc
# The tests of the core alone.
run cargo test --locked -p sapwood-qsbr --no-default-features --tests
