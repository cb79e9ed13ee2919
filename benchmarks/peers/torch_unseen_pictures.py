"""Networks of benchmarks/unseen that divide, restyle or generate images, in PyTorch."""
import math

import torch
from torch import nn
from torch.nn import functional as F

from torch_steps import training

Adam, AdamW = torch.optim.Adam, torch.optim.AdamW


class WindowAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.proj = nn.Linear(96, 288), nn.Linear(96, 96)
        self.bias = nn.Parameter(torch.randn(3, 49, 49))

    def forward(self, x):
        q, k, v = self.qkv(x).reshape(-1, 49, 3, 3, 32).permute(2, 0, 3, 1, 4)
        shares = (q @ k.transpose(-2, -1) / math.sqrt(32.0) + self.bias).softmax(-1)
        return self.proj((shares @ v).transpose(1, 2).reshape(-1, 49, 96))


class SwinBlock(nn.Module):
    def __init__(self, shift):
        super().__init__()
        self.shift, self.attention = shift, WindowAttention()
        self.norm1, self.norm2 = nn.LayerNorm(96), nn.LayerNorm(96)
        self.up, self.down = nn.Linear(96, 384), nn.Linear(384, 96)

    def forward(self, x):
        n, shift = x.size(0), self.shift
        y = torch.roll(self.norm1(x), (-shift, -shift), (1, 2))
        y = y.reshape(n, 8, 7, 8, 7, 96).permute(0, 1, 3, 2, 4, 5).reshape(n * 64, 49, 96)
        y = self.attention(y)
        y = y.reshape(n, 8, 8, 7, 7, 96).permute(0, 1, 3, 2, 4, 5).reshape(n, 56, 56, 96)
        y = x + torch.roll(y, (shift, shift), (1, 2))
        return y + self.down(F.gelu(self.up(self.norm2(y))))


class Swin(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch, self.head = nn.Conv2d(3, 96, 4, 4), nn.Linear(96, 10)
        self.blocks = nn.Sequential(SwinBlock(0), SwinBlock(3))

    def forward(self, x):
        return self.head(self.blocks(self.patch(x).permute(0, 2, 3, 1)).mean((1, 2)))


def swin():
    x, y = torch.randn(4, 3, 224, 224), torch.randint(0, 10, (4,))
    return training(Swin(), lambda net: F.cross_entropy(net(x), y), AdamW)


class TimedBlock(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(8, inputs), nn.GroupNorm(8, outputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.skip = nn.Identity() if inputs == outputs else nn.Conv2d(inputs, outputs, 1)
        self.time = nn.Linear(128, outputs)

    def forward(self, x, t):
        h = self.conv1(F.silu(self.norm1(x))) + self.time(F.silu(t))[:, :, None, None]
        return self.conv2(F.silu(self.norm2(h))) + self.skip(x)


class Diffusion(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 64, 3, padding=1), nn.Conv2d(64, 3, 3, padding=1)
        self.down, self.norm = nn.Conv2d(64, 64, 3, 2, 1), nn.GroupNorm(8, 128)
        self.a, self.b = TimedBlock(64, 64), TimedBlock(64, 128)
        self.c, self.d = TimedBlock(128, 128), TimedBlock(192, 64)
        self.attention = nn.MultiheadAttention(128, 4, batch_first=True)
        self.time1, self.time2 = nn.Linear(64, 128), nn.Linear(128, 128)

    def forward(self, x, t):
        rates = torch.exp(torch.arange(0, 32, dtype=torch.float32) * (-math.log(10000.0) / 32))
        angles = t.float().unsqueeze(1) * rates
        e = self.time2(F.silu(self.time1(torch.cat([angles.sin(), angles.cos()], 1))))
        y0 = self.a(self.first(x), e)
        y = self.b(self.down(y0), e)
        places = self.norm(y).flatten(2).transpose(1, 2)
        seen = self.attention(places, places, places, need_weights=False)[0]
        y = self.c(y + seen.transpose(1, 2).reshape(y.shape), e)
        y = F.interpolate(y, scale_factor=2.0, mode="nearest")
        return self.last(self.d(torch.cat([y, y0], 1), e))


def diffusion():
    x, noise = torch.randn(8, 3, 32, 32), torch.randn(8, 3, 32, 32)
    t = torch.randint(0, 1000, (8,))
    return training(Diffusion(), lambda net: F.mse_loss(net(x, t), noise), AdamW)


def reflect(x, border):
    return F.pad(x, (border,) * 4, "reflect")


class StyleBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(64, 64, 3), nn.Conv2d(64, 64, 3)
        self.norm1 = nn.InstanceNorm2d(64, affine=True)
        self.norm2 = nn.InstanceNorm2d(64, affine=True)

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(reflect(x, 1))))
        return x + self.norm2(self.conv2(reflect(y, 1)))


class Style(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.down = nn.Conv2d(3, 32, 9), nn.Conv2d(32, 64, 3, 2)
        self.up, self.last = nn.Conv2d(64, 32, 3), nn.Conv2d(32, 3, 9)
        self.norm1, self.norm2 = nn.InstanceNorm2d(32), nn.InstanceNorm2d(64)
        self.norm3, self.blocks = nn.InstanceNorm2d(32), nn.Sequential(StyleBlock(), StyleBlock())

    def forward(self, x):
        y = F.relu(self.norm1(self.first(reflect(x, 4))))
        y = self.blocks(F.relu(self.norm2(self.down(reflect(y, 1)))))
        y = F.interpolate(y, scale_factor=2.0, mode="nearest")
        return self.last(reflect(F.relu(self.norm3(self.up(reflect(y, 1)))), 4))


def style():
    x, y = torch.rand(2, 3, 128, 128), torch.rand(2, 3, 128, 128)
    return training(Style(), lambda net: F.mse_loss(net(x), y), Adam)
