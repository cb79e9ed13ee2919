#!/usr/bin/env bash
# Trains the network of README.md on Fashion-MNIST for one epoch: installs missing packages, builds,
# trains. Arguments go to the trainer: scripts/demo.sh --epochs=5 --optimizer=adadelta
set -eu
cd "$(dirname "$0")/.."
. scripts/configure.sh
scripts/setup.sh
configure >build-configure.log 2>&1 || { cat build-configure.log; exit 1; }
rm -f build-configure.log
cmake --build build --target example_mnist_cnn
mkdir -p out
exec build/examples/mnist_cnn --net=keras --epochs=1 --out=out "$@"
