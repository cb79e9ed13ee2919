"""Prints docs/benchmarks.md: table.py LINES COMMIT. LINES is a file with the measurements of
scripts/benchmark.sh: program, threads, name, value and unit on every line."""
import collections
import re
import statistics
import subprocess
import sys

# Goals: the ratio to libtorch with 2 threads, or the value itself. Larger ratios are better.
GOALS = {
    "peaks.step": 4, "keras_cnn.step": 2.2, "article_cnn_8.step": 3, "article_cnn_128.step": 3.6,
    "fashion_epoch": 1.83, "lstm_lm.step": 1.6, "gpt.step": 1.6, "resnet18.step": 1.5,
    "large.tanh": 2.7, "large.gelu": 1.9, "large.sum_axis0": 1.5, "large.max_axis0": 30,
    "large.max_axis1": 3.3, "large.transpose_copy": 3.4, "large.softmax": 2.1,
    "large.layer_norm": 1.7,
    "op.forward": 10, "op.recorded": 11, "op.backward": 19,
}
VALUE_GOALS = {"peaks.memory": "40 MiB", "keras_cnn.memory": "150 MiB", "gpt.memory": "80 MiB"}
BIGGER_IS_BETTER = {"GB/s", "GFLOP/s", "%"}

# Billions of multiply-adds of a step, forward and backward. They bound the large models.
STEP_GFLOP = {"keras_cnn.step": 9.2, "lstm_lm.step": 15.1, "gpt.step": 4.0, "resnet18.step": 213,
              "peaks.step": 0.0316, "article_cnn_128.step": 0.19}


def number(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def read(path):
    values = collections.defaultdict(list)
    units = {}
    for line in open(path):
        program, threads, name, value, unit = line.rstrip("\n").split("\t")
        values[program, int(threads), name].append(float(value))
        units[name] = unit
    return values, units


def cell(list_of_values):
    if not list_of_values:
        return "-"
    low, high = min(list_of_values), max(list_of_values)
    middle = number(statistics.median(list_of_values))
    return f"{middle} ({number(low)}-{number(high)})" if len(list_of_values) > 1 else middle


def share_of_limit(name, unit, ours, limits):
    if name in STEP_GFLOP:
        return f"{STEP_GFLOP[name] / ours * 1e3 / limits['limit.multiply_add'] * 100:.0f} %"
    if unit == "GB/s":
        return f"{ours / limits['limit.copy'] * 100:.0f} %"
    return ""


def ratio_to(peer, ours, unit):
    """Returns how many times faster (or smaller) tapegrad is, by medians."""
    if not peer or not ours:
        return ""
    ratio = statistics.median(peer) / statistics.median(ours)
    return f"{number(1 / ratio if unit in BIGGER_IS_BETTER else ratio)}x"


def table(values, units, threads, newer):
    limits = {name: max(values["machine", threads, name])  # the highest measured value
              for name in ("limit.multiply_add", "limit.copy")}
    print(f"\n## {threads} thread{'s' * (threads > 1)}\n")
    print(f"Measured limits: {number(limits['limit.multiply_add'])} GFLOP/s of float32 multiply-adds, "
          f"copies at {number(limits['limit.copy'])} GB/s.\n")
    peers = [("libtorch", True)] + [(peer, False) for peer in newer]
    titles = ["", "unit", "tapegrad", "captured"]
    for peer, has_goal in peers:
        titles += [peer, "ratio"] + ["goal"] * has_goal
        if peer != "libtorch":
            titles.append("captured ratio")
    titles.append("of the limit")
    print("| " + " | ".join(titles) + " |\n" + "|---" * len(titles) + "|")
    for name, unit in units.items():
        ours, captured = values["ours", threads, name], values["captured", threads, name]
        if not ours:
            continue
        goal = ""
        if threads == 2:
            goal = f"{GOALS[name]}x" if name in GOALS else VALUE_GOALS.get(name, "")
        cells = [name, unit, cell(ours), cell(captured) if captured else ""]
        for program, has_goal in peers:
            peer = values[program, threads, name]
            cells += [cell(peer) if peer else "", ratio_to(peer, ours, unit)] + [goal] * has_goal
            if program != "libtorch":
                cells.append(ratio_to(peer, captured, unit))
        cells.append(share_of_limit(name, unit, statistics.median(ours), limits))
        print("| " + " | ".join(cells) + " |")


def main():
    values, units = read(sys.argv[1])
    cpu = re.search(r"model name\s*: (.*)", open("/proc/cpuinfo").read()).group(1)
    flags = "AVX-512" if "avx512f" in open("/proc/cpuinfo").read() else "AVX2"
    compiler = subprocess.run(["g++", "-dumpfullversion"], capture_output=True, text=True).stdout
    newer = sorted({program for program, _, _ in values} - {"machine", "ours", "captured", "libtorch"})
    counts = [len(v) for (program, _, _), v in values.items() if program != "machine"]
    least, most = min(counts), max(counts)
    print(f'''# Benchmarks

Written by `scripts/benchmark.sh` at commit {sys.argv[2]}: {cpu}, {flags}, g++ {compiler.strip()}.

{f"Each number is the median of {least if least == most else f'{least} to {most}'} processes, with the minimum and the maximum"
 if most > 1 else "Each number comes from one process, so its spread is unknown"}; each process gives the
median of its own repetitions. Processes of tapegrad and of the distribution's libtorch alternate. libtorch uses
OpenBLAS with OpenMP, the widest vector instructions of the machine, and an allocator that keeps its memory. The
ratio says how many times faster (for memory: smaller) tapegrad is. Absolute times vary between machines and with
other load; ratios are more stable. "captured" is the same step, recorded and replayed by `GraphedStep`.
{newer and f"""
{newer[0]} is the package from pip, with its own libraries and the same allocator. torch.compile is run from Python,
with fused optimizers.
""" or ""}
`op.*` is the time per op of a chain `y = y * a + b` on one element: without recording, recorded, and with the
backward pass. `large.*` are ops on ten million elements, or on matrices of 4096 x 4096 (softmax and layer_norm:
4096 x 1024), each with a new result. The models are defined in `benchmarks/workloads.cpp`. `fashion_epoch` is an
epoch of Fashion-MNIST with the Keras net and batches of 128, and `fashion_accuracy` the accuracy on the test set
after it. The last column is the share of the measured limit: multiply-adds for models, copies for other rows.''')
    for threads in (2, 1):
        if ("machine", threads, "limit.copy") in values:
            table(values, units, threads, newer)


main()
