#!/usr/bin/env bash
# The maps inside the kernel: the headers as C in user space and as BPF, programs under the verifier, real packets between network
# namespaces. Where the kernel can run them, a test that was skipped is a failure.
. "$(dirname "$0")/lib.sh"
bpf_tools || skip "BPF programs are built with $BPF_PACKAGES; see ci/packages.sh"
can_run() {
    [ "$(id -u)" = 0 ] && [ -e /sys/kernel/btf/vmlinux ] &&
        printf '6.9\n%s\n' "$(uname -r | grep -oE '^[0-9]+\.[0-9]+')" | sort -V -C
}
if can_run && ! grep -q ' /sys/fs/bpf bpf ' /proc/mounts; then
    run mount -t bpf bpf /sys/fs/bpf || say "no BPF file system under /sys/fs/bpf"
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
bad=0
bpf() { run cargo test --locked --no-fail-fast "$@" -- --nocapture 2>&1 | tee -a "$log" || bad=1; }
bpf -p sapwood-bpf --features kernel
bpf -p sapwood-cli --features bpf --test bpf --test bpf_route
bpf -p sapwood-bench --features bpf bpf
if can_run && grep -n 'skipped: ' "$log"; then
    fail "This kernel can run BPF programs, but tests were skipped."
fi
exit $bad
