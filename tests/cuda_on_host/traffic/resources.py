"""Prints what the kernels of training steps need of a multiprocessor, by the objects of an nvcc build.

    resources.py PROGRAM BUILD [CUOBJDUMP] >resources.tsv

PROGRAM: traffic_steps. BUILD: a build folder configured with TAPEGRAD_CUDA=ON and
CMAKE_CUDA_ARCHITECTURES="80-real;90-real;100-real". Columns: architecture, kernel, registers, bytes of
the stack (spilled registers and arrays), static shared memory, occupancy in percent. Fails if a kernel
uses the stack.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

import counts

HERE = pathlib.Path(__file__).resolve().parent
USAGE = re.compile(r"REG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+)")


def usage_of(build, cuobjdump):
    """Returns {(architecture, kernel): (registers, stack, shared)}."""
    objects = [str(path) for path in pathlib.Path(build).rglob("*.cu.o")
               if "tapegrad_cuda_objects" in str(path)]
    text = "".join(subprocess.run([cuobjdump, "-res-usage", each], check=True, text=True,
                                  capture_output=True).stdout for each in objects)
    text = subprocess.run(["c++filt"], input=text, check=True, text=True, capture_output=True).stdout
    usage, arch, name = {}, "", ""
    for line in text.splitlines():
        if found := re.search(r"arch = (sm_\d+)", line):
            arch = found[1]
        elif found := re.search(r"Function (.*):$", line):
            name = counts.short(found[1])
        elif found := USAGE.search(line):
            registers, stack, shared, local = map(int, found.groups())
            usage[arch, name] = registers, stack + local, shared
    return usage


def occupancies(rows):
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder, "occupancy")
        include = pathlib.Path("/usr/local/cuda/include")
        subprocess.run(["c++", "-std=c++20", f"-isystem{include}", HERE / "occupancy.cpp", "-o", program],
                       check=True)
        lines = "".join(" ".join(map(str, row)) + "\n" for row in rows)
        return subprocess.run([program], input=lines, check=True, text=True,
                              capture_output=True).stdout.split()


def main(program, build, cuobjdump="cuobjdump"):
    launched = {}
    for (_, _, name), kernel in counts.read(program).kernels.items():
        threads, dynamic = launched.get(name, (0, 0))
        launched[name] = max(threads, kernel.threads), max(dynamic, kernel.dynamic_shared)
    usage = {key: row for key, row in sorted(usage_of(build, cuobjdump).items()) if key[1] in launched}
    rows = [(int(arch[3:]) // 10, registers, shared, launched[name][1], launched[name][0])
            for (arch, name), (registers, _, shared) in usage.items()]
    for ((arch, name), (registers, stack, shared)), percent in zip(usage.items(), occupancies(rows)):
        print(arch, name, registers, stack, shared, percent, sep="\t")
    missing = launched.keys() - {name for _, name in usage}
    stacked = {name for (_, name), row in usage.items() if row[1]}
    return "".join(f"{name}: not found\n" for name in missing) + "".join(
        f"{name}: uses the stack\n" for name in stacked) or 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
