"""Prints what the kernels of training steps need of a multiprocessor, by ptxas, and their occupancy.

    resources.py PROGRAM [FOLDER] >resources.tsv

PROGRAM: traffic_steps. Compiles backends/cuda/*.cu for sm_80, sm_90 and sm_100, which takes minutes, or
reads the output of `nvcc -Xptxas -v` from FOLDER/NAME.ARCHITECTURE.log. After a line with the version of
the toolkit, columns: architecture, kernel, registers, bytes of the stack, bytes of spilled registers, static shared memory,
occupancy in percent. Fails if a kernel spills registers.
"""
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import counts

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
ARCHITECTURES = 80, 90, 100
FLAGS = ["-std=c++20", "-O3", "-DNDEBUG", "--expt-relaxed-constexpr", "--diag-suppress=186,1835",
         f"-I{ROOT}", "-cubin", "-Xptxas", "-v", "-o", os.devnull]
UNCONTRACTED = {"random", "noise", "update"}  # as in cmake/TapegradCuda.cmake


def told_by_ptxas(source, architecture, folder):
    log = folder and pathlib.Path(folder, f"{source.stem}.{architecture}.log")
    if log and log.exists():
        return log.read_text()
    fmad = ["--fmad=false"] if source.stem in UNCONTRACTED else []
    return subprocess.run(["nvcc", *FLAGS, *fmad, f"-arch=sm_{architecture}", source], check=True,
                          text=True, capture_output=True).stderr


def usage_of(text):
    """Yields (architecture, kernel, registers, stack, spilled, shared)."""
    text = subprocess.run(["c++filt"], input=text, check=True, text=True, capture_output=True).stdout
    pattern = (r"Compiling entry function '(.*)' for 'sm_(\d+)a?'\n.*\n"
               r" *(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads\n"
               r".*Used (\d+) registers(.*)")
    for name, arch, stack, stores, loads, registers, rest in re.findall(pattern, text):
        shared = re.search(r"(\d+) bytes smem", rest)
        yield (int(arch), counts.short(name), int(registers), int(stack), int(stores) + int(loads),
               int(shared[1]) if shared else 0)


def occupancies(rows):
    """Returns the percents of rows (major version, registers, static and dynamic shared, threads)."""
    include = pathlib.Path(shutil.which("nvcc")).resolve().parents[1] / "include"
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder, "occupancy")
        subprocess.run(["c++", "-std=c++20", "-isystem", include, HERE / "occupancy.cpp", "-o",
                        program], check=True)
        lines = "".join(" ".join(map(str, row)) + "\n" for row in rows)
        return subprocess.run([program], input=lines, check=True, text=True,
                              capture_output=True).stdout.split()


def main(program, folder=None):
    launched = {}
    for (_, _, name), kernel in counts.read(program).kernels.items():
        threads, dynamic = launched.get(name, (0, 0))
        launched[name] = max(threads, kernel.threads), max(dynamic, kernel.dynamic_shared)
    sources = [(source, arch) for arch in ARCHITECTURES
               for source in sorted(ROOT.glob("backends/cuda/*.cu"))
               if not folder or pathlib.Path(folder, f"{source.stem}.{arch}.log").exists()]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        texts = pool.map(lambda job: told_by_ptxas(*job, folder), sources)
        found = {row[:2]: row for text in texts for row in usage_of(text) if row[1] in launched}
    rows = [found[key] for key in sorted(found)]
    percents = occupancies([(arch // 10, registers, shared, launched[name][1], launched[name][0])
                            for arch, name, registers, _, _, shared in rows])
    told = subprocess.run(["nvcc", "--version"], check=True, text=True, capture_output=True).stdout
    print(re.search(r"release ([\d.]+)", told)[1])
    for (arch, name, *numbers), percent in zip(rows, percents):
        print(f"sm_{arch}", name, *numbers, percent, sep="\t")
    missing = launched.keys() - {row[1] for row in rows}
    return "".join(f"{name}: not found\n" for name in sorted(missing)) + "".join(
        f"{row[1]}: spills registers on sm_{row[0]}\n" for row in rows if row[4]) or 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
