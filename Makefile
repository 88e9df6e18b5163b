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

CHECKS = setup house fmt clippy doc unit bpf python msrv loom shuttle miri asan tsan fuzz deny package semver readme bench-quick diff
$(CHECKS):
	@ci/$@.sh

.PHONY: test prove tour $(CHECKS)
