# Functions for run.sh and prove.sh: they run steps, time each, and end with a table of the steps.
# Not a program.

logs=$TARGET/ci-logs
mkdir -p "$logs"
passed=0 failed=0 skipped=0 table="" digest=""

# Processor time of all children of a process so far, in seconds: the cost of a step, however busy
# the machine is.
work() { awk '{ print int(($16 + $17) / 100) }' "/proc/${1:-$$}/stat" 2>/dev/null || echo 0; }

# In CI a step that hangs ends and has failed after this: it must not take the time of the whole
# run.
limit=()
[ -z "${CI:-}" ] || limit=(timeout --verbose --kill-after=30 "${STEP_LIMIT:-1800}")

# Runs a command as a step. Sets: result, took (seconds), log (a file with the complete output).
step() { # name, command...
    local name=$1 start=$SECONDS before code=0
    shift
    before=$(work)
    log=$logs/$name.log
    printf '\n===== %s\n' "$name"
    "${limit[@]}" "$@" </dev/null 2>&1 | tee "$log" || code=${PIPESTATUS[0]}
    conclude "$name" "$code" "$((SECONDS - start))" "$(($(work) - before))"
}

# Begins a step that mostly waits, beside the next ones. There is one of these at a time. Its
# processor time counts in its own line, and in that of the step during which it ends.
begin() { # name, command...
    join
    beside=$1
    shift
    printf '\n===== %s begins\n' "$beside"
    export -f work
    # In a session of its own: no terminal stops it, and it ends with this script.
    # shellcheck disable=SC2016 # the words of the other shell
    setsid env --default-signal=INT,QUIT bash -c '
        "${@:2}" </dev/null >"$1.log" 2>&1
        code=$?
        echo "$SECONDS $(work)" >"$1.end"
        exit $code' bash "$logs/$beside" "${limit[@]}" "$@" &
    beside_pid=$!
    trap '[ -z "$beside" ] || kill -- "-$beside_pid"' EXIT
}

# Ends the step that was begun, if any, and shows its output.
join() {
    [ -n "${beside:-}" ] || return 0
    local name=$beside code=0 used
    beside="" log=$logs/$name.log
    wait "$beside_pid" || code=$?
    printf '\n===== %s\n' "$name"
    cat "$log"
    read -r took used <"$logs/$name.end"
    conclude "$name" "$code" "$took" "$used"
}

# Counts a step, and shows its result.
conclude() { # name, exit code, seconds, seconds of processor time
    case $2 in
    0) result=passed passed=$((passed + 1)) ;;
    77) result=skipped skipped=$((skipped + 1)) ;;
    *) result=FAILED failed=$((failed + 1)) && dig "$1" ;;
    esac
    took=$3
    printf '===== %s: %s, %d s\n' "$1" "$result" "$took"
    table+=$(printf '  %-12s %-8s %5d s %9d s' "$1" "$result" "$took" "$4")$'\n'
}

# Keeps the errors of a failed step, to print them again at the end: people see the end of a long
# output first.
dig() { # name
    digest+=$(printf '\n===== errors of %s (the complete output is in %s)\n' "$1" "$log")$'\n'
    digest+=$(grep -nE -A 4 'panicked at|^error|FAILED|^failures:|ERROR: |SUMMARY: |signal:' "$log" | tail -n 60 || true)$'\n'
    digest+=$(tail -n 15 "$log")$'\n'
}

# Prints the table; fails if a step failed.
finish() {
    printf '%s' "$digest"
    printf '\n  %-12s %-8s %7s %11s\n%s  %-12s %-8s %5d s %9d s\n' step result time processor "$table" all "" "$SECONDS" "$(work)"
    [ $skipped = 0 ] || say "$skipped skipped on this machine"
    say "$passed passed, $failed failed"
    [ $failed = 0 ]
}
