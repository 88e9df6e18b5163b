#!/usr/bin/env bash
# The Python module: `pip install` of the folder in a fresh environment, then its tests, with
# Hypothesis, doctests, the examples, and the stubs compared with the module. With SAPWOOD_OPS, the
# tests of leaks and the random tests are as long as that asks.
. "$(dirname "$0")/lib.sh"
python=${PYTHON:-python3}
"$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
    skip "there is no Python 3.11 or later with venv; see ci/packages.sh"
crate=doors/python
env=$TARGET/python-env
export PIP_DISABLE_PIP_VERSION_CHECK=1 CARGO_TARGET_DIR=$TARGET
[ -x "$env/bin/python" ] || run "$python" -m venv "$env"
# The packages are kept from run to run; the module is not.
run "$env/bin/pip" install -q --only-binary :all: -r $crate/tests/requirements.txt
run "$env/bin/pip" uninstall -q -y sapwood
# The environment's maturin builds the wheel, with the profile for tests.
PATH="$env/bin:$PATH" MATURIN_PEP517_ARGS="--profile dev --locked" \
    run "$env/bin/pip" install -q --no-build-isolation --no-deps ./$crate
# What writes live maps of the kinds that the module only reads.
run cargo build -q --profile test -p sapwood-live --example live_writer
export SAPWOOD_LIVE_WRITER=$TARGET/debug/examples/live_writer
cd $crate
# A test that hangs tells where, and fails.
limit=(-o faulthandler_timeout=600 -o faulthandler_exit_on_timeout=true)
[ -z "${SAPWOOD_OPS:-}" ] || limit=()
run "$env/bin/python" -m pytest -p no:cacheprovider --durations=5 "${limit[@]}" ${SHOW:+-s} tests
