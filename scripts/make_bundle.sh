#!/usr/bin/env bash
# Makes tapegrad-gpu.tar.xz, with which scripts/gpu_check.sh runs on a machine that has only an
# NVIDIA driver and cuBLAS. The bundle can be unpacked in any folder.
#   scripts/make_bundle.sh [file]        builds in build-bundle
set -eu
cd "$(dirname "$0")/.."
out=$(realpath -m "${1:-tapegrad-gpu.tar.xz}")
build=${BUNDLE_BUILD:-build-bundle}
data=${DATA_DIR:-/usr/share/datasets/fashion-mnist}
images=2000  # of each of the two data sets

scripts/setup.sh xz-utils
# All programs share one copy of the library. RPATH instead of RUNPATH, since it also applies to the
# dependencies of libraries.
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DTAPEGRAD_CUDA=ON \
  -DBUILD_SHARED_LIBS=ON -DTAPEGRAD_NATIVE=OFF -DTAPEGRAD_BUILD_BENCHMARKS=ON \
  -DCMAKE_BUILD_WITH_INSTALL_RPATH=ON -DCMAKE_INSTALL_RPATH='$ORIGIN/../lib' \
  -DCMAKE_EXE_LINKER_FLAGS=-Wl,--disable-new-dtags \
  -DCMAKE_SHARED_LINKER_FLAGS=-Wl,--disable-new-dtags >/dev/null
examples=(bottleneck cartpole char_gpt custom_op lstm_lm mnist_cnn peaks precision quickstart resnet_cifar
          vae word2vec)
cmake --build "$build" --target gpu_test op_cases_test gpu tables dlbench tapegrad_tool \
  "${examples[@]/#/example_}"

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
bundle=$folder/tapegrad-gpu
mkdir -p "$bundle"/{bin,lib,data,scripts,peers}
programs=("$build"/{tests/gpu/gpu_test,tests/op_cases_test,benchmarks/{gpu,tables,dlbench},tools/tapegrad}
          "${examples[@]/#/$build/examples/}")
cp "${programs[@]}" "$bundle/bin"
# glibc's libraries must match the loader of the target machine. CUDA's libraries are loaded at run
# time.
LD_LIBRARY_PATH=$(realpath "$build") ldd "${programs[@]}" | awk '$3 ~ /^\// { print $3 }' | sort -u |
  grep -vE '/(libc|libm|libdl|librt|libpthread|ld-linux[^/]*)\.so|/libcu|/libnv' |
  xargs cp -L -t "$bundle/lib"
strip "$bundle"/bin/* "$bundle"/lib/*
cp scripts/gpu_check.sh "$bundle/scripts"
cp benchmarks/peers/torch_gpu.py "$bundle/peers"
cp docs/gpu_traffic.md "$bundle"
git rev-parse --short HEAD >"$bundle/COMMIT"

# shorten NAME HEADER ITEM: keeps the first images of an IDX file; HEADER and ITEM are sizes in
# bytes.
shorten() {
  {
    zcat "$data/$1.gz" | head -c 4
    printf '%b' "$(printf '\\x%02x\\x%02x\\x%02x\\x%02x' 0 0 $((images / 256)) $((images % 256)))"
    zcat "$data/$1.gz" | tail -c +9 | head -c $(($2 - 8 + images * $3))
  } | gzip -9 >"$bundle/data/$1.gz"
}
for set in train t10k; do
  shorten $set-images-idx3-ubyte 16 784
  shorten $set-labels-idx1-ubyte 8 1
done 2>/dev/null

tar -C "$folder" -cJf "$out" tapegrad-gpu
printf '%s: %.1f MB\n' "$out" "$(awk "BEGIN { print $(stat -c %s "$out") / 1e6 }")"
