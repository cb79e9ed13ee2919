"""Networks of benchmarks/unseen on sounds, words, points and edges, in PyTorch."""
import torch
from torch import nn
from torch.nn import functional as F

from torch_steps import training

Adam, AdamW = torch.optim.Adam, torch.optim.AdamW


class WaveBlock(nn.Module):
    def __init__(self, dilation):
        super().__init__()
        self.dilation = dilation
        self.filter = nn.Conv1d(32, 32, 2, dilation=dilation)
        self.gate = nn.Conv1d(32, 32, 2, dilation=dilation)
        self.residual, self.skip = nn.Conv1d(32, 32, 1), nn.Conv1d(32, 64, 1)


class WaveNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv1d(1, 32, 1)
        self.out1, self.out2 = nn.Conv1d(64, 64, 1), nn.Conv1d(64, 256, 1)
        self.blocks = nn.ModuleList(WaveBlock(2**k) for k in range(8))

    def forward(self, x):
        y, skips = self.first(x), None
        for block in self.blocks:
            p = F.pad(y, (block.dilation, 0))
            z = torch.tanh(block.filter(p)) * torch.sigmoid(block.gate(p))
            skip = block.skip(z)
            skips = skip if skips is None else skips + skip
            y = y + block.residual(z)
        return self.out2(F.relu(self.out1(F.relu(skips))))


def wave_net():
    x, y = torch.randn(4, 1, 2048), torch.randint(0, 256, (4, 2048))
    return training(WaveNet(), lambda net: F.cross_entropy(net(x), y), Adam)


class Mamba(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.rate = nn.Linear(64, 256), nn.Linear(128, 128)
        self.mixing, self.out = nn.Linear(128, 32), nn.Linear(128, 64)
        self.conv = nn.Conv1d(128, 128, 4, padding=3, groups=128)
        states = torch.arange(1, 17, dtype=torch.float32)
        self.a_log = nn.Parameter(torch.log(states.repeat(128, 1)))
        self.direct = nn.Parameter(torch.ones(128))

    def forward(self, x0):
        length = x0.size(1)
        x, gate = self.first(x0).chunk(2, -1)
        x = F.silu(self.conv(x.transpose(1, 2))[:, :, :length].transpose(1, 2))
        delta = F.softplus(self.rate(x))
        into, outof = self.mixing(x).split(16, -1)
        decay = torch.exp(delta.unsqueeze(-1) * -torch.exp(self.a_log))
        entering = delta.unsqueeze(-1) * into.unsqueeze(2) * x.unsqueeze(-1)
        h, ys = torch.zeros(x0.size(0), 128, 16), []
        for t in range(length):
            h = decay[:, t] * h + entering[:, t]
            ys.append((h * outof[:, t].unsqueeze(1)).sum(-1))
        return self.out((torch.stack(ys, 1) + x * self.direct) * F.silu(gate))


def mamba():
    x, y = torch.randn(8, 64, 64), torch.randn(8, 64, 64)
    return training(Mamba(), lambda net: F.mse_loss(net(x), y), AdamW)


class Translator(nn.Module):
    def __init__(self):
        super().__init__()
        self.source, self.target = nn.Embedding(2000, 64), nn.Embedding(2000, 64)
        self.encoder, self.cell = nn.GRU(64, 128, batch_first=True), nn.GRUCell(192, 128)
        self.query, self.key = nn.Linear(128, 128), nn.Linear(128, 128)
        self.score, self.out = nn.Linear(128, 1), nn.Linear(256, 2000)

    def forward(self, x, y):
        seen, last = self.encoder(self.source(x))
        h, keys, outs = last[0], self.key(seen), []
        for t in range(y.size(1)):
            scores = self.score(torch.tanh(self.query(h).unsqueeze(1) + keys)).squeeze(-1)
            context = torch.bmm(scores.softmax(-1).unsqueeze(1), seen).squeeze(1)
            h = self.cell(torch.cat([self.target(y[:, t]), context], -1), h)
            outs.append(self.out(torch.cat([h, context], -1)))
        return torch.stack(outs, 1)


def translator():
    x, y, z = (torch.randint(0, 2000, (32, 20)) for _ in range(3))
    return training(Translator(), lambda net: F.cross_entropy(
        net(x, y).flatten(0, 1), z.flatten()), Adam)


class Speech(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.out = nn.Conv1d(40, 128, 5, 2, 2), nn.Linear(256, 29)
        self.lstm = nn.LSTM(128, 128, batch_first=True, bidirectional=True)

    def forward(self, x):
        y = F.relu(self.conv(x)).transpose(1, 2)
        return F.log_softmax(self.out(self.lstm(y)[0]), -1).transpose(0, 1)


def speech():
    x, y = torch.randn(16, 40, 200), torch.randint(1, 29, (16, 20))
    steps, labels = torch.full((16,), 100), torch.full((16,), 20)
    return training(Speech(), lambda net: F.ctc_loss(net(x), y, steps, labels), Adam)


class Nerf(nn.Module):
    def __init__(self):
        super().__init__()
        sizes = [60] + [256] * 6
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(sizes, sizes[1:]))
        self.out = nn.Linear(256, 4)
        self.register_buffer("bands", 2.0**torch.arange(0, 10, dtype=torch.float32))

    def forward(self, p):
        angles = (p.unsqueeze(-1) * self.bands).flatten(-2)
        h = torch.cat([angles.sin(), angles.cos()], -1)
        for layer in self.layers:
            h = F.relu(layer(h))
        out = self.out(h)
        alpha = 1 - torch.exp(-F.relu(out[..., 3]) * 0.1)
        through = torch.cumprod(1 - alpha + 1e-10, 1)
        reached = torch.cat([torch.ones(p.size(0), 1), through[:, :-1]], 1)
        return ((alpha * reached).unsqueeze(-1) * torch.sigmoid(out[..., :3])).sum(1)


def nerf():
    p, y = torch.rand(256, 32, 3), torch.rand(256, 3)
    return training(Nerf(), lambda net: F.mse_loss(net(p), y), Adam)


class PointNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv1d(3, 64, 1), nn.BatchNorm1d(64)
        self.conv2, self.norm2 = nn.Conv1d(64, 128, 1), nn.BatchNorm1d(128)
        self.conv3, self.norm3 = nn.Conv1d(128, 512, 1), nn.BatchNorm1d(512)
        self.hidden, self.out = nn.Linear(512, 256), nn.Linear(256, 10)

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)))
        y = self.norm3(self.conv3(F.relu(self.norm2(self.conv2(y)))))
        return self.out(F.relu(self.hidden(torch.max(y, 2)[0])))


def point_net():
    x, y = torch.randn(16, 3, 1024), torch.randint(0, 10, (16,))
    return training(PointNet(), lambda net: F.cross_entropy(net(x), y), Adam)


class Gat(nn.Module):
    def __init__(self):
        super().__init__()
        self.w, self.out = nn.Linear(64, 64, bias=False), nn.Linear(64, 7)
        self.a_from = nn.Parameter(torch.randn(4, 16) * 0.1)
        self.a_to = nn.Parameter(torch.randn(4, 16) * 0.1)

    def forward(self, x, source, target):
        n = x.size(0)
        h = self.w(x).view(n, 4, 16)
        scores = F.leaky_relu((h * self.a_from).sum(-1).index_select(0, source)
                              + (h * self.a_to).sum(-1).index_select(0, target), 0.2)
        index = target.unsqueeze(1).expand(-1, 4)
        top = torch.full((n, 4), -1e9).scatter_reduce(0, index, scores, "amax")
        p = torch.exp(scores - top.detach().index_select(0, target))
        total = torch.zeros(n, 4).index_add(0, target, p)
        shares = (p / total.index_select(0, target)).unsqueeze(-1)
        y = torch.zeros(n, 4, 16).index_add(0, target, h.index_select(0, source) * shares)
        return self.out(F.elu(y.flatten(1)))


def gat():
    x, y = torch.randn(5000, 64), torch.randint(0, 7, (5000,))
    source, target = torch.randint(0, 5000, (40000,)), torch.randint(0, 5000, (40000,))
    return training(Gat(), lambda net: F.cross_entropy(net(x, source, target), y), Adam)


class Spiking(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden, self.out = nn.Linear(784, 256), nn.Linear(256, 10)

    @staticmethod
    def spike(v):
        soft = torch.sigmoid(5 * v)
        return soft + ((v > 0).float() - soft).detach()

    def forward(self, x):
        v1, v2, count = torch.zeros(64, 256), torch.zeros(64, 10), torch.zeros(64, 10)
        current = self.hidden(x)
        for _ in range(25):
            v1 = 0.9 * v1 + current
            fired = self.spike(v1 - 1)
            v1 = v1 * (1 - fired)
            v2 = 0.9 * v2 + self.out(fired)
            output = self.spike(v2 - 1)
            v2 = v2 - output
            count = count + output
        return count


def spiking():
    x, y = torch.rand(64, 784), torch.randint(0, 10, (64,))
    return training(Spiking(), lambda net: F.cross_entropy(net(x), y), Adam)


class Metric(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden, self.out = nn.Linear(128, 256), nn.Linear(256, 64)

    def forward(self, x):
        return F.normalize(self.out(F.relu(self.hidden(x))))


def triplets():
    x, y = torch.randn(256, 128), torch.randint(0, 16, (256,))

    def loss(net):
        e = net(x)
        d, same = torch.cdist(e, e), y.unsqueeze(0) == y.unsqueeze(1)
        far = d.masked_fill(~same, -1.0).max(1)[0]
        near = d.masked_fill(same, 1e9).min(1)[0]
        return F.relu(far - near + 0.2).mean()

    return training(Metric(), loss, Adam)
