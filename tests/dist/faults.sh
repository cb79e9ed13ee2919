#!/usr/bin/env bash
# Lets one rank of a training run fail in drawn ways: faults.sh PROGRAM COUNT [SEED]. Each run must
# end within the timeout and 5 s with a status other than 0, leave no process, and tell what
# happened: a line names the rank, the collective and the ranks that arrived, or the error. The
# checkpoint that was written before can be read.
set -u
. "$(dirname "$0")/mpirun.sh"
program=$1 count=$2
RANDOM=${3:-1}
export TAPEGRAD_DIST_TIMEOUT=3
kinds=(kill stop throw uncaught exit quit return segv hang order shape batches disk)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
for ((i = 0; i < count; ++i)); do
  kind=${kinds[$((i % ${#kinds[@]}))]}
  ranks=$((2 + RANDOM % 3))
  rank=$((RANDOM % ranks)) step=$((RANDOM % 20))
  export TAPEGRAD_UNCAUGHT=
  [ $kind = uncaught ] && TAPEGRAD_UNCAUGHT=1
  # Without the flag, MPICH's mpirun ends the job in silence, with status 0.
  HYDRA_FLAGS=
  [ $kind = quit ] && HYDRA_FLAGS=-disable-auto-cleanup
  rm -rf "$work/run"
  mkdir "$work/run"
  LIMIT=60 run_ranks $ranks "$program" fault "$kind" "$rank" "$step" "$work/run/file" \
    >"$work/log" 2>&1
  status=$?
  end=$(date +%s%N) fault=$(date -r "$work/run/file.fault" +%s%N)
  milliseconds=$(((end - ${fault:-0}) / 1000000))
  case $kind in
    kill | segv) pattern="rank $rank with PID|exited|terminat|signal|rank $rank: the connection has ended" ;;
    quit) pattern="rank $rank with PID|exited|missing: $rank\$|rank $rank: the connection has ended" ;;
    stop | hang) pattern="rank [0-9] of $ranks: collective [0-9]+, .*(arrived: .*missing: $rank\$|all ranks arrived)" ;;
    throw | uncaught) pattern="rank $rank of $ranks: drawn error" ;;
    exit) pattern="rank $rank of $ranks: this rank ended" ;;
    return) pattern="rank $rank number [0-9]+, the end of the program" ;;
    order) pattern="rank $rank number [0-9]+, barrier of another order" ;;
    shape) pattern="rank $rank number [0-9]+, all_reduce of the loss \(float32, 9 elements\)" ;;
    batches) pattern="rank $rank number [0-9]+, (reduce_scatter \(mean\) of gradients|the end of)" ;;
    disk) pattern="rank $rank: save: cannot write $work/run/file.2.$rank-of-$ranks: File too large" ;;
  esac
  problem=
  [ $status -eq 0 ] && problem="status 0"
  if [ $kind = throw ] && [ "$(grep -c "drawn error" "$work/log")" != 1 ]; then
    problem="the error is not shown once"
  fi
  [ $milliseconds -gt 8500 ] && problem="took $milliseconds ms"
  grep -qE "$pattern" "$work/log" || problem="no line like: $pattern"
  [ "$("$program" read "$work/run/file" 2>&1 | head -1)" = "read: $step" ] || problem="the checkpoint"
  if pgrep -f "^$program fault" >/dev/null; then
    sleep 1
    pgrep -f "^$program fault" >/dev/null && problem="a process was left"
  fi
  echo "$kind of rank $rank of $ranks in step $step: status $status after $milliseconds ms${problem:+: $problem}"
  if [ -n "$problem" ]; then
    failures=$((failures + 1))
    cat "$work/log"
  fi
done
echo "$count faults, $failures failures"
[ $failures -eq 0 ]
