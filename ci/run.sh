#!/usr/bin/env bash
# Runs steps of CI in order and ends with a table of their times. `ci/run.sh test` is `make test`,
# `ci/run.sh check` is `make check`, both together are CI; `ci/run.sh NAME…` runs the named steps.
. "$(dirname "$0")/lib.sh"
# README.md has `make test` among its commands, and readme.sh runs them.
[ -z "${SAPWOOD_INSIDE:-}" ] || { say "make test is running already"; exit 0; }

# What a change can break, in twelve minutes on two cores. It needs few packages.
TEST="setup house fmt clippy python unit capi bpf go"
# The rest: other builds (sanitizers, models, Miri, releases, other compilers), and other servers.
CHECK="setup-check lints heavy arm64 services bench doc sync msrv loom shuttle miri asan tsan fuzz installed readme deny package semver"

[ $# -gt 0 ] || set -- test check
steps=()
for name; do
    case $name in
    # shellcheck disable=SC2206 # words
    test) steps+=($TEST) ;;
    # shellcheck disable=SC2206
    check) steps+=($CHECK) ;;
    *) steps+=("$name") ;;
    esac
done

export ONE_BUILD=1
. ci/steps.sh
for name in "${steps[@]}"; do
    case $name in
    # Python waits for its packages, and then for cargo's lock, until unit.sh has compiled; two
    # minutes of faults need little of the processors. The steps that may run beside them measure no
    # time; they come next.
    python | sync) begin "$name" "ci/$name.sh" && continue ;;
    unit | capi | bpf | go | msrv | loom | shuttle | miri) ;;
    *) join ;;
    esac
    case $name in
    setup) step setup ci/setup.sh test ;;
    setup-check) step setup-check ci/setup.sh check ;;
    *) step "$name" "ci/$name.sh" ;;
    esac
    # Without the tools of the setup, the other steps would be meaningless.
    case $name:$result in setup*:FAILED) break ;; esac
done
join
finish
