#!/usr/bin/env bash
# Trains the Keras CNN on Fashion-MNIST for one epoch: installs what is missing, builds, trains.
# Further arguments go to the trainer: scripts/demo.sh --epochs=5 --optimizer=adadelta
set -eu
cd "$(dirname "$0")/.."
scripts/setup.sh
cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DTAPEGRAD_BUILD_TESTS=OFF >build-configure.log 2>&1 ||
  { cat build-configure.log; exit 1; }
rm -f build-configure.log
cmake --build build --target example_mnist_cnn
mkdir -p out
exec build/examples/mnist_cnn --net=keras --epochs=1 --out=out "$@"
