"""Times the networks of a tapegrad program and of its PyTorch counterpart alternately.

    interleave.py [--rounds=5] [--threads=2,1] [--cpu-time] [--captured] [--compile]
                  [--page=PREFACE] PROGRAM PEER [NAME...]

PROGRAM is built from benchmarks/steps.h (build/benchmarks/unseen); PEER is the Python program
beside it in benchmarks/peers, run by $PYTHON (python3), or "none". In each round both processes
run some steps, one process after the other. The time of a network is the time of its fastest step,
which other load on the machine affects least. --cpu-time measures processor time instead of wall time,
which is useful for one thread on a busy machine.

Prints lines of threads, name, milliseconds of tapegrad, with --captured also of its captured step,
of PyTorch and, with --compile, of torch.compile, and the ratios of these two to each of the
former; with --page, a page of documentation that begins with the text of the file PREFACE.
"""
import argparse
import os
import re
import subprocess
import sys

# The C library returns large blocks to the system at every free(), which slows PyTorch down.
KEEP = {"MALLOC_MMAP_THRESHOLD_": "8000000000", "MALLOC_TRIM_THRESHOLD_": "16000000000",
        "MALLOC_TOP_PAD_": "268435456"}
TURN_MS = 600  # of a program in a round, if a step is shorter


class Server:
    """A process that runs training steps on request."""

    def __init__(self, command, threads, extra=None):
        env = dict(os.environ, OMP_NUM_THREADS=str(threads), **(extra or {}))
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, env=env)

    def read(self):
        line = self.process.stdout.readline().strip()
        if not line:
            raise RuntimeError(f"{self.process.args} has ended")
        return line

    def steps(self, name, count):
        self.process.stdin.write(f"{name} {count}\n")
        self.process.stdin.flush()
        line = self.read()
        return None if line in ("unknown", "failed") else [float(word) for word in line.split("\t")]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def measure(servers, name, rounds):
    """Returns the time of a step for each server; None if the server lacks the network or it fails."""
    counts, best = [], []
    for server in servers:
        warm = server.steps(name, 3)
        counts.append(warm and max(1, min(200, int(TURN_MS / min(warm)))))
    best = [None] * len(servers)
    for _ in range(rounds):
        for i, server in enumerate(servers):
            if counts[i]:
                time = min(server.steps(name, counts[i]))
                best[i] = time if best[i] is None else min(best[i], time)
    return best


def number(value):
    return "-" if value is None else f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def ratio(peer, ours):
    return "-" if peer is None or ours is None else f"{peer / ours:.2f}x"


def print_preface(path, args):
    """Prints the text, and the machine and commit on which the numbers were measured."""
    cpu = re.search(r"model name\s*: (.*)", open("/proc/cpuinfo").read()).group(1)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    print(open(path).read())
    print(f"Measured at commit {commit.stdout.strip()} on {cpu} with {os.cpu_count()} cores; "
          f"load average {os.getloadavg()[0]:.1f} at the beginning. Processes of tapegrad\n"
          f"and PyTorch alternate, {args.rounds} round{'' if args.rounds == 1 else 's'}; each number is the fastest step. PyTorch keeps "
          "its memory\n(`MALLOC_MMAP_THRESHOLD_`, `MALLOC_TRIM_THRESHOLD_`, `MALLOC_TOP_PAD_`), and its optimizers are the fused\nones.")
    if args.cpu_time:
        print("\nThe times are processor time, because the machine had other work: they say nothing of "
              "how well threads are used.")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", default="2,1")
    parser.add_argument("--cpu-time", action="store_true")
    parser.add_argument("--captured", action="store_true")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--page")
    parser.add_argument("program")
    parser.add_argument("peer")
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()

    listed = subprocess.run([args.program], capture_output=True, text=True, check=True).stdout
    networks = dict(line.split("\t") for line in listed.splitlines())
    unknown = [name for name in args.names if name not in networks]
    if unknown:
        sys.exit(f"unknown network: {unknown[0]}")
    if args.page:
        print_preface(args.page, args)
    clock = ["--cpu-time"] * args.cpu_time
    python = [os.environ.get("PYTHON", "python3"), args.peer]
    for threads in map(int, args.threads.split(",")):
        servers, titles = [Server([args.program, "--serve", *clock], threads)], ["tapegrad"]
        if args.captured:
            servers.append(Server([args.program, "--serve", "--captured", *clock], threads))
            titles.append("captured")
        own = len(servers)
        if args.peer != "none":
            for option in [[], ["--compile"]][:1 + args.compile]:
                servers.append(Server(python + option + ["--serve", *clock], threads, KEEP))
                version = servers[-1].read().split("+")[0]
                titles.append("torch.compile" if option else f"PyTorch {version}")
        if args.page:
            print(f"\n## {threads} thread{'s' * (threads > 1)}\n\n| network |", end="")
            print("".join(f" {title} ms |" for title in titles), end="")
            print("".join(f" {title} / {our} |" for our in titles[:own] for title in titles[own:]))
            print("|---" * (1 + len(titles) + own * (len(titles) - own)) + "|", flush=True)
        for name in args.names or networks:
            times = measure(servers, name, args.rounds)
            ratios = [ratio(peer, ours) for ours in times[:own] for peer in times[own:]]
            if args.page:
                cells = [f"`{name}`: {networks[name]}", *map(number, times)]
                cells += ratios
                print("| " + " | ".join(cells) + " |", flush=True)
            else:
                print("\t".join([str(threads), name, *map(number, times), *ratios]), flush=True)
        for server in servers:
            server.close()


main()
