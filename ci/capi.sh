#!/usr/bin/env bash
# The C library: its header, programs in C and C++ that use it (plain, under valgrind, with the
# sanitizers of gcc), and the maps against the oracles through the C functions.
. "$(dirname "$0")/lib.sh"
[ "$(uname -s)" = Linux ] || skip "the C library is linked with the linker of Linux here"
has cc && has c++ || skip "C and C++ compilers are missing; see ci/packages.sh"
has valgrind || say "valgrind is not installed: what runs under it is skipped (ci/packages.sh)."
# The choice of packages and features is that of unit.sh, so that no crate is compiled twice.
# shellcheck disable=SC2046 # words
run cargo test --locked --no-fail-fast --workspace $(all_features) $(programs crates/sapwood-capi) -- ${SHOW:-}
