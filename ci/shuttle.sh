#!/usr/bin/env bash
# The maps and the route cache under threads whose interleaving a scheduler chooses: every pair of
# operations, and more threads at random. SHUTTLE_RUNS lengthens it.
. "$(dirname "$0")/lib.sh"
export RUSTFLAGS="--cfg shuttle" CARGO_TARGET_DIR="$TARGET/shuttle"
# There are many schedules, but short ones: compiling takes longer than running.
export CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_DEBUG=0
# shellcheck disable=SC2086 # one word or none
chosen cargo test --locked -p sapwood --test shuttle --release -- shared:: store:: lpm:: maple:: route:: ${SHOW:-}
# The point index: keys that one thread looks up while another moves them.
chosen cargo test --locked -p sapwood-qp --lib --release -- schedules::
