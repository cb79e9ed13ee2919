"""Times every op of the catalog beside PyTorch, forward and with gradient.

    torch_sweep.py TAPEGRAD [--threads=2] [--sizes=tiny,cache,memory,typical] [--filter=REGEX] [--rounds=3]
                   [--cpu-time] [--page=PREFACE [--lines=FILE...]]

TAPEGRAD is build/tools/tapegrad. The cases are the rows of tests/torch_oracle/rows.py in float32. Their
sizes are multiplied until an input or result has about 2^15 elements (cache) or 2^22 (memory), or a call
of PyTorch takes 50 ms. torch_sweep_rows.py adds cases with typical sizes of their own. `tapegrad op bench`
and PyTorch take turns with groups of cases; a time is the smallest of all rounds.

--cpu-time measures processor time, which other programs affect less; it is useful for one thread.

Prints one line per case: size, pass, ratio (above 1: tapegrad is faster), milliseconds of tapegrad and of
PyTorch, case. With --page, prints a page of documentation that begins with the text of the file PREFACE:
a summary, and the cases slower than 0.95 of PyTorch with the reasons of torch_sweep_reasons.txt. --lines
takes the numbers from lines that were printed before; a later line replaces an earlier one of its case.
"""
import argparse
import copy
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
import zlib

# The C library returns large blocks to the system at every free(), which slows PyTorch down.
KEEP = {"MALLOC_MMAP_THRESHOLD_": "8000000000", "MALLOC_TRIM_THRESHOLD_": "16000000000",
        "MALLOC_TOP_PAD_": "268435456"}
if not KEEP.items() <= os.environ.items():
    os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **KEEP})

HERE = pathlib.Path(__file__).resolve().parent
for folder in ("torch_oracle", "oprun"):
    sys.path.insert(0, str(HERE.parent.parent / "tests" / folder))

import numpy as np
import torch

import harness
import rows
import torch_sweep_layers
import torch_sweep_rows

warnings.filterwarnings("ignore")
ELEMENTS = {"tiny": 0, "cache": 1 << 15, "memory": 1 << 22}
LONGEST = 0.05  # seconds of a call
TURN = 0.03     # seconds of a case in a round
GROUP = 16      # cases of a turn
SLOW = 0.95
# Attributes that are sizes of tensors.
SIZES = ("shape", "size", "sizes", "normalized_shape", "num_classes", "length", "output_size")


def flat(inputs):
    for slot in inputs:
        yield from slot if isinstance(slot, list) else [slot]


def times(sizes, factor):
    return tuple(n if n <= 1 else n * factor for n in sizes)


def scaled(row, factor):
    """Returns the row with sizes multiplied by factor; kernels of convolutions keep their sizes."""
    row = copy.deepcopy(row)
    is_conv = "conv" in row.op
    for i, x in enumerate(flat(row.inputs)):
        if x is None or factor == 1:
            continue
        if is_conv and i == 1:
            x.shape = times(x.shape[:2], min(factor, 8)) + x.shape[2:]
        elif is_conv:
            rest = x.shape[2 if i == 0 and len(x.shape) == len(row.inputs[1].shape) else 1:]
            channels = x.shape[:len(x.shape) - len(rest)]
            x.shape = times(channels[:-1], factor) + times(channels[-1:], min(factor, 8)) + times(rest, factor)
        else:
            x.shape = times(x.shape, factor)
        if x.bound:
            x.bound *= factor
    if "pool" not in row.op and row.op != "tensor.unfold":
        for name in SIZES:
            value = row.attrs.get(name)
            if value is not None and factor > 1:
                row.attrs[name] = list(times(value, factor)) if isinstance(value, list) else value * factor
    return row


class Case:
    """A row with its tensors, for tapegrad and for PyTorch."""

    def __init__(self, row, size):
        self.row, self.size, self.tensors, self.leaves = row, size, {}, []
        shapes = " ".join(",".join(map(str, x.shape)) if x is not None else "-" for x in flat(row.inputs))
        attrs = " ".join(f"{k}={v}" for k, v in row.attrs.items())
        self.title = " ".join(filter(None, (row.op, getattr(row, "about", ""), shapes, attrs)))
        self.name = f"{size}/{self.title}"
        rng = np.random.default_rng(zlib.crc32(self.name.encode()))
        self.inputs, self.arguments = [], []
        for slot in row.inputs:
            if isinstance(slot, list):
                self.inputs.append({"list": [self.make(x, rng) for x in slot]})
            else:
                self.inputs.append(self.make(slot, rng))
        self.function = row.function or rows.find(row.op)
        self.seeds = []

    def make(self, x, rng):
        if x is None:
            self.arguments.append(None)
            return None
        values = x.draw(rng)
        if x.differentiable:
            values = values.astype(np.float64 if getattr(self.row, "dtype", "") == "F64" else np.float32)
        key = f"{self.name}/{len(self.tensors)}"
        half = getattr(self.row, "dtype", "") == "BF16" and x.differentiable
        self.tensors[key] = harness.BFloat16(values) if half else values
        if half:
            self.tensors[key].bits = self.tensors[key].bits.reshape(np.shape(values))
        argument = torch.from_numpy(np.array(values))
        if half:
            argument = argument.bfloat16()
        ref = {"t": key}
        if x.differentiable:
            self.leaves.append(argument.requires_grad_())
            ref["grad"] = True
        self.arguments.append(argument)
        return ref

    def call(self, order):
        if order == 0:
            with torch.no_grad():
                return self.function(*self.arguments, **self.row.attrs)
        ys = self.function(*self.arguments, **self.row.attrs)
        ys = [y for y in ([ys] if isinstance(ys, torch.Tensor) else ys) if y.requires_grad]
        return torch.autograd.grad(ys, self.leaves, self.seeds, allow_unused=True)

    def numel(self):
        """Returns the number of elements of the largest input or result."""
        ys = self.call(0)
        ys = [ys] if isinstance(ys, torch.Tensor) else list(ys)
        return max(x.numel() for x in [*ys, *self.arguments] if x is not None)

    def lines(self):
        """Returns the cases for `tapegrad op`, without and with gradient."""
        line = {"op": self.row.op, "inputs": self.inputs, "attrs": self.row.attrs}
        yield {"id": f"fwd/{self.name}", **line, "order": 0}
        if not self.leaves or self.row.limit == 0:
            return
        ys = self.function(*self.arguments, **self.row.attrs)
        ys = [ys] if isinstance(ys, torch.Tensor) else list(ys)
        floats = [y for y in ys if y.is_floating_point()]
        if len(floats) != sum(y.requires_grad for y in floats):
            return
        self.seeds = [torch.ones_like(y) for y in floats]
        refs = []
        for k, y in enumerate(floats):
            refs.append(f"{self.name}/v{k}")
            ones = np.ones(tuple(y.shape), np.float64 if y.dtype == torch.float64 else np.float32)
            self.tensors[refs[-1]] = harness.BFloat16(ones) if y.dtype == torch.bfloat16 else ones
            if y.dtype == torch.bfloat16:
                self.tensors[refs[-1]].bits = self.tensors[refs[-1]].bits.reshape(ones.shape)
        try:
            self.call(1)
        except RuntimeError:  # PyTorch has no derivative
            return
        yield {"id": f"bwd/{self.name}", **line, "order": 1, "seeds": refs}


clock = time.perf_counter


def seconds(call):
    start = clock()
    call()
    return clock() - start


def time_of(case, order):
    """Returns the shortest time of a call, in milliseconds."""
    once = min(seconds(lambda: case.call(order)) for _ in range(2))
    loops = max(1, int(0.002 / once))
    best, end = once, clock() + TURN
    while clock() < end:
        best = min(best, seconds(lambda: [case.call(order) for _ in range(loops)]) / loops)
    return best * 1e3


def cases_of(row, wanted):
    """Yields the cases of a row at the requested sizes; skips sizes that the row does not reach."""
    if "tiny" in wanted:
        yield lambda: Case(row, "tiny")
    wanted = [size for size in wanted if ELEMENTS.get(size)]
    if not wanted:
        return
    largest = {}
    for factor in (n << k for k in range(12) for n in (2, 3)):
        try:
            case = Case(scaled(row, factor), "try")
            took, count = seconds(lambda: case.call(0)), case.numel()
        except Exception:  # the attributes do not fit larger sizes
            break
        for size in wanted:
            if count <= ELEMENTS[size]:
                largest[size] = factor
        if took > LONGEST or count > max(ELEMENTS[size] for size in wanted):
            break
    for size, factor in largest.items():
        yield lambda: Case(scaled(row, factor), size)


def pattern_of(row):
    """Returns a key that is equal for rows that differ only in their sizes."""
    shapes = [x and x.shape for x in flat(row.inputs)]
    return row.op, str(row.attrs), tuple(shape == shapes[0] for shape in shapes), len(shapes)


def selected(pattern, wanted):
    seen = set()
    for row in rows.ROWS:
        if re.search(pattern, row.op) and pattern_of(row) not in seen:
            seen.add(pattern_of(row))
            yield from (make() for make in cases_of(row, wanted))
    for row in torch_sweep_rows.ROWS + torch_sweep_layers.ROWS:
        if row.size in wanted and re.search(pattern, row.op):
            yield Case(row, row.size)


def measure(group, tool, threads, rounds):
    """Returns {id: [milliseconds of tapegrad, of PyTorch]} of a group of cases."""
    found, lines = {}, []
    for case in group:
        try:
            for line in case.lines():
                lines.append((case, line))
        except Exception as error:
            print(f"{case.name}: {error}", file=sys.stderr)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        harness.write_safetensors(folder / "t", {k: v for case in group for k, v in case.tensors.items()})
        (folder / "c").write_text("".join(json.dumps(line) + "\n" for _, line in lines))
        for _ in range(rounds):
            run = subprocess.run([tool, "op", "bench", f"--cases={folder}/c", f"--tensors={folder}/t",
                                  f"--threads={threads}", f"--min_time={TURN}s",
                                  *["--cpu_time"] * (clock is time.process_time)], capture_output=True, text=True)
            for text in run.stdout.splitlines():
                answer = json.loads(text)
                if answer["status"] == "ok":
                    ours = found.setdefault(answer["id"], [1e9, 1e9])
                    ours[0] = min(ours[0], answer["ns_min"] / 1e6)
                elif _ == 0:
                    print(f"{answer['id']}: {answer['message']}", file=sys.stderr)
            for case, line in lines:
                if line["id"] in found:
                    both = found[line["id"]]
                    both[1] = min(both[1], time_of(case, line["order"]))
    return found


def reason_for(case, reasons):
    return next((why for pattern, why in reasons if re.search(pattern, case)), "not examined")


def print_page(found, args):
    reasons = [line.split("\t", 1) for line in (HERE / "torch_sweep_reasons.txt").read_text().splitlines()]
    cpu = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text()).group(1)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    print(pathlib.Path(args.page).read_text())
    print(f"Measured at commit {commit} on {cpu} with {args.threads} thread{'s' * (args.threads > 1)} beside PyTorch "
          f"{torch.__version__.split('+')[0]}; load average {os.getloadavg()[0]:.1f} at the end."
          + " Times are processor time." * args.cpu_time + "\n")
    print("| size | pass | cases | median ratio | slower than 0.95 | slower than 0.5 |\n|---|---|---|---|---|---|")
    parts = {}
    for name, (ours, theirs) in found.items():
        step, size, title = name.split("/", 2)
        parts.setdefault((size, step), []).append((theirs / ours, ours, theirs, title))
    for (size, step), lines in parts.items():
        ratios = [line[0] for line in lines]
        print(f"| {size} | {step} | {len(ratios)} | {statistics.median(ratios):.2f} | "
              f"{sum(r < SLOW for r in ratios)} | {sum(r < 0.5 for r in ratios)} |")
    print("\n## Slower than 0.95 of PyTorch\n\n| ratio | size | pass | tapegrad ms | PyTorch ms | case | reason |\n"
          "|---|---|---|---|---|---|---|")
    slow = [(*line, size, step) for (size, step), lines in parts.items() for line in lines if line[0] < SLOW]
    for ratio, ours, theirs, title, size, step in sorted(slow):
        print(f"| {ratio:.2f} | {size} | {step} | {ours:.3g} | {theirs:.3g} | `{title}` | {reason_for(title, reasons)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tool")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--sizes", default="tiny,cache,memory,typical")
    parser.add_argument("--filter", default="")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--lines", action="append", default=[])
    parser.add_argument("--cpu-time", action="store_true")
    parser.add_argument("--page")
    args = parser.parse_args()
    if args.cpu_time:
        global clock
        clock = time.process_time
    torch.set_num_threads(args.threads)
    found, group = {}, []
    for path in args.lines:
        for line in pathlib.Path(path).read_text().splitlines():
            size, step, _, ours, theirs, title = line.split("\t")
            found[f"{step}/{size}/{title}"] = float(ours), float(theirs)
    if args.lines:
        return print_page(found, args)

    def flush():
        more = measure(group, args.tool, args.threads, args.rounds)
        found.update(more)
        if not args.page:
            for name, (ours, theirs) in more.items():
                step, size, title = name.split("/", 2)
                print(f"{size}\t{step}\t{theirs / ours:.3f}\t{ours:.4g}\t{theirs:.4g}\t{title}", flush=True)
        group.clear()

    for case in selected(args.filter, args.sizes.split(",")):
        group.append(case)
        if len(group) == GROUP:
            flush()
    flush()
    if args.page:
        print_page(found, args)


main()
