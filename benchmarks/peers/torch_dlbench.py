"""The networks of benchmarks/dlbench in PyTorch. torch_steps.py describes the command line."""
import torch
from torch import nn
from torch.nn import functional as F

from torch_residual import ResNet50
from torch_steps import main, training


def dense(*sizes):
    layers = []
    for inputs, outputs in zip(sizes, sizes[1:]):
        layers += [nn.Sigmoid()] * bool(layers) + [nn.Linear(inputs, outputs)]
    return nn.Sequential(*layers)


def alexnet():
    return nn.Sequential(
        nn.Conv2d(3, 64, 11, 4, 2), nn.ReLU(), nn.MaxPool2d(3, 2),
        nn.Conv2d(64, 192, 5, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2),
        nn.Conv2d(192, 384, 3, padding=1), nn.ReLU(), nn.Conv2d(384, 256, 3, padding=1), nn.ReLU(),
        nn.Conv2d(256, 256, 3, padding=1), nn.ReLU(), nn.MaxPool2d(3, 2), nn.Flatten(),
        nn.Linear(256 * 6 * 6, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(),
        nn.Linear(4096, 1000))


def alexnet_r():
    return nn.Sequential(
        nn.Conv2d(3, 32, 5, padding=2), nn.MaxPool2d(3, 2, ceil_mode=True), nn.ReLU(),
        nn.Conv2d(32, 32, 5, padding=2), nn.ReLU(), nn.AvgPool2d(3, 2, ceil_mode=True),
        nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.AvgPool2d(3, 2, ceil_mode=True),
        nn.Flatten(), nn.Linear(64 * 4 * 4, 10))


class Basic(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.extra = (outputs - inputs) // 2
        self.conv1 = nn.Conv2d(inputs, outputs, 3, 2 if self.extra else 1, 1, bias=False)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)

    def forward(self, x):
        y = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        if self.extra:
            x = F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.extra, self.extra))
        return F.relu(y + x)


class ResNet56(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16)
        sizes = [16] * 10 + [32] * 9 + [64] * 9
        self.blocks = nn.Sequential(*(Basic(*pair) for pair in zip(sizes, sizes[1:])))
        self.fc = nn.Linear(64, 10)

    def forward(self, x):
        return self.fc(self.blocks(F.relu(self.norm(self.stem(x)))).mean((2, 3)))


class LanguageModel(nn.Module):
    def __init__(self, words=10000, width=256):
        super().__init__()
        self.embedding, self.lstm = nn.Embedding(words, width), nn.LSTM(width, width, 2)
        self.out = nn.Linear(width, words)

    def forward(self, x):
        return self.out(self.lstm(self.embedding(x))[0].flatten(0, 1))


def classify(make, shape, classes, lr):
    def step(batch):
        x, y = torch.randn(batch, *shape), torch.randint(0, classes, (batch,))
        return training(make(), lambda net: F.cross_entropy(net(x), y), lr=lr)

    return step


def lstm(batch):
    x, y = torch.randint(0, 10000, (32, batch)), torch.randint(0, 10000, (32 * batch,))
    return training(LanguageModel(), lambda net: F.cross_entropy(net(x), y), lr=1.0)


FAMILIES = {
    "fcn5": (classify(lambda: dense(26752, *[2048] * 3, 26752), (26752,), 26752, 0.05), (64,)),
    "fcn8": (classify(lambda: dense(26752, *[2048] * 6, 26752), (26752,), 26752, 0.05), (64,)),
    "alexnet": (classify(alexnet, (3, 224, 224), 1000, 0.01), (16,)),
    "resnet50": (classify(ResNet50, (3, 224, 224), 1000, 0.01), (16,)),
    "fcn_r": (classify(lambda: dense(784, 2048, 4096, 1024, 10), (784,), 10, 0.05),
              (342, 512, 1024, 4096)),
    "alexnet_r": (classify(alexnet_r, (3, 32, 32), 10, 0.01), (64, 128, 256, 512, 1024, 2048)),
    "resnet56": (classify(ResNet56, (3, 32, 32), 10, 0.01), (11, 16, 32, 64, 128)),
    "lstm": (lstm, (32, 64, 128, 256, 512, 1024)),
}

if __name__ == "__main__":
    main({f"{name}/{batch}": lambda make=make, batch=batch: make(batch)
          for name, (make, batches) in FAMILIES.items() for batch in batches})
