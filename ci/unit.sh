#!/usr/bin/env bash
# All tests and all examples in the documentation, except the test programs of sapwood-bpf and
# sapwood-capi (see bpf.sh and capi.sh); then the tests of the core alone. The program and the
# benchmarks have their feature for BPF, if it can be built here.
. "$(dirname "$0")/lib.sh"
! bpf_tools || bpf_ready
etcd_ready
folders=()
for folder in crates/* bench; do
    case " sapwood-bpf sapwood-capi ${CI_ONCE:+$LIBRARIES} " in
    # In a run of all checks, asan.sh runs the libraries' test programs with the address sanitizer.
    *" ${folder#crates/} "*) ;;
    *) folders+=("$folder") ;;
    esac
done
browser || say "skipped: what a browser makes of the page of \`sapwood report\`; Chromium is not installed"
# One choice of packages and features for all tests, here and in bpf.sh, so that each crate is
# compiled once.
# shellcheck disable=SC2046 # words
run cargo test --locked --no-fail-fast --workspace $(all_features) --lib --bins $(programs "${folders[@]}")
# shellcheck disable=SC2046
run cargo test --locked --no-fail-fast --workspace $(all_features) --doc
# The tests of the core alone.
run cargo test --locked -p sapwood-qsbr --no-default-features --tests
