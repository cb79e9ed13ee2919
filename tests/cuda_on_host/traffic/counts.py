"""Reads what traffic_steps prints."""
import bisect
import dataclasses
import re
import subprocess


@dataclasses.dataclass
class Step:
    launches: int
    library_calls: int
    waits: int
    copies: int
    copied: int  # bytes
    allocations: int
    allocated: int  # bytes


@dataclasses.dataclass
class Call:
    """Calls of a kernel of the dispatcher. needed: bytes of its tensors; moved: bytes of the sectors
    that its CUDA kernels touch, each counted once per launch."""
    calls: int
    launches: int
    library_calls: int
    needed: int
    flops: int
    moved: int


@dataclasses.dataclass
class Kernel:
    """Launches of a CUDA kernel. An access is an instruction executed by a warp, by `lanes` of its 32
    lanes in total; device memory: `sectors`, and `fewest` for the same bytes; shared memory: `passes`
    through the banks."""
    launches: int
    threads: int
    dynamic_shared: int
    accesses: int
    lanes: int
    sectors: int
    fewest: int
    shared_accesses: int
    shared_lanes: int
    passes: int
    fewest_passes: int
    read: int
    written: int
    worst: str = ""  # source line of the instruction with the most sectors beyond the fewest

    def __add__(self, other):
        most = max(self, other, key=lambda k: k.sectors - k.fewest)
        sums = [getattr(self, f.name) + getattr(other, f.name)
                for f in dataclasses.fields(self) if f.name != "worst"]
        total = Kernel(*sums, worst=most.worst)
        total.threads = max(self.threads, other.threads)
        total.dynamic_shared = max(self.dynamic_shared, other.dynamic_shared)
        return total

    def share(self):
        """Returns the least possible number of sectors divided by the number of requested sectors."""
        return self.fewest / self.sectors if self.sectors else 1.0


@dataclasses.dataclass
class Counts:
    steps: dict  # {model: Step}
    calls: dict  # {(model, call): Call}
    kernels: dict  # {(model, call, kernel): Kernel}


def short(symbol):
    """Returns the name of a kernel without its arguments and namespaces."""
    symbol = re.sub(r"^void ", "", symbol)
    symbol = re.sub(r"\(anonymous namespace\)::", "", symbol)
    symbol = re.sub(r"\b(tapegrad|backends|cuda|formulas|coh)::", "", symbol)
    depth = 0
    for i, letter in enumerate(symbol):
        depth += (letter == "<") - (letter == ">")
        if letter == "(" and depth == 0:
            symbol = symbol[:i]
            break
    return re.sub(r"\(([A-Za-z ]+)\)(?=\d)", "", symbol)  # (int)4 -> 4


def symbols_of(program):
    """Returns a function that names the symbol that contains an address."""
    lines = subprocess.run(["nm", "-C", "--defined-only", "-n", program], check=True, text=True,
                           capture_output=True).stdout.splitlines()
    functions = [line.split(" ", 2) for line in lines if line[17:18] in "tTwW"]
    starts = [int(start, 16) for start, _, _ in functions]
    return lambda address: short(functions[bisect.bisect_right(starts, address) - 1][2])


def lines_of(program, addresses):
    """Returns {address: "file:line"} of return addresses."""
    ordered = sorted(addresses - {0})
    if not ordered:
        return {}
    told = subprocess.run(["addr2line", "-e", program] + [hex(a - 1) for a in ordered], check=True,
                          text=True, capture_output=True).stdout.splitlines()
    return {a: re.sub(r"^.*/(?=backends/|tests/)", "", line.split(" ")[0])
            for a, line in zip(ordered, told)}


def read(program, models=()):
    printed = subprocess.run([program, *models], check=True, text=True, capture_output=True).stdout
    rows = [line.split("\t") for line in printed.splitlines()]
    symbol_at = symbols_of(program)
    line_at = lines_of(program, {int(row[-1], 16) for row in rows if row[0] == "kernel"})
    counts = Counts({}, {}, {})
    for kind, model, *fields in rows:
        if kind == "step":
            counts.steps[model] = Step(*map(int, fields))
        elif kind == "call":
            counts.calls[model, fields[0]] = Call(*map(int, fields[1:]))
        else:
            call, address, *numbers, worst = fields
            key = model, call, symbol_at(int(address, 16))
            counts.kernels[key] = Kernel(*map(int, numbers), line_at.get(int(worst, 16), ""))
    return counts
