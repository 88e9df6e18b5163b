#!/usr/bin/env bash
# The tests that unit.sh, capi.sh and bpf.sh leave out: 20,000 maps in one process, programs in C
# under valgrind and with the sanitizers of gcc, damaged windows, what waits long in the kernel, and
# all BPF programs at all levels of optimization, also by other compilers.
. "$(dirname "$0")/lib.sh"
has valgrind || say "valgrind is not installed: what runs under it is skipped (ci/packages.sh)."
if ! bpf_tools; then
    # shellcheck disable=SC2046,SC2086 # words
    chosen tests $(programs doors/c) --test space -- $HEAVY_ANYWHERE
    skip "BPF programs are built with $BPF_PACKAGES; see ci/packages.sh"
fi
bpf_ready
clangs_ready
# shellcheck disable=SC2046,SC2086 # words
chosen tests $(programs kernel/bpf kernel/xdp doors/c) --test space -- $HEAVY
