"""Further cases of torch_sweep.py: typical sizes of products, convolutions and selections.

Cases of the size `shapes` (--sizes=shapes) have operands that broadcast, short rows, or few rows."""
import torch
import torch.nn.functional as F
from rows import B, D, I, In, N, P, Row, U

ROWS = []


def row(op, *inputs, torch_function=None, dtype="F32", about="", backward=True, size="typical", **attrs):
    made = Row(op, list(inputs), attrs, torch_function, 16 if backward else 0, None, 1, None)
    made.size, made.dtype, made.about = size, dtype, about
    ROWS.append(made)


for m, k, n in ((1024, 512, 2048), (512, 512, 512), (4096, 64, 64), (32, 1024, 4096), (256, 4096, 1024), (64, 8192, 64),
                (2048, 2048, 16), (8, 2048, 2048)):
    row("matmul", N(m, k), N(k, n))
    row("linear", N(m, k), N(n, k), N(n))
for dtype in ("F64", "BF16"):
    row("matmul", N(512, 512), N(512, 512), dtype=dtype, about=dtype)
    row("matmul", N(64, 64, 64), N(64, 64, 64), dtype=dtype, about=dtype)
    row("conv2d", N(8, 32, 28, 28), N(32, 32, 3, 3), N(32), padding=[1, 1], dtype=dtype, about=dtype)
for shape in ((4096, 4, 4), (512, 32, 32), (64, 128, 128)):
    row("matmul", N(*shape), N(*shape))
row("matmul", N(1024, 1024), N(1024))
row("matmul", N(64, 256, 64), N(64))
row("dot", N(1000000), N(1000000))
row("einsum", [N(1024, 1024), N(1024, 1024)], equation="ij,ij->", torch_function=lambda *x, equation: torch.einsum(equation, x))
row("einsum", [N(8, 8, 128, 64), N(8, 8, 128, 64)], equation="bihd,bjhd->bhij",
    torch_function=lambda *x, equation: torch.einsum(equation, x))

for x, w, attrs in (
        ((16, 64, 56, 56), (64, 64, 3, 3), dict(padding=[1, 1])),
        ((16, 64, 56, 56), (128, 64, 3, 3), dict(padding=[1, 1], stride=[2, 2])),
        ((16, 64, 56, 56), (256, 64, 1, 1), {}),
        ((16, 3, 112, 112), (32, 3, 7, 7), dict(padding=[3, 3], stride=[2, 2])),
        ((8, 64, 64, 64), (64, 64, 3, 3), dict(padding=[4, 4], dilation=[4, 4])),
        ((16, 64, 56, 56), (64, 1, 3, 3), dict(padding=[1, 1], groups=64)),
        ((8, 96, 28, 28), (96, 1, 7, 7), dict(padding=[3, 3], groups=96)),
        ((8, 128, 28, 28), (128, 4, 3, 3), dict(padding=[1, 1], groups=32))):
    row("conv2d", N(*x), N(*w), **attrs)
for dilation in (1, 4, 16):
    row("conv1d", N(16, 64, 1024), N(64, 64, 3), N(64), padding=[dilation], dilation=[dilation])
row("conv3d", N(2, 16, 16, 32, 32), N(32, 16, 3, 3, 3), N(32), padding=[1, 1, 1])
row("conv3d", N(2, 16, 24, 24, 24), N(16, 1, 3, 3, 3), N(16), padding=[1, 1, 1], groups=16)
row("conv_transpose2d", N(8, 64, 32, 32), N(64, 32, 2, 2), N(32), stride=[2, 2])
row("conv_transpose2d", N(8, 64, 16, 16), N(64, 1, 4, 4), stride=[2, 2], padding=[1, 1], groups=64)
row("max_pool1d", N(32, 64, 1024), kernel_size=[3], stride=[1], padding=[1])
row("max_pool2d", N(16, 64, 56, 56), kernel_size=[3, 3], stride=[2, 2], padding=[1, 1])
row("adaptive_avg_pool2d", N(16, 64, 56, 56), output_size=[1, 1])
row("adaptive_max_pool2d", N(16, 64, 56, 56), output_size=[1, 1])
row("avg_pool3d", N(4, 32, 16, 28, 28), kernel_size=[2, 2, 2])
row("batch_norm", N(16, 64, 56, 56), None, None, P(64), N(64), training=True,
    torch_function=lambda x, m, v, w, b, training: F.batch_norm(x, m, v, w, b, training))
row("group_norm", N(16, 64, 56, 56), P(64), N(64), num_groups=8,
    torch_function=lambda x, w, b, num_groups: F.group_norm(x, num_groups, w, b))
row("group_norm", N(768, 128), P(128), N(128), num_groups=4,
    torch_function=lambda x, w, b, num_groups: F.group_norm(x, num_groups, w, b))
row("conv1d", N(256, 676, 16), N(24, 676, 1), N(24))
row("softplus", N(8000, 32))
for shape in ((100000, 8), (100000, 64), (40000, 3)):
    row("sum", N(*shape), dim=[0])
row("interpolate", N(8, 16, 64, 64), scale_factor=2.0, mode="nearest")
row("interpolate", N(8, 16, 64, 64), scale_factor=2.0, mode="bilinear")
row("grid_sample", N(8, 16, 64, 64), In("unit", 8, 64, 64, 2), torch_function=lambda x, g: F.grid_sample(x, g, align_corners=False))
for shape in ((8, 8, 512, 64), (32, 4, 64, 32)):
    row("scaled_dot_product_attention", *[N(*shape)] * 3)
    row("scaled_dot_product_attention", *[N(*shape)] * 3, is_causal=True)
row("lstm", N(32, 32, 256), N(1, 32, 512), N(1, 32, 512), [N(2048, 256), N(2048, 512), N(2048), N(2048)],
    torch_function=lambda x, h, c, *w: torch.lstm(x, (h, c), w, True, 1, 0.0, False, False, False))

for op in ("median", "sort", "unique"):
    row(op, N(1000000), torch_function={"sort": lambda x: torch.sort(x), "unique": lambda x: torch.unique(
        x, return_inverse=True, return_counts=True)}.get(op))
for op in ("median", "sort"):
    row(op, N(1024, 1024), dim=1)
row("kthvalue", N(1024, 1024), k=300, dim=1)
row("topk", N(1024, 1024), k=10, dim=1)
row("quantile", N(1000000), In("unit"), torch_function=lambda x, q: torch.quantile(x, q))
for op in ("sum", "amax", "prod"):
    for shape, dim in (((10, 100000), 0), ((100000, 10), 1), ((64, 128, 128), 1)):
        row(op, N(*shape), dim=dim if op == "prod" else [dim])
row("index_select", N(1024, 1024), I(1024, 1024), dim=1, torch_function=lambda x, i, dim: torch.index_select(x, dim, i))
for dim in (0, 1):
    row("index_add", N(1024, 1024), I(1024, 1024), N(1024, 1024), dim=dim,
        torch_function=lambda x, i, s, dim: torch.index_add(x, dim, i, s))
row("index_add", N(10000, 64), I(10000, 80000), N(80000, 64), dim=0,
    torch_function=lambda x, i, s, dim: torch.index_add(x, dim, i, s))
for accumulate in (False, True):
    row("index_put", N(1024, 1024), N(1024, 1024), [I(1024, 1024)], index="t", accumulate=accumulate,
        torch_function=lambda x, v, i, index, accumulate: torch.index_put(x, (i,), v, accumulate))
row("embedding", I(50000, 8192), N(50000, 128), torch_function=lambda i, w: F.embedding(i, w))
row("embedding_bag", I(10000, 2048, 20), N(10000, 64), mode="sum")
row("masked_select", N(1024, 1024), B(1024, 1024))
row("pad", N(16, 64, 32, 32), pad=[1, 1, 1, 1], mode="reflect")
row("pad", N(16, 64, 32, 32), pad=[1, 1, 1, 1])
row("cross_entropy", N(4096, 1000), I(1000, 4096))
row("cross_entropy", N(100000, 10), I(10, 100000))
row("cat", [N(1024, 64)] * 16, dim=1, torch_function=lambda *x, dim: torch.cat(x, dim))
row("add", N(100000, 10), N(10))
row("dropout", N(1024, 1024), p=0.5, training=True, torch_function=F.dropout)
row("randn", torch_function=lambda size: torch.randn(size), size=[1024, 1024])
row("fft.rfft", N(1024, 1024), torch_function=lambda x: torch.view_as_real(torch.fft.rfft(x)))
row("cdist", N(512, 64), N(512, 64))

for a, b in (((256, 1, 64), (1, 256, 64)), ((32, 1, 512), (1, 128, 512)), ((32, 256, 1), (32, 1, 256)),
             ((2048, 1), (1, 2048)), ((2048, 512), (512,)), ((2048, 512), (2048, 1)), ((4, 1, 128), (4, 128, 128)),
             ((4, 128, 1), (4, 128, 128)), ((16, 128, 8, 64), (16, 1, 8, 64)), ((64, 100, 20), (64, 100, 1))):
    row("mul", N(*a), N(*b), size="shapes")
    row("add", N(*a), N(*b), size="shapes")
for n in (3, 10, 24, 48, 128):
    for op in ("sum", "mean", "amax", "logsumexp"):
        row(op, N(200000 // n, n), dim=[1], size="shapes")
    for op in ("softmax", "log_softmax"):
        row(op, N(200000 // n, n), dim=1, size="shapes")
for shape in ((2000, 8, 16), (1000, 4, 64), (64, 5, 1024), (4, 128, 128), (10000, 10, 3)):
    for op in ("sum", "amax", "logsumexp"):
        row(op, N(*shape), dim=[1], size="shapes")
    row("softmax", N(*shape), dim=1, size="shapes")
for shape in ((2048, 512), (64, 128, 64), (8, 1024, 2048)):
    row("glu", N(*shape), dim=len(shape) - 1, size="shapes")
for k in (3, 16):
    row("cdist", N(4, 512, k), N(4, 512, k), size="shapes")
