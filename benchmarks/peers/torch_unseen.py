"""The networks of benchmarks/unseen in PyTorch. torch_steps.py describes the command line."""
import math

import torch
from torch import nn
from torch.nn import functional as F

from torch_steps import COMPILED, main, training
from torch_unseen_further import (
    capsules, edge_conv, generator, hamiltonian, sinkhorn, state_space, turing_machine, windows)
from torch_unseen_images import (
    bf16, mobile_net, resnet50, vit_tiny, u_net, video, autoencoder, segmentation, detection,
    classifier, ConvNext, SqueezeNet)
from torch_unseen_pictures import diffusion, style, swin
from torch_unseen_signals import (
    gat, mamba, nerf, point_net, speech, spiking, translator, triplets, wave_net)

Adam, AdamW = torch.optim.Adam, torch.optim.AdamW


class GptBlock(nn.Module):
    def __init__(self, width=512):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        q, k, v = (part.view(*x.shape[:2], 8, -1).transpose(1, 2)
                   for part in self.qkv(self.norm1(x)).chunk(3, 2))
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        y = x + self.proj(seen.transpose(1, 2).reshape(x.shape))
        return y + self.down(F.gelu(self.up(self.norm2(y))))


class MiddleGpt(nn.Module):
    def __init__(self, words=8192, length=128, width=512):
        super().__init__()
        self.word, self.place = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(GptBlock() for _ in range(4))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, x):
        y = self.word(x) + self.place(torch.arange(x.shape[1]))
        for block in self.blocks:
            y = block(y)
        return self.head(self.norm(y))


def middle_gpt(is_bf16=False):
    x, y = torch.randint(0, 8192, (8, 128)), torch.randint(0, 8192, (8 * 128,))

    def loss(net):
        with bf16(is_bf16):
            return F.cross_entropy(net(x).flatten(0, 1), y)

    return training(MiddleGpt(), loss, AdamW)


def decoder():
    net = MiddleGpt()

    @torch.no_grad()
    def step():
        keys, values = [None] * 4, [None] * 4
        word = torch.zeros(1, 1, dtype=torch.long)
        for at in range(32):
            y = net.word(word) + net.place(torch.full((1, 1), at))
            for i, block in enumerate(net.blocks):
                q, k, v = (part.view(1, 1, 8, -1).transpose(1, 2)
                           for part in block.qkv(block.norm1(y)).chunk(3, 2))
                keys[i] = k if keys[i] is None else torch.cat([keys[i], k], 2)
                values[i] = v if values[i] is None else torch.cat([values[i], v], 2)
                seen = F.scaled_dot_product_attention(q, keys[i], values[i])
                y = y + block.proj(seen.transpose(1, 2).reshape(y.shape))
                y = y + block.down(F.gelu(block.up(block.norm2(y))))
            word = net.head(net.norm(y)).argmax(-1)
        word.item()

    return step


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.out = nn.Embedding(5000, 256), nn.Linear(256, 2)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True)
                                    for _ in range(2))

    def forward(self, x, padding):
        y = self.embedding(x)
        for layer in self.layers:
            y = layer(y, src_key_padding_mask=padding)
        return self.out(y.mean(1))


def encoder():
    x, y = torch.randint(0, 5000, (16, 64)), torch.randint(0, 2, (16,))
    padding = torch.arange(64) >= torch.randint(16, 65, (16, 1))
    return training(Encoder(), lambda net: F.cross_entropy(net(x, padding), y), AdamW)


class HandBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(256, 256), nn.Linear(256, 256), nn.Linear(256, 256)
        self.proj, self.up, self.down = nn.Linear(256, 256), nn.Linear(256, 1024), nn.Linear(512, 256)
        self.scale1 = nn.Parameter(torch.ones(256))
        self.scale2 = nn.Parameter(torch.ones(256))

    @staticmethod
    def norm(x, scale):
        return x * torch.rsqrt((x * x).mean(-1, True) + 1e-6) * scale

    def forward(self, x, mask):
        b, t, _ = x.shape

        def heads(y):
            return y.view(b, t, 8, -1).transpose(1, 2)
        y = self.norm(x, self.scale1)
        scores = heads(self.q(y)) @ heads(self.k(y)).transpose(-2, -1) / 32 ** 0.5
        scores = scores.masked_fill(mask, -1e9)
        e = torch.exp(scores - scores.amax(-1, True).detach())
        shares = F.dropout(e / e.sum(-1, True), 0.1)
        seen = (shares @ heads(self.v(y))).transpose(1, 2).reshape(x.shape)
        z = x + F.dropout(self.proj(seen), 0.1)
        a, gate = self.up(self.norm(z, self.scale2)).chunk(2, -1)
        return z + F.dropout(self.down(a * torch.sigmoid(a) * gate), 0.1)


class HandTransformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.word, self.out = nn.Embedding(2000, 256), nn.Linear(256, 2000)
        self.blocks = nn.ModuleList(HandBlock() for _ in range(2))

    def forward(self, x, mask):
        y = self.word(x)
        for block in self.blocks:
            y = block(y, mask)
        return self.out(y)


def hand_transformer():
    x, y = torch.randint(0, 2000, (16, 128)), torch.randint(0, 2000, (16 * 128,))
    mask = torch.triu(torch.ones(128, 128), 1) > 0
    return training(HandTransformer(), lambda net: F.cross_entropy(net(x, mask).flatten(0, 1), y),
                    AdamW)


class HandLstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.gates, self.out = nn.Linear(64 + 128, 4 * 128), nn.Linear(128, 10)

    def forward(self, x):
        h = c = torch.zeros(x.shape[1], 128)
        for part in x:
            f, i, g, o = self.gates(torch.cat([part, h], 1)).chunk(4, 1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
        return self.out(h)


def hand_lstm():
    x, y = torch.randn(40, 32, 64), torch.randint(0, 10, (32,))
    return training(HandLstm(), lambda net: F.cross_entropy(net(x), y), Adam)


class WideLstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.lstm = nn.Embedding(2000, 512), nn.LSTM(512, 1024)
        self.out = nn.Linear(1024, 2000)

    def forward(self, x):
        return self.out(self.lstm(self.embedding(x))[0].flatten(0, 1))


def wide_lstm():
    x, y = torch.randint(0, 2000, (32, 32)), torch.randint(0, 2000, (32 * 32,))
    return training(WideLstm(), lambda net: F.cross_entropy(net(x), y), Adam)


class BiGru(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(32, 64, 2, batch_first=True, bidirectional=True)
        self.out = nn.Linear(128, 5)

    def forward(self, x):
        return self.out(self.gru(x)[0].mean(1))


def bi_gru():
    x, y = torch.randn(16, 50, 32), torch.randint(0, 5, (16,))
    return training(BiGru(), lambda net: F.cross_entropy(net(x), y), Adam)


class TcnBlock(nn.Module):
    def __init__(self, channels, dilation):
        super().__init__()
        self.conv1 = nn.Conv1d(channels, channels, 3, dilation=dilation)
        self.conv2 = nn.Conv1d(channels, channels, 3, dilation=dilation)
        self.pad_size = 2 * dilation

    def causal(self, conv, x):
        return F.relu(conv(F.pad(x, (self.pad_size, 0))))

    def forward(self, x):
        return F.relu(x + self.causal(self.conv2, self.causal(self.conv1, x)))


class Tcn(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv1d(8, 64, 1)
        self.blocks = nn.ModuleList(TcnBlock(64, 2**k) for k in range(6))
        self.out = nn.Linear(64, 10)

    def forward(self, x):
        y = self.first(x)
        for block in self.blocks:
            y = block(y)
        return self.out(y[:, :, -1])


def tcn():
    x, y = torch.randn(16, 8, 1024), torch.randint(0, 10, (16,))
    return training(Tcn(), lambda net: F.cross_entropy(net(x), y), Adam)


class BigEmbedding(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.out = nn.Embedding(200000, 64), nn.Linear(64, 20)

    def forward(self, x):
        return self.out(self.embedding(x).mean(1))


def big_embedding():
    x, y = torch.randint(0, 200000, (64, 50)), torch.randint(0, 20, (64,))
    return training(BigEmbedding(), lambda net: F.cross_entropy(net(x), y), lr=0.1)


def hand_gelu():
    x = torch.randn(1024, 4096, requires_grad=True)

    def loss(x):
        return (0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))).mean()

    run = torch.compile(loss) if COMPILED else loss

    def step():
        x.grad = None
        value = run(x)
        value.backward()
        value.item()

    return step


def perceptron(*sizes):
    layers = []
    for inputs, outputs in zip(sizes, sizes[1:]):
        layers += [nn.ReLU()] * bool(layers) + [nn.Linear(inputs, outputs)]
    return nn.Sequential(*layers)


def wide_perceptron():
    x, y = torch.randn(256, 1024), torch.randint(0, 10, (256,))
    return training(perceptron(1024, 4096, 4096, 10), lambda net: F.cross_entropy(net(x), y), Adam)


def tiny_perceptron():
    x, y = torch.randn(1, 8), torch.randn(1, 4)
    return training(perceptron(8, 64, 64, 4), lambda net: F.mse_loss(net(x), y), Adam)


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(3, 64, 4, 2, 1), nn.Conv2d(64, 128, 4, 2, 1)
        self.out = nn.Linear(128 * 8 * 8, 1)

    def forward(self, x):
        y = F.leaky_relu(self.conv2(F.leaky_relu(self.conv1(x), 0.2)), 0.2)
        return self.out(y.flatten(1))


def gradient_penalty():
    real, fake = torch.randn(32, 3, 32, 32), torch.randn(32, 3, 32, 32)

    def loss(net):
        share = torch.rand(32, 1, 1, 1)
        mixed = (share * real + (1 - share) * fake).detach().requires_grad_()
        slope, = torch.autograd.grad(net(mixed).sum(), mixed, create_graph=True)
        penalty = (slope.flatten(1).norm(2, 1) - 1).square().mean()
        return net(fake).mean() - net(real).mean() + 10 * penalty

    return training(Critic(), loss, Adam)


class GraphNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.own1, self.near1 = nn.Linear(64, 64), nn.Linear(64, 64)
        self.own2, self.near2 = nn.Linear(64, 8), nn.Linear(64, 8)

    @staticmethod
    def gather_near(x, source, target, degree):
        return torch.zeros(x.shape).index_add(0, target, x.index_select(0, source)) / degree

    def forward(self, x, *graph):
        y = F.relu(self.own1(x) + self.near1(self.gather_near(x, *graph)))
        return self.own2(y) + self.near2(self.gather_near(y, *graph))


def graph_net():
    nodes, edges = 10000, 80000
    x, y = torch.randn(nodes, 64), torch.randint(0, 8, (nodes,))
    source, target = torch.randint(0, nodes, (edges,)), torch.randint(0, nodes, (edges,))
    degree = torch.zeros(nodes, 1).index_add(0, target, torch.ones(edges, 1)).clamp(min=1)
    return training(GraphNet(), lambda net: F.cross_entropy(net(x, source, target, degree), y), Adam)


class Recommender(nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(50000, 16, mode="sum") for _ in range(8))
        self.bottom, self.top = perceptron(13, 128, 16), perceptron(36 + 16, 128, 1)

    def forward(self, numbers, ids, pairs):
        features = [self.bottom(numbers)] + [table(part) for table, part in zip(self.tables, ids)]
        every = torch.stack(features, 1)
        products = (every @ every.transpose(1, 2)).flatten(1)
        return self.top(torch.cat([features[0], products.index_select(1, pairs)], 1))


def recommender():
    numbers, y = torch.randn(512, 13), (torch.rand(512, 1) < 0.3).float()
    ids = torch.randint(0, 50000, (8, 512, 4))
    pairs = torch.tensor([i * 9 + j for i in range(1, 9) for j in range(i)])
    return training(Recommender(), lambda net: F.binary_cross_entropy_with_logits(
        net(numbers, ids, pairs), y))


def physics():
    points = torch.rand(2000, 2) * 2 - 1
    net = nn.Sequential(nn.Linear(2, 50), nn.Tanh(), nn.Linear(50, 50), nn.Tanh(),
                        nn.Linear(50, 50), nn.Tanh(), nn.Linear(50, 1))

    def loss(net):
        x = points.detach().requires_grad_()
        u = net(x)
        slope, = torch.autograd.grad(u.sum(), x, create_graph=True)
        u_x, u_t = slope[:, :1], slope[:, 1:]
        u_xx = torch.autograd.grad(u_x.sum(), x, create_graph=True)[0][:, :1]
        return (u_t + u * u_x - 0.01 * u_xx).square().mean()

    return training(net, loss, Adam)


def policy():
    states, gains = torch.randn(16, 1, 8), torch.randn(16)

    def loss(net):
        chosen = []
        for state in states:
            shares = F.log_softmax(net(state), -1)
            action = int(torch.multinomial(shares.detach().exp(), 1).item())
            chosen.append(shares[:, action])
        return -(torch.cat(chosen) * gains).sum()

    return training(perceptron(8, 64, 64, 4), loss, Adam)


if __name__ == "__main__":
    main({
        "mobile_net": mobile_net,
        "resnet50": resnet50,
        "resnet50_bf16": lambda: resnet50(True),
        "vit_tiny": vit_tiny,
        "u_net": u_net,
        "video": video,
        "swin": swin,
        "autoencoder": autoencoder,
        "segmentation": segmentation,
        "detection": detection,
        "conv_next": lambda: classifier(ConvNext, 4, 128, 100),
        "squeeze": lambda: classifier(SqueezeNet, 16, 64, 10),
        "diffusion": diffusion,
        "style": style,
        "middle_gpt": middle_gpt,
        "middle_gpt_bf16": lambda: middle_gpt(True),
        "decoder": decoder,
        "encoder": encoder,
        "hand_transformer": hand_transformer,
        "hand_lstm": hand_lstm,
        "wide_lstm": wide_lstm,
        "bi_gru": bi_gru,
        "tcn": tcn,
        "big_embedding": big_embedding,
        "wave_net": wave_net,
        "mamba": mamba,
        "translator": translator,
        "speech": speech,
        "hand_gelu": hand_gelu,
        "wide_perceptron": wide_perceptron,
        "tiny_perceptron": tiny_perceptron,
        "gradient_penalty": gradient_penalty,
        "graph_net": graph_net,
        "recommender": recommender,
        "physics": physics,
        "policy": policy,
        "nerf": nerf,
        "point_net": point_net,
        "gat": gat,
        "spiking": spiking,
        "triplets": triplets,
        "capsules": capsules,
        "state_space": state_space,
        "sinkhorn": sinkhorn,
        "edge_conv": edge_conv,
        "generator": generator,
        "windows": windows,
        "hamiltonian": hamiltonian,
        "turing_machine": turing_machine,
    })
