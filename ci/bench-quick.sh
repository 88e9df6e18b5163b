#!/usr/bin/env bash
# The benchmarks' shortest runs: they prove that every engine gives the right answers, not how
# fast it is.
. "$(dirname "$0")/lib.sh"
for suite in ${*:-names versions routes cache ranges bpf}; do
    features=()
    if [ "$suite" = bpf ] && bpf_tools; then features=(--features bpf); fi
    csv=$TARGET/bench-quick/$suite.csv
    run cargo run --locked --release -p sapwood-bench "${features[@]}" -- "$suite" --quick --csv "$csv"
    say "$suite: $(($(grep -vc '^#' "$csv") - 1)) results"
done
