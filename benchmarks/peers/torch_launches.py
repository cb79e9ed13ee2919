"""Counts the ops of a training step of benchmarks/workloads.cpp in eager PyTorch: prints lines of
name and number.

    torch_launches.py [workload...]

Counts calls of the dispatcher below autograd, on the CPU, without views and allocations. A GPU
launches at least one kernel for each call, so the number is a lower bound. An LSTM is one call per layer.
Optimizers use their foreach form, the default on a GPU, whose calls count once.
"""
import sys

import torch
import torch_gpu
from torch.utils._python_dispatch import TorchDispatchMode

FREE = {"detach", "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided",
        "_unsafe_view", "_reshape_alias", "set_", "resize_", "lift_fresh", "_local_scalar_dense",
        "_record_function_enter_new", "_record_function_exit",
        "bernoulli_", "div_"}  # parts of dropout, which a GPU fuses


def is_on_host(arguments):
    """Returns whether the operands are the step numbers of an optimizer, which stay on the CPU."""
    return arguments and isinstance(arguments[0], (list, tuple)) and all(
        isinstance(x, torch.Tensor) and x.dim() == 0 for x in arguments[0])


class Counter(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        infos = [r.alias_info for r in func._schema.returns]
        is_view = infos and all(info is not None and not info.is_write for info in infos)
        name = func._schema.name.split("::")[1]
        if not is_view and name not in FREE and not is_on_host(args):
            self.count += 1
        return func(*args, **(kwargs or {}))


def count(name):
    net, loss_of, optimizer_of, _ = torch_gpu.WORKLOADS[name]()
    optimizer = optimizer_of(net.parameters())
    for group in optimizer.param_groups:
        group["foreach"] = True
    half = name == "gpt" or name.startswith("resnet")

    def step():
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            loss = loss_of(net)
        loss.backward()
        optimizer.step()
        return loss.item()

    step()  # makes the optimizer's state
    with Counter() as counter:
        step()
    print(f"{name}\t{counter.count}", flush=True)


if __name__ == "__main__":
    torch_gpu.DEVICE = torch.device("cpu")
    print(f"version\tPyTorch {torch.__version__}")
    for workload in sys.argv[1:] or torch_gpu.COMMON:
        count(workload)
