#!/usr/bin/env bash
# The benchmarks' shortest runs: they prove that every engine gives the right answers, not how fast it is.
. "$(dirname "$0")/lib.sh"
for suite in ${*:-names versions routes cache ranges}; do
    run cargo run --locked --release -p sapwood-bench -- "$suite" --quick
done
