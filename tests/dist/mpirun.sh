# Sourced: run_ranks N COMMAND... runs a program by $MPIRUN (mpirun; "tcp": scripts/run_ranks.sh) on
# this machine, one thread per rank.
: "${MPIRUN:=mpirun}"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_btl_vader_single_copy_mechanism=none
export OMPI_MCA_btl=self,vader OMPI_MCA_pml=ob1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive

run_ranks() {
  local ranks=$1
  shift
  if [ "$MPIRUN" = tcp ]; then
    timeout -k 5 "${LIMIT:-120}" "$(dirname "${BASH_SOURCE[0]}")/../../scripts/run_ranks.sh" "$ranks" "$@"
  elif "$MPIRUN" --version 2>&1 | grep -q 'Open MPI'; then
    timeout -k 5 "${LIMIT:-120}" "$MPIRUN" --oversubscribe --bind-to none -n "$ranks" "$@"
  else
    timeout -k 5 "${LIMIT:-120}" "$MPIRUN" ${HYDRA_FLAGS:-} -n "$ranks" "$@"
  fi
}
