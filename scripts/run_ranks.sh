#!/usr/bin/env bash
# Starts a program as several ranks on this machine, connected by TCP, where there is no mpirun:
#
#   scripts/run_ranks.sh 4 build/examples/mnist_cnn --distributed
#
# If a rank fails, the other ranks are killed one second later, so that they can report the error.
# Returns the status of the first rank that failed. Chooses a random MASTER_PORT unless it is set.
set -u
[ $# -ge 2 ] || { sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 2; }
ranks=$1
shift
: "${MASTER_PORT:=$((20000 + RANDOM % 10000))}"
export MASTER_PORT MASTER_ADDR=127.0.0.1 WORLD_SIZE=$ranks
declare -A rank_of  # of the processes that run
stop() { kill -KILL "${!rank_of[@]}" 2>/dev/null; }
trap 'stop; exit 143' TERM INT
for ((rank = 0; rank < ranks; ++rank)); do
  RANK=$rank LOCAL_RANK=$rank "$@" &
  rank_of[$!]=$rank
done
while [ ${#rank_of[@]} -gt 0 ]; do
  wait -n -p ended "${!rank_of[@]}"
  status=$?
  rank=${rank_of[$ended]}
  unset "rank_of[$ended]"
  [ $status -eq 0 ] && continue
  echo "run_ranks.sh: rank $rank ended with status $status" >&2
  [ ${#rank_of[@]} -gt 0 ] && sleep 1 && stop
  exit $status
done
