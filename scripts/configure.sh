# Sourced by demo.sh and test.sh, so that both build the same objects with the same commands, and
# each reuses the objects of the other.

# The packaging tests build the library as a part of other projects: they reuse its objects.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
export CCACHE_SLOPPINESS=${CCACHE_SLOPPINESS:-pch_defines,time_macros}

# configure [-DNAME=VALUE...]: configures build/. A later call keeps the options of an earlier one. A
# new build folder has the CUDA backend only on a machine with a GPU; -DTAPEGRAD_CUDA=AUTO adds the
# backend if a toolkit is found.
configure() {
  local options=()
  [ -e build/CMakeCache.txt ] || nvidia-smi -L >/dev/null 2>&1 || options=(-DTAPEGRAD_CUDA=OFF)
  cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DTAPEGRAD_BUILD_TESTS=ON \
    "${options[@]}" "$@"
}
