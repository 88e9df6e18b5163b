#!/usr/bin/env bash
# The maps inside the kernel: the headers as C in user space and as BPF, programs under the verifier, real packets between network
# namespaces. Where the kernel can run them, a test that was skipped is a failure.
. "$(dirname "$0")/lib.sh"
if ! bpf_tools; then
    run cargo test --locked -p sapwood-bpf
    skip "BPF programs are built with $BPF_PACKAGES; see ci/packages.sh"
fi
bpf_ready
log=$(mktemp)
trap 'rm -f "$log"' EXIT
bad=0
run cargo test --locked --no-fail-fast -p sapwood-bpf --features kernel -- --nocapture 2>&1 | tee "$log" || bad=1
if bpf_runs && grep -n 'skipped: ' "$log"; then
    fail "This kernel can run BPF programs, but tests were skipped."
fi
exit $bad
