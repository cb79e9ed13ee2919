"""Compares every op with PyTorch: values, gradients and gradients of gradients, in every dtype and memory layout.

    torch_oracle.py build/tools/tapegrad [--format=markdown] [--filter=REGEX]

The reference is PyTorch in float64 on the same rounded inputs. Errors are in units in the last place of the largest
expected magnitude: max|got - expected| / (eps max|expected|). Exit status 1 if a case is wrong.
"""

import argparse
import copy
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import warnings
import zlib
from collections import defaultdict

import numpy as np
import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "oprun"))
import harness
import rows

warnings.filterwarnings("ignore")
EPS = {"F64": 2.0 ** -52, "F32": 2.0 ** -23, "F16": 2.0 ** -10, "BF16": 2.0 ** -7}
DTYPES = {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16"}
LAYOUTS = ("contiguous", "transposed", "step 2", "offset")


def rounded(values, dtype):
    """Returns the values as stored, and as float64."""
    if dtype == "BF16":
        stored = harness.BFloat16(values)
        # a scalar stays a scalar
        exact = stored.values().astype(np.float64).reshape(np.shape(values))
        stored.bits = stored.bits.reshape(np.shape(values))
        return stored, exact
    stored = np.asarray(values).astype(harness.NAMES[dtype])
    return stored, stored.astype(np.float64)


def arranged(array, layout):
    """Returns a buffer that contains the values, surrounded by NaN (or 1), and the view of the values; None if impossible."""
    shape = array.shape
    if layout == "contiguous":
        return array, None
    if array.ndim == 0 or (layout == "transposed" and array.ndim < 2):
        return None, None
    order = list(range(array.ndim))
    if layout == "transposed":
        order[-1], order[-2] = order[-2], order[-1]
        whole = tuple(shape[i] for i in order)
    elif layout == "step 2":
        whole = shape[:-1] + (2 * shape[-1],)
    else:
        whole = tuple(n + 2 for n in shape)
    base = np.full(whole, np.nan if array.dtype.kind == "f" else 1).astype(array.dtype)
    part = (base.transpose(order) if layout == "transposed" else base[..., ::2] if layout == "step 2"
            else base[(slice(1, -1),) * array.ndim])
    part[...] = array
    strides = [s // base.itemsize for s in part.strides]
    offset = (part.__array_interface__["data"][0] - base.__array_interface__["data"][0]) // base.itemsize
    return base, {"shape": list(shape), "strides": strides, "offset": offset}


def dense(gradient, x):
    """Converts to an array; None becomes zeros. Adding zeros replaces PyTorch's lazy zeros, which numpy() cannot read."""
    zeros = torch.zeros_like(x)
    return (zeros if gradient is None else zeros + gradient).detach().numpy()


class Case:
    """One row in one dtype and layout: the case for the tool, and the expected results."""

    def __init__(self, name, row, dtype, layout, about, tensors):
        self.name, self.row, self.dtype, self.layout = name, row, dtype, layout
        self.tensors, self.new = tensors, {}
        about_row = f"{row.op} {row.attrs} {[getattr(i, 'shape', 0) for i in row.inputs]}"
        rng = np.random.default_rng(zlib.crc32(about_row.encode()))
        self.leaves, inputs, arguments = [], [], []
        self.missing = None  # lowest order of derivative that PyTorch lacks
        self.varied = any(i.differentiable for i in self.flat() if i is not None)
        for slot in row.inputs:
            if slot is None:
                inputs.append(None)
                arguments.append(None)
            elif isinstance(slot, list):
                made = [self.make(one, rng) for one in slot]
                inputs.append({"list": [m[0] for m in made]})
                arguments += [m[1] for m in made]
            else:
                ref, x = self.make(slot, rng)
                inputs.append(ref)
                arguments.append(x)
        self.line = {"id": name, "op": row.op, "inputs": inputs, "attrs": row.attrs}
        order = min(row.order, about["max_order"], 2 if dtype in ("F64", "F32") else 1)
        if not self.leaves:
            order = 0
        self.drawn = arguments, order, copy.deepcopy(rng)
        self.expected = self.reference(arguments, order, rng)

    def adopt_signs(self, answer):
        """Computes the expected results again, with the signs of our results."""
        ours = [answer.results[f"{self.name}/{key}"] for key in self.expected if key.startswith("out/")]
        self.expected = self.reference(*self.drawn, ours)

    def flat(self):
        for slot in self.row.inputs:
            yield from slot if isinstance(slot, list) else [slot]

    def store(self, key, stored):
        self.new[f"{self.name}/{key}"] = stored
        return f"{self.name}/{key}"

    def make(self, slot, rng):
        values = slot.draw(rng)
        stored, exact = rounded(values, self.dtype) if slot.is_float else (values, values)
        bits = stored.bits if isinstance(stored, harness.BFloat16) else stored
        base, view = arranged(bits, self.layout)
        if base is None:
            base, view = bits, None
        if isinstance(stored, harness.BFloat16):
            whole = harness.BFloat16(np.zeros(base.shape))
            whole.bits = base
            base = whole
        ref = {"t": self.store(f"x{len(self.new)}", base)}
        if view:
            ref["view"] = view
        x = torch.from_numpy(np.array(exact))
        if slot.differentiable:
            ref["grad"] = True
            x.requires_grad_()
            self.leaves.append(x)
        return ref, x

    def seeds(self, ys, rng, prefix):
        refs, values = [], []
        for y in ys:
            stored, exact = rounded(rng.standard_normal(tuple(y.shape)), self.dtype)
            refs.append(self.store(f"{prefix}{len(refs)}", stored))
            values.append(torch.from_numpy(np.array(exact)).requires_grad_())
        return refs, values

    def reference(self, arguments, order, rng, ours=None):
        function = self.row.function or rows.find(self.row.op)
        attrs = dict(self.row.attrs)
        ys = function(*arguments, **attrs)
        if ours:
            ys = self.row.with_signs(ys, ours)
        ys = [ys] if isinstance(ys, torch.Tensor) else list(ys)
        expected = {f"out/{k}": y.detach().numpy() for k, y in enumerate(ys)}
        floats = [y for y in ys if y.is_floating_point()]
        if order == 0 or not any(y.requires_grad for y in floats):
            return expected
        refs, seeds = self.seeds(floats, rng, "v")
        total = sum((y * v).sum() for y, v in zip(floats, seeds))
        try:
            first = torch.autograd.grad(total, self.leaves, create_graph=True, allow_unused=True)
        except RuntimeError:  # PyTorch has no derivative
            self.missing = 1
            return expected
        self.line.update(order=1, seeds=refs)
        places = [i for i, slot in enumerate(self.flat()) if slot is not None and slot.differentiable]
        for place, g, x in zip(places, first, self.leaves):
            expected[f"g1/{place}"] = dense(g, x)
        if order < 2:
            return expected
        try:
            refs2, seeds2 = self.seeds([x for x in self.leaves], rng, "s")
            total = sum((g * s).sum() for g, s in zip(first, seeds2) if g is not None)
            if not total.requires_grad:
                return expected
            second = torch.autograd.grad(total, self.leaves + seeds, allow_unused=True)
        except RuntimeError:  # PyTorch has no second derivative
            self.missing = 2
            return expected
        self.line.update(order=2, seeds2=refs2)
        keys = [f"g2/{place}" for place in places] + [f"g2/seed/{k}" for k in range(len(seeds))]
        for key, g, x in zip(keys, second, self.leaves + seeds):
            expected[key] = dense(g, x)
        return expected


def compare(case, answer):
    """Returns the largest errors of outputs, first and second gradients in ulp, and a description of a fault."""
    status = answer.status.get(case.name)
    if status is None or status["status"] != "ok":
        return {}, f"{status and status['message']}"
    if case.row.with_signs:
        case.adopt_signs(answer)
    worst = defaultdict(float)
    for level in ("out", "g1", "g2"):
        keys = [k for k in case.expected if k.startswith(level)]
        finite = [np.abs(case.expected[k][np.isfinite(case.expected[k])]).max(initial=0) for k in keys]
        for key, own in zip(keys, finite):
            expected = case.expected[key]
            got = answer.results.get(f"{case.name}/{key}")
            if got is None:
                got = np.zeros(expected.shape)
            if got.shape != expected.shape:
                return worst, f"{key}: shape {got.shape} instead of {expected.shape}"
            kind = answer.kinds.get(f"{case.name}/{key}", case.dtype)
            if expected.dtype.kind != "f":
                if not np.array_equal(got.astype(np.int64), expected.astype(np.int64)):
                    return worst, f"{key}: other whole numbers"
                continue
            same = (got == expected) | (np.isnan(got) & np.isnan(expected))
            scale = own if level == "out" else max(finite)
            with np.errstate(invalid="ignore", over="ignore"):
                error = np.where(same, 0, np.abs(got.astype(np.float64) - expected))
            if not np.isfinite(error).all():
                return worst, f"{key}: {got.ravel()[~np.isfinite(error).ravel()][0]} is not expected"
            units = error.max(initial=0) / (EPS.get(kind, EPS[case.dtype]) * max(scale, 1e-300))
            worst[level] = max(worst[level], units)
    for level, units in worst.items():
        limit = case.row.limit if level == "out" else max(case.row.limit, 16) * (4 if level == "g2" else 1)
        if units > limit:
            return worst, f"{level}: {units:.3g} ulp, limit {limit}"
    return worst, None


def make_cases(catalog, pattern):
    cases = []
    for number, row in enumerate(rows.ROWS):
        if not re.search(pattern, row.op):
            continue
        about = catalog[row.op]
        kinds = [DTYPES[d] for d in about["dtypes"]["cpu"] if d in DTYPES]
        if row.dtypes is not None:
            kinds = [k for k in kinds if k in row.dtypes]
        floats = any(i is not None and i.is_float for slot in row.inputs for i in (slot if isinstance(slot, list) else [slot]))
        for dtype in kinds if floats else ["F64"]:
            for layout in LAYOUTS:
                name = f"{row.op}/{number}/{dtype}/{layout.replace(' ', '')}"
                cases.append(Case(name, row, dtype, layout, about, {}))
    return cases


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tool")
    parser.add_argument("--format", choices=("text", "markdown"), default="text")
    parser.add_argument("--filter", default="")
    options = parser.parse_args()
    torch.set_num_threads(1)
    listed = json.loads(subprocess.run([options.tool, "op", "list", "--format=json"], check=True, capture_output=True).stdout)
    catalog = {op["name"]: op for op in listed}
    cases = make_cases(catalog, options.filter)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        harness.write_safetensors(folder / "t.safetensors", {k: v for case in cases for k, v in case.new.items()})
        (folder / "c.jsonl").write_text("".join(json.dumps(
            case.line, default=str).replace("Infinity", '"inf"') + "\n" for case in cases))
        process = subprocess.run([options.tool, "op", "run", f"--cases={folder}/c.jsonl", f"--tensors={folder}/t.safetensors",
                                  f"--out={folder}/r.safetensors", f"--status={folder}/s.jsonl"], capture_output=True, text=True)
        if process.returncode not in (0, 1):
            sys.exit(process.stderr)
        answer = harness.Answer(process, folder)
    worst, count, wrong = defaultdict(lambda: defaultdict(float)), defaultdict(int), []
    for case in cases:
        units, fault = compare(case, answer)
        count[case.row.op] += 1
        for level, value in units.items():
            worst[case.row.op][level] = max(worst[case.row.op][level], value)
        if fault:
            wrong.append(f"{case.name}: {fault}")
    if options.format == "markdown":
        print_markdown(cases, worst, count, wrong, catalog)
    else:
        print("\n".join(wrong))
        print(f"{len(cases)} cases of {len(count)} ops, {len(wrong)} wrong")
    return 1 if wrong else 0


def print_markdown(cases, worst, count, wrong, catalog):
    orders = sum(1 + case.line.get("order", 0) for case in cases)
    print(f"""# Comparison with PyTorch

Printed by `tests/torch_oracle/torch_oracle.py build/tools/tapegrad --format=markdown` with PyTorch {torch.__version__.split('+')[0]}: {len(cases)} cases of
{len(count)} ops ({orders} comparisons of values, gradients and gradients of gradients), {len(wrong)} wrong. Each op runs in all its dtypes and in
four memory layouts. The reference is PyTorch in float64 on the same rounded inputs; eigenvectors and singular vectors have the
signs that tapegrad chose, which are arbitrary. Errors are the maximum over all dtypes, in units in the last place of the
largest magnitude. Limits: 4 for elementwise ops, 16 for reductions and products, 32 for
convolutions and norms, 64 for linear algebra; at least 16 for gradients; four times as much for second-order gradients.

| op | cases | values | gradients | second |
|---|---|---|---|---|""")
    shown = lambda units, level: f"{units[level]:.2g}" if level in units else ""
    for op in count:
        print(f"| `{op}` | {count[op]} | {shown(worst[op], 'out')} | {shown(worst[op], 'g1')} | {shown(worst[op], 'g2')} |")
    print_empty_cells(cases)
    if wrong:
        print("\n## Wrong\n")
        print("\n".join(f"- {line}" for line in wrong))
    rest = [op for op in catalog if op not in count]
    print("\n## Not compared\n\nRandom ops, in-place ops, ops that create tensors, and ops that PyTorch lacks or defines differently. "
          "Their cases in tests/cases\nhave plain reference implementations.\n")
    print(", ".join(f"`{op}`" for op in rest))


def print_empty_cells(cases):
    """Prints why cells are empty or lack some cases of their op."""
    reasons = defaultdict(set)
    for case in cases:
        if case.missing:
            reasons["PyTorch has no derivative" if case.missing == 1 else "PyTorch has no second derivative"].add(case.row.op)
        if case.row.why:
            reasons[case.row.why].add(case.row.op)
    print("\n## Empty cells\n\nResults of integer or bool type must be equal; their cells are empty, and so are the cells of derivatives that "
          "do not exist\n(docs/ops.md). Cells of the following ops are empty, or lack some cases:\n")
    for reason, ops in reasons.items():
        print(f"- {reason}: " + ", ".join(f"`{op}`" for op in sorted(ops)))


if __name__ == "__main__":
    sys.exit(main())
