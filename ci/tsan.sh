#!/usr/bin/env bash
# Data races: the libraries' tests with threads under the thread sanitizer, which also instruments
# the standard library.
. "$(dirname "$0")/lib.sh"
x86_64_linux || skip "the sanitizers run on x86_64 Linux here"
export SAPWOOD_OPS="${SAPWOOD_OPS:-5000}"
export RUST_MIN_STACK=16777216
# A test of forbidden pages expects the signal itself.
export TSAN_OPTIONS="handle_segv=0:handle_sigbus=0"
# System calls that bypass libc are hidden from the sanitizer. It would then take one thread's old
# pages for another thread's. Loads that the compiler cannot see into would hide races, so plain
# loads replace them.
export RUSTFLAGS="-Zsanitizer=thread --cfg rustix_use_libc --cfg sapwood_exact_loads" CARGO_TARGET_DIR="$TARGET/tsan"
# One choice of packages, so that nothing is compiled twice.
tsan() {
    # shellcheck disable=SC2086 # words
    chosen cargo "+$NIGHTLY" test --locked --no-fail-fast -Zbuild-std --target x86_64-unknown-linux-gnu \
        -p sapwood-arena -p sapwood-qsbr -p sapwood-common $STRUCTURES "$@"
}
# shellcheck disable=SC2086 # one word or none
tsan --test threads -- ${SHOW:-}
tsan --lib -- chunks:: sync:: readers_beside_the_owner index::tests::shared:: raw::slot:: flight:: thread:: ${SHOW:-}
# Users build without these flags. Then memory must still be mapped where the sanitizer allows it:
# it ends programs otherwise. Races are not looked for, as this standard library hides its locks.
export TSAN_OPTIONS="report_bugs=0"
export RUSTFLAGS="-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer --cfg rustix_use_libc" CARGO_TARGET_DIR="$TARGET/tsan-plain"
chosen cargo "+$NIGHTLY" test --locked --target x86_64-unknown-linux-gnu -p sapwood-arena --lib -- region::places ${SHOW:-}
