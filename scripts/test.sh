#!/usr/bin/env bash
# Installs missing packages, builds everything and runs the tests, except those of the CUDA stand-in
# (tests/cuda_on_host). Arguments go to ctest. WERROR=ON makes warnings errors; TAPEGRAD_CUDA=AUTO
# adds the CUDA backend if a toolkit is found.
set -eu
cd "$(dirname "$0")/.."
. scripts/configure.sh
scripts/setup.sh make python3-numpy libopenmpi-dev openmpi-bin
configure ${WERROR:+-DTAPEGRAD_WERROR="$WERROR"} ${TAPEGRAD_CUDA:+-DTAPEGRAD_CUDA="$TAPEGRAD_CUDA"}
cmake --build build
export OMP_WAIT_POLICY=passive  # tests run in parallel, so idle threads must not spin
ctest --test-dir build --output-on-failure -j$(($(nproc) + 1)) "$@"  # some tests wait
