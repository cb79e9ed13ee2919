"""Runs PyTorch's own samples of every op that both libraries have: values and gradients of both orders in float64.

    torch_samples.py build/tools/tapegrad [--filter=REGEX] [--limit=N]

The samples are those of torch.testing._internal, with which PyTorch tests its ops. A sample whose arguments the catalog
cannot express is counted as skipped, with the reason; a sample that the op refuses is refused, with the error. Exit
status 1 if a value or a gradient differs. docs/torch_samples.md lists where the definitions differ, and how those results
are compared. Needs PyTorch 2 and its package expecttest; skipped (status 77) without them.
"""

import argparse
import inspect
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import warnings
from collections import Counter, defaultdict

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "oprun"))
import harness

warnings.filterwarnings("ignore")
try:
    import torch
    from torch.testing._internal.common_methods_invocations import op_db
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

# Ops and arguments whose names differ in PyTorch.
NAMES = {"true_divide": "div", "nn.functional.softmin": "softmin", "special.entr": None, "unfold": "tensor.unfold",
         "nn.functional.unfold": "unfold", "nn.functional.fold": "fold", "special.xlog1py": "xlog1py",
         "nn.functional.pad": "pad", "bmm": "bmm", "to": None, "nn.functional.conv2d": "conv2d",
         "empty": None, "empty_like": None, "new_empty": None,  # uninitialised
         "linalg.norm": None}  # norms of matrices; norm takes those of vectors
FIXED = {"linalg.vander": {"increasing": True}}  # attributes that PyTorch's name implies
ARGUMENTS = {"unbiased": "correction", "size": "shape", "repeats": "repeats"}
# Ops whose samples and calls begin with different arguments.
ORDER = {"where": (1, 0, 2), "nn.functional.embedding": (1, 0), "nn.functional.embedding_bag": (1, 0)}
FIRST_RESULT = {"triangular_solve"}  # the second is a copy of an argument
# Ops whose first gradients are compared in part or with other signs: defined_part(), match_signs().
FIRST_ORDER_ONLY = {"cholesky_solve", "ctc_loss", "linalg.eigh", "linalg.svd"}
# Attributes that C++ functions accept in a form that the catalog lacks (tests/first_guess).
FORMS = {("norm", "p"): str, ("kl_div", "reduction"): lambda v: v == "batchmean",
         ("interpolate", "mode"): lambda v: v == "area"}


class Skipped(Exception):
    pass


def catalog_name(info, catalog):
    """Returns the name of the op in the catalog, or None."""
    name = NAMES.get(info.name, info.name)
    if name is None:
        return None
    if name in catalog:
        return name
    short = name.rsplit(".", 1)[-1]
    return short if short in catalog and not name.startswith(("signal.", "fft.", "sparse.", "masked.")) else None


def attribute(value, kind):
    """Converts a Python value to an attribute of the given type."""
    if isinstance(value, torch.dtype):
        name = str(value).removeprefix("torch.")
        if name.startswith("complex"):
            raise Skipped("complex numbers")
        return name
    if isinstance(value, (torch.layout, torch.device, torch.memory_format, torch.Generator)):
        raise Skipped(f"a {type(value).__name__}")
    if isinstance(value, torch.Size):
        return list(value)
    if isinstance(value, (tuple, list)):
        if any(v is None for v in value) and kind == "ints":
            return [-1 if v is None else v for v in value]
        if not all(isinstance(v, int) for v in value):
            raise Skipped("a nested list")
        return list(value)
    if isinstance(value, complex):
        raise Skipped("complex numbers")
    if value is not None and not isinstance(value, (bool, int, float, str)):
        raise Skipped(f"a {type(value).__name__}")
    return value


def bind(about, sample, info):
    """Maps the arguments of a sample to inputs and attributes of the catalog."""
    inputs, lists, attrs = [None] * len(about["inputs"]), [], {}
    names = [i["name"] for i in about["inputs"]]
    free_inputs = list(range(len(names)))
    free_attrs = [a["name"] for a in about["attributes"]]
    kinds = {a["name"]: a["type"] for a in about["attributes"]}

    def put(value, name=None):
        is_list = isinstance(value, (tuple, list)) and value and all(isinstance(v, torch.Tensor) for v in value)
        if isinstance(value, torch.Tensor) or is_list:
            if name in names and names.index(name) in free_inputs:
                place = names.index(name)
            elif free_inputs:
                place = free_inputs[0]
            else:
                raise Skipped(f"a tensor as {name or 'further argument'}")
            if is_list and not about["inputs"][place]["list"]:
                raise Skipped("a list of tensors")
            free_inputs.remove(place)
            inputs[place] = value
        elif name in kinds:
            attrs[name] = attribute(value, kinds[name])
            if name in free_attrs:
                free_attrs.remove(name)
        elif name is not None and name in names:
            if isinstance(value, (bool, int, float)):
                inputs[names.index(name)] = torch.tensor(value, dtype=torch.float64 if isinstance(value, float) else None)
            elif value is not None:
                raise Skipped(f"the argument {name}")
        elif name is not None:
            if value not in (None, False):
                raise Skipped(f"the argument {name}")
        elif isinstance(value, (bool, int, float)) and free_inputs and not free_attrs:
            inputs[free_inputs.pop(0)] = torch.tensor(value, dtype=torch.float64 if isinstance(value, float) else None)
        elif value is None and free_inputs and about["inputs"][free_inputs[0]]["optional"]:
            free_inputs.pop(0)
        elif free_attrs:
            first = free_attrs.pop(0)
            attrs[first] = attribute(value, kinds[first])
        else:
            raise Skipped("a further argument")

    if sample.kwargs.get("dropout_p"):
        raise Skipped("dropout")
    attrs.update(FIXED.get(info.name, {}))
    values = [sample.input, *sample.args]
    order = ORDER.get(info.name, ())
    values[:len(order)] = [values[i] for i in order if i < len(values)]
    if about["inputs"] and about["inputs"][0]["list"] and isinstance(values[0], torch.Tensor):  # f(x, y, z)
        values = [values] if all(isinstance(v, torch.Tensor) for v in values) else values
    if len(values) > 1 and isinstance(values[1], bool) and "correction" in kinds:  # var(x, unbiased)
        attrs["correction"] = int(values.pop(1))
        free_attrs.remove("correction")
    for value in values:
        put(value)
    for name, value in sample.kwargs.items():
        if name == "out" or (name == "unbiased" and "correction" in kinds):
            attrs["correction"] = int(value)
            continue
        put(value, name)
    for i, slot in enumerate(about["inputs"]):
        if inputs[i] is None and not slot["optional"]:
            raise Skipped(f"no {slot['name']}")
    adapt(about["name"], inputs, attrs)
    return inputs, {k: v for k, v in attrs.items() if v is not None}


def adapt(op, inputs, attrs):
    """Writes attributes in the format of the catalog."""
    for name, value in attrs.items():
        form = FORMS.get((op, name))
        if form and isinstance(value, str) and form(value):
            raise Skipped(f'{name} = "{value}", which only the C++ function takes')
    if op.startswith("fft.i") and not inputs[0].is_complex():
        raise Skipped("complex numbers are pairs")
    size = attrs.get("output_size")
    if op.startswith("max_unpool") and isinstance(size, list):  # with or without batch and channels
        attrs["output_size"] = size[-int(op[-2]):]
    padding = attrs.get("padding")
    if op in ("conv1d", "conv2d", "conv3d") and isinstance(padding, str):
        dims = int(op[-2])
        kernel, dilation = list(inputs[1].shape[2:]), attrs.get("dilation") or 1
        dilation = dilation if isinstance(dilation, list) else [dilation]
        dilation = dilation * dims if len(dilation) == 1 else dilation
        total = [d * (k - 1) if padding == "same" else 0 for d, k in zip(dilation, kernel)]
        if any(t % 2 for t in total):
            raise Skipped("padding on one side")
        attrs["padding"] = [t // 2 for t in total]


class Sample:
    def __init__(self, name, about, info, sample):
        self.name, self.tensors, self.leaves, self.in_place = name, {}, [], about["name"].endswith("_")
        inputs, attrs = bind(about, sample, info)
        refs = []
        for slot in inputs:
            refs.append({"list": [self.store(x) for x in slot]} if isinstance(slot, (list, tuple))
                        else None if slot is None else self.store(slot))
        self.line = {"id": name, "op": about["name"], "inputs": refs, "attrs": attrs, "order": 0}
        flat = [x for slot in inputs for x in (slot if isinstance(slot, (list, tuple)) else [slot])]
        self.leaves = [(i, x) for i, x in enumerate(flat) if x is not None and x.requires_grad and not self.in_place]
        self.gradients = None
        self.expected = self.reference(info, sample, about)

    def store(self, x):
        if x.is_complex() or x.layout != torch.strided:
            raise Skipped("complex or sparse numbers")
        key = f"{self.name}/x{len(self.tensors)}"
        self.tensors[key] = x.detach().numpy().copy(order="C")  # samples share buffers that ops change
        return {"t": key, "grad": bool(x.requires_grad) and not self.in_place}  # a leaf is not written

    def reference(self, info, sample, about):
        ys = info(sample.input, *sample.args, **sample.kwargs)
        ys = [ys] if isinstance(ys, torch.Tensor) else list(ys) if isinstance(ys, (list, tuple)) else None
        if ys and about["name"] in FIRST_RESULT:
            ys = ys[:1]
        if ys is None or not all(isinstance(y, torch.Tensor) for y in ys):
            raise Skipped("a result that is no tensor")
        if any(y.is_complex() for y in ys):
            raise Skipped("complex numbers")
        expected = {f"out/{k}": y.detach().numpy() for k, y in enumerate(ys)}
        rng = np.random.default_rng(0)
        floats = [y for y in ys if y.is_floating_point()]
        if not self.leaves or not any(y.requires_grad for y in floats) or about["max_order"] == 0:
            return expected
        seeds = self.draw(floats, rng, "v")

        def first_gradients(signs=()):
            """Returns the first gradients; result k is multiplied by signs[k]."""
            scaled = [v * s for v, s in zip(seeds, signs)] if signs else seeds
            total = sum((y * v).sum() for y, v in zip(floats, scaled) if y.requires_grad)
            return torch.autograd.grad(total, [x for _, x in self.leaves], create_graph=True, allow_unused=True)

        def gradients(signs=()):
            return {f"g1/{place}": np.zeros(x.shape) if g is None else g.detach().numpy()
                    for (place, x), g in zip(self.leaves, first_gradients(signs))}

        try:
            expected.update(gradients())
        except (RuntimeError, NotImplementedError):
            return expected
        self.gradients = gradients
        self.line.update(order=1, seeds=[f"{self.name}/v{k}" for k in range(len(floats))])
        if about["max_order"] > 1 and about["name"] not in FIRST_ORDER_ONLY:
            self.add_second(first_gradients, seeds, rng, expected)
        return expected

    def draw(self, like, rng, letter):
        """Returns drawn tensors of the given shapes, and stores them."""
        for k, x in enumerate(like):
            self.tensors[f"{self.name}/{letter}{k}"] = rng.standard_normal(tuple(x.shape)).astype(x.detach().numpy().dtype)
        return [torch.from_numpy(np.array(self.tensors[f"{self.name}/{letter}{k}"])) for k in range(len(like))]

    def add_second(self, first_gradients, seeds, rng, expected):
        """Adds the gradients of the first gradients, unless PyTorch has none."""
        xs = [x for _, x in self.leaves]
        for seed in seeds:
            seed.requires_grad_()
        try:
            first = first_gradients()
            seeds2 = self.draw(xs, rng, "s")
            total = sum((g * s).sum() for g, s in zip(first, seeds2) if g is not None)
            second = torch.autograd.grad(total, xs + seeds, allow_unused=True)
        except (RuntimeError, NotImplementedError, AttributeError):
            self.tensors = {k: v for k, v in self.tensors.items() if not k.startswith(f"{self.name}/s")}
            return
        self.line.update(order=2, seeds2=[f"{self.name}/s{k}" for k in range(len(xs))])
        keys = [f"g2/{place}" for place, _ in self.leaves] + [f"g2/seed/{k}" for k in range(len(seeds))]
        for key, g, x in zip(keys, second, xs + seeds):
            expected[key] = np.zeros(x.shape) if g is None else g.detach().numpy()


def defined_part(sample, key, values):
    """Returns the part of a result that the definition of the op determines; PyTorch's result may have more."""
    op = sample.line["op"]
    if op == "cholesky_solve" and key == "g1/1":  # the op reads one triangle
        return np.triu(values) if sample.line["attrs"].get("upper") else np.tril(values)
    if op == "ctc_loss" and key == "g1/0":  # PyTorch's gradient holds only behind log_softmax
        log_probs = sample.tensors[sample.line["inputs"][0]["t"]]
        return values - np.exp(log_probs) * values.sum(-1, keepdims=True)
    if op == "linalg.svd" and key in ("out/0", "out/2"):  # vectors without a singular value span any basis
        pairs = sample.expected["out/1"].shape[-1]
        return values[..., :pairs] if key == "out/0" else values[..., :pairs, :]
    return values


def match_signs(sample, answer):
    """Gives PyTorch's eigenvectors or singular vectors the signs of ours, and repeats its gradients with them."""
    svd = sample.line["op"] == "linalg.svd"
    signs = [1.0] * len(sample.expected)
    for k, axis in ((0, -2), (2, -1)) if svd else ((1, -2),):
        ours, theirs = answer.results.get(f"{sample.name}/out/{k}"), sample.expected[f"out/{k}"]
        if ours is None or ours.shape != theirs.shape:
            return
        signs[k] = np.where((ours * theirs).sum(axis, keepdims=True) < 0, -1.0, 1.0)
    if svd:  # a pair of singular vectors has one sign
        pairs = sample.expected["out/1"].shape[-1]
        signs[2][..., :pairs, :] = np.swapaxes(signs[0], -1, -2)[..., :pairs, :]
    for k in range(3 if svd else 2):
        sample.expected[f"out/{k}"] = sample.expected[f"out/{k}"] * signs[k]
    if sample.gradients:
        sample.expected.update(sample.gradients([torch.as_tensor(s) for s in signs]))


def compare(sample, answer):
    status = answer.status.get(sample.name)
    if status is None or status["status"] != "ok":
        return "refused", str(status and status["message"]).split("\n")[0]
    if sample.line["op"] in ("linalg.eigh", "linalg.svd"):
        match_signs(sample, answer)
    precise = all(x.dtype != np.float32 for x in sample.tensors.values())
    for key, expected in sample.expected.items():
        got = answer.results.get(f"{sample.name}/{key}")
        if got is None:
            got = np.zeros(expected.shape)
        if got.shape != expected.shape:
            return "wrong", f"{key}: shape {got.shape} instead of {expected.shape}"
        if key.startswith("out") and (got.dtype.kind == "f") != (expected.dtype.kind == "f"):
            return "wrong", f"{key}: {got.dtype} instead of {expected.dtype}"
        eps = 1e-9 if expected.dtype == np.float64 and precise else 1e-4
        if sample.line["op"] == "hardsigmoid":
            eps = 1e-7  # PyTorch's slope is 1/6 rounded to float32
        got, expected = defined_part(sample, key, got), defined_part(sample, key, expected)
        if not np.allclose(got.astype(np.float64), expected.astype(np.float64), rtol=eps, atol=eps, equal_nan=True):
            return "wrong", f"{key}: other values"
    return "equal", ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tool")
    parser.add_argument("--filter", default="")
    parser.add_argument("--limit", type=int, default=40, help="samples of one op")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    listed = json.loads(subprocess.run([options.tool, "op", "list", "--format=json"], check=True, capture_output=True).stdout)
    catalog = {op["name"]: op for op in listed}
    samples, counts, reasons = [], defaultdict(Counter), defaultdict(Counter)
    for info in op_db:
        name = catalog_name(info, catalog)
        if name is None or catalog[name]["random"] or not re.search(options.filter, name):
            continue
        kind = torch.float64 if torch.float64 in info.dtypes else torch.int64
        if kind not in info.dtypes:
            continue
        wants_grad = kind == torch.float64 and info.supports_autograd
        try:
            drawn = list(info.sample_inputs("cpu", kind, requires_grad=wants_grad))
        except Exception as error:  # a sample function that needs another package
            reasons[name][f"skipped: {type(error).__name__} of the samples"] += 1
            continue
        for number, each in enumerate(drawn[:options.limit]):
            label = f"{name}/{info.name}{info.variant_test_name}/{number}"
            try:
                samples.append(Sample(label, catalog[name], info, each))
            except Skipped as skipped:
                counts[name]["skipped"] += 1
                reasons[name][f"skipped: {skipped}"] += 1
            except Exception as error:
                counts[name]["skipped"] += 1
                reasons[name][f"skipped: PyTorch's {type(error).__name__}"] += 1
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        harness.write_safetensors(folder / "t.safetensors", {k: v for s in samples for k, v in s.tensors.items()})
        (folder / "c.jsonl").write_text("".join(re.sub(r"(?<![\"\w])(-?Infinity|NaN)(?![\"\w])", r'"\1"', json.dumps(s.line)).replace(
            "Infinity", "inf").replace('"NaN"', '"nan"') + "\n" for s in samples))
        process = subprocess.run([options.tool, "op", "run", f"--cases={folder}/c.jsonl", f"--tensors={folder}/t.safetensors",
                                  f"--out={folder}/r.safetensors", f"--status={folder}/s.jsonl"], capture_output=True, text=True)
        if process.returncode not in (0, 1):
            sys.exit(process.stderr)
        answer = harness.Answer(process, folder)
    for sample in samples:
        verdict, why = compare(sample, answer)
        op = sample.name.split("/")[0]
        counts[op][verdict] += 1
        if why:
            reasons[op][f"{verdict}: {why} [{sample.name.split('/', 1)[1]}]"] += 1
    total = Counter()
    for count in counts.values():
        total.update(count)
    for op in sorted(reasons):
        print(op, dict(counts[op]))
        for why, count in reasons[op].most_common(6):
            print(f"    {count} x {why}")
    print(f"{len(counts)} ops: " + ", ".join(f"{total[k]} {k}" for k in ("equal", "refused", "wrong", "skipped")))
    return 1 if total["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
