"""The steps of benchmarks/training.cpp in PyTorch, for torch.compile; torch_training.cpp contains
the C++ version. torch_steps.py describes the command line; each step also reads the loss."""
import torch

import torch_gpu
from torch_steps import main, maybe_compiled

torch_gpu.DEVICE = torch.device("cpu")


def step_of(name):
    net, loss_of, optimizer_of, _ = torch_gpu.WORKLOADS[name]()
    fused = {} if name == "keras_cnn" else {"fused": True}  # Adadelta has no fused form
    optimizer, run = optimizer_of(net.parameters(), **fused), maybe_compiled(net)

    def step():
        optimizer.zero_grad()
        loss = loss_of(run)
        loss.backward()
        optimizer.step()
        loss.item()

    return step


main({f"{name}.step": lambda name=name: step_of(name) for name in torch_gpu.COMMON})
