"""ResNet-50 as in benchmarks/residual.h."""
from torch import nn
from torch.nn import functional as F


class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(width), nn.BatchNorm2d(width)
        self.norm3 = nn.BatchNorm2d(4 * width)
        self.shortcut = None
        if inputs != 4 * width or stride != 1:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, 4 * width, 1, stride, bias=False),
                                          nn.BatchNorm2d(4 * width))

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)))
        y = F.relu(self.norm2(self.conv2(y)))
        y = self.norm3(self.conv3(y))
        return F.relu(y + (self.shortcut(x) if self.shortcut else x))


class ResNet50(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        blocks, inputs, width = [], 64, 64
        for depth in (3, 4, 6, 3):
            for k in range(depth):
                blocks.append(Bottleneck(inputs, width, 2 if k == 0 and width > 64 else 1))
                inputs = 4 * width
            width *= 2
        self.blocks, self.fc = nn.Sequential(*blocks), nn.Linear(2048, 1000)

    def forward(self, x):
        y = F.max_pool2d(F.relu(self.norm(self.stem(x))), 3, 2, 1)
        return self.fc(F.adaptive_avg_pool2d(self.blocks(y), 1).flatten(1))
