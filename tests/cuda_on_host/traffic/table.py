"""Prints docs/gpu_traffic.md.

    table.py PROGRAM BUDGET TORCH RESOURCES >docs/gpu_traffic.md

PROGRAM: traffic_steps. BUDGET: budget.tsv, whose fourth field of a kernel says what bounds it. TORCH:
output of benchmarks/peers/torch_launches.py. RESOURCES: output of resources.py.
"""
import collections
import sys

import budget
import counts

# NVIDIA's data sheets of the SXM modules, dense products: bytes/s, FLOP/s of float32 and bfloat16.
GPUS = {"H100": (3.35e12, 66.9e12, 989e12), "H200": (4.8e12, 66.9e12, 989e12)}
LAUNCH = 2e-6  # seconds that the host takes for a launch
MAIN = 0.9

HEAD = """\
# Memory traffic and launches of a training step

Counted without a GPU: the stand-in (`tests/cuda_on_host`) runs the kernels on the CPU, compiled with a
call before each load and store. **Nothing on this page was run on a GPU.** The predictions are bounds
from published peaks and wait for the measured times of `scripts/gpu_check.sh`
([gpu_results.md](gpu_results.md)). Written by

```sh
cmake --build build --target traffic_steps
cd tests/cuda_on_host/traffic
python3 table.py ../../../build/tests/cuda_on_host/traffic/traffic_steps budget.tsv \\
  ../../../benchmarks/peers/torch_launches.tsv resources.tsv >../../../docs/gpu_traffic.md
```

The steps are those of `benchmarks/workloads.cpp`, the second of each, on a device with 132
multiprocessors, as an H100 and an H200 have; `gpt` and `resnet18` use bfloat16 by `Autocast`, as
`benchmarks/gpu steps` does. Convolutions are cuDNN's. `.ci/run` repeats the count and fails if a number
grows beyond `tests/cuda_on_host/traffic/budget.tsv`. The counter is checked on copies and transposes
whose accesses are known (`counter_test.cpp`), the budget on a planted kernel that reads with a stride.
"""

STEPS = """
## One step

Library calls are those of cuBLAS, cuDNN, Thrust and CUB, each of which launches at least one kernel.
A host wait is a call that waits for work of the device; the step ends with one, which reads the
loss. PyTorch: calls of its dispatcher below autograd in the same eager step, without views and
allocations, on a CPU ({torch}, `benchmarks/peers/torch_launches.py`). On a GPU each launches
at least one kernel: a lower bound of its launches, and a low one for `lstm_lm`, whose LSTM is one call
per layer and direction of the step.

| model | kernels | library calls | PyTorch's ops | host waits | copies and fills | MB copied | allocations | MB allocated |
|---|--:|--:|--:|--:|--:|--:|--:|--:|
"""

MOST = """
The kernels of the dispatcher with the most launches and library calls (calls in brackets). A `matmul` of
`gpt` is one product of cuBLAS and a kernel that writes the addresses of its matrices.

| model | |
|---|---|
"""

PREDICTION = """
## Prediction

Not run on a GPU: bounds in microseconds by the published numbers of the SXM modules.

- *Memory*: bytes by bandwidth ({bandwidths}). A library call moves at least the bytes of its tensors.
- *Arithmetic*: FLOP of products and convolutions by the peak
  ({peaks}).
- *Device*: the sum over kernel calls of the longer of the two; the bound of a captured step (`GraphedStep`).
- *Launches*: {launch:.0f} microseconds for each kernel and library call, an assumption.
- *Eager*: the longer of *device* and *launches*.

| model | MB | GFLOP | launches | memory, H100 | arithmetic, H100 | device, H100 | memory, H200 | device, H200 | eager, H200 |
|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|
"""

KERNELS = """
## Kernels

Sums over the steps of all models. *Coalesced*: the fewest sectors of 32 bytes that hold the bytes asked
for by a warp's instruction, as a share of the sectors asked for. *Lanes*: active lanes of 32 per
instruction that accesses memory. *Banks*: passes through the banks of shared memory by the fewest.
*MB*: distinct sectors read and written per launch, summed. *Registers*: per thread, by ptxas of
CUDA {version} for {architectures}; none of these kernels spills registers. *Occupancy*: the warps that a
multiprocessor can hold in percent of the most, by the toolkit's calculator (`cuda_occupancy.h`), for
the largest block of the steps.

| kernel | launches | threads | MB | coalesced | lanes | banks | registers | occupancy, % |
|---|--:|--:|--:|--:|--:|--:|--:|--:|
"""

BOUNDS = """
### What bounds kernels below 90 %

| kernel | coalesced | line | reason |
|---|--:|---|---|
"""

CALLS = """
## Bytes moved and bytes needed

Per kernel of the dispatcher: the bytes of the sectors that its CUDA kernels touch by the bytes of its
tensors, each tensor counted once. Less than one: a library accesses the other tensors, or not every
element is needed (rows of an embedding). More than one: a tensor is read and written (an optimizer's
step: 1.6 to 1.75), there are intermediate results, or a single number takes a sector of 32 bytes. Calls
that only use a library are not listed.

| call | calls | launches | MB needed | moved / needed |
|---|--:|--:|--:|--:|
"""


def mega(number):
    return f"{number / 1e6:.2f}" if number < 1e8 else f"{number / 1e6:.0f}"


def print_steps(got, torch, version):
    print(STEPS.format(torch=version), end="")
    for model, s in got.steps.items():
        print(f"| {model} | {s.launches} | {s.library_calls} | {torch[model]} | {s.waits} | {s.copies} | "
              f"{mega(s.copied)} | {s.allocations} | {mega(s.allocated)} |")


def print_most_launches(got):
    print(MOST, end="")
    for model in got.steps:
        rows = [(call.launches + call.library_calls, name, call.calls)
                for (of, name), call in got.calls.items() if of == model]
        print(f"| {model} | " + ", ".join(f"{name} {launches} ({calls})" for launches, name, calls
                                          in sorted(rows, reverse=True)[:5]) + " |")


def prediction(got, model, gpu):
    """Returns bytes, FLOP and seconds: (bytes, flop, memory, arithmetic, device)."""
    bandwidth, single, half = GPUS[gpu]
    total = [0, 0, 0.0, 0.0, 0.0]
    for (of, name), call in got.calls.items():
        if of != model:
            continue
        moved = max(call.moved, call.needed) if call.library_calls else call.moved
        memory = moved / bandwidth
        arithmetic = call.flops / (half if name.startswith(("bfloat16", "float16")) else single)
        for i, number in enumerate([moved, call.flops, memory, arithmetic, max(memory, arithmetic)]):
            total[i] += number
    return total


def print_predictions(got):
    print(PREDICTION.format(
        launch=LAUNCH * 1e6,
        bandwidths=", ".join(f"{name} {b / 1e12:.3g} TB/s" for name, (b, _, _) in GPUS.items()),
        peaks="both {:.3g} TFLOP/s in float32, {:.3g} in bfloat16 without sparsity".format(
            *(p / 1e12 for p in GPUS["H100"][1:]))), end="")
    for model, step in got.steps.items():
        moved, flop, memory, arithmetic, device = prediction(got, model, "H100")
        _, _, memory2, _, device2 = prediction(got, model, "H200")
        launches = (step.launches + step.library_calls) * LAUNCH
        micro = [f"{1e6 * s:.1f}" for s in
                 (launches, memory, arithmetic, device, memory2, device2, max(device2, launches))]
        print(f"| {model} | {mega(moved)} | {flop / 1e9:.2f} | {' | '.join(micro)} |")


def print_kernels(got, version, architectures, resources, reasons):
    print(KERNELS.format(version=version, architectures=", ".join(architectures)), end="")
    sums = {}
    for (_, _, name), kernel in got.kernels.items():
        sums[name] = sums[name] + kernel if name in sums else kernel
    ordered = sorted(sums.items(), key=lambda item: -item[1].read - item[1].written)
    for name, k in ordered:
        lanes = (k.lanes + k.shared_lanes) / max(1, k.accesses + k.shared_accesses)
        banks = f"{k.passes / k.fewest_passes:.2f}" if k.fewest_passes else ""
        registers, occupancy = resources.get(name, ("", ""))
        print(f"| `{name}` | {k.launches} | {k.threads} | {mega(k.read + k.written)} | {100 * k.share():.0f} % | "
              f"{lanes:.1f} | {banks} | {registers} | {occupancy} |")
    print(BOUNDS, end="")
    for name, k in ordered:
        if k.share() < MAIN:
            print(f"| `{name}` | {100 * k.share():.0f} % | {k.worst} | {reasons.get(name, '')} |")


def print_calls(got):
    print(CALLS, end="")
    sums = collections.defaultdict(lambda: [0, 0, 0, 0])
    for (_, name), call in got.calls.items():
        if call.launches:
            for i, number in enumerate([call.calls, call.launches, call.needed, call.moved]):
                sums[name][i] += number
    for name, (calls, launches, needed, moved) in sorted(sums.items(), key=lambda item: -item[1][3]):
        ratio = f"{moved / needed:.2f}" if needed else ""
        print(f"| {name} | {calls} | {launches} | {mega(needed)} | {ratio} |")


def read_resources(path):
    """Returns the version of ptxas, its architectures and {kernel: (registers, occupancy)}."""
    found, architectures = collections.defaultdict(list), {}
    version, *lines = open(path).read().splitlines()
    for line in lines:
        architecture, name, registers, _, _, _, occupancy = line.split("\t")
        architectures[architecture] = None
        found[name].append((registers, occupancy))
    columns = {name: tuple(", ".join(column) for column in zip(*rows)) for name, rows in found.items()}
    return version, list(architectures), columns


def main(program, budget_path, torch_path, resources_path):
    got = counts.read(program)
    torch = dict(line.split("\t") for line in open(torch_path).read().splitlines())
    print(HEAD, end="")
    print_steps(got, torch, torch.pop("version"))
    print_most_launches(got)
    print_predictions(got)
    print_kernels(got, *read_resources(resources_path), budget.read_reasons(budget_path))
    print_calls(got)


if __name__ == "__main__":
    main(*sys.argv[1:])
