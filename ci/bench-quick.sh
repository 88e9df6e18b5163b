#!/usr/bin/env bash
# The shortest runs of the benchmarks. They prove that every engine gives the right answers, not how
# fast it is.
. "$(dirname "$0")/lib.sh"
# SUITE:CASES runs only these cases of a suite.
go_ready || say "There is no Go $GO_OLDEST or newer: the suite go ends with an error; see ci/setup.sh."
for run in ${*:-names names:threads versions routes cache ranges live sync lists go c bpf}; do
    suite=${run%%:*} cases=() features=()
    if [ "$run" != "$suite" ]; then cases=(--cases "${run#*:}"); fi
    if [ "$suite" = bpf ] && bpf_tools; then features=(--features bpf); fi
    if [ "$suite" = sync ] && etcd_tools; then features=(--features etcd); fi
    csv=$TARGET/bench-quick/${run/:/-}.csv
    run cargo run --locked --release -p sapwood-bench "${features[@]}" -- "$suite" --quick "${cases[@]}" --csv "$csv"
    say "$run: $(($(grep -vc '^#' "$csv") - 1)) results"
done
# The same runs, built for this processor: it then uses other loads of labels and tags.
export RUSTFLAGS="-Ctarget-cpu=native" CARGO_TARGET_DIR="$TARGET/native"
run cargo run --locked --release -p sapwood-bench -- names --quick --cases kallsyms
