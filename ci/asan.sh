#!/usr/bin/env bash
# Accesses outside and after the life of an object, and leaks: the address sanitizer under the libraries' tests.
. "$(dirname "$0")/lib.sh"
x86_64_linux || skip "the sanitizers run on x86_64 Linux here"
export SAPWOOD_OPS="${SAPWOOD_OPS:-5000}"
# Large values pass through the stack, which the sanitizer makes larger still.
export RUST_MIN_STACK=16777216
# A test of forbidden pages wants to see the signal itself.
export ASAN_OPTIONS="handle_segv=0:handle_sigbus=0" LSAN_OPTIONS="suppressions=$PWD/ci/lsan.txt"
# Sanitizers are an unstable option of a stable compiler; they know of mappings what they see in libc.
export RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=address --cfg rustix_use_libc" CARGO_TARGET_DIR="$TARGET/asan"
# Not those that ask the maps the same questions again, and not those that only a scheduler of threads runs.
run cargo test --locked --target x86_64-unknown-linux-gnu -p sapwood -p sapwood-arena -p sapwood-qsbr --lib --no-fail-fast \
    --test differential --test batches --test drops --test full --test garbage --test unwinding --test compaction \
    --test versions --test '*threads' --test shared --test lpm --test maple --test bitfile --test 'route_[ct]*' \
    --test damage --test files --test protect --test stress --test domain
