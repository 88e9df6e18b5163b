#!/usr/bin/env bash
# The checks of CI, in order, each with its time. `ci/test.sh NAME…` runs only the named ones.
. "$(dirname "$0")/lib.sh"
# README.md has `make test` among its commands, and readme.sh runs them.
[ -z "${SAPWOOD_INSIDE:-}" ] || { say "make test is running already"; exit 0; }
[ $# -gt 0 ] || set -- setup house fmt clippy doc unit sync msrv loom shuttle miri bpf capi installed python asan tsan fuzz deny package semver readme

# If both run, no test program of the libraries needs to run twice.
case " $* " in *" unit "*" asan "*) ! x86_64_linux || export CI_ONCE=1 ;; esac

. ci/steps.sh
for name; do
    case $name in
    # Two minutes of faults need little of the processors. The steps that may run beside them need
    # those, and measure no time; they come next.
    sync) begin sync ci/sync.sh && continue ;;
    msrv | loom | shuttle | miri) ;;
    *) join ;;
    esac
    step "$name" "ci/$name.sh"
    # Without the tools of the setup, the other checks would be meaningless.
    [ "$name:$result" != setup:FAILED ] || break
done
join
finish
