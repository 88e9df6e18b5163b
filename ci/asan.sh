#!/usr/bin/env bash
# Accesses outside an object or after its life, and leaks: the tests of the libraries, of live maps
# and of the C library under the address sanitizer.
. "$(dirname "$0")/lib.sh"
x86_64_linux || skip "the sanitizers run on x86_64 Linux here"
export SAPWOOD_OPS="${SAPWOOD_OPS:-5000}"
# Large values pass through the stack, which the sanitizer enlarges further.
export RUST_MIN_STACK=16777216
# A test of forbidden pages expects the signal itself.
export ASAN_OPTIONS="handle_segv=0:handle_sigbus=0" LSAN_OPTIONS="suppressions=$PWD/ci/lsan.txt"
# Sanitizers are an unstable option of a stable compiler. They see mappings only through libc.
export RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=address --cfg rustix_use_libc" CARGO_TARGET_DIR="$TARGET/asan"
# In builds with AVX the libraries use other loads. The tests run with those loads here, and without
# them in unit.sh.
if grep -qw avx2 /proc/cpuinfo && grep -qw bmi2 /proc/cpuinfo; then RUSTFLAGS+=" -Ctarget-cpu=x86-64-v3"; fi
packages=()
for crate in $LIBRARIES sapwood-live sapwood-capi; do packages+=(-p "$crate"); done
asan() { run cargo test --locked --target x86_64-unknown-linux-gnu "${packages[@]}" --features sapwood-qsbr/tokio --no-fail-fast "$@"; }
bad=0
# shellcheck disable=SC2086 # one word or none
asan --lib --test all --test threads --test processes -- ${SHOW:-} || bad=1
# Of the C library, the maps beside the oracles. The programs in C are run with gcc's sanitizers
# (capi.sh).
# shellcheck disable=SC2086
asan --test capi -- oracle:: tables:: live:: ${SHOW:-} || bad=1
exit $bad
