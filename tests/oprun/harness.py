"""Writes cases and tensors, runs `tapegrad op` and reads its results. Uses only Python's standard library and NumPy."""

import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

import numpy as np

TOOL = os.environ.get("TAPEGRAD_TOOL", "tapegrad")

NAMES = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "I64": np.int64, "I32": np.int32,
         "I16": np.int16, "I8": np.int8, "U8": np.uint8, "BOOL": np.bool_}


class BFloat16:
    """Returns the upper 16 bits of a float32 (bfloat16), rounded to nearest even; NumPy has no such type."""

    def __init__(self, values):
        bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
        self.bits = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)

    def values(self):
        return (self.bits.astype(np.uint32) << 16).view(np.float32)


def write_safetensors(path, tensors):
    header, chunks, at = {}, [], 0
    for name, x in tensors.items():
        array = x.bits if isinstance(x, BFloat16) else np.asarray(x)
        kind = "BF16" if isinstance(x, BFloat16) else next(
            k for k, v in NAMES.items() if v == array.dtype)
        data = np.ascontiguousarray(array).tobytes()
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [at, at + len(data)]}
        chunks.append(data)
        at += len(data)
    text = json.dumps(header).encode()
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + b"".join(chunks))


def read_safetensors(path):
    """Returns arrays by name, with bfloat16 as float32, and the names of their types."""
    raw = pathlib.Path(path).read_bytes()
    length = struct.unpack("<Q", raw[:8])[0]
    header, data = json.loads(raw[8:8 + length]), raw[8 + length:]
    arrays, kinds = {}, {}
    for name, about in header.items():
        part = data[slice(*about["data_offsets"])]
        kinds[name] = about["dtype"]
        if about["dtype"] == "BF16":
            bits = np.frombuffer(part, np.uint16).astype(np.uint32) << 16
            arrays[name] = bits.view(np.float32).reshape(about["shape"])
        else:
            arrays[name] = np.frombuffer(part, NAMES[about["dtype"]]).reshape(about["shape"])
    return arrays, kinds


class Answer:
    """Results of a run of the tool."""

    def __init__(self, process, folder):
        self.code, self.stdout, self.stderr = process.returncode, process.stdout, process.stderr
        self.results, self.kinds, self.status = {}, {}, {}
        if (folder / "r.safetensors").exists():
            self.results, self.kinds = read_safetensors(folder / "r.safetensors")
        if (folder / "s.jsonl").exists():
            lines = [json.loads(line) for line in (folder / "s.jsonl").read_text().splitlines()]
            self.status = {line["id"]: line for line in lines}

    def __getitem__(self, key):
        return self.results[key]

    def lines(self):
        return [json.loads(line) for line in self.stdout.splitlines()]


class OpTest(unittest.TestCase):
    maxDiff = None

    def tool(self, *arguments, **options):
        return subprocess.run([TOOL, *arguments], capture_output=True, text=True, timeout=300, **options)

    def op(self, command, cases, tensors, *flags, raw_cases=None, raw_tensors=None, **options):
        """Runs a command on these cases. The default id of a case is its number."""
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            lines = [json.dumps({"id": str(i), **case}) for i, case in enumerate(cases)]
            (folder / "c.jsonl").write_text(raw_cases if raw_cases is not None else "\n".join(lines) + "\n")
            if raw_tensors is None:
                write_safetensors(folder / "t.safetensors", tensors)
            else:
                (folder / "t.safetensors").write_bytes(raw_tensors)
            arguments = ["op", command, f"--cases={folder}/c.jsonl", f"--tensors={folder}/t.safetensors"]
            if command == "run":
                arguments += [f"--out={folder}/r.safetensors", f"--status={folder}/s.jsonl"]
            return Answer(self.tool(*arguments, *flags, **options), folder)

    def run_cases(self, cases, tensors, *flags, code=0, **options):
        answer = self.op("run", cases, tensors, *flags, **options)
        self.assertEqual(answer.code, code, answer.stderr)
        self.assertEqual(answer.stdout, "")
        return answer

    def close(self, got, expected, eps=1e-12, what=""):
        """Expects all elements within eps times the largest expected magnitude."""
        expected = np.asarray(expected)
        self.assertEqual(got.shape, expected.shape, what)
        np.testing.assert_allclose(got.astype(np.float64), expected.astype(np.float64), rtol=0,
                                   atol=eps * max(1e-300, np.abs(expected).max(initial=0)), err_msg=what)


def main():
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        global TOOL
        TOOL = sys.argv.pop(1)
    unittest.main()
