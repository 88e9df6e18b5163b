#!/usr/bin/env bash
# Runs a test program for cargo, if it is one of those that RUN_PROGRAMS names (lib.sh: `tests`).
name=$(basename "$1")
case "$RUN_PROGRAMS " in
*" ${name%-*} "*) exec "$@" ;;
esac
