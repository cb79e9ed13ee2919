#!/usr/bin/env python3
"""The steps of benchmarks/distributed.cpp in PyTorch, with DistributedDataParallel on gloo:

    torch_distributed.py [--ranks=2] [--steps=N] NAME

Rank 0 prints a line: name, ranks, the median and the fastest step in ms, and the part of the median
step in % by which a step without communication (no_sync) is shorter. One thread per rank.
"""
import argparse
import os
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as processes
from torch import nn
from torch.nn import functional as F

import torch_gpu

torch_gpu.DEVICE = torch.device("cpu")


class Basic(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)
        self.shortcut = None
        if inputs != outputs or stride != 1:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False),
                                          nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        return F.relu(y + (self.shortcut(x) if self.shortcut else x))


class ResNet18(nn.Module):
    """For images of 32 x 32."""

    def __init__(self):
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64)
        blocks, inputs = [], 64
        for stage in range(4):
            for k in range(2):
                blocks.append(Basic(inputs, 64 << stage, 2 if stage > 0 and k == 0 else 1))
                inputs = 64 << stage
        self.blocks, self.fc = nn.Sequential(*blocks), nn.Linear(512, 10)

    def forward(self, x):
        y = self.blocks(F.relu(self.norm(self.stem(x))))
        return self.fc(F.adaptive_avg_pool2d(y, 1).flatten(1))


def keras_cnn():
    x, y = torch.randn(128, 1, 28, 28), torch.randint(0, 10, (128,))
    net = torch_gpu.keras_cnn()[0]
    return net, lambda run: F.cross_entropy(run(x), y), torch.optim.Adadelta(net.parameters(), 1.0), 30


def gpt():
    x, y = torch.randint(0, 65, (12, 64)), torch.randint(0, 65, (768,))
    net = torch_gpu.Gpt()
    return (net, lambda run: F.cross_entropy(run(x).flatten(0, 1), y),
            torch.optim.AdamW(net.parameters(), 1e-3, fused=True), 40)


def resnet18():
    x, y = torch.randn(64, 3, 32, 32), torch.randint(0, 10, (64,))
    net = ResNet18()
    return (net, lambda run: F.cross_entropy(run(x), y),
            torch.optim.SGD(net.parameters(), 0.01, momentum=0.9, fused=True), 5)


WORKLOADS = {"keras_cnn": keras_cnn, "gpt": gpt, "resnet18": resnet18}


def train(rank, options):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(options.port))
    torch.set_num_threads(1)
    torch.manual_seed(1)
    net, loss_of, optimizer, steps = WORKLOADS[options.name]()
    run = net
    if options.ranks > 1:
        dist.init_process_group("gloo", rank=rank, world_size=options.ranks)
        run = nn.parallel.DistributedDataParallel(net)

    def step():
        begin = time.perf_counter()
        optimizer.zero_grad()
        loss_of(run).backward()
        optimizer.step()
        return time.perf_counter() - begin

    def measure():
        if options.ranks > 1:
            dist.barrier()
        return sorted(step() for _ in range(options.steps or steps))

    for _ in range(3):
        step()
    times = measure()
    median, exposed = times[len(times) // 2], 0.0
    if options.ranks > 1:
        with run.no_sync():
            alone = measure()
        exposed = 1 - alone[len(alone) // 2] / median
    if rank == 0:
        print(f"torch\t{options.name}\t{options.ranks}\t{1e3 * median:.2f}\t{1e3 * times[0]:.2f}\t"
              f"{100 * exposed:.1f} %\t{torch.__version__}", flush=True)
    if options.ranks > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    for name, value in [("ranks", 2), ("steps", 0), ("port", 29511)]:
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("name", choices=WORKLOADS)
    chosen = parser.parse_args()
    if chosen.ranks == 1:
        train(0, chosen)
    else:
        processes.spawn(train, args=(chosen,), nprocs=chosen.ranks)
