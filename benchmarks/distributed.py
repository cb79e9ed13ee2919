#!/usr/bin/env python3
"""Times training steps on several ranks, alternately in tapegrad and in PyTorch:

    distributed.py [--rounds=3] [--ranks=1,2,4] [--build=build] [NAME...]

Runs build/benchmarks/distributed by mpirun, and benchmarks/peers/torch_distributed.py by $PYTHON
(python3), one thread per rank, one after the other in each round. Prints a table of the medians over
the rounds: the median step of each, how many times faster tapegrad is, this ratio relative to the
ratio with one rank, and the exposed communication of both. For tapegrad, "exposed" is the time in
which rank 0 only waited for gradients; for PyTorch, it is the time that a step without communication
saves, which includes the processor time of communication. The last lines compare the results with the
goals of docs/scale_out.md. Three rounds of all networks take about ten minutes on two cores.
"""
import argparse
import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
       "OMPI_MCA_btl_vader_single_copy_mechanism": "none", "OMPI_MCA_mpi_yield_when_idle": "1",
       "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMP_WAIT_POLICY": "passive"}
# The C library returns large blocks to the system at every free(), which slows PyTorch down.
KEEP = {"MALLOC_MMAP_THRESHOLD_": "8000000000", "MALLOC_TRIM_THRESHOLD_": "16000000000",
        "MALLOC_TOP_PAD_": "268435456"}


def run(command, more):
    """Returns the median step in ms, the exposed share in % and the last column."""
    result = subprocess.run(command, env=dict(os.environ, OMP_NUM_THREADS="1", **more),
                            stdout=subprocess.PIPE, text=True, timeout=1800)
    lines = [line.split("\t") for line in result.stdout.splitlines() if line.count("\t") >= 6]
    if result.returncode or not lines:
        sys.exit(f"{' '.join(command)} failed with status {result.returncode}")
    return float(lines[0][3]), float(lines[0][5].split()[0]), lines[0][6]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ranks", default="1,2,4")
    parser.add_argument("--build", default="build")
    parser.add_argument("names", nargs="*", default=["keras_cnn", "gpt", "resnet18"])
    args = parser.parse_args()
    print("| network | ranks | tapegrad ms | PyTorch ms | times faster | of one rank's | exposed | "
          "exposed, PyTorch |\n|---|---|---|---|---|---|---|---|", flush=True)
    python = os.environ.get("PYTHON", "python3")
    mpirun = os.environ.get("MPIRUN", "mpirun")
    least_lead, most_exposed = None, None
    for name in args.names:
        lead = None
        for ranks in map(int, args.ranks.split(",")):
            ours, theirs = [], []
            for _ in range(args.rounds):
                program = [f"{args.build}/benchmarks/distributed", name]
                launch = [mpirun, "--oversubscribe", "--bind-to", "none", "-n", str(ranks)]
                ours.append(run(launch + program if ranks > 1 else program, MPI))
                theirs.append(run([python, f"{HERE}/peers/torch_distributed.py",
                                   f"--ranks={ranks}", name], KEEP))
            step, peer = (statistics.median(each[0] for each in all) for all in (ours, theirs))
            exposed, peers = (statistics.median(each[1] for each in all) for all in (ours, theirs))
            lead = lead or peer / step
            least_lead = min(least_lead or 1e9, 100 * peer / step / lead)
            if ranks == 2:
                most_exposed = max(most_exposed or 0, exposed)
            print(f"| {name} | {ranks} | {step:.1f} | {peer:.1f} | {peer / step:.2f} | "
                  f"{100 * peer / step / lead:.0f} % | {exposed:.1f} % | {peers:.1f} % |", flush=True)
    print(f"\nPyTorch {theirs[0][2]}, gloo; medians of {args.rounds} rounds.")
    print(f"least share of one rank's lead: {least_lead:.0f} % (promised: 95 %)")
    if most_exposed is not None:
        print(f"most exposed communication at 2 ranks: {most_exposed:.1f} % (promised: below 15 %)")


main()
