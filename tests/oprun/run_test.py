"""Compares `tapegrad op run` with NumPy: values, layouts, first and second gradients, errors."""

import unittest

import numpy as np

import harness
from harness import BFloat16, OpTest


def view(tensor, shape, strides, offset=0, **more):
    return {"t": tensor, "view": {"shape": shape, "strides": strides, "offset": offset}, **more}


def x(name, **more):
    return {"t": name, "grad": True, **more}


def softmax(a, axis):
    e = np.exp(a - a.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


RNG = np.random.default_rng(7)


def normal(*shape):
    return RNG.standard_normal(shape)


class Values(OpTest):
    def test_every_dtype_is_read_and_written(self):
        base = RNG.integers(0, 2, (2, 3))
        tensors = {name: base.astype(kind) for name, kind in harness.NAMES.items()}
        tensors["BF16"] = BFloat16(base)
        cases = [{"id": name, "op": "clone", "inputs": [{"t": name}]} for name in tensors]
        answer = self.run_cases(cases, tensors)
        for name in tensors:
            self.assertEqual(answer.kinds[f"{name}/out/0"], name)
            np.testing.assert_array_equal(answer[f"{name}/out/0"].astype(int), base)
        self.assertEqual(answer.status["BF16"]["out"], [{"dtype": "bfloat16", "shape": [2, 3]}])
        self.assertEqual(answer.status["BOOL"]["out"], [{"dtype": "bool", "shape": [2, 3]}])

    def test_floats_compute_in_their_own_precision(self):
        a = normal(5, 9)
        tensors = {"F64": a, "F32": a.astype(np.float32), "F16": a.astype(np.float16), "BF16": BFloat16(a)}
        exact = {"F64": a, "F32": tensors["F32"], "F16": tensors["F16"], "BF16": tensors["BF16"].values()}
        cases = [{"id": name, "op": "softmax", "inputs": [{"t": name}], "attrs": {"dim": -1}}
                 for name in tensors]
        answer = self.run_cases(cases, tensors)
        for name, eps in {"F64": 2e-15, "F32": 1e-6, "F16": 1e-3, "BF16": 8e-3}.items():
            self.assertEqual(answer.kinds[f"{name}/out/0"], name)
            self.close(answer[f"{name}/out/0"], softmax(exact[name].astype(float), 1), eps, name)

    def test_integers_are_exact(self):
        a, b = RNG.integers(-9, 9, (3, 4)), RNG.integers(-9, 9, (4, 2))
        for kind in (np.int32, np.int64):
            tensors = {"a": a.astype(kind), "b": b.astype(kind)}
            answer = self.run_cases([{"op": "matmul", "inputs": [{"t": "a"}, {"t": "b"}]}], tensors)
            np.testing.assert_array_equal(answer["0/out/0"], a @ b)

    def test_several_outputs_attributes_and_defaults(self):
        a = normal(4, 6)
        cases = [{"op": "max", "inputs": [{"t": "a"}], "attrs": {"dim": 1}},
                 {"op": "sum", "inputs": [{"t": "a"}], "attrs": {"dim": [0, 1], "keepdim": True}},
                 {"op": "sum", "inputs": [{"t": "a"}]},
                 {"op": "sum", "inputs": [{"t": "a"}], "attrs": {"dim": None}},
                 {"op": "to", "inputs": [{"t": "a"}], "attrs": {"dtype": "int32"}},
                 {"op": "full", "attrs": {"size": ["2"], "fill_value": "3"}},
                 {"op": "gelu", "inputs": [{"t": "a"}], "attrs": {"approximate": "tanh"}}]
        answer = self.run_cases(cases, {"a": a})
        np.testing.assert_array_equal(answer["0/out/0"], a.max(1))
        np.testing.assert_array_equal(answer["0/out/1"], a.argmax(1))
        self.close(answer["1/out/0"], a.sum(keepdims=True))
        self.close(answer["2/out/0"], a.sum())
        self.close(answer["3/out/0"], a.sum())
        np.testing.assert_array_equal(answer["4/out/0"], a.astype(np.int32))
        np.testing.assert_array_equal(answer["5/out/0"], [3, 3])
        inner = np.sqrt(2 / np.pi) * (a + 0.044715 * a**3)
        self.close(answer["6/out/0"], 0.5 * a * (1 + np.tanh(inner)))

    def test_nan_and_infinity_are_strings(self):
        tensors = {"a": np.array([-3.0, 0.5, 3.0]), "m": np.array([True, False, True])}
        fill = [{"id": value, "op": "masked_fill", "inputs": [{"t": "a"}, {"t": "m"}],
                 "attrs": {"value": value}} for value in ("nan", "inf", "-inf", "7", "2.5")]
        clamp = {"id": "clamp", "op": "clamp", "inputs": [{"t": "a"}], "attrs": {"min": "-inf", "max": 1}}
        answer = self.run_cases(fill + [clamp], tensors)
        for value in ("nan", "inf", "-inf", "7", "2.5"):
            np.testing.assert_array_equal(answer[f"{value}/out/0"], [float(value), 0.5, float(value)])
        np.testing.assert_array_equal(answer["clamp/out/0"], [-3, 0.5, 1])

    def test_random_numbers_follow_the_seed(self):
        cases = [{"op": "rand", "attrs": {"size": [8], "dtype": "float64"}, "rng_seed": seed}
                 for seed in ("42", 42, "43", "18446744073709551615")]
        cases.append({"op": "rand", "attrs": {"size": [8], "dtype": "float64"}})
        answer = self.run_cases(cases, {})
        np.testing.assert_array_equal(answer["0/out/0"], answer["1/out/0"])
        drawn = {answer[f"{i}/out/0"].tobytes() for i in range(5)}
        self.assertEqual(len(drawn), 4)

    def test_what_an_op_writes_is_new_for_the_next_case(self):
        a = normal(3)
        cases = [{"op": "add_", "inputs": [{"t": "a"}, {"t": "a"}]}, {"op": "clone", "inputs": [{"t": "a"}]}]
        answer = self.run_cases(cases, {"a": a})
        self.close(answer["0/out/0"], 2 * a)
        np.testing.assert_array_equal(answer["1/out/0"], a)

    def test_kernels_names_what_ran(self):
        tensors = {"a": normal(2, 3).astype(np.float32), "v": normal(2, 3).astype(np.float32)}
        cases = [{"op": "softmax", "inputs": [x("a")], "attrs": {"dim": 1}, "order": order, "seeds": ["v"]}
                 for order in (0, 1)]
        answer = self.run_cases(cases, tensors)
        self.assertEqual(answer.status["0"]["kernels"], ["cpu/float32/softmax"])
        self.assertEqual(answer.status["1"]["kernels"], ["cpu/float32/softmax", "cpu/float32/softmax_backward"])
        self.assertEqual(list(answer.status["0"]),
                         ["id", "status", "kind", "message", "ms", "kernels", "out", "null_grads"])


class Layouts(OpTest):
    def test_views_apply_to_the_flat_buffer(self):
        a = normal(4, 6)
        flat = a.ravel()
        cases = {
            "transposed": view("a", [6, 4], [1, 6]), "step": view("a", [4, 3], [6, 2]),
            "offset": view("a", [2, 3], [6, 1], 8), "expanded": view("a", [5, 4], [0, 1], 2),
            "overlapping": view("a", [10, 5], [2, 1]), "scalar": view("a", [], [], 23),
            "empty": view("a", [0, 7], [7, 1], 24), "reshaped": {"t": "a", "view": {"shape": [3, 8]}}}
        answer = self.run_cases([{"id": name, "op": "exp", "inputs": [ref]} for name, ref in cases.items()],
                                {"a": a})
        for name, ref in cases.items():
            v = ref["view"]
            strides = v.get("strides", [8, 1])
            expected = np.lib.stride_tricks.as_strided(
                flat[v.get("offset", 0):], v["shape"], [8 * s for s in strides])
            self.close(answer[f"{name}/out/0"], np.exp(expected), 1e-14, name)

    def test_gradients_of_strided_inputs_are_contiguous_results(self):
        a, b, v = normal(3, 4), normal(20), normal(4, 5)
        case = {"op": "matmul", "inputs": [view("a", [4, 3], [1, 4], grad=True),
                                           view("b", [3, 5], [0, 2], 1, grad=True)],
                "order": 1, "seeds": [view("v", [4, 5], [1, 4])]}
        answer = self.run_cases([case], {"a": a, "b": b, "v": v})
        left, right = a.T, np.broadcast_to(b[1:11:2], (3, 5))
        seed = v.ravel().reshape(5, 4).T
        self.close(answer["0/out/0"], left @ right)
        self.close(answer["0/g1/0"], seed @ right.T)
        self.close(answer["0/g1/1"], left.T @ seed)

    def test_views_outside_the_buffer_are_errors(self):
        wrong = [view("a", [3, 4], [4, 1], 1), view("a", [2], [1], -1), view("a", [2], [-1], 5),
                 view("a", [2**62, 4], [2**62, 1]), view("a", [2, 2], [1]), view("a", [0], [1], 13),
                 {"t": "a", "view": {"strides": [1]}}, view("a", [1] * 9, [1] * 9), view("a", [-1], [1])]
        cases = [{"op": "neg", "inputs": [ref], "expect": {"error": "argument"}} for ref in wrong]
        self.run_cases(cases, {"a": normal(3, 4)})


class Gradients(OpTest):
    def test_first_order(self):
        a, v = normal(3, 5), normal(3, 5)
        case = {"op": "softmax", "inputs": [x("a")], "attrs": {"dim": 1}, "order": 1, "seeds": ["v"]}
        answer = self.run_cases([case], {"a": a, "v": v})
        y = softmax(a, 1)
        self.close(answer["0/g1/0"], y * (v - (y * v).sum(1, keepdims=True)))
        self.assertEqual(sorted(answer.results), ["0/g1/0", "0/out/0"])

    def test_second_order_in_an_input_and_its_seed(self):
        a, v, s = normal(4), normal(4), normal(4)
        case = {"op": "tanh", "inputs": [x("a")], "order": 2, "seeds": ["v"], "seeds2": ["s"]}
        answer = self.run_cases([case], {"a": a, "v": v, "s": s})
        y = np.tanh(a)
        self.close(answer["0/g1/0"], v * (1 - y**2))
        self.close(answer["0/g2/0"], s * v * -2 * y * (1 - y**2))
        self.close(answer["0/g2/seed/0"], s * (1 - y**2))

    def test_second_order_across_inputs(self):
        a, b, v = normal(3, 4), normal(4, 2), normal(3, 2)
        s0, s1 = normal(3, 4), normal(4, 2)
        case = {"op": "matmul", "inputs": [x("a"), x("b")], "order": 2, "seeds": ["v"], "seeds2": ["s0", "s1"]}
        answer = self.run_cases([case], {"a": a, "b": b, "v": v, "s0": s0, "s1": s1})
        self.close(answer["0/g1/0"], v @ b.T)
        self.close(answer["0/g1/1"], a.T @ v)
        self.close(answer["0/g2/0"], v @ s1.T)
        self.close(answer["0/g2/1"], s0.T @ v)
        self.close(answer["0/g2/seed/0"], s0 @ b + a @ s1)

    def test_undefined_gradients_are_named_or_absent(self):
        a, v, s = normal(4), normal(4), normal(4)
        cases = [{"id": "none", "op": "argmax", "inputs": [x("a")], "order": 1, "seeds": []},
                 {"id": "linear", "op": "neg", "inputs": [x("a")], "order": 2, "seeds": ["v"], "seeds2": ["s"]}]
        answer = self.run_cases(cases, {"a": a, "v": v, "s": s})
        self.assertEqual(answer.status["none"]["null_grads"], [0])
        self.assertNotIn("none/g1/0", answer.results)
        self.assertEqual(answer.status["linear"]["null_grads"], [])
        self.assertNotIn("linear/g2/0", answer.results)
        self.close(answer["linear/g2/seed/0"], -s)

    def test_one_variable_in_two_places(self):
        a, v, s, r = normal(4), normal(4), normal(4), normal(4)
        tensors = {"a": a, "b": a.copy(), "v": v, "s": s, "r": r}
        same = view("a", [4], [1])
        cases = [
            {"id": "same", "op": "mul", "inputs": [x("a"), x("a")], "order": 2, "seeds": ["v"],
             "seeds2": ["s", "r"]},
            {"id": "same view", "op": "mul", "inputs": [x("a"), {**same, "grad": True}], "order": 1,
             "seeds": ["v"]},
            {"id": "once", "op": "mul", "inputs": [x("a"), {"t": "a"}], "order": 1, "seeds": ["v"]},
            {"id": "other view", "op": "mul", "inputs": [view("a", [2], [1], grad=True),
                                                         view("a", [2], [1], 2, grad=True)],
             "order": 1, "seeds": [view("v", [2], [1])]},
            {"id": "other tensor", "op": "mul", "inputs": [x("a"), x("b")], "order": 1, "seeds": ["v"]}]
        answer = self.run_cases(cases, tensors)
        for i in (0, 1):  # L1 = v a^2; L2 = (s + r) g1
            self.close(answer[f"same/g1/{i}"], 2 * a * v)
            self.close(answer[f"same/g2/{i}"], 2 * v * (s + r))
            self.close(answer[f"same view/g1/{i}"], 2 * a * v)
            self.close(answer[f"other tensor/g1/{i}"], a * v)
        self.close(answer["same/g2/seed/0"], 2 * a * (s + r))
        self.close(answer["once/g1/0"], 2 * a * v)
        self.assertNotIn("once/g1/1", answer.results)
        self.close(answer["other view/g1/0"], a[2:] * v[:2])

    def test_the_command_line_lowers_the_order(self):
        tensors = {"a": normal(4), "v": normal(4), "s": normal(4)}
        full = {"op": "exp", "inputs": [x("a")], "order": 2, "seeds": ["v"], "seeds2": ["s"]}
        bare = {key: value for key, value in full.items() if key != "order"}
        for flags, expected in (([], [2, 0]), (["--order=1"], [1, 1]), (["--order=0"], [0, 0]),
                                (["--order=2"], [2, 2])):
            answer = self.run_cases([full, bare], tensors, *flags)
            orders = [max([int(key.split("/")[1][1]) for key in answer.results
                           if key.startswith(f"{i}/g")], default=0) for i in (0, 1)]
            self.assertEqual(orders, expected, flags)

    def test_seeds_must_fit(self):
        tensors = {"a": normal(4), "v": normal(4), "w": normal(3), "f": normal(4).astype(np.float32)}
        base = {"op": "exp", "inputs": [x("a")], "order": 2, "seeds": ["v"], "seeds2": ["v"]}
        for change, kind in (({"seeds": []}, "argument"), ({"seeds": ["w"]}, "shape"),
                             ({"seeds": ["f"]}, "dtype"), ({"seeds": ["v", "v"]}, "argument"),
                             ({"seeds2": []}, "argument"), ({"seeds2": ["w"]}, "shape"),
                             ({"seeds": [{"t": "v", "grad": True}]}, "argument")):
            answer = self.run_cases([{**base, **change, "expect": {"error": kind}}], tensors)
            self.assertEqual(answer.status["0"]["kind"], kind)


class Inputs(OpTest):
    def test_null_and_trailing_inputs(self):
        a, w, b, v = normal(3, 4), normal(4), normal(4), normal(3, 4)
        attrs = {"normalized_shape": [4], "eps": 0}
        tensors = {"a": a, "w": w, "b": b, "v": v}
        cases = [{"op": "layer_norm", "inputs": inputs, "attrs": attrs, "order": 1, "seeds": ["v"]}
                 for inputs in ([x("a"), None, x("b")], [x("a")], [x("a"), x("w")], [x("a"), None, None])]
        answer = self.run_cases(cases, tensors)
        normed = (a - a.mean(1, keepdims=True)) / a.std(1, keepdims=True)
        self.close(answer["0/out/0"], normed + b)
        self.close(answer["0/g1/2"], v.sum(0))
        self.assertNotIn("0/g1/1", answer.results)
        self.close(answer["1/out/0"], normed)
        self.close(answer["2/g1/1"], (v * normed).sum(0))
        self.close(answer["3/out/0"], normed)

    def test_lists_count_each_element(self):
        a, b, v, s = normal(2, 3), normal(1, 3), normal(6, 3), normal(2, 3)
        inputs = [{"list": [x("a"), {"t": "b"}, x("a"), x("b2")]}]
        case = {"op": "cat", "inputs": inputs, "order": 1, "seeds": ["v"]}
        answer = self.run_cases([case], {"a": a, "b": b, "b2": b, "v": v, "s": s})
        self.close(answer["0/out/0"], np.concatenate([a, b, a, b]))
        self.assertEqual(sorted(answer.results), ["0/g1/0", "0/g1/2", "0/g1/3", "0/out/0"])
        self.close(answer["0/g1/0"], v[:2] + v[3:5])
        self.close(answer["0/g1/2"], v[:2] + v[3:5])
        self.close(answer["0/g1/3"], v[5:])

    def test_inputs_by_name(self):
        a, w, b, v = normal(3, 4), normal(2, 4), normal(2), normal(3, 2)
        tensors = {"a": a, "w": w, "b": b, "v": v, "n": normal(3, 4), "g": normal(4)}
        cases = [{"op": "linear", "inputs": {"bias": x("b"), "weight": x("w"), "input": x("a")},
                  "order": 1, "seeds": ["v"]},
                 {"op": "layer_norm", "inputs": {"bias": x("g"), "input": {"t": "a"}}, "order": 1,
                  "attrs": {"normalized_shape": [4]}, "seeds": ["n"]},
                 {"op": "cat", "inputs": {"tensors": {"list": [{"t": "a"}, {"t": "n"}]}}}]
        answer = self.run_cases(cases, tensors)
        self.close(answer["0/out/0"], a @ w.T + b)
        self.close(answer["0/g1/0"], v @ w)
        self.close(answer["0/g1/1"], v.T @ a)
        self.close(answer["0/g1/2"], v.sum(0))
        self.close(answer["1/g1/2"], tensors["n"].sum(0))
        self.close(answer["2/out/0"], np.concatenate([a, tensors["n"]]))

    def test_wrong_inputs_are_errors_of_the_case(self):
        wrong = [[], [{"t": "nowhere"}], [{"t": "a"}] * 2, [{"list": [{"t": "a"}]}], [{"tensor": "a"}],
                 [{"t": "a", "gradient": True}], [{"t": "a", "grad": 1}], [3], "a", {"x": {"t": "a"}},
                 {"input": {"t": "a"}, "other": None}, [{"t": "a", "view": {"shape": [4], "stride": [1]}}]]
        cases = [{"op": "exp", "inputs": inputs, "expect": {"error": "argument"}} for inputs in wrong]
        cases.append({"op": "cat", "inputs": [[{"t": "a"}]], "expect": {"error": "argument"}})
        cases.append({"op": "cat", "inputs": [{"t": "a"}], "expect": {"error": "argument"}})
        self.run_cases(cases, {"a": normal(4)})


class Errors(OpTest):
    TENSORS = {"a": normal(2, 3), "b": normal(4, 5), "i": np.arange(6).reshape(2, 3),
               "f": normal(2, 3).astype(np.float32), "s": np.ones((2, 3), np.bool_)}
    CASES = {
        "shape": {"op": "matmul", "inputs": [{"t": "a"}, {"t": "b"}]},
        "dtype": {"op": "softmax", "inputs": [{"t": "i"}], "attrs": {"dim": 0}},
        "index": {"op": "softmax", "inputs": [{"t": "a"}], "attrs": {"dim": 2}},
        "argument": {"op": "one_hot", "inputs": [{"t": "i"}], "attrs": {"num_classes": -5}},
        "autograd": {"op": "relu_", "inputs": [{"t": "a", "grad": True}]},
        "kernel": {"op": "matmul", "inputs": [{"t": "s"}, {"t": "s", "view": {"shape": [3, 2]}}]},
        "out_of_memory": {"op": "zeros", "attrs": {"size": [2**50], "dtype": "uint8"}}}

    def test_errors_have_their_kind(self):
        expecting = [{"id": kind, **case, "expect": {"error": kind}} for kind, case in self.CASES.items()]
        answer = self.run_cases(expecting, self.TENSORS)
        for kind in self.CASES:
            line = answer.status[kind]
            self.assertEqual(line["kind"], kind)
            self.assertEqual(line["status"], "unsupported" if kind == "kernel" else "error")
            self.assertIn(": ", line["message"])
        self.assertEqual(answer.results, {})

    def test_unexpected_ends_are_status_1(self):
        for case in self.CASES.values():
            answer = self.run_cases([case], self.TENSORS, code=1)
            self.assertIn(answer.status["0"]["message"], answer.stderr)
        fine = {"op": "exp", "inputs": [{"t": "a"}]}
        self.run_cases([{**fine, "expect": {"error": "shape"}}], self.TENSORS, code=1)
        self.run_cases([{**self.CASES["index"], "expect": {"error": "shape"}}], self.TENSORS, code=1)
        self.run_cases([{**self.CASES["index"], "expect": {"error": "argument"}}], self.TENSORS)
        answer = self.run_cases([self.CASES["index"], fine], self.TENSORS, code=1)
        self.close(answer["1/out/0"], np.exp(self.TENSORS["a"]), 1e-14)

    def test_a_device_that_is_not_there(self):
        cases = [{"op": "exp", "inputs": [{"t": "a"}], "expect": {"error": "device"}}]
        self.run_cases(cases, self.TENSORS, "--device=cuda:97")
        self.assertEqual(self.op("run", cases, self.TENSORS, "--device=abacus").code, 2)

    def test_nothing_is_ignored(self):
        fine = {"op": "softmax", "inputs": [{"t": "a"}], "attrs": {"dim": 1}}
        changes = [{"oops": 1}, {"op": "sofmax"}, {"op": 3}, {"attrs": {"dim": 1, "axis": 1}}, {"attrs": {}},
                   {"attrs": {"dim": "one"}}, {"attrs": {"dim": 1.0}}, {"attrs": {"dim": "9" * 30}},
                   {"attrs": {"dim": True}}, {"attrs": {"dim": [1]}}, {"attrs": [1]}, {"order": 3},
                   {"order": "high"}, {"rng_seed": -1}, {"rng_seed": "x"}, {"seeds": "v"}, {"seeds2": [1]}]
        cases = [{**fine, **change, "expect": {"error": "argument"}} for change in changes]
        answer = self.run_cases(cases, self.TENSORS)
        self.assertIn('unknown key "oops"', answer.status["0"]["message"])
        self.assertIn("sofmax", answer.status["1"]["message"])
        self.assertIn('unknown attribute "axis"', answer.status["3"]["message"])
        cut = {"op": "einsum", "inputs": [{"list": [{"t": "a"}]}], "attrs": {"equation": "i\u00e9->i"}}
        self.run_cases([{**cut, "expect": {"error": "argument"}}], self.TENSORS)
        missing = {key: value for key, value in fine.items() if key != "op"}
        self.run_cases([{**missing, "expect": {"error": "argument"}}], self.TENSORS)
        for expect in ("fine", {"error": "typo"}, {"error": "shape", "more": 1}, None):
            self.run_cases([{**fine, "expect": expect}], self.TENSORS, code=1)


if __name__ == "__main__":
    harness.main()
