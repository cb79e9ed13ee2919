#!/usr/bin/env bash
# Builds and runs the consumer: run.sh WAY SHARED SOURCE BUILD
#   WAY     find: from an installed prefix that was moved; subdirectory, fetch: from the sources
#   SHARED  ON or OFF
set -eu
way=$1 shared=$2 source=$3 build=$4
# ccache finds the objects of the build folder if the sources have the same relative paths. The
# library is therefore built in a sibling of the build folder, and by Make, which compiles in the
# folder of a subproject (Ninja compiles in that of the whole project).
work=$(mktemp -d "$(dirname "$build")/build-packaging.XXXXXX")
trap 'rm -rf "$work" "$work.library"' EXIT
options=(-G "Unix Makefiles" -DCMAKE_BUILD_TYPE=Release -DWAY="$way" -DBUILD_SHARED_LIBS="$shared")
launcher=$(sed -n 's/^CMAKE_CXX_COMPILER_LAUNCHER:[^=]*=//p' "$build/CMakeCache.txt")
[ -z "$launcher" ] && launcher=$(sed -n 's/^TAPEGRAD_CCACHE:[^=]*=\(.*ccache\)$/\1/p' "$build/CMakeCache.txt")
[ -n "$launcher" ] && options+=(-DCMAKE_CXX_COMPILER_LAUNCHER="$launcher")
compiler=$(sed -n 's/^CMAKE_CXX_COMPILER:[^=]*=//p' "$build/CMakeCache.txt")
options+=(-DCMAKE_CXX_COMPILER="$compiler")
if [ "$way" = find ]; then
  cmake --install "$build" --prefix "$work/first" >/dev/null
  mv "$work/first" "$work/moved"
  options+=(-DCMAKE_PREFIX_PATH="$work/moved")
else
  # Without CUDA, since nvcc would compile the backend again each time. This also tests a build
  # without CUDA.
  options+=(-DTAPEGRAD_SOURCE="$source" -DTAPEGRAD_BUILD="$work.library" -DTAPEGRAD_CUDA=OFF)
  options+=(-DTAPEGRAD_WERROR="$(sed -n 's/^TAPEGRAD_WERROR:[^=]*=//p' "$build/CMakeCache.txt")")
fi
cmake -S "$source/tests/packaging/consumer" -B "$work" "${options[@]}" >/dev/null
cmake --build "$work" --target consumer -j"$(nproc)" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
"$work/consumer"
if [ "$way" = find ]; then
  if grep -rnE '[";]/[a-z]' "$work"/moved/lib*/cmake/tapegrad/tapegradTargets*.cmake | grep -v cudart; then
    echo "absolute paths in the exported targets"
    exit 1
  fi
  # The same program without CMake, where there is a pkg-config.
  if command -v pkg-config >/dev/null; then
    PKG_CONFIG_PATH=$(dirname "$(find "$work/moved" -name tapegrad.pc)")
    export PKG_CONFIG_PATH
    consumer=$source/tests/packaging/consumer
    if [ "$shared" = ON ]; then
      libraries=$(pkg-config --libs tapegrad)
    else
      libraries=$(pkg-config --static --libs tapegrad | sed 's/-ltapegrad/-l:libtapegrad.a/')
    fi
    # shellcheck disable=SC2046,SC2086
    "$compiler" $(pkg-config --cflags tapegrad) -I"$consumer" "$consumer/main.cpp" -o "$work/by_pc" \
      $libraries
    LD_LIBRARY_PATH=$(pkg-config --variable=libdir tapegrad) "$work/by_pc"
  fi
fi
if [ "$shared" = ON ]; then
  ldd "$work/consumer" | grep -q libtapegrad
  library=$(find "$work"* -name 'libtapegrad.so.*.*.*' | head -1)
  strip -o "$work/stripped" "$library"
  size=$(stat -c %s "$work/stripped")
  echo "stripped shared library: $size bytes"
  limit=16200000  # the kernels of one instruction set: 15.9 MB
  [ "$way" = find ] && [ -f "$build/cpu_avx512.o" ] && limit=22300000  # has the kernels twice: 22.0 MB
  if readelf -S "$library" | grep -q nv_fatbin; then
    limit=50000000  # has machine code of GPU kernels; compressed: 22.2 MB
    grep -q -- --compress-mode=size "$build/build.ninja" && limit=22500000
  fi
  [ "$size" -lt "$limit" ] || { echo "over $limit bytes"; exit 1; }
fi
