"""Times steps of PyTorch networks on request: the counterpart of benchmarks/steps.h. Networks and
data are on the device that TAPEGRAD_DEVICE names.

    PROGRAM [--compile] --serve       reads lines "NAME STEPS", answers with the milliseconds
    PROGRAM [--compile] NAME...       prints the median time of a step

--cpu-time measures the process's time on all processors instead of wall time.
"""
import os
import statistics
import sys
import time

import torch

torch.set_default_device(os.environ.get("TAPEGRAD_DEVICE") or "cpu")
COMPILED = "--compile" in sys.argv
seconds = time.process_time if "--cpu-time" in sys.argv else time.perf_counter


def maybe_compiled(model):
    return torch.compile(model) if COMPILED else model


def training(model, loss, optimizer=torch.optim.SGD, lr=1e-3):
    """Returns a training step; the optimizers of PyTorch that have a fused form use it."""
    without = (torch.optim.Adadelta, torch.optim.RMSprop)
    fused = {} if optimizer in without else {"fused": True}
    updates = optimizer(model.parameters(), lr=lr, **fused)
    run = maybe_compiled(model)

    def step():
        updates.zero_grad()
        value = loss(run)
        value.backward()
        updates.step()
        value.item()

    return step


def milliseconds_of(step):
    begin = seconds()
    step()
    return (seconds() - begin) * 1e3


def serve(networks):
    """Keeps the network of the last line; further lines with the same name continue its training."""
    current = step = None
    for line in sys.stdin:
        name, steps = line.split()
        if name not in networks:
            print("unknown", flush=True)
            continue
        if name != current:
            step = None
            torch.manual_seed(1)
            step, current = networks[name](), name
        try:
            times = [milliseconds_of(step) for _ in range(int(steps))]
        except RuntimeError as error:  # torch.compile has no second derivatives
            print(f"{name}: {error}", file=sys.stderr)
            print("failed", flush=True)
            continue
        print("\t".join(f"{time:.6g}" for time in times), flush=True)


def main(networks):
    """Runs the command line; the table maps names to functions that create a training step."""
    names = [word for word in sys.argv[1:] if not word.startswith("--")]
    if "--serve" in sys.argv:
        print(torch.__version__, flush=True)
        return serve(networks)
    for name in names or networks:
        torch.manual_seed(1)
        step = networks[name]()
        for _ in range(3):
            step()
        print(f"{name}\t{statistics.median(milliseconds_of(step) for _ in range(10)):.6g}\tms")
