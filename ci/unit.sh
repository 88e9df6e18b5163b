#!/usr/bin/env bash
# All tests and all examples in the documentation, but the test programs of sapwood-bpf (see
# bpf.sh); then those of the core alone. The program and the benchmarks have their feature for BPF,
# if that can be built here.
. "$(dirname "$0")/lib.sh"
! bpf_tools || bpf_ready
folders=()
for folder in crates/* bench; do
    case " sapwood-bpf ${CI_ONCE:+$LIBRARIES} " in
    # In a run of all checks the address sanitizer has the libraries' test programs (asan.sh).
    *" ${folder#crates/} "*) ;;
    *) folders+=("$folder") ;;
    esac
done
# One choice of packages and features for all, here and in bpf.sh, so that each crate is compiled
# once.
# shellcheck disable=SC2046 # words
run cargo test --locked --no-fail-fast --workspace $(all_features) --lib --bins $(programs "${folders[@]}")
# shellcheck disable=SC2046
run cargo test --locked --no-fail-fast --workspace $(all_features) --doc
# Tests that are for the core alone.
run cargo test --locked -p sapwood-qsbr --no-default-features --tests
