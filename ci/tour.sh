#!/usr/bin/env bash
# The tour with all its chapters; installs the packages for the chapter on the kernel, if it may.
. "$(dirname "$0")/lib.sh"
ci/packages.sh
features=()
if bpf_tools; then
    features=(--features bpf)
else
    say "Without $BPF_PACKAGES the tour omits the chapter on the kernel."
fi
run cargo run --locked --release -p sapwood-tour "${features[@]}" -- tour "$@"
