#!/usr/bin/env bash
# T76: a program starts with the least address space that docs/robustness.md ("Known limits") gives
# for one thread: memory_limit.sh PROGRAM [ARGUMENT...]
set -eu
ulimit -v 256000
OMP_NUM_THREADS=1 timeout 60 "$@" >/dev/null
