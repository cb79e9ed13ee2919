"""Cases of torch_sweep.py of the size `layers` (--sizes=layers): operands as layers of networks have them."""
import torch
import torch.nn.functional as F
from rows import B, D, I, In, N, P, Row, U

ROWS = []


def row(op, *inputs, torch_function=None, backward=True, **attrs):
    made = Row(op, list(inputs), attrs, torch_function, 16 if backward else 0, None, 1, None)
    made.size, made.dtype, made.about = "layers", "F32", ""
    ROWS.append(made)


def convolutions():
    for x, w, attrs in (
            ((4, 3, 224, 224), (64, 3, 7, 7), dict(padding=[3, 3], stride=[2, 2])),
            ((8, 3, 224, 224), (96, 3, 16, 16), dict(stride=[16, 16])),
            ((8, 3, 128, 128), (96, 3, 4, 4), dict(stride=[4, 4])),
            ((16, 64, 28, 28), (64, 64, 5, 5), dict(padding=[2, 2])),
            ((16, 64, 28, 28), (64, 64, 1, 7), dict(padding=[0, 3])),
            ((16, 64, 28, 28), (64, 64, 7, 1), dict(padding=[3, 0])),
            ((16, 128, 14, 14), (128, 128, 3, 3), dict(padding=[1, 1])),
            ((16, 256, 7, 7), (512, 256, 1, 1), {}),
            ((32, 1, 28, 28), (32, 1, 3, 3), {}),
            ((32, 32, 26, 26), (64, 32, 3, 3), {}),
            ((16, 64, 28, 28), (64, 8, 3, 3), dict(padding=[1, 1], groups=8)),
            ((16, 64, 28, 28), (64, 32, 3, 3), dict(padding=[1, 1], groups=2)),
            ((16, 120, 14, 14), (120, 1, 5, 5), dict(padding=[2, 2], groups=120)),
            ((16, 120, 28, 28), (120, 1, 5, 5), dict(padding=[2, 2], stride=[2, 2], groups=120)),
            ((16, 96, 56, 56), (96, 1, 3, 3), dict(padding=[1, 1], stride=[2, 2], groups=96)),
            ((4, 32, 64, 64), (3, 32, 3, 3), dict(padding=[1, 1])),
            ((2, 3, 96, 96), (64, 3, 9, 9), dict(padding=[4, 4])),
            ((2, 64, 96, 96), (3, 64, 9, 9), dict(padding=[4, 4])),
            ((16, 64, 28, 28), (128, 64, 2, 2), dict(stride=[2, 2])),
            ((32, 4, 84, 84), (32, 4, 8, 8), dict(stride=[4, 4])),
            ((1, 64, 56, 56), (64, 64, 3, 3), dict(padding=[1, 1])),
            ((4, 16, 64, 64), (16, 16, 3, 3), dict(padding=[2, 2], dilation=[2, 2]))):
        row("conv2d", N(*x), N(*w), N(w[0]), **attrs)
    for x, w, attrs in (
            ((16, 80, 500), (256, 80, 3), dict(padding=[1])),
            ((8, 256, 500), (256, 1, 31), dict(padding=[15], groups=256)),
            ((16, 1, 16000), (64, 1, 80), dict(stride=[4])),
            ((16, 64, 200), (128, 64, 1), {}),
            ((32, 12, 100), (32, 12, 5), {}),
            ((8, 64, 256), (64, 64, 2), dict(dilation=[8])),
            ((64, 8, 32), (16, 8, 3), dict(padding=[1]))):
        row("conv1d", N(*x), N(*w), N(w[0]), **attrs)
    for x, w, attrs in (
            ((2, 3, 8, 56, 56), (32, 3, 3, 3, 3), dict(padding=[1, 1, 1])),
            ((2, 32, 8, 28, 28), (32, 32, 1, 3, 3), dict(padding=[0, 1, 1])),
            ((2, 32, 8, 28, 28), (32, 32, 3, 1, 1), dict(padding=[1, 0, 0]))):
        row("conv3d", N(*x), N(*w), N(w[0]), **attrs)
    row("conv_transpose2d", N(16, 128, 8, 8), N(128, 64, 4, 4), N(64), stride=[2, 2], padding=[1, 1])
    row("conv_transpose2d", N(16, 64, 16, 16), N(64, 3, 4, 4), N(3), stride=[2, 2], padding=[1, 1])
    row("conv_transpose2d", N(4, 64, 32, 32), N(64, 64, 3, 3), N(64), stride=[2, 2], padding=[1, 1])
    row("conv_transpose2d", N(16, 100, 1, 1), N(100, 256, 4, 4))
    row("conv_transpose1d", N(8, 64, 128), N(64, 32, 16), N(32), stride=[8], padding=[4])


def pools():
    for shape in ((16, 64, 56, 56), (32, 32, 26, 26)):
        row("max_pool2d", N(*shape), kernel_size=[2, 2])
        row("avg_pool2d", N(*shape), kernel_size=[2, 2])
    row("max_pool2d", N(16, 64, 28, 28), kernel_size=[3, 3], stride=[1, 1], padding=[1, 1])
    row("avg_pool2d", N(16, 64, 28, 28), kernel_size=[3, 3], stride=[1, 1], padding=[1, 1])
    row("avg_pool2d", N(32, 256, 7, 7), kernel_size=[7, 7])
    row("max_pool1d", N(16, 64, 500), kernel_size=[2])
    row("avg_pool1d", N(16, 64, 500), kernel_size=[5], stride=[1], padding=[2])
    row("max_pool3d", N(2, 32, 8, 28, 28), kernel_size=[1, 2, 2])
    row("adaptive_avg_pool2d", N(16, 64, 14, 14), output_size=[7, 7])
    row("interpolate", N(8, 64, 32, 32), scale_factor=2.0, mode="nearest")
    row("interpolate", N(4, 21, 16, 16), size=[128, 128], mode="bilinear")
    row("interpolate", N(4, 64, 64, 64), size=[32, 32], mode="bilinear")
    row("interpolate", N(4, 3, 64, 64), scale_factor=2.0, mode="bicubic")
    row("pixel_shuffle", N(8, 64, 32, 32), upscale_factor=2)
    row("pixel_unshuffle", N(8, 16, 64, 64), downscale_factor=2)
    row("channel_shuffle", N(16, 116, 28, 28), groups=2, torch_function=F.channel_shuffle)
    row("unfold", N(8, 32, 28, 28), kernel_size=[3, 3], torch_function=F.unfold)
    row("fold", N(8, 288, 676), output_size=[28, 28], kernel_size=[3, 3])


def norms():
    for shape in ((256, 512), (64, 128, 100), (16, 256, 7, 7), (4, 16, 8, 28, 28)):
        row("batch_norm", N(*shape), None, None, P(shape[1]), N(shape[1]), training=True,
            torch_function=lambda x, m, v, w, b, training: F.batch_norm(x, m, v, w, b, training))
    row("instance_norm", N(4, 64, 64, 64))
    row("group_norm", N(8, 128, 16, 16), P(128), N(128), num_groups=32,
        torch_function=lambda x, w, b, num_groups: F.group_norm(x, num_groups, w, b))
    for shape in ((64, 197, 192), (8, 512, 768), (32, 64, 64), (4096, 16)):
        row("layer_norm", N(*shape), P(shape[-1]), N(shape[-1]), normalized_shape=[shape[-1]],
            torch_function=lambda x, w, b, normalized_shape: F.layer_norm(x, normalized_shape, w, b))
    for shape, dim in (((64, 8, 49, 49), 3), ((8, 8, 256, 256), 3), ((32, 100, 10), 1), ((16, 1000), 1),
                       ((16, 21, 64, 64), 1), ((2048, 4), 1)):
        row("softmax", N(*shape), dim=dim)
        row("log_softmax", N(*shape), dim=dim)


def reductions():
    for op in ("sum", "mean", "amax"):
        for shape, dim in (((16, 64, 56, 56), [0, 2, 3]), ((16, 64, 56, 56), [2, 3]), ((16, 64, 56, 56), [1]),
                           ((8, 512, 768), [1]), ((8, 512, 768), [2]), ((64, 100, 20, 3), [3]), ((1024, 30, 8), [1])):
            row(op, (D if op == "amax" else N)(*shape), dim=dim)
    for op in ("var", "std"):
        row(op, N(16, 64, 28, 28), dim=[0, 2, 3], torch_function=lambda x, dim, op=op: getattr(torch, op)(x, dim))
        row(op, N(512, 768), dim=[1], torch_function=lambda x, dim, op=op: getattr(torch, op)(x, dim))
    row("norm", N(512, 768), dim=[1], torch_function=lambda x, dim: torch.norm(x, 2, dim))
    row("logsumexp", N(16, 21, 64, 64), dim=[1])
    row("logsumexp", N(64, 20, 5), dim=[2])
    row("argmax", D(64, 10000), dim=1, backward=False)
    row("argmax", D(16, 21, 64, 64), dim=1, backward=False)
    for shape, dim in (((64, 1000), 1), ((1000, 64), 0), ((32, 100, 64), 1)):
        row("cumsum", N(*shape), dim=dim)
        row("cumprod", P(*shape), dim=dim)
    row("topk", D(4096, 8), k=2, dim=1)
    row("topk", D(64, 10000), k=50, dim=1)
    row("sort", D(256, 64), dim=1)
    row("cosine_similarity", N(256, 1, 128), N(1, 64, 128))


def layouts():
    cat = lambda *x, dim: torch.cat(x, dim)
    stack = lambda *x, dim: torch.stack(x, dim)
    row("cat", [N(16, 64, 28, 28)] * 3, dim=1, torch_function=cat)
    row("cat", [N(64, 100, 32)] * 2, dim=2, torch_function=cat)
    row("cat", [N(4096, 2)] * 16, dim=1, torch_function=cat)
    row("cat", [N(4096, 1), N(4096, 63)], dim=1, torch_function=cat)
    row("stack", [N(64, 128, 28)] * 4, dim=1, torch_function=stack)
    row("stack", [N(64, 256)] * 20, dim=1, torch_function=stack)
    row("stack", [N(100, 1000)] * 2, dim=2, torch_function=stack)
    row("roll", N(8, 56, 56, 96), shifts=[-3, -3], dims=[1, 2])
    row("flip", N(16, 64, 56, 56), dims=[3])
    row("flip", N(64, 100, 64), dims=[1])
    row("repeat_interleave", N(64, 100, 32), repeats=4, dim=1)
    row("repeat_interleave", N(8, 2, 128, 64), repeats=4, dim=1)
    row("repeat", N(64, 1, 32), repeats=[1, 100, 1], torch_function=lambda x, repeats: x.repeat(repeats))
    row("repeat", N(64, 32), repeats=[10, 1], torch_function=lambda x, repeats: x.repeat(repeats))
    for mode in ("replicate", "circular"):
        row("pad", N(8, 32, 32, 32), pad=[1, 1, 1, 1], mode=mode)
    row("pad", N(64, 100, 64), pad=[0, 0, 2, 0])
    row("chunk", N(64, 100, 384), chunks=3, dim=2)
    row("split", N(16, 128, 28, 28), split_size_or_sections=64, dim=1,
        torch_function=lambda x, split_size_or_sections, dim: x.split(64, dim))
    row("unbind", N(64, 50, 64), dim=1)
    row("tril", N(64, 128, 128), diagonal=0)
    row("meshgrid", [N(512), N(512)], torch_function=lambda *x: torch.meshgrid(*x, indexing="ij"))


def selections():
    gather = lambda x, i, dim: torch.gather(x, dim, i)
    row("gather", N(64, 1000), I(1000, 64, 1), dim=1, torch_function=gather)
    row("gather", N(64, 6), I(6, 64, 1), dim=1, torch_function=gather)
    row("gather", N(16, 128, 64), I(128, 16, 32, 64), dim=1, torch_function=gather)
    row("gather", N(64, 49, 49), I(49, 64, 49, 49), dim=2, torch_function=gather)
    select = lambda x, i, dim: torch.index_select(x, dim, i)
    for shape, count in (((10000, 64), 40000), ((10000, 8), 40000), ((10000, 2), 40000), ((2000, 1), 40000)):
        row("index_select", N(*shape), I(shape[0], count), dim=0, torch_function=select)
        row("embedding", I(shape[0], count), N(*shape), torch_function=lambda i, w: F.embedding(i, w))
    add = lambda x, i, s, dim: torch.index_add(x, dim, i, s)
    for width in (1, 8, 64):
        row("index_add", N(5000, width), I(5000, 40000), N(40000, width), dim=0, torch_function=add)
    for reduce in ("sum", "mean", "amax"):
        row("scatter_reduce", N(5000, 16), I(5000, 40000, 16), N(40000, 16), dim=0, reduce=reduce,
            torch_function=lambda x, i, s, dim, reduce: torch.scatter_reduce(x, dim, i, s, reduce))
    row("scatter_add", N(64, 1000), I(1000, 64, 50), N(64, 50), dim=1,
        torch_function=lambda x, i, s, dim: torch.scatter_add(x, dim, i, s))
    row("masked_fill", N(8, 8, 128, 128), B(8, 1, 1, 128), value=-1e9)
    row("masked_fill", N(8, 8, 128, 128), B(128, 128), value=-1e9)
    row("where", B(8, 1, 128, 128), N(8, 8, 128, 128), N(1))
    row("where", B(20000, 1), N(20000, 3), N(20000, 3))
    row("where", B(1000000), N(1000000), N(1000000))
    row("one_hot", I(1000, 4096), num_classes=1000, backward=False)
    row("one_hot", I(10, 100000), num_classes=10, backward=False)
    row("embedding_bag", I(50000, 512, 10), N(50000, 16), mode="sum")


def pointwise():
    n = 1 << 20
    for op in ("relu sigmoid tanh silu hardswish mish softplus elu leaky_relu gelu exp log1p sqrt rsqrt reciprocal "
               "abs square sin cos erf relu6 softsign sign logsigmoid").split():
        if hasattr(torch, op) or hasattr(F, op):
            row(op, P(n) if op in ("sqrt", "rsqrt", "reciprocal", "log1p") else N(n))
    row("clamp", N(n), min=-0.7, max=0.9)
    for op in "add mul maximum minimum".split():
        row(op, N(n), N(n))
    for op in "div pow atan2 fmod".split():
        row(op, P(n), P(n))
    for op in "gt eq".split():
        row(op, N(n), N(n), backward=False)
    row("lerp", N(n), N(n), U(n))
    row("addcmul", N(n), N(n), N(n), value=0.5)
    for a, b in (((16, 64, 56, 56), (16, 64, 1, 1)), ((16, 64, 56, 56), (64, 1, 1)), ((8, 12, 197, 197), (12, 197, 197)),
                 ((8, 12, 197, 197), (8, 1, 1, 197)), ((64, 49, 96), (96,)), ((32, 100, 1), (32, 1, 64)),
                 ((64, 50, 256), (64, 1, 256)), ((20000, 3), (20000, 1)), ((64, 32, 1, 16), (64, 1, 32, 16)),
                 ((5000, 4, 16), (1, 4, 16)), ((1024, 1, 8), (1, 30, 8))):
        for op in ("mul", "add", "sub"):
            row(op, N(*a), N(*b))
        row("div", P(*a), P(*b))


def products():
    for a, b in (((64, 8, 49, 32), (64, 8, 32, 49)), ((512, 1, 64), (512, 64, 100)), ((32, 100, 100), (32, 100, 16)),
                 ((2000, 3, 3), (2000, 3, 3)), ((8, 8, 256, 64), (8, 8, 64, 256)), ((16, 5, 200), (16, 200, 64))):
        row("matmul", N(*a), N(*b))
    for x, w in (((64, 100, 64), (64, 64)), ((8192, 8), (16, 8)), ((100000, 3), (64, 3)), ((1, 784), (128, 784)),
                 ((32, 512), (1000, 512)), ((64, 100, 64), (256, 64)), ((4096, 64), (1, 64)), ((8, 2048), (512, 2048)),
                 ((256, 20), (20, 20))):
        row("linear", N(*x), N(*w), N(w[0]))
    for equation, a, b in (("bij,bjk->bik", (32, 64, 64), (32, 64, 64)), ("bnd,ndk->bnk", (64, 16, 32), (16, 32, 32)),
                           ("bchw,cd->bdhw", (8, 64, 28, 28), (64, 32)), ("bti,bij->btj", (32, 50, 64), (32, 64, 64)),
                           ("bhid,bhjd->bhij", (8, 8, 128, 64), (8, 8, 128, 64)), ("bik,bjk->bij", (64, 39, 16), (64, 39, 16)),
                           ("nd,md->nm", (256, 128), (256, 128)), ("bi,bj->bij", (256, 32), (256, 32)),
                           ("bhm,bhn,->bhmn", (8, 8, 64), (8, 8, 64))):
        if equation.count(",") == 1:
            row("einsum", [N(*a), N(*b)], equation=equation,
                torch_function=lambda *x, equation: torch.einsum(equation, x))
    row("outer", N(1024), N(1024))


def losses():
    row("cross_entropy", N(8, 21, 64, 64), I(21, 8, 64, 64))
    row("cross_entropy", N(64, 10), I(10, 64))
    row("cross_entropy", N(256, 8192), I(8192, 256), label_smoothing=0.1)
    row("binary_cross_entropy_with_logits", N(64, 1000), U(64, 1000))
    row("binary_cross_entropy_with_logits", N(16, 1, 128, 128), U(16, 1, 128, 128))
    row("binary_cross_entropy", U(64, 1000), U(64, 1000))
    for op in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"):
        for shape in ((64, 1), (10000, 4), (16, 3, 128, 128)):
            row(op, N(*shape), N(*shape))
    row("kl_div", N(64, 1000), U(64, 1000))
    row("triplet_margin_loss", N(256, 128), N(256, 128), N(256, 128))
    row("gaussian_nll_loss", N(256, 64), N(256, 64), P(256, 64))
    row("margin_ranking_loss", N(1024), N(1024), In("sign", 1024), margin=0.5)
    row("cosine_embedding_loss", N(256, 128), N(256, 128), In("sign", 256))


def recurrent():
    def run(name, x, states, weights):
        if name == "lstm":
            return torch.lstm(x, states, weights, True, 1, 0.0, False, False, False)
        return getattr(torch, name)(x, states[0], weights, True, 1, 0.0, False, False, False)

    for op, gates in (("lstm", 4), ("gru", 3), ("rnn_tanh", 1)):
        for steps, batch, width, hidden in ((50, 32, 64, 64), (20, 64, 128, 256), (100, 1, 32, 32)):
            states = [N(1, batch, hidden)] * (2 if op == "lstm" else 1)
            count = len(states)
            row(op, N(steps, batch, width), *states,
                [N(gates * hidden, width), N(gates * hidden, hidden), N(gates * hidden), N(gates * hidden)],
                torch_function=lambda x, *rest, op=op, count=count: run(op, x, rest[:count], rest[count:]))


for group in (convolutions, pools, norms, reductions, layouts, selections, pointwise, products, losses, recurrent):
    group()
