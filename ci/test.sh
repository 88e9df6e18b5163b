#!/usr/bin/env bash
# What CI runs: every check, in order, each with its time. `ci/test.sh NAME…` runs only those.
. "$(dirname "$0")/lib.sh"
# README.md names `make test` among its commands, and its commands are run by this.
[ -z "${SAPWOOD_INSIDE:-}" ] || { say "make test is running already"; exit 0; }
[ $# -gt 0 ] || set -- setup house fmt clippy doc unit bpf msrv loom shuttle miri asan tsan fuzz deny package semver readme

# With both of these, no test program of the libraries need run twice.
case " $* " in *" unit "*" asan "*) ! x86_64_linux || export CI_ONCE=1 ;; esac

. ci/steps.sh
for name; do
    step "$name" "ci/$name.sh"
    # Without its tools, nothing that follows would mean anything.
    [ "$name:$result" != setup:FAILED ] || break
done
finish
