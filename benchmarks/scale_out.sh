#!/usr/bin/env bash
# Measures what docs/scale_out.md says about speed, on an idle machine, in about 12 minutes:
#
#   PYTHON=/path/to/python-with-torch benchmarks/scale_out.sh [build] [measured]
#
# Writes the measurements of the scale model to the file `measured`, and prints the model's tables and
# the comparison with PyTorch (skipped if $PYTHON cannot import torch).
set -eu
cd "$(dirname "$0")/.."
build=${1:-build} measured=${2:-measured}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1
export OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_rmaps_base_oversubscribe=1
export OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive
program=$build/benchmarks/distributed
ranks() { mpirun --oversubscribe --bind-to none -n "$1" "$program" "${@:2}"; }
: >"$measured"
for round in 1 2; do
  for n in 2 4; do ranks $n --engine; done
  for network in keras_cnn gpt resnet18; do
    "$program" --schedule $network
    for n in 2 4; do
      ranks $n --alone $network
      ranks $n $network
    done
  done
done >>"$measured"
echo "== the scale model ($SECONDS s so far)"
python3 benchmarks/scale_model.py "$measured"
: "${PYTHON:=python3}"
if ! "$PYTHON" -c 'import torch' 2>/dev/null; then
  echo "== no comparison with PyTorch: $PYTHON has no torch"
  exit
fi
echo "== PyTorch with gloo ($SECONDS s so far)"
PYTHON=$PYTHON python3 benchmarks/distributed.py --build="$build" --rounds=3 --ranks=1,2,4 keras_cnn gpt resnet18
echo "== done after $SECONDS s"
