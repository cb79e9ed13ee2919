#!/usr/bin/env bash
# Installs what is missing, builds everything and runs all tests. Arguments go to ctest.
set -eu
cd "$(dirname "$0")/.."
# The packaging tests build the library again inside other projects; ccache reuses the objects.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros
scripts/setup.sh python3-numpy ccache
cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DTAPEGRAD_BUILD_TESTS=ON -DTAPEGRAD_WERROR="${WERROR:-OFF}"
cmake --build build
export OMP_WAIT_POLICY=passive  # tests run in parallel, so idle threads must not spin
ctest --test-dir build --output-on-failure -j"$(nproc)" "$@"
