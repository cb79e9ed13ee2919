// Operators over dimensions: sums and other reductions, positions of extremes, matrix products.
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/index.h"
#include "ops/linalg.h"
#include "ops/matmul.h"
#include "ops/products.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/sort.h"
#include "ops/unary.h"
#include "ops/view.h"
#include "tests/onnx_conformance/value.h"

namespace tapegrad::onnx_conformance {
namespace {

using N = const Node&;

Dims to_dims(const Ints& values) {
  Dims dims;
  for (int64_t value : values) dims.push_back(value);
  return dims;
}

/// Calls f(x, dims, keepdim) with the axes from an attribute or from the second input.
std::function<Variable(N)> reduction(
    std::function<Variable(const Variable&, const Dims&, bool)> f) {
  return [f = std::move(f)](N n) {
    Ints axes = n.has(1) ? n.ints_at(1) : n.ints("axes");
    if (axes.empty()) {
      if (n.flag("noop_with_empty_axes", false)) return n[0];
      for (int i = 0; i < n[0].rank(); ++i) axes.push_back(i);
    }
    return f(n[0], to_dims(axes), n.flag("keepdims", true)).to(n[0].dtype());
  };
}

Variable product(const Variable& x, const Dims& dims, bool keepdim) {
  Variable y = x;
  std::vector<int64_t> order(dims.begin(), dims.end());
  for (int64_t& dim : order) dim += dim < 0 ? x.rank() : 0;
  std::sort(order.rbegin(), order.rend());
  for (int64_t dim : order) y = prod(y, int(dim), keepdim);
  return y;
}

Variable position(N n, bool largest) {
  const int axis = n.axis(0);
  const bool keepdim = n.flag("keepdims", true);
  const auto find = [&](const Variable& x) {
    return largest ? argmax(x, axis, keepdim) : argmin(x, axis, keepdim);
  };
  if (!n.flag("select_last_index", false)) return find(n[0]);
  return n[0].size(axis) - 1 - find(flip(n[0], {axis}));
}

Variable running_sum(N n) {
  const int64_t axis = n.ints_at(1).at(0);
  const bool reverse = n.flag("reverse", false);
  const Variable x = reverse ? flip(n[0], {axis}) : n[0];
  Variable y = cumsum(x, int(axis));
  if (n.flag("exclusive", false)) y = y - x;
  return (reverse ? flip(y, {axis}) : y).to(n[0].dtype());
}

Variable gemm(N n) {
  const auto turned = [&](size_t i, const char* name) {
    return n.flag(name, false) ? t(n[i]) : n[i];
  };
  const Variable y = matmul(turned(0, "transA"), turned(1, "transB")) * n.real("alpha", 1);
  return n.has(2) ? y + n[2] * n.real("beta", 1) : y;
}

}  // namespace

void add_reductions(Operators& table) {
  add(table, "ReduceSum", reduction([](auto& x, auto& d, bool k) { return sum(x, d, k); }));
  add(table, "ReduceMean", reduction([](auto& x, auto& d, bool k) { return mean(x, d, k); }));
  add(table, "ReduceMax", reduction([](auto& x, auto& d, bool k) { return amax(x, d, k); }));
  add(table, "ReduceMin", reduction([](auto& x, auto& d, bool k) { return amin(x, d, k); }));
  add(table, "ReduceProd", reduction(product));
  add(table, "ReduceL1", reduction([](auto& x, auto& d, bool k) { return norm(x, 1.0, d, k); }));
  add(table, "ReduceL2", reduction([](auto& x, auto& d, bool k) { return norm(x, 2.0, d, k); }));
  add(table, "ReduceLogSum", reduction([](auto& x, auto& d, bool k) { return log(sum(x, d, k)); }));
  add(table, "ReduceLogSumExp",
      reduction([](auto& x, auto& d, bool k) { return logsumexp(x, d, k); }));
  add(table, "ReduceSumSquare",
      reduction([](auto& x, auto& d, bool k) { return sum(x * x, d, k); }));
  add(table, "ArgMax", [](N n) { return position(n, true); });
  add(table, "ArgMin", [](N n) { return position(n, false); });
  add(table, "CumSum", running_sum);
  add(table, "Softmax", [](N n) { return softmax(n[0], n.axis(-1)); });
  add(table, "LogSoftmax", [](N n) { return log_softmax(n[0], n.axis(-1)); });
  add(table, "Hardmax", [](N n) {
    const int axis = n.axis(-1);
    const int64_t size = n[0].size(axis);
    const Variable hot = one_hot(argmax(n[0], axis), size).to(n[0].dtype());
    Dims back;
    const int at = axis < 0 ? axis + n[0].rank() : axis;
    for (int i = 0; i < n[0].rank(); ++i)
      back.push_back(i < at ? i : i == at ? n[0].rank() - 1 : i - 1);
    return permute(hot, back);
  });
  add(table, "MatMul", [](N n) { return matmul(n[0], n[1]); });
  add(table, "Gemm", gemm);
  add(table, "Einsum", [](N n) { return einsum(n.text("equation", ""), n.inputs); });
  add(table, "Det", [](N n) { return linalg::det(n[0]); });
  table["TopK"] = [](N n) -> Values {
    const auto [values, indices] =
        topk(n[0], n.ints_at(1).at(0), n.axis(-1), n.flag("largest", true));
    return {values, indices};
  };
}

}  // namespace tapegrad::onnx_conformance
