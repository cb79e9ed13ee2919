"""Commands of `tapegrad op` other than run: isolation, exit codes, list, gradcheck, bench."""

import json
import os
import resource
import struct
import unittest

import numpy as np

import harness
from harness import OpTest

RNG = np.random.default_rng(11)
A = RNG.standard_normal((3, 4))
TENSORS = {"a": A, "one": np.ones(1), "v": RNG.standard_normal((3, 4)), "z": np.zeros(3)}
FINE = {"id": "fine", "op": "exp", "inputs": [{"t": "a"}]}
WRONG = {"id": "wrong", "op": "exp", "inputs": [{"t": "nowhere"}]}


def big_matmul(size):
    """Returns a case that takes seconds and needs a buffer of one element."""
    whole = {"t": "one", "view": {"shape": [size, size], "strides": [0, 0]}}
    return {"id": "big", "op": "matmul", "inputs": [whole, whole]}


class Isolation(OpTest):
    def test_results_are_the_same(self):
        cases = [FINE, {"id": "grad", "op": "tanh", "inputs": [{"t": "a", "grad": True}], "order": 1,
                        "seeds": ["v"]}, {**WRONG, "expect": {"error": "argument"}}]
        alone, together = self.run_cases(cases, TENSORS, "--isolate"), self.run_cases(cases, TENSORS)
        self.assertEqual(alone.results.keys(), together.results.keys())
        for key in alone.results:
            np.testing.assert_array_equal(alone[key], together[key])
        for key, line in together.status.items():
            self.assertEqual({**alone.status[key], "ms": 0}, {**line, "ms": 0})

    def test_a_crash_hides_no_other_case(self):
        def one_second():  # the process is killed after more processor time
            resource.setrlimit(resource.RLIMIT_CPU, (1, 1))
        answer = self.run_cases([FINE, big_matmul(4000), {**FINE, "id": "after"}], TENSORS, "--isolate",
                                "--threads=1", code=4, preexec_fn=one_second)
        self.assertEqual(answer.status["big"]["status"], "crash")
        self.assertIn("signal", answer.status["big"]["message"])
        for name in ("fine", "after"):
            self.assertEqual(answer.status[name]["status"], "ok")
            np.testing.assert_allclose(answer[f"{name}/out/0"], np.exp(A))

    def test_a_case_that_takes_too_long(self):
        answer = self.run_cases([big_matmul(4000), FINE], TENSORS, "--isolate", "--threads=1",
                                "--case_timeout=300ms", code=4)
        self.assertEqual(answer.status["big"]["status"], "timeout")
        self.assertLess(answer.status["big"]["ms"], 5000)
        self.assertEqual(answer.status["fine"]["status"], "ok")

    def test_children_may_use_threads(self):
        answer = self.run_cases([big_matmul(500), {**big_matmul(500), "id": "again"}], TENSORS, "--isolate",
                                "--threads=4")
        self.assertTrue((answer["big/out/0"] == 500).all() and (answer["again/out/0"] == 500).all())

    def test_a_late_case_without_isolation(self):
        answer = self.run_cases([big_matmul(1500)], TENSORS, "--case_timeout=1ms", code=4)
        self.assertEqual(answer.status["big"]["status"], "timeout")


class CommandLine(OpTest):
    def test_usage_is_status_2(self):
        for arguments in ([], ["op"], ["op", "walk"], ["fly"], ["op", "run"], ["op", "list", "--format=xml"],
                          ["op", "list", "--cases=x"], ["op", "list", "extra"]):
            process = self.tool(*arguments)
            self.assertEqual(process.returncode, 2, arguments)
            self.assertEqual(process.stdout, "")
            self.assertNotEqual(process.stderr, "")
        for flag in ("--oops", "--order=3", "--order=", "--threads=0", "--threads=x", "--filter=(", "--device=",
                     "--case_timeout=soon", "--case_timeout=0s", "--isolate=yes", "--cases", "--status=",
                     "--cases=/nowhere/c.jsonl", "--tensors=/nowhere/t", "--out=/nowhere/r", "--status=/nowhere/s"):
            self.assertEqual(self.op("run", [FINE], TENSORS, flag).code, 2, flag)
        self.assertEqual(self.op("gradcheck", [FINE], TENSORS, "--order=0").code, 2)
        self.assertEqual(self.op("bench", [FINE], TENSORS, "--isolate").code, 2)

    def test_help_and_version(self):
        for arguments in (["--help"], ["op", "--help"], ["op", "run", "--help"]):
            process = self.tool(*arguments)
            self.assertEqual(process.returncode, 0)
            for word in ("list", "run", "gradcheck", "bench", "Exit status", "seeds2"):
                self.assertIn(word, process.stdout)
        version = self.tool("--version").stdout
        self.assertIn("tapegrad: ", version)
        self.assertRegex(version, r"\nbuild: \w+, TAPEGRAD_NATIVE=\w+ TAPEGRAD_CUDA=(AUTO|ON|OFF) TAPEGRAD_MPI=\w+ ")
        self.assertRegex(version, r"\nflags: .*-")
        self.assertIn(f"\nplatform: Linux {os.uname().release} {os.uname().machine}", version)

    def test_malformed_files_are_status_3(self):
        good = json.dumps(FINE)
        for text in ("{", "[1]", "3", good + "\n{}", '{"id": 3}', good + "\n" + good, good[:-1],
                     good[:-1] + ', "op": "log"}', '{"id": "x", "inputs": [{"t": "a", "t": "b"}]}', "\x00"):
            answer = self.op("run", [], TENSORS, raw_cases=text)
            self.assertEqual(answer.code, 3, text)
            self.assertIn("c.jsonl:", answer.stderr)
        header = json.dumps({"a": {"dtype": "F64", "shape": [2], "data_offsets": [0, 16]}}).encode()
        whole = struct.pack("<Q", len(header)) + header + bytes(16)
        self.assertEqual(self.op("run", [], {}, raw_tensors=whole).code, 0)
        for raw in (b"", whole[:4], whole[:-1], whole + b"x", b"\xff" * 64, whole.replace(b"F64", b"Q64")):
            self.assertEqual(self.op("run", [], {}, raw_tensors=raw).code, 3, raw)

    def test_blank_lines_are_skipped(self):
        answer = self.op("run", [], TENSORS, raw_cases="\n  \n" + json.dumps(FINE) + "\r\n\n")
        self.assertEqual((answer.code, list(answer.status)), (0, ["fine"]))

    def test_filter_chooses_by_id(self):
        cases = [{**FINE, "id": name} for name in ("conv/1", "conv/2", "pool/1")] + [WRONG]
        for expression, chosen in (("conv", ["conv/1", "conv/2"]), ("/1$", ["conv/1", "pool/1"]),
                                   ("^(pool|conv).2", ["conv/2"]), ("none", [])):
            answer = self.run_cases(cases, TENSORS, f"--filter={expression}")
            self.assertEqual(list(answer.status), chosen)
            self.assertEqual(sorted(answer.results), [f"{name}/out/0" for name in chosen])

    def test_results_do_not_depend_on_threads(self):
        tensors = {"x": RNG.standard_normal((64, 3000)).astype(np.float32)}
        cases = [{"op": op, "inputs": [{"t": "x"}], "attrs": {"dim": 1}} for op in ("softmax", "sum", "std")]
        one, four = (self.run_cases(cases, tensors, f"--threads={n}") for n in (1, 4))
        for key in one.results:
            np.testing.assert_array_equal(one[key], four[key])


class List(OpTest):
    @classmethod
    def setUpClass(cls):
        process = cls().tool("op", "list", "--format=json")
        cls.stderr, cls.ops = process.stderr, json.loads(process.stdout)
        cls.by_name = {op["name"]: op for op in cls.ops}

    def test_schema(self):
        self.assertGreater(len(self.ops), 150)
        self.assertEqual(len(self.ops), len(self.by_name))
        for op in self.ops:
            self.assertEqual(list(op), ["name", "inputs", "attributes", "dtypes", "max_order", "random", "inplace"])
            for entry in op["inputs"]:
                self.assertEqual(list(entry), ["name", "optional", "list"])
            for attribute in op["attributes"]:
                self.assertEqual([key for key in attribute if key != "default"], ["name", "type"])
            self.assertEqual(list(op["dtypes"]), ["cpu", "cuda"])
            self.assertIn(op["max_order"], (0, 1, 2))
            self.assertEqual(op["inplace"], op["name"].endswith("_"))

    def test_entries(self):
        conv = self.by_name["conv2d"]
        self.assertEqual([(i["name"], i["optional"]) for i in conv["inputs"]],
                         [("input", False), ("weight", False), ("bias", True)])
        self.assertIn({"name": "stride", "type": "ints", "default": [1]}, conv["attributes"])
        self.assertIn({"name": "groups", "type": "int", "default": 1}, conv["attributes"])
        self.assertEqual(self.by_name["softmax"]["attributes"],
                         [{"name": "dim", "type": "int"},
                          {"name": "dtype", "type": "dtype", "default": None}])
        self.assertEqual(self.by_name["sum"]["attributes"][0], {"name": "dim", "type": "ints", "default": None})
        self.assertTrue(self.by_name["cat"]["inputs"][0]["list"])
        self.assertTrue(self.by_name["rand"]["random"])
        self.assertEqual(self.by_name["argmax"]["max_order"], 0)

    def test_dtypes_are_those_that_run(self):
        floats = ["float16", "bfloat16", "float32", "float64"]
        self.assertEqual(self.by_name["softmax"]["dtypes"]["cpu"], floats)
        self.assertEqual(self.by_name["conv2d"]["dtypes"]["cpu"],
                         floats + ["int8", "int16", "int32", "int64", "uint8"])
        self.assertEqual(self.by_name["cross_entropy"]["dtypes"]["cpu"], floats)
        self.assertEqual(self.by_name["one_hot"]["dtypes"]["cpu"], ["int32", "int64"])
        self.assertEqual(len(self.by_name["clone"]["dtypes"]["cpu"]), 10)
        self.assertEqual([op["name"] for op in self.ops if not op["dtypes"]["cpu"]], [],
                         "give the rows of these in ops/ an .example in their OpTraits")
        self.assertEqual(self.stderr, "")

    def test_text(self):
        text = self.tool("op", "list").stdout
        self.assertIn("conv2d(input, weight, bias?, stride: ints = [1]", text)
        for name in self.by_name:
            self.assertIn(f"\n{name}(", "\n" + text)


class Gradcheck(OpTest):
    def test_right_derivatives(self):
        cases = [{"op": "tanh", "inputs": [{"t": "f", "grad": True}]},
                 {"op": "mul", "inputs": [{"t": "a", "grad": True}, {"t": "a", "grad": True}], "order": 2},
                 {"op": "add_", "inputs": [{"t": "a", "grad": True}, {"t": "v", "grad": True}]},
                 {"op": "cat", "inputs": [{"list": [{"t": "a", "grad": True}, {"t": "v"}]}]},
                 {"op": "exp", "inputs": [{"t": "a", "grad": True,
                                           "view": {"shape": [2, 4], "strides": [0, 1]}}]},
                 {"op": "mul", "inputs": [{"t": "a", "grad": True, "view": {"shape": [6], "strides": [1]}},
                                          {"t": "a", "grad": True, "view": {"shape": [6], "strides": [2]}}]},
                 {"op": "dropout", "inputs": [{"t": "a", "grad": True}], "rng_seed": 3},
                 {"op": "batch_norm", "inputs": [{"t": "a", "grad": True}, {"t": "m"}, {"t": "w"}],
                  "attrs": {"training": True}, "order": 2}]
        tensors = {**TENSORS, "f": A.astype(np.float32), "m": np.zeros(4), "w": np.ones(4)}
        for flags in ((), ("--order=1",), ("--order=2",)):
            answer = self.op("gradcheck", cases, tensors, *flags)
            self.assertEqual(answer.code, 0, answer.stderr)
            self.assertEqual([line["status"] for line in answer.lines()], ["ok"] * len(cases))
            self.assertEqual(list(answer.lines()[0]), ["id", "status", "kind", "message", "ms"])

    def test_a_kink_is_a_mismatch(self):
        cases = [{"op": "relu", "inputs": [{"t": "z", "grad": True}]},
                 {"op": "relu", "inputs": [{"t": "a", "grad": True}]}]
        answer = self.op("gradcheck", cases, TENSORS)
        self.assertEqual(answer.code, 1)
        self.assertEqual([line["status"] for line in answer.lines()], ["mismatch", "ok"])
        self.assertIn("element [0]", answer.lines()[0]["message"])

    def test_errors_and_cases_without_gradients(self):
        answer = self.op("gradcheck", [FINE, {**WRONG, "expect": {"error": "argument"}}], TENSORS)
        self.assertEqual(answer.code, 0, answer.stderr)
        self.assertEqual([line["status"] for line in answer.lines()], ["skipped", "error"])
        self.assertEqual(self.op("gradcheck", [WRONG], TENSORS).code, 1)


class Bench(OpTest):
    def test_one_line_a_case(self):
        cases = [FINE, {"id": "second", "op": "softmax", "inputs": [{"t": "a", "grad": True}],
                        "attrs": {"dim": 1}, "order": 1, "seeds": ["v"]}]
        answer = self.op("bench", cases, TENSORS, "--min_time=20ms")
        self.assertEqual(answer.code, 0, answer.stderr)
        for line, case in zip(answer.lines(), cases):
            self.assertEqual(list(line), ["id", "status", "kind", "message", "kernels", "op", "order",
                                          "iterations", "ns", "ns_min"])
            self.assertEqual((line["id"], line["op"], line["status"]), (case["id"], case["op"], "ok"))
            self.assertTrue(0 < line["ns_min"] <= line["ns"] < 1e7)
            self.assertGreater(line["iterations"], 10)
        self.assertEqual(answer.lines()[1]["kernels"], ["cpu/float64/softmax", "cpu/float64/softmax_backward"])

    def test_errors(self):
        answer = self.op("bench", [WRONG, FINE], TENSORS, "--min_time=1ms")
        self.assertEqual(answer.code, 1)
        self.assertEqual([line["status"] for line in answer.lines()], ["error", "ok"])


if __name__ == "__main__":
    harness.main()
