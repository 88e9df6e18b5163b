#!/usr/bin/env bash
# The C library: its header, programs in C and C++ that use it, and the maps against the oracles
# through the C functions.
. "$(dirname "$0")/lib.sh"
[ "$(uname -s)" = Linux ] || skip "the C library is linked with the linker of Linux here"
has cc && has c++ || skip "C and C++ compilers are missing; see ci/packages.sh"
# Its maps of BPF programs, where the kernel can run them.
! bpf_tools || bpf_ready
# shellcheck disable=SC2046,SC2086 # words
tests $(programs doors/c) -- $(without $HEAVY) ${SHOW:-}
