#!/usr/bin/env bash
# The tour with all its chapters: installs what the one on the kernel needs, if it may.
. "$(dirname "$0")/lib.sh"
ci/packages.sh
features=()
if bpf_tools; then
    features=(--features bpf)
else
    say "Without $BPF_PACKAGES the tour leaves the kernel out."
fi
run cargo run --locked --release -p sapwood-tour "${features[@]}" -- tour "$@"
