#!/usr/bin/env bash
# Training that begins on four processes and continues on 1, 2 and 4 from the checkpoint: by fit(), with
# a whole optimizer and with sharded ones, and by a loop of its own: checkpoints.sh PROGRAM
set -eu
. "$(dirname "$0")/mpirun.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for stage in fit0 fit1 fit2 1 2; do
  mkdir "$work/$stage"
  run_ranks 4 "$1" train "$work/$stage/run" $stage >/dev/null
  for ranks in 1 2 4; do
    cp -r "$work/$stage" "$work/$stage-$ranks"
    run_ranks $ranks "$1" continue "$work/$stage-$ranks/run" $stage | grep -Fx "continue: $ranks ranks"
  done
done
