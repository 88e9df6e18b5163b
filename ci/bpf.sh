#!/usr/bin/env bash
# The maps inside the kernel: the headers as C in user space and as BPF, programs under the
# verifier, and real packets between network namespaces. Where the kernel can run them, a skipped
# test is a failure.
. "$(dirname "$0")/lib.sh"
# shellcheck disable=SC2046,SC2207 # words
bpf=(tests $(programs kernel/bpf kernel/xdp))
if ! bpf_tools; then
    "${bpf[@]}"
    skip "BPF programs are built with $BPF_PACKAGES; see ci/packages.sh"
fi
bpf_ready
log=$(mktemp)
trap 'rm -f "$log"' EXIT
bad=0
# shellcheck disable=SC2046,SC2086
"${bpf[@]}" -- $(without $HEAVY) --nocapture 2>&1 | tee "$log" || bad=1
if bpf_runs && grep -n 'skipped: ' "$log"; then
    fail "This kernel can run BPF programs, but tests were skipped."
fi
exit $bad
