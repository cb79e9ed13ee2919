"""The training steps of benchmarks/example_steps.cpp (char_gpt, lstm_lm, vae, cartpole) in
PyTorch. torch_steps.py describes the command line."""
import math
import random

import torch
from torch import nn
from torch.nn import functional as F

from torch_steps import main, maybe_compiled, training


class Block(nn.Module):
    def __init__(self, width=128, heads=4):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        q, k, v = (part.view(*x.shape[:2], self.heads, -1).transpose(1, 2)
                   for part in self.qkv(self.norm1(x)).chunk(3, 2))
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        y = x + self.proj(seen.transpose(1, 2).reshape(x.shape))
        return y + self.down(F.gelu(self.up(self.norm2(y))))


class Gpt(nn.Module):
    def __init__(self, letters, length=128, width=128):
        super().__init__()
        self.letter, self.place = nn.Embedding(letters, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width) for _ in range(4)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, letters, bias=False)

    def forward(self, x):
        y = self.letter(x) + self.place(torch.arange(x.shape[1]))
        return self.head(self.norm(self.blocks(y)))


def clipped(net, optimizer, loss, most):
    def step():
        optimizer.zero_grad()
        value = loss()
        value.backward()
        nn.utils.clip_grad_norm_(net.parameters(), most)
        optimizer.step()
        value.item()

    return step


def char_gpt(is_bf16=False):
    net = Gpt(86)
    run = maybe_compiled(net)
    x, y = torch.randint(0, 86, (16, 128)), torch.randint(0, 86, (16 * 128,))
    optimizer = torch.optim.AdamW(net.parameters(), 1e-3, weight_decay=0.1, fused=True)

    def loss():
        with torch.autocast(x.device.type, torch.bfloat16, enabled=is_bf16):
            return F.cross_entropy(run(x).flatten(0, 1), y)

    return clipped(net, optimizer, loss, 1.0)


class LanguageModel(nn.Module):
    def __init__(self, words, width=200):
        super().__init__()
        self.embedding, self.lstm = nn.Embedding(words, width), nn.LSTM(width, width, 2)
        self.out = nn.Linear(width, words)

    def forward(self, x, state):
        y, state = self.lstm(self.embedding(x), state)
        return self.out(y.flatten(0, 1)), state


def lstm_lm():
    net = LanguageModel(3000)
    run = maybe_compiled(net)
    x, y = torch.randint(0, 3000, (20, 20)), torch.randint(0, 3000, (20 * 20,))
    optimizer = torch.optim.SGD(net.parameters(), 1.0, fused=True)
    state = tuple(torch.zeros(2, 20, 200) for _ in range(2))

    def loss():
        nonlocal state
        logits, state = run(x, tuple(part.detach() for part in state))
        return F.cross_entropy(logits, y)

    return clipped(net, optimizer, loss, 5.0)


class Vae(nn.Module):
    def __init__(self, pixels=784, width=400, code=20):
        super().__init__()
        self.hidden = nn.Linear(pixels, width)
        self.mean, self.log_variance = nn.Linear(width, code), nn.Linear(width, code)
        self.grow, self.out = nn.Linear(code, width), nn.Linear(width, pixels)

    def forward(self, x):
        y = F.relu(self.hidden(x))
        mean, log_variance = self.mean(y), self.log_variance(y)
        z = mean + (0.5 * log_variance).exp() * torch.randn(mean.shape)
        logits = self.out(F.relu(self.grow(z)))
        pixels = F.binary_cross_entropy_with_logits(logits, x, reduction="sum")
        divergence = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum()
        return (pixels + divergence) / x.shape[0]


def vae():
    x = torch.rand(128, 784)
    return training(Vae(), lambda net: net(x), torch.optim.Adam)


class CartPole:
    """Implements the equations of examples/cartpole/cart_pole.h."""

    def __init__(self):
        self.reset()

    def reset(self):
        self.state, self.steps = [random.uniform(-0.05, 0.05) for _ in range(4)], 0

    def push(self, to_the_right):
        x, v, angle, turn = self.state
        sine, cosine, mass = math.sin(angle), math.cos(angle), 1.1
        share = ((10 if to_the_right else -10) + 0.05 * turn * turn * sine) / mass
        turning = (9.8 * sine - cosine * share) / (0.5 * (4 / 3 - 0.1 * cosine * cosine / mass))
        pushing = share - 0.05 * turning * cosine / mass
        self.state = [x + 0.02 * v, v + 0.02 * pushing, angle + 0.02 * turn, turn + 0.02 * turning]
        self.steps += 1
        return abs(self.state[0]) <= 2.4 and abs(self.state[2]) <= math.pi / 15 and self.steps < 500


def cartpole():
    task = CartPole()
    net = nn.Sequential(nn.Linear(4, 128), nn.ReLU(), nn.Linear(128, 2), nn.LogSoftmax(-1))
    run = maybe_compiled(net)
    optimizer = torch.optim.Adam(net.parameters(), 5e-3, fused=True)

    def step():
        episode = []
        for _ in range(50):
            shares = run(torch.tensor([task.state]))
            action = int(torch.multinomial(shares.detach().exp(), 1).item())
            episode.append(shares[:, action])
            if not task.push(action == 1):
                task.reset()
        returns, total = [], 0.0
        for _ in episode:
            total = 1 + 0.99 * total
            returns.append(total)
        weights = torch.tensor(returns[::-1])
        weights = (weights - weights.mean()) / (weights.std() + 1e-6)
        optimizer.zero_grad()
        (-(torch.cat(episode) * weights).sum()).backward()
        optimizer.step()

    return step


if __name__ == "__main__":
    main({"char_gpt": char_gpt, "char_gpt_amp": lambda: char_gpt(True), "lstm_lm": lstm_lm,
          "vae": vae, "cartpole": cartpole})
