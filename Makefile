# Each target is a script in ci/ that can be run by itself, and says in its first lines what it proves.

# What CI runs: installs what is missing, then every check.
test:
	@ci/test.sh

# The proofs that are too long for CI; writes docs/proofs.md.
prove:
	@ci/prove.sh

# The tour with the chapter on the kernel; installs what that needs, as root.
tour:
	@ci/tour.sh

# Installs the C library and the program: DESTDIR, PREFIX (/usr/local), LIBDIR. With BPF=1 the
# program has the commands of `sapwood bpf`, and their units are installed, here and by `make deb`.
install:
	@cargo build --release -p sapwood-capi -p sapwood-cli $${BPF:+--features sapwood-cli/bpf}
	@packaging/install.sh

# The Debian packages, into target/debian.
deb:
	@cargo build --release -p sapwood-capi -p sapwood-cli $${BPF:+--features sapwood-cli/bpf}
	@packaging/deb.sh $${TARGET:-target}/debian

CHECKS = setup house fmt clippy doc unit sync bpf capi installed python msrv loom shuttle miri asan tsan fuzz deny package semver readme bench-quick diff
$(CHECKS):
	@ci/$@.sh

.PHONY: test prove tour install deb $(CHECKS)
