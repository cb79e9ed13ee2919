"""Runs the training steps of benchmarks/gpu.cpp in eager PyTorch; prints lines of name, value and unit.

Programs that import the models to run them on the CPU set DEVICE first.

    torch_gpu.py [workload...]
"""
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

DEVICE = torch.device("cuda")


def image_layout():
    return torch.channels_last if DEVICE.type == "cuda" else torch.contiguous_format


def peaks():
    net = nn.Sequential(nn.Linear(2, 20), nn.ReLU(), nn.Linear(20, 5), nn.ReLU(), nn.Linear(5, 1))
    x, y = torch.rand(40000, 2, device=DEVICE), torch.rand(40000, 1, device=DEVICE)
    return net, lambda run: F.mse_loss(run(x), y), lambda p, **k: torch.optim.Adam(p, 0.08, **k), 200


def keras_cnn(batch=128, steps=50):
    net = nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(),
                        nn.MaxPool2d(2), nn.Dropout(0.25), nn.Flatten(), nn.Linear(9216, 128),
                        nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, 10))
    x = torch.randn(batch, 1, 28, 28, device=DEVICE)
    y = torch.randint(0, 10, (batch,), device=DEVICE)
    return net, lambda run: F.cross_entropy(run(x), y), lambda p: torch.optim.Adadelta(p, 1.0), steps


def article_cnn(batch):
    net = nn.Sequential(nn.Conv2d(1, 10, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                        nn.Linear(1960, 100), nn.ReLU(), nn.Linear(100, 10))
    x = torch.randn(batch, 1, 28, 28, device=DEVICE)
    y = torch.randint(0, 10, (batch,), device=DEVICE)
    return net, lambda run: F.cross_entropy(run(x), y), lambda p, **k: torch.optim.Adam(p, 1e-3, **k), 100


class LanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(10000, 256)
        self.lstm = nn.LSTM(256, 256, 2)
        self.out = nn.Linear(256, 10000)

    def forward(self, words):
        return self.out(self.lstm(self.embedding(words))[0].flatten(0, 1))


def lstm_lm():
    net = LanguageModel()
    x = torch.randint(0, 10000, (35, 20), device=DEVICE)
    y = torch.randint(0, 10000, (700,), device=DEVICE)
    return net, lambda run: F.cross_entropy(run(x), y), lambda p, **k: torch.optim.SGD(p, 0.1, **k), 20


class Block(nn.Module):
    def __init__(self, width=128):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.proj = nn.Linear(width, width, bias=False)
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def forward(self, x, mask):
        q, k, v = (t.view(*x.shape[:2], 4, 32).transpose(1, 2)
                   for t in self.qkv(self.norm1(x)).chunk(3, 2))
        share = torch.softmax((q @ k.transpose(-2, -1) / 32**0.5).masked_fill(mask, -torch.inf), -1)
        y = x + self.proj((share @ v).transpose(1, 2).reshape(x.shape))
        return y + self.down(F.gelu(self.up(self.norm2(y))))


class Gpt(nn.Module):
    def __init__(self, letters=65, length=64):
        super().__init__()
        self.letter, self.place = nn.Embedding(letters, 128), nn.Embedding(length, 128)
        self.blocks = nn.ModuleList(Block() for _ in range(4))
        self.norm, self.head = nn.LayerNorm(128), nn.Linear(128, letters, bias=False)

    def forward(self, x):
        later = torch.ones(64, 64, dtype=torch.bool, device=DEVICE).triu(1)
        y = self.letter(x) + self.place(torch.arange(64, device=DEVICE))
        for block in self.blocks:
            y = block(y, later)
        return self.head(self.norm(y))


def gpt():
    net = Gpt()
    x = torch.randint(0, 65, (12, 64), device=DEVICE)
    y = torch.randint(0, 65, (768,), device=DEVICE)
    loss = lambda run: F.cross_entropy(run(x).flatten(0, 1), y)
    return net, loss, lambda p, **k: torch.optim.AdamW(p, 1e-3, **k), 40


class Bottleneck(nn.Module):
    def __init__(self, before, width, stride):
        super().__init__()
        after = 4 * width
        self.body = nn.Sequential(
            nn.Conv2d(before, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, after, 1, bias=False), nn.BatchNorm2d(after))
        self.shortcut = nn.Identity() if before == after and stride == 1 else nn.Sequential(
            nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, x):
        return F.relu(self.body(x) + self.shortcut(x))


def resnet50():
    parts = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(),
             nn.MaxPool2d(3, 2, 1)]
    before = 64
    for stage, count in enumerate((3, 4, 6, 3)):
        width = 64 << stage
        for k in range(count):
            parts.append(Bottleneck(before, width, 2 if stage and not k else 1))
            before = 4 * width
    net = nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))
    net = net.to(memory_format=image_layout())
    x = torch.randn(64, 3, 224, 224, device=DEVICE).to(memory_format=image_layout())
    y = torch.randint(0, 1000, (64,), device=DEVICE)
    loss = lambda run: F.cross_entropy(run(x), y)
    return net, loss, lambda p, **k: torch.optim.SGD(p, 0.01, momentum=0.9, **k), 10


class Basic(nn.Module):
    def __init__(self, before, after, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU(),
            nn.Conv2d(after, after, 3, 1, 1, bias=False), nn.BatchNorm2d(after))
        self.shortcut = nn.Identity() if before == after and stride == 1 else nn.Sequential(
            nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, x):
        return F.relu(self.body(x) + self.shortcut(x))


def resnet18():
    parts = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    before = 64
    for stage in range(4):
        for k in range(2):
            parts.append(Basic(before, 64 << stage, 2 if stage and not k else 1))
            before = 64 << stage
    net = nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))
    net = net.to(memory_format=image_layout())
    x = torch.randn(64, 3, 32, 32, device=DEVICE).to(memory_format=image_layout())
    y = torch.randint(0, 10, (64,), device=DEVICE)
    loss = lambda run: F.cross_entropy(run(x), y)
    return net, loss, lambda p, **k: torch.optim.SGD(p, 0.01, momentum=0.9, **k), 10


WORKLOADS = {"peaks": peaks, "keras_cnn": keras_cnn,
             "keras_cnn_1024": lambda: keras_cnn(1024), "article_cnn_8": lambda: article_cnn(8),
             "article_cnn_128": lambda: article_cnn(128), "lstm_lm": lstm_lm, "gpt": gpt,
             "resnet18": resnet18, "resnet50": resnet50}
# The networks of benchmarks/workloads.cpp.
COMMON = ["peaks", "keras_cnn", "article_cnn_8", "article_cnn_128", "lstm_lm", "gpt", "resnet18"]


def measure(name):
    net, loss_of, optimizer_of, steps = WORKLOADS[name]()
    net.to(DEVICE)
    optimizer = optimizer_of(net.parameters())
    half = name == "gpt" or name.startswith("resnet")

    def run(count):
        for _ in range(count):
            optimizer.zero_grad()
            with torch.autocast("cuda", torch.bfloat16, enabled=half):
                loss = loss_of(net)
            loss.backward()
            optimizer.step()
        return loss.item()

    run(10)
    times = []
    for _ in range(5):
        begin = time.perf_counter()
        run(steps)
        times.append((time.perf_counter() - begin) * 1e3 / steps)
    print(f"{name}.torch\t{sorted(times)[2]:.6g}\tms", flush=True)


if __name__ == "__main__":
    for workload in sys.argv[1:] or WORKLOADS:
        measure(workload)
