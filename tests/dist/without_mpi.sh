#!/usr/bin/env bash
# Under a launcher without the module of MPI, a program says what is missing; alone it runs:
# without_mpi.sh PROGRAM
set -eu
export TAPEGRAD_MPI_MODULE=/nowhere/libtapegrad_mpi.so
"$1" alone | grep -Fx "alone: 1 ranks"
if OMPI_COMM_WORLD_SIZE=4 "$1" init >log_without_mpi 2>&1; then exit 1; fi
grep -F "install libopenmpi-dev" -i log_without_mpi
