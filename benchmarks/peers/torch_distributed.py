#!/usr/bin/env python3
"""The step of benchmarks/distributed.cpp in PyTorch, with DistributedDataParallel on gloo:

    python3 benchmarks/peers/torch_distributed.py --ranks=2 --batch=64 --steps=40
"""
import argparse
import os
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as processes
from torch import nn


def train(rank, options):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(options.port))
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = nn.Sequential(
        nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Dropout(0.25), nn.Flatten(), nn.Linear(9216, 128), nn.ReLU(), nn.Dropout(0.5),
        nn.Linear(128, 10))
    net = model
    if options.ranks > 1:
        dist.init_process_group("gloo", rank=rank, world_size=options.ranks)
        net = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    x = torch.randn(options.batch, 1, 28, 28)
    y = torch.randint(0, 10, (options.batch,))
    times = []
    for step in range(-5, options.steps):
        begin = time.perf_counter()
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
        if step >= 0:
            times.append(time.perf_counter() - begin)
    times.sort()
    if rank == 0:
        print(f"torch {torch.__version__} {options.ranks} ranks: median "
              f"{1e3 * times[len(times) // 2]:.2f} ms, fastest {1e3 * times[0]:.2f} ms", flush=True)
    if options.ranks > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    for name, value in [("ranks", 2), ("batch", 64), ("steps", 40), ("port", 29511)]:
        parser.add_argument(f"--{name}", type=int, default=value)
    chosen = parser.parse_args()
    if chosen.ranks == 1:
        train(0, chosen)
    else:
        processes.spawn(train, args=(chosen,), nprocs=chosen.ranks)
