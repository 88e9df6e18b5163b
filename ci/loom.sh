#!/usr/bin/env bash
# The protocols of quiescent states and of locks under every order of their memory accesses, up to a
# number of preemptions.
. "$(dirname "$0")/lib.sh"
export RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR="$TARGET/loom"
# There are many schedules, but short ones: compiling takes longer than running.
export CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_DEBUG=0
# Loom prints the number of executions of a model.
export LOOM_MAX_PREEMPTIONS="${LOOM_MAX_PREEMPTIONS:-2}" LOOM_LOG=loom::model=info
# The models also cover the locks in the branches of the shared map.
# shellcheck disable=SC2086 # one word or none
chosen cargo test --locked --lib -p sapwood-qsbr -p sapwood-qp --release -- models:: ${SHOW:-}
