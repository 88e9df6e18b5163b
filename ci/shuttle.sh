#!/usr/bin/env bash
# The maps and the route cache under threads whose interleaving a scheduler chooses: every pair of
# operations, and more threads at random. SHUTTLE_RUNS makes it longer.
. "$(dirname "$0")/lib.sh"
export RUSTFLAGS="--cfg shuttle" CARGO_TARGET_DIR="$TARGET/shuttle"
# Schedules are many, but short: compiling takes longer than running.
export CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_DEBUG=0
# shellcheck disable=SC2086 # one word or none
chosen cargo test --locked -p sapwood --test shuttle --release -- shared:: store:: lpm:: maple:: route:: ${SHOW:-}
# The point index: keys that are looked up while they are moved.
chosen cargo test --locked -p sapwood --lib --release -- schedules::
