#!/usr/bin/env bash
# The benchmarks' shortest runs: they prove that every engine gives the right answers, not how
# fast it is.
. "$(dirname "$0")/lib.sh"
# SUITE:CASES runs these cases of a suite alone.
for run in ${*:-names names:threads versions routes cache ranges bpf}; do
    suite=${run%%:*} cases=() features=()
    if [ "$run" != "$suite" ]; then cases=(--cases "${run#*:}"); fi
    if [ "$suite" = bpf ] && bpf_tools; then features=(--features bpf); fi
    csv=$TARGET/bench-quick/${run/:/-}.csv
    run cargo run --locked --release -p sapwood-bench "${features[@]}" -- "$suite" --quick "${cases[@]}" --csv "$csv"
    say "$run: $(($(grep -vc '^#' "$csv") - 1)) results"
done
# The same built for this processor: loads of labels and tags are others then.
export RUSTFLAGS="-Ctarget-cpu=native" CARGO_TARGET_DIR="$TARGET/native"
run cargo run --locked --release -p sapwood-bench -- names --quick --cases kallsyms
