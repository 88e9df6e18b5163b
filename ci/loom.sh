#!/usr/bin/env bash
# The protocols of quiescent states and of locks under every order of its memory accesses (up to a number of preemptions).
. "$(dirname "$0")/lib.sh"
export RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR="$TARGET/loom"
# Schedules are many, but short: compiling takes longer than running.
export CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_DEBUG=0
export LOOM_MAX_PREEMPTIONS="${LOOM_MAX_PREEMPTIONS:-2}"
run cargo test --locked --lib -p sapwood-qsbr --release
# The locks in the branches of the shared map.
chosen cargo test --locked --lib -p sapwood --release -- models::
