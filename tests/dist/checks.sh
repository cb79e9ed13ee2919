#!/usr/bin/env bash
# Runs the checks on processes: checks.sh PROGRAM RANKS...
set -eu
. "$(dirname "$0")/mpirun.sh"
program=$1
shift
"$program" checks
for ranks in "$@"; do
  run_ranks "$ranks" "$program" checks | grep -Fx "checks: $ranks ranks"
done
