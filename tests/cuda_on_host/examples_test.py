"""Runs an example on the CPU and on the GPU, and compares the output.

    examples_test.py LINES PROGRAM [ARGUMENT...]

LINES is a regular expression that must match at least one line. Words of matching lines must be equal,
and numbers nearly equal. Without --device, the example must use the GPU if TAPEGRAD_DEVICE says so. {images} in an argument is replaced by a folder of small images.
"""
import gzip
import os
import random
import re
import struct
import subprocess
import sys
import tempfile

NUMBER = re.compile(r"[-+]?\d+(?:\.\d*)?(?:e[-+]?\d+)?")


def write_images(folder):
    """Writes 32 and 16 images of 28 x 28 with their labels as IDX files."""
    draw = random.Random(1)
    for name, count in (("train", 32), ("t10k", 16)):
        for kind, header, size, below in (("images-idx3", (0x803, count, 28, 28), 784, 256),
                                          ("labels-idx1", (0x801, count), 1, 10)):
            numbers = bytes(draw.randrange(below) for _ in range(count * size))
            with gzip.open(f"{folder}/{name}-{kind}-ubyte.gz", "wb") as file:
                file.write(struct.pack(f">{len(header)}I", *header) + numbers)


def lines_of(pattern, command, device):
    done = subprocess.run([*command, f"--device={device}"], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True)
    # A notice on stderr reports an op without a GPU kernel.
    errors = [line for line in done.stderr.splitlines() if not line.startswith("tapegrad: cuda: ")]
    if done.returncode != 0 or errors:
        sys.exit(f"{' '.join(command)} --device={device}: {done.returncode}\n{done.stderr}")
    found = [line for line in done.stdout.splitlines() if re.search(pattern, line)]
    if not found:
        sys.exit(f"no line has {pattern!r} in\n{done.stdout}")
    return found


def check_environment(command):
    """Checks that TAPEGRAD_DEVICE selects the GPU if --device is absent: a GPU without memory fails."""
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                          env=dict(os.environ, TAPEGRAD_DEVICE="cuda", COH_MEMORY="1"))
    if done.returncode == 0 or "left on the device" not in done.stderr:
        sys.exit(f"TAPEGRAD_DEVICE=cuda {' '.join(command)} does not use the GPU: {done.returncode}\n{done.stderr}")


def agree(one, other):
    if NUMBER.sub("#", one).split() != NUMBER.sub("#", other).split():
        return False
    pairs = zip(map(float, NUMBER.findall(one)), map(float, NUMBER.findall(other)))
    return all(abs(a - b) <= 1e-3 * max(abs(a), abs(b)) for a, b in pairs)


def main(pattern, *command):
    with tempfile.TemporaryDirectory() as folder:
        write_images(folder)
        command = [part.replace("{images}", folder) for part in command]
        cpu, gpu = (lines_of(pattern, command, device) for device in ("cpu", "cuda"))
        check_environment(command)
    differing = [f"{a}\n{b}" for a, b in zip(cpu, gpu) if not agree(a, b)]
    if len(cpu) != len(gpu) or differing:
        sys.exit("\n".join(["on the CPU and on the GPU:", *differing]))
    print(f"{len(cpu)} lines agree")


if __name__ == "__main__":
    main(*sys.argv[1:])
