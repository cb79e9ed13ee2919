"""The networks of benchmarks/unseen in PyTorch. torch_steps.py describes the command line."""
import math

import torch
from torch import nn
from torch.nn import functional as F

from torch_residual import ResNet50
from torch_steps import COMPILED, main, training

Adam, AdamW = torch.optim.Adam, torch.optim.AdamW


def bf16(on):
    return torch.autocast("cpu", torch.bfloat16, enabled=on)


class InvertedResidual(nn.Module):
    def __init__(self, inputs, outputs, stride, factor):
        super().__init__()
        width = inputs * factor
        self.expand = nn.Conv2d(inputs, width, 1, bias=False)
        self.depthwise = nn.Conv2d(width, width, 3, stride, 1, groups=width, bias=False)
        self.project = nn.Conv2d(width, outputs, 1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(width), nn.BatchNorm2d(width)
        self.norm3 = nn.BatchNorm2d(outputs)
        self.is_residual = inputs == outputs and stride == 1

    def forward(self, x):
        y = F.relu6(self.norm1(self.expand(x)))
        y = F.relu6(self.norm2(self.depthwise(y)))
        y = self.norm3(self.project(y))
        return x + y if self.is_residual else y


class MobileNet(nn.Module):
    STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
              (6, 160, 3, 2), (6, 320, 1, 1))

    def __init__(self):
        super().__init__()
        self.stem, self.stem_norm = nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32)
        blocks, inputs = [], 32
        for factor, channels, depth, stride in self.STAGES:
            for k in range(depth):
                blocks.append(InvertedResidual(inputs, channels, 1 if k else stride, factor))
                inputs = channels
        self.blocks = nn.ModuleList(blocks)
        self.last, self.last_norm = nn.Conv2d(320, 1280, 1, bias=False), nn.BatchNorm2d(1280)
        self.fc = nn.Linear(1280, 100)

    def forward(self, x):
        y = F.relu6(self.stem_norm(self.stem(x)))
        for block in self.blocks:
            y = block(y)
        y = F.relu6(self.last_norm(self.last(y)))
        return self.fc(y.mean((2, 3)))


def mobile_net():
    x, y = torch.randn(16, 3, 96, 96), torch.randint(0, 100, (16,))
    return training(MobileNet(), lambda net: F.cross_entropy(net(x), y))


def resnet50(is_bf16=False):
    x, y = torch.randn(4, 3, 224, 224), torch.randint(0, 1000, (4,))

    def loss(net):
        with bf16(is_bf16):
            return F.cross_entropy(net(x), y)

    return training(ResNet50(), loss)


class VitBlock(nn.Module):
    def __init__(self, width=192):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).reshape(batch, length, 3, 3, width // 3).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(q, k, v)
        y = x + self.proj(seen.transpose(1, 2).reshape(x.shape))
        return y + self.down(F.gelu(self.up(self.norm2(y))))


class VitTiny(nn.Module):
    def __init__(self, width=192):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.place = nn.Parameter(torch.randn(1, 197, width))
        self.blocks = nn.ModuleList(VitBlock() for _ in range(12))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

    def forward(self, x):
        y = self.patches(x).flatten(2).transpose(1, 2)
        y = torch.cat([self.token.expand(x.shape[0], -1, -1), y], 1) + self.place
        for block in self.blocks:
            y = block(y)
        return self.head(self.norm(y)[:, 0])


def vit_tiny():
    x, y = torch.randn(8, 3, 224, 224), torch.randint(0, 1000, (8,))
    return training(VitTiny(), lambda net: F.cross_entropy(net(x), y), AdamW)


class DoubleConv(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.norm1, self.norm2 = nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)

    def forward(self, x):
        return F.relu(self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x))))))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down1, self.down2, self.down3 = DoubleConv(3, 32), DoubleConv(32, 64), DoubleConv(64, 128)
        self.middle = DoubleConv(128, 256)
        self.up3, self.up2, self.up1 = DoubleConv(256, 128), DoubleConv(128, 64), DoubleConv(64, 32)
        self.grow3 = nn.ConvTranspose2d(256, 128, 2, 2)
        self.grow2 = nn.ConvTranspose2d(128, 64, 2, 2)
        self.grow1 = nn.ConvTranspose2d(64, 32, 2, 2)
        self.out = nn.Conv2d(32, 2, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        c = self.down3(F.max_pool2d(b, 2))
        y = self.middle(F.max_pool2d(c, 2))
        y = self.up3(torch.cat([c, self.grow3(y)], 1))
        y = self.up2(torch.cat([b, self.grow2(y)], 1))
        y = self.up1(torch.cat([a, self.grow1(y)], 1))
        return self.out(y)


def u_net():
    x, y = torch.randn(4, 3, 128, 128), torch.randint(0, 2, (4, 128, 128))
    return training(UNet(), lambda net: F.cross_entropy(net(x), y), Adam)


class Video(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv3d(3, 32, 3, padding=1)
        self.conv2 = nn.Conv3d(32, 64, 3, padding=1)
        self.conv3 = nn.Conv3d(64, 128, 3, padding=1)
        self.norm1, self.norm2, self.norm3 = (nn.BatchNorm3d(c) for c in (32, 64, 128))
        self.fc = nn.Linear(128, 10)

    def forward(self, x):
        y = F.max_pool3d(F.relu(self.norm1(self.conv1(x))), (1, 2, 2))
        y = F.max_pool3d(F.relu(self.norm2(self.conv2(y))), 2)
        y = F.max_pool3d(F.relu(self.norm3(self.conv3(y))), 2)
        return self.fc(F.adaptive_avg_pool3d(y, 1).flatten(1))


def video():
    x, y = torch.randn(4, 3, 16, 32, 32), torch.randint(0, 10, (4,))
    return training(Video(), lambda net: F.cross_entropy(net(x), y), Adam)


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


if __name__ == "__main__":
    main({
        "mobile_net": mobile_net,
        "resnet50": resnet50,
        "resnet50_bf16": lambda: resnet50(True),
        "vit_tiny": vit_tiny,
        "u_net": u_net,
        "video": video,
        "middle_gpt": middle_gpt,
        "middle_gpt_bf16": lambda: middle_gpt(True),
        "wide_lstm": wide_lstm,
        "bi_gru": bi_gru,
        "tcn": tcn,
        "big_embedding": big_embedding,
        "hand_gelu": hand_gelu,
        "wide_perceptron": wide_perceptron,
        "tiny_perceptron": tiny_perceptron,
        "gradient_penalty": gradient_penalty,
    })
