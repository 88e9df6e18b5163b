# Each target is a script in ci/ that can be run by itself, and says in its first lines what it proves.

# What CI runs: installs what is missing, then every check.
test:
	@ci/test.sh

CHECKS = setup house fmt clippy doc unit msrv loom shuttle miri asan tsan fuzz deny readme bench-quick diff
$(CHECKS):
	@ci/$@.sh

.PHONY: test $(CHECKS)
