#!/usr/bin/env bash
# Accesses outside and after the life of an object, and leaks: the address sanitizer under the
# libraries' tests.
. "$(dirname "$0")/lib.sh"
x86_64_linux || skip "the sanitizers run on x86_64 Linux here"
export SAPWOOD_OPS="${SAPWOOD_OPS:-5000}"
# Large values pass through the stack, which the sanitizer makes larger still.
export RUST_MIN_STACK=16777216
# A test of forbidden pages wants to see the signal itself.
export ASAN_OPTIONS="handle_segv=0:handle_sigbus=0" LSAN_OPTIONS="suppressions=$PWD/ci/lsan.txt"
# Sanitizers are an unstable option of a stable compiler; they know of mappings what they see in
# libc.
export RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=address --cfg rustix_use_libc" CARGO_TARGET_DIR="$TARGET/asan"
# The libraries have loads of their own for builds with AVX: the tests run with those here, and
# without in unit.sh.
if grep -qw avx2 /proc/cpuinfo && grep -qw bmi2 /proc/cpuinfo; then RUSTFLAGS+=" -Ctarget-cpu=x86-64-v3"; fi
packages=()
for crate in $LIBRARIES; do packages+=(-p "$crate"); done
# shellcheck disable=SC2086 # one word or none
run cargo test --locked --target x86_64-unknown-linux-gnu "${packages[@]}" --features sapwood-qsbr/tokio --no-fail-fast \
    --lib --test all --test threads -- ${SHOW:-}
