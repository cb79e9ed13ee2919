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

import torch_gpu

torch_gpu.DEVICE = torch.device("cpu")


STEPS = {"keras_cnn": 30, "gpt": 40, "resnet18": 5}


def train(rank, options):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(options.port))
    torch.set_num_threads(1)
    torch.manual_seed(1)
    net, loss_of, optimizer_of, _ = torch_gpu.WORKLOADS[options.name]()
    fused = {} if options.name == "keras_cnn" else {"fused": True}  # Adadelta has no fused form
    optimizer, steps = optimizer_of(net.parameters(), **fused), STEPS[options.name]
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
    parser.add_argument("name", choices=STEPS)
    chosen = parser.parse_args()
    if chosen.ranks == 1:
        train(0, chosen)
    else:
        processes.spawn(train, args=(chosen,), nprocs=chosen.ranks)
