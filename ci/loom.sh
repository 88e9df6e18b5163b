#!/usr/bin/env bash
# The protocols of quiescent states and of locks under every order of its memory accesses (up to a
# number of preemptions).
. "$(dirname "$0")/lib.sh"
export RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR="$TARGET/loom"
# Schedules are many, but short: compiling takes longer than running.
export CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_DEBUG=0
# Loom says how many executions of a model there were.
export LOOM_MAX_PREEMPTIONS="${LOOM_MAX_PREEMPTIONS:-2}" LOOM_LOG=loom::model=info
# The locks in the branches of the shared map are models, too.
# shellcheck disable=SC2086 # one word or none
chosen cargo test --locked --lib -p sapwood-qsbr -p sapwood --release -- models:: ${SHOW:-}
