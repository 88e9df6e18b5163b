#!/usr/bin/env bash
# Named tests of the maps inside the kernel, optimized: `ci/kernel.sh PROGRAM NAME…`. For long
# runs; `ci/bpf.sh` runs all of these tests.
. "$(dirname "$0")/lib.sh"
[ $# -gt 1 ] || fail "usage: ci/kernel.sh PROGRAM NAME…"
bpf_tools || skip "BPF programs are built with $BPF_PACKAGES; see ci/packages.sh"
bpf_runs || skip "this kernel does not run the BPF programs, or this is not root"
bpf_ready
program=$1
shift
chosen cargo test --locked --release -p sapwood-bpf --features kernel --test "$program" -- "$@" --show-output
