#!/usr/bin/env bash
# Runs level_test on emulated processors: emulated.sh PROCESSOR LEVEL LEVEL_TEST [FILTER]
# Needs qemu-user 7.2 or newer for AVX2.
set -eu
processor=$1 level=$2 test=$3 filter=${4:-*}
command -v qemu-x86_64 >/dev/null || { echo "skipped: no qemu-x86_64 (Debian's qemu-user)"; exit 77; }
qemu-x86_64 -cpu help | grep -qw "$processor" || { echo "skipped: qemu does not know $processor"; exit 77; }
unset TAPEGRAD_CPU
OMP_NUM_THREADS=1 TAPEGRAD_TEST_LEVEL=$level qemu-x86_64 -cpu "$processor" "$test" --gtest_filter="$filter"
