"""Runs PyTorch's own samples of every op that both libraries have: values, first and second gradients in float64.

    torch_samples.py build/tools/tapegrad [--format=markdown] [--filter=REGEX] [--limit=N]

The samples are those of torch.testing._internal, with which PyTorch tests its ops. A sample whose arguments the catalog
cannot express is counted as skipped, with the reason; a sample that the op refuses is refused, with the error. Exit
status 1 if a value or a gradient differs. Needs PyTorch 2 and its package expecttest; skipped (status 77) without them.
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

# Ops that PyTorch calls by another name, and arguments with another name.
NAMES = {"true_divide": "div", "nn.functional.softmin": "softmin", "special.entr": None, "unfold": "tensor.unfold",
         "nn.functional.unfold": "unfold", "nn.functional.fold": "fold", "special.xlog1py": "xlog1py",
         "nn.functional.pad": "pad", "bmm": "bmm", "to": None, "nn.functional.conv2d": "conv2d"}
ARGUMENTS = {"unbiased": "correction", "size": "shape", "repeats": "repeats"}


class Skipped(Exception):
    pass


def catalog_name(info, catalog):
    """Name of the op in the catalog, or None."""
    name = NAMES.get(info.name, info.name)
    if name is None:
        return None
    if name in catalog:
        return name
    short = name.rsplit(".", 1)[-1]
    return short if short in catalog and not name.startswith(("signal.", "fft.", "sparse.", "masked.")) else None


def attribute(value, kind):
    """A Python value as an attribute of the given type."""
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

    put(sample.input)
    for value in sample.args:
        put(value)
    for name, value in sample.kwargs.items():
        if name == "out" or (name == "unbiased" and "correction" in kinds):
            attrs["correction"] = int(value)
            continue
        put(value, name)
    for i, slot in enumerate(about["inputs"]):
        if inputs[i] is None and not slot["optional"]:
            raise Skipped(f"no {slot['name']}")
    return inputs, {k: v for k, v in attrs.items() if v is not None}


class Sample:
    def __init__(self, name, about, info, sample):
        self.name, self.tensors, self.leaves = name, {}, []
        inputs, attrs = bind(about, sample, info)
        refs = []
        for slot in inputs:
            refs.append({"list": [self.store(x) for x in slot]} if isinstance(slot, (list, tuple))
                        else None if slot is None else self.store(slot))
        self.line = {"id": name, "op": about["name"], "inputs": refs, "attrs": attrs, "order": 0}
        flat = [x for slot in inputs for x in (slot if isinstance(slot, (list, tuple)) else [slot])]
        self.leaves = [(i, x) for i, x in enumerate(flat) if x is not None and x.requires_grad]
        self.expected = self.reference(info, sample, about)

    def store(self, x):
        if x.is_complex() or x.layout != torch.strided:
            raise Skipped("complex or sparse numbers")
        key = f"{self.name}/x{len(self.tensors)}"
        self.tensors[key] = x.detach().contiguous().numpy()
        return {"t": key, "grad": bool(x.requires_grad)}

    def reference(self, info, sample, about):
        ys = info(sample.input, *sample.args, **sample.kwargs)
        ys = [ys] if isinstance(ys, torch.Tensor) else list(ys) if isinstance(ys, (list, tuple)) else None
        if ys is None or not all(isinstance(y, torch.Tensor) for y in ys):
            raise Skipped("a result that is no tensor")
        if any(y.is_complex() for y in ys):
            raise Skipped("complex numbers")
        expected = {f"out/{k}": y.detach().numpy() for k, y in enumerate(ys)}
        rng = np.random.default_rng(0)
        floats = [y for y in ys if y.is_floating_point()]
        if not self.leaves or not any(y.requires_grad for y in floats) or about["max_order"] == 0:
            return expected
        seeds = []
        for k, y in enumerate(floats):
            values = rng.standard_normal(tuple(y.shape)).astype(y.detach().numpy().dtype)
            self.tensors[f"{self.name}/v{k}"] = values
            seeds.append(torch.from_numpy(np.array(values)))
        leaves = [x for _, x in self.leaves]
        try:
            total = sum((y * v).sum() for y, v in zip(floats, seeds) if y.requires_grad)
            first = torch.autograd.grad(total, leaves, create_graph=True, allow_unused=True)
        except (RuntimeError, NotImplementedError):
            return expected
        self.line.update(order=1, seeds=[f"{self.name}/v{k}" for k in range(len(floats))])
        for (place, x), g in zip(self.leaves, first):
            expected[f"g1/{place}"] = np.zeros(x.shape) if g is None else g.detach().numpy()
        return expected


def compare(sample, answer):
    status = answer.status.get(sample.name)
    if status is None or status["status"] != "ok":
        return "refused", str(status and status["message"]).split("\n")[0]
    for key, expected in sample.expected.items():
        got = answer.results.get(f"{sample.name}/{key}")
        if got is None:
            got = np.zeros(expected.shape)
        if got.shape != expected.shape:
            return "wrong", f"{key}: shape {got.shape} instead of {expected.shape}"
        if key.startswith("out") and (got.dtype.kind == "f") != (expected.dtype.kind == "f"):
            return "wrong", f"{key}: {got.dtype} instead of {expected.dtype}"
        eps = 1e-9 if expected.dtype == np.float64 else 1e-4
        if not np.allclose(got.astype(np.float64), expected.astype(np.float64), rtol=eps, atol=eps, equal_nan=True):
            return "wrong", f"{key}: other values"
    return "equal", ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tool")
    parser.add_argument("--format", choices=("text", "markdown"), default="text")
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
