#!/usr/bin/env bash
# T76: the tapegrad command starts with the least address space that docs/robustness.md ("Known
# limits") gives for one thread: memory_limit.sh TAPEGRAD
set -eu
ulimit -v 256000
OMP_NUM_THREADS=1 timeout 60 "$1" --version >/dev/null
