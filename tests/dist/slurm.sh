#!/usr/bin/env bash
# Tries the recipes of docs/scale_out.md for Slurm on three hosts, which are network namespaces of this
# machine: slurm.sh PROGRAM MNIST_CNN. Needs Debian's slurmctld, slurmd and slurm-client; else returns 77.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
for tool in slurmctld slurmd srun sbatch; do
  command -v $tool >/dev/null || { echo "slurm.sh: skipped: there is no program $tool" >&2; exit 77; }
done
[ -n "${HOSTS:-}" ] || exec "$here/on_hosts.sh" "$0" "$@"
. "$here/mpirun.sh"
program=$1 mnist_cnn=$2
export OMPI_MCA_btl=self,vader,tcp
export SLURM_CONF=$HOSTS/slurm.conf OMP_NUM_THREADS=1 TAPEGRAD_DIST_TIMEOUT=30
mkdir "$HOSTS/state" "$HOSTS/tmp.node1" "$HOSTS/tmp.node2" "$HOSTS/tmp.node3" "$HOSTS/shared"
cat >"$SLURM_CONF" <<END
ClusterName=three
SlurmctldHost=launcher(10.77.0.254)
AuthType=auth/none
CredType=cred/none
SlurmUser=root
SlurmdUser=root
StateSaveLocation=$HOSTS/state
SlurmdSpoolDir=$HOSTS/spool.%n
SlurmctldPidFile=$HOSTS/slurmctld.pid
SlurmdPidFile=$HOSTS/slurmd.%n.pid
TmpFS=$HOSTS/tmp.%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
SchedulerParameters=batch_sched_delay=1
NodeName=node[1-3] CPUs=2 RealMemory=1000
PartitionName=all Nodes=ALL Default=YES State=UP
END
slurmctld -D >"$HOSTS/slurmctld.log" 2>&1 &
for i in 1 2 3; do "$HOSTS/rsh" node$i slurmd -D >"$HOSTS/slurmd$i.log" 2>&1 & done
# until WORDS COMMAND...: waits until the command prints the words.
until_prints() {
  local words=$1
  shift
  for ((i = 0; i < 300; ++i)); do
    "$@" 2>/dev/null | grep -qF -- "$words" && return
    sleep 0.2
  done
  echo "slurm.sh: not printed in a minute: $words, by $*" >&2
  tail -n 20 "$HOSTS"/*.log "$HOSTS/log" >&2
  exit 1
}
until_prints "3 idle" sinfo -h -o '%D %T'

# recipe WORDS: prints the lines of docs/scale_out.md, between two lines of ```, that have the words.
recipe() {
  awk -v words="$1" '/^```/ { if (index(text, words)) printf "%s", text; text = ""; next }
    { text = text $0 "\n" }' "$here/../../docs/scale_out.md"
}
expect_checks() {  # RANKS LAUNCHER
  grep -Fx "checks: $1 ranks" "$HOSTS/log" && grep -Fx "3 hosts" "$HOSTS/log" && return
  echo "slurm.sh: $2 failed" >&2
  cat "$HOSTS/log" >&2
  exit 1
}
job=(--nodes=3 --ntasks-per-node=1 --cpus-per-task=1 --output="$HOSTS/log")

srun --mpi=pmix -n 5 "$program" checks >"$HOSTS/log" 2>&1 || true
expect_checks 5 "srun --mpi=pmix"

printf '#!/bin/bash\nmpirun %s checks\n' "$program" >"$HOSTS/job"
sbatch --wait "${job[@]}" "$HOSTS/job" || true
expect_checks 3 "mpirun in a job"

{ printf '#!/bin/bash\n' && recipe "scontrol show hostnames" | sed "s|./program|$program checks|"; } >"$HOSTS/job"
sbatch --wait "${job[@]}" "$HOSTS/job" || true
expect_checks 3 "the job without MPI"

# A run that SIGTERM ends, as Slurm does before the time is over, is queued again and continues.
recipe "scontrol requeue" | sed "s|/shared|$HOSTS/shared|; s|build/examples/mnist_cnn|$mnist_cnn \
  --net=mlp --data_dir=drawn --train=600 --test=100 --batch_size=32 --epochs=60 --progress=marks|" >"$HOSTS/job"
id=$(sbatch --parsable --open-mode=append --time=10 "${job[@]}" "$HOSTS/job")
until_prints run.safetensors ls "$HOSTS/shared/run"
scancel --signal=TERM "$id"
until_prints "JobState=PENDING" scontrol show job "$id"
# Not at once: hosts refuse credentials that are as old as the end of the first run.
scontrol update JobId="$id" StartTime=now+5seconds
until_prints "JobState=COMPLETED" scontrol show job "$id"
grep -E "continues (after|in) epoch" "$HOSTS/log" && grep "Test accuracy" "$HOSTS/log" || { cat "$HOSTS/log"; exit 1; }
