#!/usr/bin/env bash
# Runs the checks on three hosts, which are network namespaces of this machine, by the commands of
# docs/scale_out.md for several machines; then disconnects a host: hosts.sh PROGRAM
set -eu
here=$(cd "$(dirname "$0")" && pwd)
[ -n "${HOSTS:-}" ] || exec "$here/on_hosts.sh" "$0" "$@"
. "$here/mpirun.sh"
program=$1
export OMPI_MCA_btl=self,vader,tcp OMPI_MCA_plm_rsh_agent=$HOSTS/rsh
# Seconds for a run. On a busy machine, the checks of five ranks take more than a minute. A rank that
# waits for ever is told apart by the ranks themselves, whose deadline is shorter.
limit=240
export TAPEGRAD_DIST_TIMEOUT=60

# by_tcp RANKS ARGUMENTS...: starts rank r on host r modulo 3.
by_tcp() {
  local ranks=$1 status=0 started=()
  shift
  for ((r = 0; r < ranks; ++r)); do
    timeout -k 5 $limit "$HOSTS/rsh" node$((r % 3 + 1)) "RANK=$r WORLD_SIZE=$ranks LOCAL_RANK=$((r / 3)) \
      MASTER_ADDR=node1 MASTER_PORT=29500 $program $*" &
    started+=($!)
  done
  for process in "${started[@]}"; do wait "$process" || status=$?; done
  return $status
}
by_open_mpi() { timeout -k 5 $limit mpirun --hostfile "$HOSTS/hostfile" --map-by node -n "$1" "$program" "${@:2}"; }
# PBS writes a line for each slot.
by_pbs() {
  sed -n 's/ slots=2//; p; p' "$HOSTS/hostfile" >"$HOSTS/pbs"
  timeout -k 5 $limit mpirun --hostfile "$HOSTS/pbs" --map-by node -n "$1" "$program" "${@:2}"
}
# Hosts of one machine would use its memory instead of the network.
by_mpich() {
  sed 's/ slots=2//' "$HOSTS/hostfile" >"$HOSTS/mpich"
  UCX_TLS=tcp,self UCX_NET_DEVICES=eth0 TAPEGRAD_MPI_MODULE=$MPICH_MODULE timeout -k 5 $limit mpirun.mpich -f "$HOSTS/mpich" -launcher rsh \
    -launcher-exec "$HOSTS/rsh" -n "$1" "$program" "${@:2}"
}
launchers=(by_tcp)
mpirun --version 2>&1 | grep -q 'Open MPI' && launchers+=(by_open_mpi by_pbs)
[ -n "${MPICH_MODULE:-}" ] && launchers+=(by_mpich)

# MPI_Finalize() of MPICH 4.0.2 hangs now and then with UCX over TCP: a rank waits for UCX to disconnect
# it, and the others, which would have to answer, wait in a barrier of PMI
# (github.com/pmodels/mpich/pull/6596). The deadline of the ranks ends them after the checks.
hung_at_the_end() {
  [ "$1" = by_mpich ] && [ "$2" -eq 75 ] && grep -q ": the other ranks did not end" "$HOSTS/log"
}

for launcher in "${launchers[@]}"; do
  for ranks in 2 5; do
    [ "$launcher $ranks" = "by_pbs 2" ] && continue
    status=0 begin=$SECONDS
    $launcher $ranks checks >"$HOSTS/log" 2>&1 || status=$?
    echo "$launcher, $ranks ranks: status $status after $((SECONDS - begin)) s"
    if hung_at_the_end $launcher $status; then
      echo "MPI_Finalize() of MPICH hung; the ranks ended at their deadline"
      status=0
    fi
    if [ $status -ne 0 ] || ! grep -Fx "checks: $ranks ranks" "$HOSTS/log" ||
      ! grep -Fx "$((ranks < 3 ? ranks : 3)) hosts" "$HOSTS/log"; then
      [ $status -eq 124 ] && echo "ended after the limit of $limit s"
      cat "$HOSTS/log"
      exit 1
    fi
  done
done

# The link of the host of rank 1 goes down: all ranks end within the timeout and 5 s, and those that are
# still connected say who is missing. A launcher may wait longer for the lost host.
export TAPEGRAD_DIST_TIMEOUT=3
failures=0
now() { date +%s%N; }
for launcher in "${launchers[@]}"; do
  [ $launcher = by_pbs ] && continue
  rm -f "$HOSTS/run"*
  $launcher 3 fault cut 1 5 "$HOSTS/run" >"$HOSTS/log" 2>&1 &
  begin=$(now)
  until [ -e "$HOSTS/run.fault" ] || [ $(($(now) - begin)) -gt 30000000000 ]; do sleep 0.1; done
  fault=$(date -r "$HOSTS/run.fault" +%s%N)
  while pgrep -f "^$program fault" >/dev/null && [ $(($(now) - fault)) -lt 30000000000 ]; do
    sleep 0.1
  done
  milliseconds=$((($(now) - fault) / 1000000))
  "$HOSTS/rsh" node2 ip link set dev eth0 up
  problem=
  [ $milliseconds -gt 8500 ] && problem="took $milliseconds ms"
  for rank in 0 2; do
    grep -qE "rank $rank of 3: collective [0-9]+, .*arrived: 0, 2; missing: 1\$" "$HOSTS/log" ||
      problem="no line of rank $rank"
  done
  echo "$launcher, a host without a link: all ranks ended after $milliseconds ms${problem:+: $problem}"
  [ -z "$problem" ] || { cat "$HOSTS/log"; failures=$((failures + 1)); }
done
exit $((failures > 0))
