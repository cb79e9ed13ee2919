#!/usr/bin/env bash
# Lets one rank of a training run fail in drawn ways: faults.sh PROGRAM COUNT [SEED]. Each run must
# end within the timeout and 5 s with a status other than 0, leave no process, and tell what
# happened: a line names the rank, the collective and the ranks that arrived, or the error.
set -u
. "$(dirname "$0")/mpirun.sh"
program=$1 count=$2
RANDOM=${3:-1}
export TAPEGRAD_DIST_TIMEOUT=3
kinds=(kill stop throw uncaught exit quit return segv hang order shape batches)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
for ((i = 0; i < count; ++i)); do
  kind=${kinds[$((i % ${#kinds[@]}))]}
  ranks=$((2 + RANDOM % 3))
  rank=$((RANDOM % ranks)) step=$((RANDOM % 20))
  export TAPEGRAD_UNCAUGHT=
  [ $kind = uncaught ] && TAPEGRAD_UNCAUGHT=1
  begin=$(date +%s%N)
  LIMIT=30 run_ranks $ranks "$program" fault "$kind" "$rank" "$step" >"$work/log" 2>&1
  status=$?
  seconds=$((($(date +%s%N) - begin) / 1000000))
  case $kind in
    kill | quit | segv) pattern="rank $rank with PID|exited|terminat|signal" ;;
    stop | hang) pattern="rank [0-9] of $ranks: collective [0-9]+, .*(arrived: .*missing: $rank\$|all ranks arrived)" ;;
    throw) pattern="drawn error" ;;
    uncaught) pattern="rank $rank of $ranks: drawn error" ;;
    exit) pattern="rank $rank of $ranks: this rank ended" ;;
    return) pattern="rank $rank number [0-9]+, the end of the program" ;;
    order) pattern="rank $rank number [0-9]+, barrier of another order" ;;
    shape) pattern="rank $rank number [0-9]+, all_reduce of the loss \(float32, 9 elements\)" ;;
    batches) pattern="rank $rank number [0-9]+, (all_reduce \(mean\) of gradients|the end of)" ;;
  esac
  problem=
  [ $status -eq 0 ] && problem="status 0"
  [ $seconds -gt 8500 ] && problem="took $seconds ms"
  grep -qE "$pattern" "$work/log" || problem="no line like: $pattern"
  if pgrep -f "^$program fault" >/dev/null; then
    sleep 1
    pgrep -f "^$program fault" >/dev/null && problem="a process was left"
  fi
  echo "$kind of rank $rank of $ranks in step $step: status $status after $seconds ms${problem:+: $problem}"
  if [ -n "$problem" ]; then
    failures=$((failures + 1))
    cat "$work/log"
  fi
done
echo "$count faults, $failures failures"
[ $failures -eq 0 ]
