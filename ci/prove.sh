#!/usr/bin/env bash
# The long proofs, which CI does not run: some hours. `ci/prove.sh NAME…` runs only the named ones.
#
# Each proof writes its row of docs/proofs.md (or of the file SAPWOOD_PROOFS): the date, the commit,
# the result, and the amount of work, read from the output of the proof. The rows of other proofs
# stay unchanged.
. "$(dirname "$0")/lib.sh"
record=${SAPWOOD_PROOFS:-docs/proofs.md}
all="differential writers mmap moves capi soak histories versions heirs program-heirs live full sync python windows shuttle loom tsan fuzz"
# shellcheck disable=SC2086 # names have no spaces
[ $# -gt 0 ] || set -- $all
for name; do
    case " $all " in *" $name "*) ;; *) fail "There is no proof \"$name\", but: $all" ;; esac
done

# The claim of each proof in one line.
shows() {
    case $1 in
    differential) echo "all kinds of maps and stores answer as the naive oracles do" ;;
    writers) echo "the maps for many writers, trie and index, answer as the naive oracles do" ;;
    mmap) echo "an address space on a range map is what an array of pages says, after every operation and beside two readers" ;;
    moves) echo "readers see a moved mapping in one place, never in both and never in none" ;;
    capi) echo "the maps answer as the naive oracles do through the C functions, and retire each pointer once" ;;
    soak) echo "random operations of four threads on a shared map leave what they must" ;;
    histories) echo "histories of four threads on shared maps and point maps are linearizable" ;;
    versions) echo "programs see whole commits of a store, and one version a run, beside a writer, and memory stays within its bounds all the time" ;;
    heirs) echo "what an owner had written when it was killed is there for its heir, and programs find it all the time" ;;
    program-heirs) echo "programs on all processors, in interrupts too, and user space change maps whose owners are killed every few seconds and have heirs: every value is right, every count is exact, and memory adds up" ;;
    live) echo "writers and readers of a live map are killed at random points: no version is torn, no commit that had returned is lost, and memory stays within its bounds" ;;
    full) echo "live maps on file systems of 2 MB and 64 MB that fill at random points: no signal, no wrong answer, nothing lost that was there, nothing left behind, and they go on when there is room" ;;
    sync) echo "publishers, followers and nodes of etcd are killed, paused, parted and slowed down: each follower shows the leader's versions in order and no others, and no acknowledged commit is lost" ;;
    python) echo "maps of Python keep what they hold, no more, and answer as a dict, ipaddress and a list of cells do" ;;
    windows) echo "the checked reader answers or says why not, and ends, in any damaged window of any kind" ;;
    shuttle) echo "any two operations, and more at random, give answers that some order of them explains, under schedules of shuttle" ;;
    loom) echo "the protocols of quiescent states and of branch locks hold in every execution within the preemptions" ;;
    tsan) echo "no data race" ;;
    fuzz) echo "no crash, hang or wrong answer in any fuzz target" ;;
    esac
}

# The command of a proof, with its length.
command_of() {
    case $1 in
    differential) echo "SAPWOOD_OPS=${DIFFERENTIAL_OPS:-3500000} ci/diff.sh" ;;
    writers) echo "SAPWOOD_OPS=${WRITERS_OPS:-34000000} ci/diff.sh all differential::shared_map differential::point_map" ;;
    mmap) echo "cargo run --locked --release -p sapwood --example mmap -- ${MMAP_OPS:-10000000}" ;;
    moves) echo "SAPWOOD_MOVES=${MOVES:-5000000} ci/diff.sh threads maple_txns" ;;
    capi) echo "SAPWOOD_OPS=${CAPI_OPS:-100000} SAPWOOD_ROUNDS=${CAPI_ROUNDS:-6} cargo test --locked --release -p sapwood-capi --test capi oracle:: -- --show-output" ;;
    soak) echo "SAPWOOD_SOAK=${SOAK_SECONDS:-600} ci/diff.sh threads histories::a_long_run" ;;
    histories) echo "SAPWOOD_ROUNDS=${HISTORY_ROUNDS:-1000} ci/diff.sh threads histories_are_linearizable" ;;
    versions) echo "SAPWOOD_SOAK=${VERSIONS_SECONDS:-600} ci/kernel.sh store programs_see_whole_commits" ;;
    heirs) echo "SAPWOOD_ROUNDS=${HEIRS_ROUNDS:-20} ci/kernel.sh attach owners_killed_while_they_write" ;;
    program-heirs) echo "SAPWOOD_SOAK=${PROGRAM_HEIRS_SECONDS:-600} ci/kernel.sh program_map the_owner_is_killed" ;;
    live) echo "SAPWOOD_ROUNDS=${LIVE_ROUNDS:-10000} cargo test --locked --release -p sapwood-live --test processes killed_at_random_points -- --show-output" ;;
    full) echo "SAPWOOD_ROUNDS=${FULL_ROUNDS:-1000} cargo test --locked --release -p sapwood-live --test processes full::a_file_system -- --show-output" ;;
    sync) echo "SAPWOOD_SOAK=${SYNC_SECONDS:-3600} ci/sync.sh" ;;
    python) echo "SAPWOOD_OPS=${PYTHON_OPS:-10000000} ci/python.sh" ;;
    windows) echo "SAPWOOD_OPS=${WINDOWS_OPS:-150000} ci/kernel.sh checked damaged_maps" ;;
    shuttle) echo "SHUTTLE_RUNS=${SHUTTLE_RUNS:-600} ci/shuttle.sh" ;;
    loom) echo "LOOM_MAX_PREEMPTIONS=${LOOM_MAX_PREEMPTIONS:-3} ci/loom.sh" ;;
    tsan) echo "SAPWOOD_OPS=${TSAN_OPS:-200000} ci/tsan.sh" ;;
    fuzz) echo "FUZZ_KERNEL=1 FUZZ_SECONDS=${FUZZ_SECONDS:-600} ci/fuzz.sh" ;;
    esac
}

# The amount of work, read from the output of the proof.
counts() { # name, output
    case $1 in
    differential | writers | mmap | capi | soak | python) sum "$2" '[0-9]+ operations' operations ;;
    moves) sum "$2" '[0-9]+ moves' moves ;;
    histories) sum "$2" '[0-9]+ histories' histories ;;
    versions) sum "$2" '[0-9]+ commits' commits && sum "$2" '[0-9]+ runs of programs' 'runs of programs' ;;
    heirs) sum "$2" '[0-9]+ owners killed' 'owners killed' && sum "$2" '[0-9]+ lookups by programs' lookups ;;
    program-heirs) sum "$2" '[0-9]+ owners killed' 'owners killed' && sum "$2" '[0-9]+ changes by programs' 'changes by programs' && sum "$2" '[0-9]+ changes by user space' 'changes by user space' ;;
    live) sum "$2" '[0-9]+ kills' kills && sum "$2" '[0-9]+ commits' commits ;;
    full) sum "$2" '[0-9]+ points at which' 'points at which a file system was full' ;;
    sync) sum "$2" '[0-9]+ faults' faults && sum "$2" '[0-9]+ commits' commits && sum "$2" '[0-9]+ versions applied' 'versions applied' && sum "$2" '[0-9]+ evictions' evictions ;;
    windows) sum "$2" '[0-9]+ damaged windows' windows ;;
    shuttle) sum "$2" '[0-9]+ schedules' schedules ;;
    loom) sum "$2" '[0-9]+ (executions|iterations)' executions ;;
    tsan) sum "$2" '[0-9]+ passed' tests && sum "$2" '[0-9]+ operations' operations ;;
    fuzz) sum "$2" 'number_of_executed_units: [0-9]+' executions ;;
    esac
}

# The sum of the numbers that match a pattern, with their unit; fails if there is none.
sum() { # output, pattern, what
    grep -oE "$2" "$1" | grep -oE '[0-9]+' | awk -v what="$3" '
        { n += $1 }
        END { if (n == 0) exit 1; printf "%d %s\n", n, what }
    ' | sed -E ':again; s/^([0-9]+)([0-9]{3})/\1,\2/; t again'
}

# Runs a proof, and writes the amount of work to a file. A proof whose counts cannot be read has
# failed.
prove() { # name, file
    local output code=0
    output=$(mktemp)
    # shellcheck disable=SC2046 # words
    run env SHOW=--show-output $(command_of "$1") 2>&1 | tee "$output" || code=${PIPESTATUS[0]}
    if [ "$code" = 0 ]; then
        counts "$1" "$output" | paste -sd ';' | sed 's/;/; /g' >"$2" || code=1
        if [ "$code" = 0 ]; then
            say "counted: $(cat "$2")"
        else
            say "FAILED: the output does not show the amount of work."
        fi
    fi
    rm -f "$output"
    return "$code"
}

# Writes the new record to another file and renames it: with a new row for one proof, and the former
# rows of the others.
write_record() { # name, row
    local name row
    mkdir -p "$(dirname "$record")"
    {
        cat <<'END'
# When the long proofs last ran

`make prove` runs the proofs that are too long for CI, and writes this page; `ci/prove.sh NAME…`
runs only those, and leaves the other rows as they are. A row says what was asked, of which commit
("+" with changes that are not committed), and how much was done, as counted from what the proof
printed.

| proof | what it shows | command | date | commit | result | done | seconds |
|---|---|---|---|---|---|---|---|
END
        for name in $all; do
            if [ "$name" = "${1:-}" ]; then
                row=$2
            else
                row=$(grep "^| $name |" "$record" 2>/dev/null | grep -v "| not run since" || true)
            fi
            [ -n "$row" ] || row="| $name | $(shows "$name") | \`$(command_of "$name")\` | | | not run since this record began | | |"
            say "$row"
        done
    } >"$record.new"
    mv "$record.new" "$record"
}

commit=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)
[ -z "$(git status --porcelain -- . ':!docs/proofs.md' 2>/dev/null)" ] || commit+=+

# Also writes the first record, with proofs that have not run.
write_record
. ci/steps.sh
limit=()
for name; do
    counted=$logs/$name.counts
    : >"$counted"
    step "$name" prove "$name" "$counted"
    # A step that this machine cannot run keeps the row of a machine that could.
    [ "$result" != skipped ] || continue
    write_record "$name" "| $name | $(shows "$name") | \`$(command_of "$name")\` | $(date -u +%F) | $commit | $result | $(cat "$counted") | $took |"
done
say "The record is in $record."
finish
