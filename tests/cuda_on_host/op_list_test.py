"""Compares the dtypes of every op on the CPU with those on the GPU: op_list_test.py TAPEGRAD

docs/ops.md prints one list for both devices.
"""
import json
import subprocess
import sys


def main(tool):
    done = subprocess.run([tool, "op", "list", "--format=json"], stdout=subprocess.PIPE, check=True)
    ops = json.loads(done.stdout)
    if len(ops) < 400 or not any(op["dtypes"]["cuda"] for op in ops):
        sys.exit(f"{len(ops)} ops, none of which runs on a GPU")
    status = 0
    for op in ops:
        cpu, cuda = (set(op["dtypes"][device]) for device in ("cpu", "cuda"))
        if cpu != cuda:
            print(f"{op['name']}: only on the CPU: {sorted(cpu - cuda)}, only on the GPU: {sorted(cuda - cpu)}")
            status = 1
    print(f"{len(ops)} ops")
    sys.exit(status)


if __name__ == "__main__":
    main(*sys.argv[1:])
