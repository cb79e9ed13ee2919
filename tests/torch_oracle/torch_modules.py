"""Compares every module with PyTorch's: state, results, buffers, gradients in inputs and parameters, and second-order gradients.

    torch_modules.py build/tests/torch_oracle/torch_oracle_modules [--format=markdown]

The program runs our modules and records their inputs and results. The reference is PyTorch's module in float64 with the
same rounded state and inputs. Names and shapes of the state must be equal (strict loading). Errors are in units in the last
place of the largest expected magnitude; the gradients of a case share one scale. Exit status 1 if a case is wrong.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import warnings
from collections import defaultdict

import numpy as np
import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "oprun"))
import harness

warnings.filterwarnings("ignore")
EPS = {"float64": 2.0 ** -52, "float32": 2.0 ** -23, "float16": 2.0 ** -10, "bfloat16": 2.0 ** -7}
LIMITS = {"out": 16, "grad": 32, "second": 128}
# Modules for which PyTorch 2.15 has a factor of the gradient in float32, also for float64: 1 / 6
# and 1 / alpha.
FLOAT_GRADIENT = ("Hardsigmoid", "CELU")
# PyTorch adds 1e-12 to the divisors of the second derivative of this loss.
FLOAT_SECOND = ("BCELoss",)
# PyTorch 2.15's second derivative of this function fails torch.autograd.gradgradcheck.
WRONG_SECOND = ("torch.nn.utils.parametrizations.weight_norm",)


NAMES = {**vars(torch.nn), "torch": torch, "F": torch.nn.functional}


def flat(value):
    return [value] if isinstance(value, torch.Tensor) else [y for part in value for y in flat(part)]


def as_torch(array):
    return torch.from_numpy(np.array(array, np.float64 if array.dtype.kind == "f" else array.dtype))


class Case:
    def __init__(self, number, line, arrays):
        self.line, prefix = line, f"{number}/"
        self.name = line["torch"].split("(")[0]
        self.got = {key[len(prefix):]: x for key, x in arrays.items() if key.startswith(prefix)}

    def part(self, prefix):
        return {key[len(prefix):]: as_torch(x) for key, x in self.got.items() if key.startswith(prefix)}

    def expected(self):
        """Returns results and buffers, gradients, and second-order gradients, under the names that our recorder uses.

        The last are those of the sum of the gradients times random weights; None if PyTorch does not implement them.
        """
        m = eval(self.line["torch"], dict(NAMES)).double()
        m.train(self.line["training"])
        m.load_state_dict(self.part("state/"), strict=True)
        inputs = self.part("x/")
        x = [inputs[str(i)] for i in range(len(inputs))]
        leaves = {f"gradient/of/{name}": p for name, p in m.named_parameters()}
        for i, wanted in enumerate(self.line["wants_gradient"]):
            if wanted:
                leaves[f"gradient/{i}"] = x[i].requires_grad_()
        ys = flat(eval(self.line["call"], {"m": m, "x": x, "torch": torch}))
        seeds = self.part("seed/")
        total = sum((y * seeds[str(k)]).sum() for k, y in enumerate(ys) if str(k) in seeds)
        found = torch.autograd.grad(total, list(leaves.values()), allow_unused=True, create_graph=True)
        out = {f"y/{k}": y for k, y in enumerate(ys)}
        out.update({f"after/{name}": b for name, b in m.named_buffers()})
        zeros = {name: torch.zeros_like(leaf) for name, leaf in leaves.items()}
        grad = {name: zeros[name] + (0 if g is None else g) for name, g in zip(leaves, found)}
        if self.line.get("once") and any(g.grad_fn for g in grad.values()):
            try:
                torch.autograd.grad(sum(g.sum() for g in grad.values()), list(leaves.values()), allow_unused=True)
            except (RuntimeError, NotImplementedError):
                return out, grad, None
            raise TypeError("a second derivative is missing")
        weights = self.part("weight/")
        terms = [(grad[name] * w).sum() for name, w in weights.items() if grad[name].requires_grad]
        second = {f"second/{name}": zero for name, zero in zeros.items()}
        if terms:
            try:
                found = torch.autograd.grad(sum(terms), list(leaves.values()), allow_unused=True)
            except (RuntimeError, NotImplementedError):
                return out, grad, None
            second = {name: zero + (0 if g is None else g) for (name, zero), g in zip(second.items(), found)}
        return out, grad, second

    def compare(self):
        """Returns the largest errors of results and of gradients in ulp, and a description of a fault."""
        if "error" in self.line:
            return {}, self.line["error"].splitlines()[0]
        out, grad, second = self.expected()
        worst = {}
        ours = {key for key in self.got if key.split("/")[0] in ("y", "after")}
        if ours != set(out):
            return worst, f"results {sorted(ours)}, expected {sorted(out)}"
        for level, expected in (("out", out), ("grad", grad), ("second", {} if self.name in WRONG_SECOND else second or {})):
            arrays = {key: y.detach().numpy() for key, y in expected.items()}
            finite = {key: np.abs(y[np.isfinite(y)]).max(initial=0) for key, y in arrays.items()}
            for key, y in arrays.items():
                got = np.asarray(self.got.get(key, np.zeros(y.shape)), np.float64)
                if got.shape != y.shape:
                    return worst, f"{key}: shape {got.shape} instead of {y.shape}"
                same = (got == y) | (np.isnan(got) & np.isnan(y))
                error = np.where(same, 0, np.abs(got - y)).max(initial=0)
                scale = finite[key] if level == "out" else max(finite.values())
                rough = self.line["dtype"] == "float64" and (
                    (level != "out" and self.name in FLOAT_GRADIENT) or (level == "second" and self.name in FLOAT_SECOND))
                units = error / (EPS["float32" if rough else self.line["dtype"]] * max(scale, 1e-300))
                worst[level] = max(worst.get(level, 0), units)
                if not units <= LIMITS[level]:
                    return worst, f"{key}: {units:.3g} ulp, limit {LIMITS[level]}"
        return worst, None


def print_table(cases, worst, count, wrong):
    print(f"""## Modules

Printed by `tests/torch_oracle/torch_modules.py build/tests/torch_oracle/torch_oracle_modules --format=markdown` with PyTorch
{torch.__version__}: {len(cases)} cases of {len(count)} modules, {len(wrong)} wrong. Each module runs in float64, float32, bfloat16 and float16. The reference is
PyTorch's module in float64 with the state of tapegrad's module (loaded strictly, so names must be equal) and the same rounded
inputs.
Results, buffers after the call, and gradients of every parameter and input are compared. Where PyTorch implements them, so are
the gradients of the sum of these gradients times random weights. Errors are the maximum over all dtypes, in units in the last
place of the largest magnitude. Limits: {LIMITS['out']} for results, {LIMITS['grad']} for gradients, {LIMITS['second']} for second-order gradients.
Gradients of `Hardsigmoid` and `CELU` in float64 are measured in units of float32, because PyTorch 2.15 computes 1 / 6
and 1 / alpha in float32; second-order gradients of `BCELoss` are, too, because PyTorch adds 1e-12 to their divisors.
Second-order gradients of `weight_norm` are not compared, because PyTorch's `_weight_norm` fails `gradgradcheck`.
Not compared: `Step` and `Lambda`, which PyTorch lacks, and the random numbers of dropout.

| module | cases | results | gradients | second |
|---|---|---|---|---|""")
    for name in count:
        print(f"| `{name}` | {count[name]} | {worst[name]['out']:.2g} | {worst[name]['grad']:.2g} | {worst[name]['second']:.2g} |")
    if wrong:
        print("\n### Wrong\n\n" + "\n".join(f"- {line}" for line in wrong))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--format", choices=("text", "markdown"), default="text")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        prefix = pathlib.Path(folder) / "modules"
        subprocess.run([options.program, prefix], check=True)
        arrays, _ = harness.read_safetensors(f"{prefix}.safetensors")
        lines = json.loads(pathlib.Path(f"{prefix}.json").read_text())
    by_case = defaultdict(dict)
    for key, x in arrays.items():
        by_case[key.split("/")[0]][key] = x
    cases = [Case(i, line, by_case[str(i)]) for i, line in enumerate(lines)]
    worst, count, wrong = defaultdict(lambda: defaultdict(float)), defaultdict(int), []
    for case in cases:
        try:
            units, fault = case.compare()
        except Exception as error:
            units, fault = {}, f"{type(error).__name__}: {error}"
        count[case.name] += 1
        for level, value in units.items():
            worst[case.name][level] = max(worst[case.name][level], value)
        if fault:
            mode = "" if case.line["training"] else ", eval"
            wrong.append(f"{case.line['torch']}, {case.line['dtype']}{mode}: {fault}")
    if options.format == "markdown":
        print_table(cases, worst, count, wrong)
    else:
        print("\n".join(wrong))
        print(f"{len(cases)} cases of {len(count)} modules, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
