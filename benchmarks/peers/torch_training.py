"""The models of benchmarks/workloads.cpp in PyTorch, for torch.compile; torch_training.cpp has them in
C++. torch_steps.py describes the command line; each step also reads the loss."""
import math

import torch
from torch import nn
from torch.nn import functional as F

from torch_steps import main, training


def classifier(net, classes, shape, optimizer, lr):
    x, y = torch.randn(shape), torch.randint(0, classes, (shape[0],))
    return training(net, lambda run: F.cross_entropy(run(x), y), optimizer, lr)


def peaks():
    net = nn.Sequential(nn.Linear(2, 20), nn.ReLU(), nn.Linear(20, 5), nn.ReLU(), nn.Linear(5, 1))
    x, y = torch.rand(40_000, 2), torch.rand(40_000, 1)
    return training(net, lambda run: F.mse_loss(run(x), y), torch.optim.Adam, 0.08)


def keras_cnn():
    net = nn.Sequential(
        nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Dropout(0.25), nn.Flatten(), nn.Linear(9216, 128), nn.ReLU(), nn.Dropout(0.5),
        nn.Linear(128, 10))
    return classifier(net, 10, (128, 1, 28, 28), torch.optim.Adadelta, 1.0)


def article_cnn(batch):
    net = nn.Sequential(nn.Conv2d(1, 10, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                        nn.Linear(1960, 100), nn.ReLU(), nn.Linear(100, 10))
    return classifier(net, 10, (batch, 1, 28, 28), torch.optim.Adam, 1e-3)


class LanguageModel(nn.Module):
    def __init__(self, words=10_000, hidden=256):
        super().__init__()
        self.embedding = nn.Embedding(words, hidden)
        self.lstm = nn.LSTM(hidden, hidden, num_layers=2)
        self.out = nn.Linear(hidden, words)

    def forward(self, x):
        return self.out(self.lstm(self.embedding(x))[0].flatten(0, 1))


def lstm_lm():
    x, y = torch.randint(0, 10_000, (35, 20)), torch.randint(0, 10_000, (700,))
    return training(LanguageModel(), lambda run: F.cross_entropy(run(x), y), lr=0.1)


class Block(nn.Module):
    def __init__(self, width=128):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.proj = nn.Linear(width, width, bias=False)
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def forward(self, x, mask):
        q, k, v = (part.view(*x.shape[:2], 4, -1).transpose(1, 2)
                   for part in self.qkv(self.norm1(x)).chunk(3, 2))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        share = scores.masked_fill(mask, -math.inf).softmax(-1)
        y = x + self.proj((share @ v).transpose(1, 2).reshape(x.shape))
        return y + self.down(F.gelu(self.up(self.norm2(y))))


class Gpt(nn.Module):
    def __init__(self, letters=65, length=64, width=128):
        super().__init__()
        self.letter, self.place = nn.Embedding(letters, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block() for _ in range(4))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, letters, bias=False)

    def forward(self, x):
        length = x.shape[1]
        mask = torch.ones(length, length, dtype=torch.bool).triu(1)
        y = self.letter(x) + self.place(torch.arange(length))
        for block in self.blocks:
            y = block(y, mask)
        return self.head(self.norm(y)).flatten(0, 1)


def gpt():
    x, y = torch.randint(0, 65, (12, 64)), torch.randint(0, 65, (12 * 64,))
    return training(Gpt(), lambda run: F.cross_entropy(run(x), y), torch.optim.AdamW, 1e-3)


def conv(inputs, outputs, kernel, stride):
    return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)


class Basic(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1, self.norm1 = conv(inputs, outputs, 3, stride), nn.BatchNorm2d(outputs)
        self.conv2, self.norm2 = conv(outputs, outputs, 3, 1), nn.BatchNorm2d(outputs)
        self.shortcut = nn.Identity() if (inputs, stride) == (outputs, 1) else nn.Sequential(
            conv(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        return F.relu(y + self.shortcut(x))


def resnet18():
    sizes = [64, 64, 64, 128, 128, 256, 256, 512, 512]
    blocks = [Basic(a, b, 2 if a < b else 1) for a, b in zip(sizes, sizes[1:])]
    net = nn.Sequential(conv(3, 64, 3, 1), nn.BatchNorm2d(64), nn.ReLU(), *blocks,
                        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))

    def sgd(parameters, **options):
        return torch.optim.SGD(parameters, momentum=0.9, **options)

    return classifier(net, 10, (64, 3, 32, 32), sgd, 0.01)


NETWORKS = {"peaks": peaks, "keras_cnn": keras_cnn, "article_cnn_8": lambda: article_cnn(8),
            "article_cnn_128": lambda: article_cnn(128), "lstm_lm": lstm_lm, "gpt": gpt,
            "resnet18": resnet18}

main({f"{name}.step": make for name, make in NETWORKS.items()})
