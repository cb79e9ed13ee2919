"""Compares what the kernels of training steps ask of memory with a budget.

    budget.py check PROGRAM BUDGET [MODEL...]    fails if a number exceeds its budget
    budget.py write PROGRAM BUDGET               renews the budget and keeps its reasons
    budget.py test PROGRAM                       plants an uncoalesced kernel, which must be found

Lines of a budget: "step MODEL NAME NUMBER" for the launches, copies, ... of a step, "call MODEL CALL
BYTES" for the bytes that a kernel of the dispatcher moves, "kernel KERNEL PERCENT" for the fewest
sectors as a share of those that a CUDA kernel asks for, over all models, and below 90 % the reason.
A kernel without a budget must reach 90 %.
"""
import collections
import dataclasses
import pathlib
import sys
import tempfile

import counts

SLACK = 1.01  # compilers may order instructions differently
NEW_KERNEL = 90.0


def numbers_of(program, models):
    """Returns {(kind, model, name): number}; a share is negative, so that less is better everywhere."""
    got = counts.read(program, models)
    numbers = {("step", model, field): number for model, step in got.steps.items()
               for field, number in dataclasses.asdict(step).items()}
    for (model, call), row in got.calls.items():
        if row.launches:
            numbers["call", model, call] = row.moved
    shares = collections.defaultdict(lambda: [0, 0])
    for (_, _, name), kernel in got.kernels.items():
        shares[name][0] += kernel.fewest
        shares[name][1] += kernel.sectors
    for name, (fewest, sectors) in shares.items():
        numbers["kernel", "", name] = -100 * fewest / sectors if sectors else -100.0
    return numbers


def read_budget(path):
    budget = {}
    for line in pathlib.Path(path).read_text().splitlines():
        kind, *fields = line.split("\t")
        if kind == "kernel":
            budget[kind, "", fields[0]] = -float(fields[1])
        else:
            budget[kind, fields[0], fields[1]] = int(fields[2])
    return budget


def read_reasons(path):
    """Returns {kernel: reason}."""
    rows = (line.split("\t") for line in pathlib.Path(path).read_text().splitlines())
    return {row[1]: row[3] for row in rows if row[0] == "kernel" and len(row) > 3}


def lines_of(numbers, reasons):
    for (kind, model, name), number in sorted(numbers.items()):
        if kind == "kernel":
            is_low = -number < NEW_KERNEL
            yield f"kernel\t{name}\t{-number:.1f}" + ("\t" + reasons.get(name, "?") if is_low else "")
        else:
            yield f"{kind}\t{model}\t{name}\t{number}"


def excesses(numbers, budget):
    """Yields a sentence for each number that exceeds its budget."""
    for (kind, model, name), number in sorted(numbers.items()):
        allowed = budget.get((kind, model, name))
        if kind == "kernel":
            allowed = -NEW_KERNEL if allowed is None else allowed
            if number > allowed / SLACK + 0.05:
                yield (f"{name}: the fewest sectors are {-number:.1f} % of those asked for; the "
                       f"budget is {-allowed:.1f} %")
        elif allowed is None:
            if kind == "step":
                yield f"{model}: no budget for its {name}: {number}"
        elif number > allowed * (SLACK if kind == "call" else 1):
            unit = "bytes are moved" if kind == "call" else "in a step"
            yield f"{model}, {name}: {number} {unit}; the budget is {allowed}"


def check(program, path, models=()):
    found = list(excesses(numbers_of(program, models), read_budget(path)))
    for sentence in found:
        print(sentence)
    return bool(found)


def write(program, path, models=()):
    path = pathlib.Path(path)
    reasons = read_reasons(path) if path.exists() else {}
    path.write_text("".join(line + "\n" for line in lines_of(numbers_of(program, models), reasons)))


def self_test(program):
    """Checks that the budget of a coalesced copy refuses a strided copy and an unknown kernel."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "budget.tsv")
        write(program, path, ["--planted=1"])
        if check(program, path, ["--planted=1"]):
            return "the copy exceeds its own budget"
        if not check(program, path, ["--planted=8"]):
            return "the planted kernel is not found"
        path.write_text("\n".join(line for line in path.read_text().splitlines()
                                  if not line.startswith("kernel")) + "\n")
        if not check(program, path, ["--planted=8"]):
            return "a new uncoalesced kernel is not found"
    return 0


if __name__ == "__main__":
    command, program, *rest = sys.argv[1:]
    if command == "check":
        sys.exit(check(program, rest[0], rest[1:]))
    if command == "test":
        sys.exit(self_test(program))
    write(program, rest[0])
