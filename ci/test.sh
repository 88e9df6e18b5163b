#!/usr/bin/env bash
# What CI runs: every check, in order, each with its time. `ci/test.sh NAME…` runs only those.
. "$(dirname "$0")/lib.sh"
# README.md names `make test` among its commands, and its commands are run by this.
[ -z "${SAPWOOD_INSIDE:-}" ] || { say "make test is running already"; exit 0; }
[ $# -gt 0 ] || set -- setup house fmt clippy doc unit bpf msrv loom shuttle miri asan tsan fuzz deny readme

# With both of these, no test of the libraries need run twice.
case " $* " in *" unit "*" asan "*) export CI_ONCE=1 ;; esac

# Seconds of processor time that all children have taken: what a step costs, however busy the machine is.
work() { awk '{ print int(($16 + $17) / 100) }' /proc/$$/stat 2>/dev/null || echo 0; }

passed=0 failed=0 skipped=0 table="" digest=""
logs=$TARGET/ci-logs
mkdir -p "$logs"
begin=$SECONDS
for step; do
    start=$SECONDS before=$(work)
    printf '\n===== %s\n' "$step"
    code=0
    "ci/$step.sh" </dev/null 2>&1 | tee "$logs/$step.log" || code=${PIPESTATUS[0]}
    case $code in
    0) result=passed passed=$((passed + 1)) ;;
    77) result=skipped skipped=$((skipped + 1)) ;;
    *)
        result=FAILED failed=$((failed + 1))
        # Said again at the end: of a long output, the end is what people see first.
        digest+=$(printf '\n===== what %s said (all of it is in %s)\n' "$step" "$logs/$step.log")$'\n'
        digest+=$(grep -nE -A 4 'panicked at|^error|FAILED|^failures:|ERROR: |SUMMARY: |signal:' "$logs/$step.log" | tail -n 60 || true)$'\n'
        digest+=$(tail -n 15 "$logs/$step.log")$'\n'
        ;;
    esac
    took=$((SECONDS - start))
    printf '===== %s: %s, %d s\n' "$step" "$result" "$took"
    table+=$(printf '  %-8s %-8s %5d s %9d s' "$step" "$result" "$took" "$(($(work) - before))")$'\n'
    # Without its tools, nothing that follows would mean anything.
    [ "$step:$result" != setup:FAILED ] || break
done
[ -z "$digest" ] || printf '%s' "$digest"
printf '\n  %-8s %-8s %7s %11s\n%s  %-8s %-8s %5d s %9d s\n' step result time processor "$table" all "" "$((SECONDS - begin))" "$(work)"
[ $skipped = 0 ] || say "$skipped skipped on this machine"
say "$passed passed, $failed failed"
[ $failed = 0 ]
