"""The cases: for each op of the catalog its inputs, its attributes and the PyTorch function that it is compared with.

A row without a function calls the PyTorch function with the op's name, from torch, torch.nn.functional,
torch.special or torch.Tensor, with equal arguments. A row with an order below 2 gives the reason.
"""

import math

import numpy as np
import torch
import torch.nn.functional as F

ROWS = []


class In:
    """An input: its shape and the kind of its values."""

    def __init__(self, kind, *shape, bound=None):
        self.kind, self.shape, self.bound = kind, shape, bound

    @property
    def is_float(self):
        return self.kind not in ("index", "label", "whole", "sorted", "bool")

    @property
    def differentiable(self):
        return self.is_float and self.kind != "sign"

    def draw(self, rng):
        n = int(np.prod(self.shape, dtype=np.int64))
        if self.kind == "index":
            return rng.integers(0, self.bound, self.shape).astype(np.int64)
        if self.kind == "label":  # not the blank
            return rng.integers(1, self.bound, self.shape).astype(np.int64)
        if self.kind == "bool":
            return rng.random(self.shape) < 0.5
        if self.kind == "whole":
            return rng.integers(1, 9, self.shape).astype(np.int64)
        if self.kind == "sorted":
            return np.sort(rng.integers(1, 9, self.shape).astype(np.int64))
        if self.kind == "definite":
            x = rng.standard_normal(self.shape)
            return x @ np.swapaxes(x, -1, -2) + np.eye(self.shape[-1])
        if self.kind == "sign":
            return rng.integers(0, 2, self.shape) * 2.0 - 1
        if self.kind == "zeros":  # two in each row
            x = rng.uniform(0.5, 2, self.shape)
            x[..., 1:3] = 0
            return x
        if self.kind == "large":  # their sum exceeds float16
            return np.full(self.shape, 60000.0)
        if self.kind == "constant":
            return np.full(self.shape, 1e4)
        if self.kind == "infinite":
            return np.where(np.arange(n).reshape(self.shape) % 2 == 0, -np.inf, rng.standard_normal(self.shape))
        if self.kind == "distinct":
            return (rng.permutation(n).reshape(self.shape) + rng.uniform(0.3, 0.7, self.shape)) * (4 / max(n, 1)) - 2
        u = rng.random(self.shape)
        if self.kind == "normal":  # not near 0, where many functions have no derivative
            return np.where(u < 0.5, -2 + 3.9 * u, 0.05 + 3.9 * (u - 0.5))
        low, high = {"positive": (0.2, 2.2), "unit": (0.05, 0.95), "above": (1.2, 3.2)}[self.kind]
        return low + (high - low) * u


def N(*shape): return In("normal", *shape)
def P(*shape): return In("positive", *shape)
def U(*shape): return In("unit", *shape)
def A(*shape): return In("above", *shape)
def D(*shape): return In("distinct", *shape)
def W(*shape): return In("whole", *shape)
def S(*shape): return In("sorted", *shape)
def B(*shape): return In("bool", *shape)
def I(bound, *shape): return In("index", *shape, bound=bound)


class Row:
    def __init__(self, op, inputs, attrs, function, limit, dtypes, order, why, with_signs=None):
        self.op, self.inputs, self.attrs, self.function = op, inputs, attrs, function
        self.limit, self.dtypes, self.order, self.why = limit, dtypes, order, why
        self.with_signs = with_signs  # gives PyTorch's results the signs of ours, where signs are free


def find(name):
    for module in (F, torch, torch.special, torch.Tensor):
        if hasattr(module, name):
            return getattr(module, name)
    raise LookupError(f"PyTorch has no {name}: give its row a function")


def row(op, *inputs, torch_function=None, limit=16, dtypes=None, order=2, why=None, with_signs=None, **attrs):
    assert order == 2 or why, op
    ROWS.append(Row(op, list(inputs), attrs, torch_function, limit, dtypes, order, why, with_signs))


POINT = 4  # ulp of the largest element; for elementwise ops


def elementwise():
    for op in ("neg abs sign exp expm1 square sin cos tan tanh erf floor ceil round trunc frac sigmoid relu relu6 elu selu "
               "gelu silu mish softplus hardswish logsigmoid hardtanh celu softshrink hardshrink "
               "tanhshrink softsign sinh cosh atan asinh erfc sinc nan_to_num isnan isfinite leaky_relu").split():
        row(op, N(3, 4), limit=POINT)
        row(op, D(2, 5, 3), limit=POINT)
    # PyTorch's own derivative uses 1 / 6 in float32.
    row("hardsigmoid", N(3, 4), torch_function=lambda x: torch.clamp(x / 6 + 0.5, 0, 1), limit=POINT)
    for op in "log log1p log2 log10 sqrt rsqrt reciprocal".split():
        row(op, P(3, 4), limit=POINT)
    for op in "i0 i0e i1 i1e".split():
        row(op, N(3, 4), torch_function=getattr(torch.special, op), limit=POINT)
    only_values = "PyTorch has no derivative"
    # PyTorch's J and Y err by up to 1.2e-13 in float64; bessel_gamma_test has values of mpmath.
    for op in ("bessel_j0", "bessel_j1"):
        row(op, N(3, 4), order=0, why=only_values, limit=512)
    for op in ("bessel_y0", "bessel_y1"):
        row(op, P(3, 4), order=0, why=only_values, limit=512)
    for op in ("k0", "k1"):
        row("bessel_" + op, P(3, 4), order=0, why=only_values, limit=POINT, torch_function=getattr(torch.special, "modified_bessel_" + op))
        row("bessel_" + op + "e", P(3, 4), order=0, why=only_values, limit=POINT,
            torch_function=getattr(torch.special, "scaled_modified_bessel_" + op))
    row("erfcx", N(3, 4))
    row("airy_ai", N(3, 4), order=0, why=only_values, limit=POINT, torch_function=torch.special.airy_ai)
    trigamma = "PyTorch's trigamma errs by 1e-10 in float64; `polygamma` is compared with its zeta function"
    row("lgamma", P(3, 4), order=1, why=trigamma)
    row("digamma", P(3, 4), order=0, why=trigamma)
    for op in "asin acos atanh erfinv".split():
        row(op, U(3, 4), limit=POINT)
    row("acosh", A(3, 4), limit=POINT)
    row("polygamma", P(3, 4), n=1, order=0, why=trigamma, torch_function=lambda x, n: torch.special.zeta(torch.full_like(x, 2), x))
    row("polygamma", P(3, 4), n=2, torch_function=lambda x, n: torch.polygamma(n, x))
    row("logit", U(3, 4))
    for op in "exp2 deg2rad rad2deg signbit isinf isposinf isneginf".split():
        row(op, N(3, 4))
    row("logit", U(3, 4), eps=0.2)
    for op in "fmax fmin copysign logaddexp2".split():
        row(op, N(3, 4), N(4))
    row("ldexp", N(3, 4), N(4), limit=32)
    row("float_power", P(3, 4), N(4), dtypes=("F64",), why="results are float64")
    row("xlog1py", N(3, 4), P(4), torch_function=torch.special.xlog1py)
    row("heaviside", N(3, 4), N(4))
    no_shape = "PyTorch has no derivative in the first argument"
    row("igamma", P(3, 4), P(4), order=0, why=no_shape)
    row("igammac", P(3, 4), P(4), order=0, why=no_shape)
    row("zeta", A(3, 4), P(4), order=0, why=no_shape)
    row("nextafter", N(3, 4), N(4), dtypes=("F64", "F32"))
    row("lcm", W(3, 4), W(4))
    row("isin", W(3, 4), W(3))
    row("clamp_min", N(3, 4), N(4), torch_function=lambda x, bound: torch.clamp(x, min=bound))
    row("clamp_max", N(3, 4), N(4), torch_function=lambda x, bound: torch.clamp(x, max=bound))
    row("step", N(3, 4), torch_function=lambda x: (x > 0).to(x.dtype))
    row("clamp", N(3, 4), min=-0.7, max=0.9, limit=POINT)
    row("threshold", N(3, 4), threshold=0.1, value=3.0, limit=POINT)
    row("glu", N(3, 6), dim=1)
    row("prelu", N(2, 3, 4), P(3))
    row("gelu", N(3, 4), approximate="tanh", limit=POINT)
    for op in "add sub mul maximum minimum atan2 hypot logaddexp eq ne lt le gt ge".split():
        row(op, N(3, 4), N(3, 4), limit=POINT)
        row(op, N(3, 4), N(4), limit=POINT)
    for op in "div pow xlogy fmod remainder".split():
        row(op, P(3, 4), A(3, 4), limit=POINT)
        row(op, P(2, 3, 4), A(3, 1), limit=POINT)
    row("floor_divide", P(3, 4), A(4))
    for op in "logical_and logical_or logical_xor".split():
        row(op, B(3, 4), B(4))
    row("logical_not", B(3, 4))
    row("where", B(3, 4), N(3, 4), N(4))
    row("lerp", N(3, 4), N(3, 4), U(3, 4), limit=POINT)
    row("addcmul", N(3, 4), N(3, 4), N(4), value=0.5, limit=POINT)
    row("addcdiv", N(3, 4), N(3, 4), P(4), value=0.5, limit=POINT)
    for op in "bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift gcd".split():
        row(op, W(3, 4), W(4))
    row("bitwise_not", W(3, 4))
    row("isclose", N(3, 4), N(3, 4))
    row("allclose", N(3, 4), N(3, 4), torch_function=lambda a, b: torch.tensor(torch.allclose(a, b)))


def reductions():
    for dim in (None, [0], [1], [0, 1]):
        more = {} if dim is None else {"dim": dim, "keepdim": True}
        for op in "sum mean".split():
            row(op, P(3, 4), **more)
        for op in "amax amin".split():
            row(op, D(3, 4), **more)
        for op in "nansum nanmean".split():
            row(op, P(3, 4), **more)
        row("std", N(3, 4), torch_function=lambda x, dim=None, keepdim=False: torch.std(x, dim, True, keepdim), **more)
        row("var", N(3, 4), torch_function=lambda x, dim=None, keepdim=False: torch.var(x, dim, True, keepdim), **more)
        row("norm", N(3, 4), torch_function=lambda x, dim=None, keepdim=False: torch.norm(x, 2, dim, keepdim), **more)
    for p in (1.0, 3.0, math.inf):
        row("norm", D(3, 4), p=p, dim=[1])
    row("var_mean", N(3, 4), dim=[1], torch_function=lambda x, dim: torch.var_mean(x, dim, True))
    row("std_mean", N(3, 4), dim=[1], torch_function=lambda x, dim: torch.std_mean(x, dim, True))
    row("logsumexp", N(3, 4), dim=[0])
    row("nanmedian", D(3, 5))
    row("nanmedian", D(3, 5), dim=1)
    row("nanquantile", D(3, 5), q=0.3, dim=1, dtypes=("F64", "F32"))
    row("trapezoid", N(3, 5), dx=0.5)
    row("trapezoid", N(3, 5), N(5))
    row("cumulative_trapezoid", N(3, 5), dx=0.5)
    for op in "any all".split():
        row(op, B(3, 4))
        row(op, B(3, 4), dim=[1], torch_function=lambda x, dim, op=op: find(op)(x, dim[0]))
    row("count_nonzero", W(3, 4))
    row("prod", N(3, 4), dim=1)
    row("prod", N(3, 3))
    for op in "argmax argmin".split():
        row(op, D(3, 4), dim=1)
        row(op, D(3, 4))
    for op in "max min median".split():
        row(op, D(3, 5), dim=1)
        row(op, D(3, 5))
    row("aminmax", D(3, 4), dim=1)
    for op in "cumsum cumprod logcumsumexp cummax cummin".split():
        row(op, D(3, 4), dim=1)
        row(op, D(3, 4), dim=0)
    row("sum_to", N(3, 4), shape=[1, 4], torch_function=lambda x, shape: x.sum(0, keepdim=True))
    for op in "softmax log_softmax softmin".split():
        row(op, N(3, 5), dim=1)
        row(op, N(2, 4, 3), dim=1)
    row("cov", N(3, 5))
    row("corrcoef", N(3, 5))
    row("bincount", I(5, 9))
    row("histc", N(20), bins=5, dtypes=("F64", "F32"))
    row("dist", N(3, 4), N(3, 4))
    row("cdist", N(3, 4), N(2, 4), limit=32)
    row("pairwise_distance", N(3, 4), N(3, 4))
    row("cosine_similarity", N(3, 4), N(3, 4))
    row("normalize", N(3, 4))
    row("diff", N(3, 5))
    row("sort", D(3, 5), dim=1)
    row("argsort", D(3, 5), dim=0)
    row("topk", D(3, 5), k=2)
    row("kthvalue", D(3, 5), k=2)
    row("quantile", D(3, 5), U(2), dim=1, dtypes=("F64", "F32"))
    row("unique", I(4, 9), torch_function=lambda x: torch.unique(x, return_inverse=True, return_counts=True))
    row("unique", I(2, 6, 2), dim=0,
        torch_function=lambda x, dim: torch.unique(x, return_inverse=True, return_counts=True, dim=dim))
    row("searchsorted", S(6), W(3, 2), torch_function=lambda s, x: torch.searchsorted(s, x), dtypes=())


def products():
    row("matmul", N(3, 4), N(4, 5))
    row("matmul", N(2, 3, 4), N(4, 2))
    row("matmul", N(4), N(2, 4, 3))
    row("mm", N(3, 4), N(4, 2))
    row("bmm", N(2, 3, 4), N(2, 4, 2))
    row("dot", N(5), N(5))
    row("outer", N(3), N(4))
    row("linear", N(2, 3, 4), N(5, 4), N(5))
    row("linear", N(40, 3), N(5, 3), N(5))
    for shape in ((2, 3, 4), (40, 4)):
        row("linear_relu", N(*shape), N(5, 4), N(5), torch_function=lambda *x: torch.relu(F.linear(*x)))
        row("linear_gelu", N(*shape), N(5, 4), N(5), torch_function=lambda *x: F.gelu(F.linear(*x), approximate="tanh"))
    row("cross", N(2, 3), N(2, 3), dim=1)
    row("kron", N(2, 3), N(3, 2))
    row("tensordot", N(2, 3, 4), N(3, 4, 2), dims=2)
    row("einsum", [N(2, 3), N(3, 4)], equation="ij,jk->ki", torch_function=lambda *x, equation: torch.einsum(equation, x))
    row("addmm", N(3, 5), N(3, 4), N(4, 5), beta=0.5, alpha=2.0)
    row("addmv", N(3), N(3, 4), N(4), beta=0.5, alpha=2.0)
    row("addr", N(3, 4), N(3), N(4), beta=0.5, alpha=2.0)
    row("addbmm", N(3, 2), N(2, 3, 4), N(2, 4, 2), beta=0.5, alpha=2.0)
    row("mv", N(3, 4), N(4))
    row("inner", N(2, 3, 4), N(5, 4))
    row("baddbmm", N(2, 3, 2), N(2, 3, 4), N(2, 4, 2), beta=0.5, alpha=2.0)
    row("trace", N(3, 3))
    row("linalg.multi_dot", [N(3, 4), N(4, 2), N(2, 5)], torch_function=lambda *x: torch.linalg.multi_dot(x))


def eye_like(x): return torch.eye(x.shape[-1], dtype=x.dtype)


def signs_of_columns(vectors, ours):
    """Returns 1 or -1 for each column: the sign of its product with our column."""
    return torch.where((vectors.detach() * torch.from_numpy(ours)).sum(-2, keepdim=True) < 0, -1.0, 1.0)


def eigh_with_signs(results, ours):
    values, vectors = results
    return values, vectors * signs_of_columns(vectors, ours[1])


def svd_with_signs(results, ours):
    u, values, vh = results
    signs = signs_of_columns(u, ours[0])
    return u * signs, values, vh * signs.mT


def linear_algebra():
    exact = {"dtypes": ("F64", "F32"), "limit": 64}
    for shape in ((3, 3), (2, 3, 3)):
        for op in "inv det slogdet matrix_exp".split():
            row("linalg." + op, N(*shape), torch_function=getattr(torch.linalg, op), **exact)
        row("linalg.solve", N(*shape), N(3, 2), torch_function=torch.linalg.solve, **exact)
        row("linalg.svdvals", N(*shape), torch_function=torch.linalg.svdvals, **exact)
        row("linalg.matrix_power", N(*shape), n=3, torch_function=torch.linalg.matrix_power, **exact)
    for shape in ((4, 3), (2, 3), (2, 3, 2)):
        row("linalg.pinv", N(*shape), torch_function=torch.linalg.pinv, **exact)
        row("linalg.qr", N(*shape), torch_function=torch.linalg.qr, **exact)
        row("linalg.svdvals", N(*shape), torch_function=torch.linalg.svdvals, **exact)
    for shape in ((3, 3), (2, 4, 4)):
        row("linalg.lu", N(*shape), torch_function=torch.linalg.lu, **exact)
        row("linalg.lu_factor", N(*shape), torch_function=lambda a: torch.linalg.lu_factor(a)[0], **exact)
    row("linalg.lstsq", N(4, 2), N(4, 3), order=0, why="only one of its results is compared; `linalg.pinv` is compared to second order",
        torch_function=lambda a, b: torch.linalg.lstsq(a, b).solution, **exact)
    for upper in (False, True):
        row("linalg.solve_triangular", N(3, 3), N(3, 2), upper=upper, torch_function=torch.linalg.solve_triangular, **exact)
        row("triangular_solve", N(3, 2), N(3, 3), upper=upper,
            torch_function=lambda b, a, upper: torch.triangular_solve(b, a, upper).solution, **exact)
        # PyTorch's derivative is not zero in the triangle that the op does not read.
        row("cholesky_solve", N(3, 2), A(3, 3), upper=upper, **exact, torch_function=lambda b, t, upper:
            torch.cholesky_solve(b, t.triu() if upper else t.tril(), upper))
    for shape in ((3, 3), (2, 3, 2), (2, 4)):
        row("linalg.svd", N(*shape), full_matrices=False, torch_function=torch.linalg.svd, with_signs=svd_with_signs, **exact)
    for op in "cholesky eigvalsh".split():
        row("linalg." + op, In("definite", 3, 3), torch_function=getattr(torch.linalg, op), **exact)
    row("linalg.eigh", In("definite", 2, 3, 3), torch_function=torch.linalg.eigh, with_signs=eigh_with_signs, **exact)
    row("linalg.vector_norm", N(3, 4), ord=3.0, dim=[1], torch_function=torch.linalg.vector_norm)
    for order in ("fro", "nuc", "1", "-1", "2", "-2", "inf", "-inf"):
        row("linalg.matrix_norm", N(3, 4), ord=order, torch_function=lambda x, ord: torch.linalg.matrix_norm(
            x, ord if ord in ("fro", "nuc") else float(ord)), **exact)


def fourier():
    def pairs(f):
        return lambda x, **a: torch.view_as_real(f(torch.view_as_complex(x.contiguous()), **a))

    exact = {"dtypes": ("F64", "F32")}
    for norm in ("backward", "ortho", "forward"):
        for n in (5, 6, 37):
            for op in ("fft", "ifft"):
                row("fft." + op, N(2, n, 2), norm=norm, torch_function=pairs(getattr(torch.fft, op)), **exact)
            row("fft.rfft", N(2, n), norm=norm, torch_function=lambda x, **a: torch.view_as_real(torch.fft.rfft(x, **a)), **exact)
            row("fft.irfft", N(2, n, 2), norm=norm, torch_function=lambda x, **a: torch.fft.irfft(
                torch.view_as_complex(x.contiguous()), **a), **exact)
        for op in ("fft2", "ifft2"):
            row("fft." + op, N(3, 4, 2), norm=norm, torch_function=pairs(getattr(torch.fft, op)), **exact)
        row("fft.rfft2", N(3, 4), norm=norm, torch_function=lambda x, **a: torch.view_as_real(torch.fft.rfft2(x, **a)), **exact)
        row("fft.irfft2", N(3, 4, 2), norm=norm, torch_function=lambda x, **a: torch.fft.irfft2(
            torch.view_as_complex(x.contiguous()), **a), **exact)
    row("fft.fftshift", N(3, 4), torch_function=torch.fft.fftshift)
    row("fft.ifftshift", N(3, 5), torch_function=torch.fft.ifftshift)


def shapes():
    row("reshape", N(3, 4), shape=[2, 6])
    row("flatten", N(2, 3, 4), start_dim=1)
    row("permute", N(2, 3, 4), dims=[2, 0, 1])
    row("transpose", N(3, 4), dim0=0, dim1=1)
    row("t", N(3, 4))
    row("slice", N(3, 8), dim=1, start=1, end=7, step=2, torch_function=lambda x, **a: x[:, 1:7:2])
    row("narrow", N(3, 8), dim=1, start=2, length=4)
    row("select", N(3, 4), dim=1, index=2)
    row("expand", N(3, 1), size=[2, 3, 4], torch_function=lambda x, size: x.expand(size))
    row("squeeze", N(3, 1, 4), dim=1)
    row("unsqueeze", N(3, 4), dim=1)
    row("tensor.unfold", N(3, 7), dimension=1, size=3, step=2, torch_function=lambda x, **a: x.unfold(1, 3, 2))
    for op in "cat stack".split():
        row(op, [N(2, 3), N(2, 3)], dim=1, torch_function=lambda *x, dim, op=op: find(op)(x, dim))
    row("flip", N(3, 4), dims=[1])
    row("rot90", N(3, 4))
    row("roll", N(3, 4), shifts=[1], dims=[1])
    row("unbind", N(3, 4), dim=1)
    for parts in (2, [1, 3]):  # PyTorch 2.15 takes them by position only
        row("tensor_split", N(3, 5), indices_or_sections=parts, dim=1,
            torch_function=lambda x, indices_or_sections, dim: torch.tensor_split(x, indices_or_sections, dim))
    for op in "vstack hstack dstack column_stack".split():
        row(op, [N(3), N(3)], torch_function=lambda *x, op=op: getattr(torch, op)(x))
        row(op, [N(3, 2), N(3, 2)], torch_function=lambda *x, op=op: getattr(torch, op)(x))
    row("block_diag", [N(3), N(3, 2)])
    row("cartesian_prod", [N(3), N(2)])
    row("broadcast_tensors", [N(3), N(2, 1)])
    row("movedim", N(2, 3, 4), source=[0, 2], destination=[1, 0])
    row("unflatten", N(2, 6), dim=1, sizes=[2, -1])
    for op in "atleast_1d atleast_2d atleast_3d".split():
        row(op, N())
        row(op, N(3))
        row(op, N(3, 4))
    row("select_scatter", N(3, 4), N(3), dim=1, index=2)
    row("slice_scatter", N(3, 5), N(3, 2), dim=1, start=1, end=5, step=2)
    row("diagonal_scatter", N(3, 4), N(3), offset=1)
    row("index_fill", N(3, 4), I(4, 2), dim=1, value=2.0,
        torch_function=lambda x, i, dim, value: torch.index_fill(x, dim, i, value))
    row("index_copy", N(5, 3), I(5, 1), N(1, 3), dim=0,
        torch_function=lambda x, i, s, dim: torch.index_copy(x, dim, i, s))
    row("tril_indices", row=3, col=4, offset=1)
    row("triu_indices", row=3, col=4, offset=1)
    row("vander", P(3), N=4)
    row("tile", N(3, 4), dims=[2, 1])
    row("tril", N(4, 4), diagonal=1)
    row("triu", N(4, 4), diagonal=-1)
    row("diagonal", N(3, 4), offset=1)
    row("diag_embed", N(2, 3))
    row("diag", N(4))
    row("meshgrid", [N(3), N(4)], torch_function=lambda *x: torch.meshgrid(*x, indexing="ij"))
    row("pad", N(3, 4), pad=[1, 2], value=0.5)
    for mode in ("reflect", "replicate", "circular"):
        row("pad", N(2, 3, 4), pad=[1, 2], mode=mode)
    row("clone", N(3, 4))
    row("embedding", I(5, 2, 3), N(5, 4), torch_function=lambda i, w: F.embedding(i, w))
    row("index_select", N(4, 3), I(4, 5), dim=0, torch_function=lambda x, i, dim: torch.index_select(x, dim, i))
    row("index_add", N(4, 3), I(4, 5), N(5, 3), dim=0, torch_function=lambda x, i, s, dim: torch.index_add(x, dim, i, s))
    row("gather", N(4, 3), I(4, 2, 3), dim=0, torch_function=lambda x, i, dim: torch.gather(x, dim, i))
    row("scatter_add", N(4, 3), I(4, 2, 3), N(2, 3), dim=0,
        torch_function=lambda x, i, s, dim: torch.scatter_add(x, dim, i, s))
    row("scatter", N(4, 3), I(4, 1, 3), N(1, 3), dim=0, torch_function=lambda x, i, s, dim: torch.scatter(x, dim, i, s))
    for reduce in ("sum", "mean", "amax", "amin", "prod"):
        row("scatter_reduce", N(4, 3), I(4, 2, 3), N(2, 3), dim=0, reduce=reduce,
            torch_function=lambda x, i, s, dim, reduce: torch.scatter_reduce(x, dim, i, s, reduce))
    row("take", N(3, 4), I(12, 5))
    row("take_along_dim", N(3, 4), I(3, 2, 4), dim=0)
    row("masked_select", N(3, 4), B(3, 4))
    row("masked_fill", N(3, 4), B(3, 4), value=2.5)
    row("masked_scatter", N(3, 4), B(3, 4), N(12))
    row("nonzero", B(3, 4))
    row("one_hot", I(5, 4), num_classes=5)
    row("repeat_interleave", N(3, 4), repeats=2, dim=1)
    row("repeat", N(3, 4), repeats=[2, 1, 3], torch_function=lambda x, repeats: x.repeat(repeats))
    row("chunk", N(3, 5), chunks=2, dim=1)
    row("split", N(3, 5), split_size_or_sections=2, dim=1, torch_function=lambda x, split_size_or_sections, dim: x.split(2, dim))


def recurrent(op):
    def run(x, *rest, num_layers, bidirectional):
        states = rest[:2] if op == "lstm" else rest[0]
        weights = rest[2:] if op == "lstm" else rest[1:]
        return getattr(torch, op)(x, states, weights, True, num_layers, 0.0, False, bidirectional, False)
    return run


def networks():
    wide = {"limit": 32}
    for d, size in ((1, (7,)), (2, (5, 6)), (3, (3, 4, 3))):
        conv, kernel = f"conv{d}d", (3, 2, 2)[:d]
        row(conv, N(2, 4, *size), N(6, 2, *kernel), N(6), stride=[2] * d, padding=[1] * d, groups=2, **wide)
        row(conv, N(1, 3, *size), N(2, 3, *kernel), **wide)
        if d == 2:
            row("conv2d_relu", N(2, 4, *size), N(6, 2, *kernel), N(6), stride=[2, 2], padding=[1, 1], groups=2, **wide,
                torch_function=lambda *x, **options: torch.relu(F.conv2d(*x, **options)))
        row(f"conv_transpose{d}d", N(2, 4, *size), N(4, 3, *kernel), N(6), stride=[2] * d, padding=[1] * d,
            output_padding=[1] * d, groups=2, **wide)
        row(f"max_pool{d}d", D(2, 3, *size), kernel_size=[2] * d)
        row(f"max_pool{d}d_with_indices", D(2, 3, *size), kernel_size=[2] * d,
            torch_function=lambda x, kernel_size, d=d: getattr(F, f"max_pool{d}d")(x, kernel_size, return_indices=True))
        row(f"avg_pool{d}d", N(2, 3, *size), kernel_size=[2] * d, padding=[1] * d)
        row(f"adaptive_avg_pool{d}d", N(2, 3, *size), output_size=[2] * d)
        row(f"adaptive_max_pool{d}d", D(2, 3, *size), output_size=[2] * d)
        row(f"adaptive_max_pool{d}d_with_indices", D(2, 3, *size), output_size=[2] * d,
            torch_function=lambda x, output_size, d=d: getattr(F, f"adaptive_max_pool{d}d")(x, output_size, return_indices=True))
        row(f"max_pool{d}d", D(3, *size), kernel_size=[2] * d)
        row(f"conv{d}d", N(4, *size), N(6, 4, *kernel), N(6), **wide)
        row("instance_norm", N(2, 3, *size), **wide)
        row("group_norm", N(2, 4, *size), num_groups=2, torch_function=lambda x, num_groups: F.group_norm(x, num_groups), **wide)
        row("interpolate", N(1, 2, *size), scale_factor=2.0, mode="nearest")
        row("interpolate", N(1, 2, *size), scale_factor=1.7, mode=("linear", "bilinear", "trilinear")[d - 1], **wide)
    for d, size in ((1, (6,)), (2, (4, 6))):
        row(f"lp_pool{d}d", P(2, 3, *size), norm_type=2.0, kernel_size=[2] * d,
            torch_function=lambda x, norm_type, kernel_size, d=d: getattr(F, f"lp_pool{d}d")(
                x, norm_type, kernel_size[0] if d == 1 else kernel_size), **wide)
    row("interpolate", N(1, 2, 4, 5), scale_factor=2.0, mode="bicubic", align_corners=True, **wide)
    row("interpolate", N(1, 2, 7, 5), size=[3, 2], mode="area")
    row("unfold", N(1, 2, 4, 5), kernel_size=[2, 2])
    row("fold", N(1, 8, 12), output_size=[4, 5], kernel_size=[2, 2])
    row("batch_norm", N(4, 3, 5), None, None, P(3), N(3), training=True,
        torch_function=lambda x, m, v, w, b, training: F.batch_norm(x, m, v, w, b, training), **wide)
    row("layer_norm", N(3, 4), P(4), N(4), normalized_shape=[4],
        torch_function=lambda x, w, b, normalized_shape: F.layer_norm(x, normalized_shape, w, b), **wide)
    row("local_response_norm", N(2, 4, 3), size=3, **wide)
    row("pixel_shuffle", N(2, 4, 3, 3), upscale_factor=2)
    row("pixel_unshuffle", N(2, 2, 4, 4), downscale_factor=2)
    row("channel_shuffle", N(2, 4, 3, 3), groups=2, torch_function=lambda x, groups: x.reshape(
        2, groups, 4 // groups, 3, 3).transpose(1, 2).reshape(x.shape))
    row("affine_grid", N(2, 2, 3), size=[2, 1, 3, 4], torch_function=lambda x, size: F.affine_grid(x, size, False))
    for mode in ("bilinear", "nearest", "bicubic"):
        for padding in ("zeros", "border", "reflection"):
            row("grid_sample", N(1, 2, 4, 5), N(1, 3, 2, 2), mode=mode, padding_mode=padding, limit=64,
                dtypes=("F64", "F32"),
                torch_function=lambda x, g, **a: F.grid_sample(x, g, align_corners=False, **a))
    row("grid_sample", N(1, 2, 2, 3, 4), N(1, 2, 1, 2, 3), limit=64, dtypes=("F64", "F32"),
        torch_function=lambda x, g: F.grid_sample(x, g, align_corners=False))
    row("scaled_dot_product_attention", N(2, 3, 4), N(2, 5, 4), N(2, 5, 3),
        torch_function=lambda q, k, v: torch.softmax(q @ k.transpose(-2, -1) / 2, -1) @ v, **wide)
    for layers, both in ((1, False), (2, True)):
        for op, gates in (("lstm", 4), ("gru", 3), ("rnn_tanh", 1), ("rnn_relu", 1)):
            weights = []
            for layer in range(layers):
                for _ in range(2 if both else 1):
                    size = 3 if layer == 0 else (4 if both else 2)
                    weights += [N(gates * 2, size), N(gates * 2, 2), N(gates * 2), N(gates * 2)]
            states = [N(layers * (2 if both else 1), 2, 2)] * (2 if op == "lstm" else 1)
            row(op, N(4, 2, 3), *states, weights, num_layers=layers, bidirectional=both, torch_function=recurrent(op), **wide)
    row("embedding_bag", I(5, 3, 2), N(5, 4), mode="sum")


def losses():
    for op in "mse_loss l1_loss smooth_l1_loss huber_loss".split():
        for reduction in ("mean", "sum", "none"):
            row(op, N(3, 4), N(3, 4), reduction=reduction)
    for reduction in ("mean", "sum", "none"):
        row("cross_entropy", N(4, 5), I(5, 4), reduction=reduction)
        row("nll_loss", N(4, 5), I(5, 4), reduction=reduction)
    row("cross_entropy", N(4, 5), I(5, 4), label_smoothing=0.1)
    row("binary_cross_entropy", U(3, 4), U(3, 4), order=1, why="PyTorch adds 1e-12 in its second derivative")
    row("binary_cross_entropy_with_logits", N(3, 4), U(3, 4))
    row("kl_div", N(3, 4), U(3, 4))
    row("triplet_margin_loss", N(3, 4), N(3, 4), N(3, 4))
    for op in ("soft_margin_loss", "hinge_embedding_loss"):
        row(op, N(3, 4), In("sign", 3, 4))
    row("margin_ranking_loss", N(4), N(4), In("sign", 4), margin=0.5)
    row("cosine_embedding_loss", N(3, 4), N(3, 4), In("sign", 3))
    row("multi_margin_loss", N(3, 4), I(4, 3))
    row("multilabel_margin_loss", N(3, 4), I(4, 3, 4))
    row("ctc_loss", N(6, 2, 5), In("label", 2, 3, bound=5), input_lengths=[6, 5], target_lengths=[3, 2], order=0,
        why="PyTorch's derivative is valid only for inputs from `log_softmax`; the module's derivative is compared there")
    row("multilabel_soft_margin_loss", N(3, 4), U(3, 4))
    row("poisson_nll_loss", N(3, 4), P(3, 4))
    row("gaussian_nll_loss", N(3, 4), N(3, 4), P(3, 4))


def known_faults():
    """Ops at values where PyTorch 2.15 is wrong, or was wrong in an earlier version."""
    row("prod", In("zeros", 3, 4), dim=1)
    # overflows in PyTorch's float16, but not in the reference
    row("mean", In("large", 4), dtypes=("F64", "F32", "F16"))
    row("layer_norm", In("constant", 2, 8), P(8), N(8), normalized_shape=[8], order=0,
        why="for a row of equal numbers, the result is exactly the bias, and derivatives are divided by sqrt(eps)",
        torch_function=lambda x, w, b, normalized_shape: b.expand(2, 8))
    row("gelu", In("infinite", 6), order=0, why="the value at -inf is 0; PyTorch returns NaN",
        torch_function=lambda x: torch.where(torch.isinf(x), 0.0, F.gelu(x)))


elementwise(), reductions(), products(), linear_algebra(), fourier(), shapes(), networks(), losses(), known_faults()
