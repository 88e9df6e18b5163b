#!/usr/bin/env bash
# The protocol of quiescent states under every order of its memory accesses (up to a number of preemptions).
. "$(dirname "$0")/lib.sh"
export RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR="$TARGET/loom"
export LOOM_MAX_PREEMPTIONS="${LOOM_MAX_PREEMPTIONS:-2}"
run cargo test --locked --lib -p sapwood-qsbr --release
