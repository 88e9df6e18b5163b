# Each target is a script in ci/ that can be run by itself, and says in its first lines what it proves.

# What a change can break: installs the little that is missing, then runs it.
test:
	@ci/run.sh test

# The rest of what CI runs: installs more.
check:
	@ci/run.sh check

# The proofs that are too long for CI; writes docs/proofs.md.
prove:
	@ci/prove.sh

# The tour with the chapter on the kernel; installs what that needs, as root.
tour:
	@ci/tour.sh

# Installs the C library and the program: DESTDIR, PREFIX (/usr/local), LIBDIR. With BPF=1, here and
# in `make deb`, the library has the functions of sapwood_bpf.h, the headers of BPF programs are
# installed, and the program has the commands of `sapwood bpf` with their units.
install:
	@cargo build --release -p sapwood-capi -p sapwood-cli $${BPF:+--features sapwood-cli/bpf,sapwood-capi/bpf}
	@packaging/install.sh

# The Debian packages, into target/debian.
deb:
	@cargo build --release -p sapwood-capi -p sapwood-cli $${BPF:+--features sapwood-cli/bpf,sapwood-capi/bpf}
	@packaging/deb.sh $${TARGET:-target}/debian

STEPS = setup house fmt clippy lints doc unit heavy arm64 bench services sync bpf capi go installed python msrv loom shuttle miri asan tsan fuzz deny package semver readme bench-quick diff
$(STEPS):
	@ci/$@.sh

.PHONY: test check prove tour install deb $(STEPS)
