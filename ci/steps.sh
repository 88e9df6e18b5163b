# Read by test.sh and prove.sh: runs steps, each with its time, and ends with a table of them. Not
# a program.

logs=$TARGET/ci-logs
mkdir -p "$logs"
passed=0 failed=0 skipped=0 table="" digest=""

# Seconds of processor time that all children have taken: what a step costs, however busy the
# machine is.
work() { awk '{ print int(($16 + $17) / 100) }' /proc/$$/stat 2>/dev/null || echo 0; }

# Runs a command as a step. Leaves behind: result, took (seconds), log (a file with all that the
# command printed).
step() { # name, command...
    local name=$1 start=$SECONDS before code=0
    shift
    before=$(work)
    log=$logs/$name.log
    printf '\n===== %s\n' "$name"
    "$@" </dev/null 2>&1 | tee "$log" || code=${PIPESTATUS[0]}
    case $code in
    0) result=passed passed=$((passed + 1)) ;;
    77) result=skipped skipped=$((skipped + 1)) ;;
    *) result=FAILED failed=$((failed + 1)) && dig "$name" ;;
    esac
    took=$((SECONDS - start))
    printf '===== %s: %s, %d s\n' "$name" "$result" "$took"
    table+=$(printf '  %-12s %-8s %5d s %9d s' "$name" "$result" "$took" "$(($(work) - before))")$'\n'
}

# Keeps what a failed step said, to say it again at the end: of a long output, the end is what
# people see first.
dig() { # name
    digest+=$(printf '\n===== what %s said (all of it is in %s)\n' "$1" "$log")$'\n'
    digest+=$(grep -nE -A 4 'panicked at|^error|FAILED|^failures:|ERROR: |SUMMARY: |signal:' "$log" | tail -n 60 || true)$'\n'
    digest+=$(tail -n 15 "$log")$'\n'
}

# Prints the table; fails if a step has failed.
finish() {
    printf '%s' "$digest"
    printf '\n  %-12s %-8s %7s %11s\n%s  %-12s %-8s %5d s %9d s\n' step result time processor "$table" all "" "$SECONDS" "$(work)"
    [ $skipped = 0 ] || say "$skipped skipped on this machine"
    say "$passed passed, $failed failed"
    [ $failed = 0 ]
}
