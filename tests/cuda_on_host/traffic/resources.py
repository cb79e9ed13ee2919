"""Prints what the kernels of training steps need of a multiprocessor, by ptxas, and their occupancy.

    resources.py PROGRAM [FOLDER] >resources.tsv
    resources.py check [FOLDER]

PROGRAM: traffic_steps; check: prints nothing. Compiles backends/cuda/*.cu and backends/cuda/device/*.cu for
sm_80, sm_90 and sm_100, which takes minutes, or reads the output of `nvcc -Xptxas -v` from
FOLDER/NAME.ARCHITECTURE.log where there is one. After a line with the version of the toolkit, columns:
architecture, kernel, registers, bytes of the stack, bytes of spilled registers, static shared memory,
occupancy in percent. Fails if any kernel or device function of these files spills registers.
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
UNCONTRACTED = {"random", "random_distributions", "update"}  # as in cmake/TapegradCuda.cmake


def told_by_ptxas(source, architecture, folder):
    """Returns the output of ptxas with names as in the source."""
    log = folder and pathlib.Path(folder, f"{source.stem}.{architecture}.log")
    if log and log.exists():
        text = log.read_text()
    else:
        fmad = ["--fmad=false"] if source.stem in UNCONTRACTED else []
        text = subprocess.run(["nvcc", *FLAGS, *fmad, f"-arch=sm_{architecture}", source], check=True,
                              text=True, stderr=subprocess.PIPE).stderr
    return subprocess.run(["c++filt"], input=text, check=True, text=True, capture_output=True).stdout


def spills_of(text):
    """Yields lines that name the kernels and device functions that spill."""
    told = re.findall(r"Function properties for (.*)\n.* (\d+) bytes spill stores, (\d+) bytes spill loads",
                      text)
    if not told:
        yield f"no kernel found in the output of ptxas: {text}\n"
    arch = ", ".join(sorted(set(re.findall(r"for '(sm_\d+)", text))))
    for name, stores, loads in told:
        if int(stores) + int(loads):
            yield f"{counts.short(name)}: spills {stores} bytes of registers for {arch}\n"


def usage_of(text):
    """Yields (architecture, kernel, registers, stack, spilled, shared)."""
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


def compiled(folder):
    """Returns the output of ptxas for every file and architecture."""
    sources = sorted([*ROOT.glob("backends/cuda/*.cu"), *ROOT.glob("backends/cuda/device/*.cu")])
    jobs = [(source, arch, folder) for arch in ARCHITECTURES for source in sources]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(told_by_ptxas, *zip(*jobs)))


def main(program, folder=None):
    texts = compiled(folder)
    spills = "".join(line for text in texts for line in spills_of(text))
    if program == "check":
        return spills or 0
    launched = {}
    for (_, _, name), kernel in counts.read(program).kernels.items():
        threads, dynamic = launched.get(name, (0, 0))
        launched[name] = max(threads, kernel.threads), max(dynamic, kernel.dynamic_shared)
    found = {row[:2]: row for text in texts for row in usage_of(text) if row[1] in launched}
    rows = [found[key] for key in sorted(found)]
    percents = occupancies([(arch // 10, registers, shared, launched[name][1], launched[name][0])
                            for arch, name, registers, _, _, shared in rows])
    told = subprocess.run(["nvcc", "--version"], check=True, text=True, capture_output=True).stdout
    print(re.search(r"release ([\d.]+)", told)[1])
    for (arch, name, *numbers), percent in zip(rows, percents):
        print(f"sm_{arch}", name, *numbers, percent, sep="\t")
    missing = launched.keys() - {row[1] for row in rows}
    return "".join(f"{name}: not found\n" for name in sorted(missing)) + spills or 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
