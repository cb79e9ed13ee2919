"""Networks of benchmarks/unseen/further.cpp."""
import math

import torch
from torch import nn
from torch.nn import functional as F

from torch_steps import maybe_compiled, training

Adam, AdamW = torch.optim.Adam, torch.optim.AdamW


class Capsules(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 64, 9), nn.Conv2d(64, 128, 9, 2)
        self.weight = nn.Parameter(0.05 * torch.randn(576, 10, 16, 8))

    @staticmethod
    def squash(x):
        square = (x * x).sum(-1, True)
        return x * (square / (1 + square) / torch.sqrt(square + 1e-8))

    def forward(self, image):
        parts = self.conv2(F.relu(self.conv1(image))).view(16, 16, 8, 36).permute(0, 1, 3, 2)
        votes = torch.einsum("njoi,bni->bnjo", self.weight,
                             self.squash(parts.reshape(16, 576, 8)))
        still, logits = votes.detach(), torch.zeros(16, 576, 10)
        for _ in range(2):
            whole = self.squash((logits.softmax(2).unsqueeze(-1) * still).sum(1))
            logits = logits + (still * whole.unsqueeze(1)).sum(-1)
        return self.squash((logits.softmax(2).unsqueeze(-1) * votes).sum(1)).norm(dim=-1)


def capsules():
    x, y = torch.randn(16, 1, 28, 28), F.one_hot(torch.randint(0, 10, (16,)), 10).float()

    def loss(net):
        length = net(x)
        return (y * F.relu(0.9 - length).square()
                + 0.5 * (1 - y) * F.relu(length - 0.1).square()).sum() / 16

    return training(Capsules(), loss, Adam)


class StateSpace(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp, self.out, self.mix = nn.Linear(1, 64), nn.Linear(64, 10), nn.Conv1d(64, 128, 1)
        self.log_dt = nn.Parameter(4 * torch.rand(64) - 6)
        self.log_decay = nn.Parameter(torch.full((64, 16), math.log(0.5)))
        self.frequency = nn.Parameter(math.pi * torch.arange(16.0).repeat(64, 1))
        self.re, self.im = nn.Parameter(torch.randn(64, 16)), nn.Parameter(torch.randn(64, 16))
        self.skip = nn.Parameter(torch.randn(64))

    def forward(self, signal):
        x, time = self.inp(signal).transpose(1, 2), torch.arange(1024.0)
        dt = self.log_dt.exp().unsqueeze(-1)
        decay = torch.exp((-self.log_decay.exp() * dt).unsqueeze(-1) * time)
        phase = (self.frequency * dt).unsqueeze(-1) * time
        kernel = 2 * (self.re.unsqueeze(-1) * decay * phase.cos()
                      - self.im.unsqueeze(-1) * decay * phase.sin()).sum(1)
        y = torch.fft.irfft(torch.fft.rfft(x, 2048) * torch.fft.rfft(kernel, 2048), 2048)
        y = F.gelu(y[..., :1024] + x * self.skip.unsqueeze(-1))
        return self.out(F.glu(self.mix(y), 1).mean(-1))


def state_space():
    x, y = torch.randn(8, 1024, 1), torch.randint(0, 10, (8,))
    return training(StateSpace(), lambda net: F.cross_entropy(net(x), y), Adam)


def sinkhorn():
    x, y = torch.randn(4, 128, 16), torch.randn(4, 128, 8)

    def transport(points):
        cost = torch.cdist(points, y).square()
        u, v = torch.zeros(4, 128), torch.zeros(4, 128)
        for _ in range(20):
            u = -0.5 * (math.log(128) + ((v.unsqueeze(1) - cost) / 0.5).logsumexp(2))
            v = -0.5 * (math.log(128) + ((u.unsqueeze(2) - cost) / 0.5).logsumexp(1))
        return (torch.exp((u.unsqueeze(2) + v.unsqueeze(1) - cost) / 0.5) * cost).sum() / 4

    run = maybe_compiled(transport)
    layers = nn.Sequential(nn.Linear(16, 128), nn.Softplus(), nn.Linear(128, 8))
    return training(layers, lambda net: run(net(x)), Adam)


class EdgeConv(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(6, 64, 1), nn.Conv2d(128, 64, 1)
        self.norm1, self.norm2 = nn.BatchNorm2d(64), nn.BatchNorm2d(64)
        self.wide, self.out = nn.Conv1d(128, 256, 1), nn.Linear(512, 40)

    @staticmethod
    def edges(x):
        b, c, n = x.shape
        points = x.transpose(1, 2)
        index = torch.cdist(points, points).topk(20, -1, False)[1]
        near = torch.gather(points.unsqueeze(1).expand(b, n, n, c), 2,
                            index.unsqueeze(-1).expand(b, n, 20, c))
        here = points.unsqueeze(2).expand(b, n, 20, c)
        return torch.cat([near - here, here], -1).permute(0, 3, 1, 2)

    def forward(self, x):
        a = F.leaky_relu(self.norm1(self.conv1(self.edges(x))), 0.2).max(-1)[0]
        b = F.leaky_relu(self.norm2(self.conv2(self.edges(a))), 0.2).max(-1)[0]
        y = self.wide(torch.cat([a, b], 1))
        return self.out(torch.cat([y.amax(-1), y.mean(-1)], 1))


def edge_conv():
    x, y = torch.randn(4, 3, 512), torch.randint(0, 40, (4,))
    return training(EdgeConv(), lambda net: F.cross_entropy(net(x), y))


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.map1, self.map2 = nn.Linear(128, 128), nn.Linear(128, 128)
        self.start = nn.Parameter(torch.randn(1, 64, 8, 8))
        self.styles = nn.ModuleList(nn.Linear(128, 64) for _ in range(3))
        self.weights = nn.ParameterList(torch.randn(64, 64, 3, 3) / 24 for _ in range(3))
        self.rgb = nn.Conv2d(64, 3, 1)

    def forward(self, z):
        w = F.leaky_relu(self.map2(F.leaky_relu(self.map1(z), 0.2)), 0.2)
        b = z.shape[0]
        x = self.start.expand(b, -1, -1, -1)
        for style, weight in zip(self.styles, self.weights):
            m = weight.unsqueeze(0) * (style(w) + 1).view(b, 1, -1, 1, 1)
            m = m * torch.rsqrt(m.square().sum((2, 3, 4), True) + 1e-8)
            x = F.interpolate(x, scale_factor=2, mode="bilinear")
            size = x.shape[2]
            x = F.conv2d(x.reshape(1, b * 64, size, size), m.view(b * 64, 64, 3, 3), padding=1,
                         groups=b)
            x = F.leaky_relu(x.view(b, 64, size, size), 0.2)
        return self.rgb(x)


def generator():
    z, y = torch.randn(8, 128), torch.randn(8, 3, 64, 64)
    return training(Generator(), lambda net: F.mse_loss(net(z), y), Adam)


class Windows(nn.Module):
    def __init__(self):
        super().__init__()
        self.word, self.qkv = nn.Embedding(1000, 128), nn.Linear(128, 384)
        self.proj, self.out = nn.Linear(128, 128), nn.Linear(128, 1000)

    def forward(self, ids):
        x = self.word(ids)
        q, k, v = (part.view(4, 256, 4, 32).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        k = F.pad(k, (0, 0, 16, 16)).unfold(2, 33, 1)
        v = F.pad(v, (0, 0, 16, 16)).unfold(2, 33, 1)
        place = torch.arange(256).unsqueeze(1) + torch.arange(-16, 17)
        scores = torch.einsum("bhtd,bhtdw->bhtw", q, k) / math.sqrt(32)
        shares = scores.masked_fill((place < 0) | (place >= 256), -1e9).softmax(-1)
        seen = torch.einsum("bhtw,bhtdw->bhtd", shares, v).transpose(1, 2)
        return self.out(x + self.proj(seen.reshape(4, 256, 128)))


def windows():
    x, y = torch.randint(0, 1000, (4, 256)), torch.randint(0, 1000, (1024,))
    return training(Windows(), lambda net: F.cross_entropy(net(x).flatten(0, 1), y), AdamW)


def hamiltonian():
    start, y = torch.randn(128, 4), torch.randn(128, 4)
    layers = nn.Sequential(nn.Linear(4, 200), nn.Tanh(), nn.Linear(200, 200), nn.Tanh(),
                           nn.Linear(200, 1))

    def loss(net):
        def field(x):
            slope, = torch.autograd.grad(net(x).sum(), x, create_graph=True)
            dq, dp = slope.chunk(2, 1)
            return torch.cat([dp, -dq], 1)

        x = start.detach().requires_grad_()
        for _ in range(2):
            k1 = field(x)
            k2 = field(x + 0.05 * k1)
            k3 = field(x + 0.05 * k2)
            k4 = field(x + 0.1 * k3)
            x = x + 0.1 / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return F.mse_loss(x, y)

    return training(layers, loss, Adam)


class TuringMachine(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.head = nn.LSTMCell(29, 100), nn.Linear(100, 26)
        self.erase, self.write = nn.Linear(100, 20), nn.Linear(100, 20)
        self.out = nn.Linear(120, 8)

    def forward(self, x):
        h, c = torch.zeros(16, 100), torch.zeros(16, 100)
        memory, w = torch.full((16, 128, 20), 0.01), torch.full((16, 128), 1 / 128)
        read, outputs = torch.zeros(16, 20), []
        for word in x:
            h, c = self.cell(torch.cat([word, read], 1), (h, c))
            key, strength, gate, shift, sharp = self.head(h).split([20, 1, 1, 3, 1], 1)
            near = F.softplus(strength) * F.cosine_similarity(memory, key.unsqueeze(1), dim=-1)
            gate, shift = torch.sigmoid(gate), shift.softmax(1)
            w = gate * near.softmax(1) + (1 - gate) * w
            w = shift[:, 0:1] * w.roll(1, 1) + shift[:, 1:2] * w + shift[:, 2:3] * w.roll(-1, 1)
            w = w ** (1 + F.softplus(sharp))
            w = w / (w.sum(1, True) + 1e-16)
            read = torch.bmm(w.unsqueeze(1), memory).squeeze(1)
            memory = (memory * (1 - torch.bmm(w.unsqueeze(2), self.erase(h).sigmoid().unsqueeze(1)))
                      + torch.bmm(w.unsqueeze(2), self.write(h).tanh().unsqueeze(1)))
            outputs.append(self.out(torch.cat([h, read], 1)))
        return torch.stack(outputs)


def turing_machine():
    x, y = torch.randint(0, 2, (20, 16, 9)).float(), torch.randint(0, 2, (20, 16, 8)).float()
    return training(TuringMachine(), lambda net: F.binary_cross_entropy_with_logits(net(x), y),
                    torch.optim.RMSprop)
