#include "ops/join.h"

#include <cmath>
#include <vector>

#include "core/base/error.h"
#include "core/dispatch/kernels.h"
#include "core/tape/internal/call_line.h"
#include "core/tape/op.h"
#include "core/tape/recording.h"
#include "core/tape/view.h"
#include "ops/catalog.h"
#include "ops/index.h"
#include "ops/reshape.h"
#include "ops/view.h"

namespace tapegrad {

namespace {

std::vector<Variable> each(VariableList inputs, Variable (*f)(const Variable&, Where)) {
  std::vector<Variable> results;
  for (const Variable& input : inputs) results.push_back(f(input, Where::current()));
  return results;
}

}  // namespace

Variable vstack(VariableList inputs, Where where) {
  const CallLine line(where);
  return cat(each(inputs, atleast_2d), 0);
}

Variable hstack(VariableList inputs, Where where) {
  const CallLine line(where);
  const std::vector<Variable> all = each(inputs, atleast_1d);
  return cat(all, all.empty() || all[0].rank() == 1 ? 0 : 1);
}

Variable dstack(VariableList inputs, Where where) {
  const CallLine line(where);
  return cat(each(inputs, atleast_3d), 2);
}

Variable column_stack(VariableList inputs, Where where) {
  const CallLine line(where);
  return cat(each(inputs,
                  [](const Variable& x, Where) {
                    return x.rank() > 1 ? x : reshape(x, {x.numel(), 1});
                  }),
             1);
}

namespace {

struct BlockDiag {
  static constexpr std::string_view kName = "block_diag";
  std::vector<Shape> shapes{};
  std::vector<DType> dtypes{};

  Tensor forward(std::span<const Variable> inputs) {
    const NoGrad off;
    if (inputs.empty()) fail<ArgumentError>(kName, ": no inputs");
    Shape all{0, 0};
    DType dtype = inputs[0].dtype();
    for (const Variable& x : inputs) {
      if (x.rank() > 2) fail<ShapeError>(kName, ": a matrix wanted, not ", x.shape());
      check_same_device(kName, inputs[0].value(), x.value());
      const Shape matrix = atleast_2d(x.detach()).shape();
      all = {all[0] + matrix[0], all[1] + matrix[1]};
      dtype = promote(dtype, x.dtype());
      shapes.push_back(x.shape());
      dtypes.push_back(x.dtype());
    }
    Tensor y = Tensor::full(all, 0, dtype, inputs[0].device());
    std::vector<Variable> blocks = blocks_of(Variable(y));
    for (size_t i = 0; i < inputs.size(); ++i) {
      Tensor block = blocks[i].value();
      kernels::copy(atleast_2d(inputs[i].detach()).value(), block);
    }
    return y;
  }
  std::vector<Variable> backward(const Variable& dy) const {
    std::vector<Variable> dx = blocks_of(dy);
    for (size_t i = 0; i < dx.size(); ++i) dx[i] = reshape(dx[i].to(dtypes[i]), shapes[i]);
    return dx;
  }

 private:
  std::vector<Variable> blocks_of(const Variable& y) const {
    std::vector<Variable> blocks;
    int64_t row = 0, column = 0;
    for (const Shape& shape : shapes) {
      const int64_t rows = shape.rank() < 2 ? 1 : shape[0];
      const int64_t columns = shape.rank() < 1 ? 1 : shape[shape.rank() - 1];
      blocks.push_back(slice(slice(y, 0, row, row + rows), 1, column, column + columns));
      row += rows, column += columns;
    }
    return blocks;
  }
};

}  // namespace

Variable block_diag(VariableList inputs, Where where) {
  const CallLine line(where);
  return apply(BlockDiag{}, Where::current(), std::span<const Variable>(inputs));
}

Variable cartesian_prod(VariableList inputs, Where where) {
  const CallLine line(where);
  if (inputs.size() == 1) return inputs[0];
  return stack(each(meshgrid(inputs), [](const Variable& x, Where) { return flatten(x); }), 1);
}

Variable combinations(const Variable& x, int64_t r, bool with_replacement, Where where) {
  if (x.rank() != 1) fail<ShapeError>("combinations: a vector, not ", x.shape());
  if (r < 0) fail<ArgumentError>("combinations: r is ", r);
  const int64_t n = x.numel(), step = with_replacement ? 0 : 1;
  const bool is_empty = r == 0 || n == 0 || (step == 1 && r > n);
  // The number of subsets is the number of ways to choose r of `of`.
  const double of = double(n) + (step == 0 ? double(r) - 1 : 0);
  const double log_count =
      std::lgamma(of + 1) - std::lgamma(double(r) + 1) - std::lgamma(of - double(r) + 1);
  if (!is_empty && log_count + std::log(double(r)) > std::log(1e9))
    fail<ArgumentError>("combinations: more than 1e9 elements, of ", n, " for r = ", r);
  std::vector<int64_t> positions, now(is_empty ? 0 : size_t(r), 0);
  for (size_t i = 0; i < now.size(); ++i) now[i] = int64_t(i) * step;
  // Element i is at most n - 1 - (r - 1 - i) step, so that later elements are below n.
  const auto most = [&](int64_t i) { return n - 1 - (r - 1 - i) * step; };
  bool is_valid = !is_empty;
  while (is_valid) {
    positions.insert(positions.end(), now.begin(), now.end());
    int64_t i = r - 1;
    while (i >= 0 && now[i] == most(i)) --i;
    is_valid = i >= 0;
    if (!is_valid) break;
    ++now[i];
    for (int64_t k = i + 1; k < r; ++k) now[k] = now[k - 1] + step;
  }
  const auto rows = r == 0 ? 0 : int64_t(positions.size()) / r;
  const Variable index = Variable(Tensor::from<int64_t>(positions, {rows * r})).to(x.device());
  return reshape(index_select(x, 0, index, where), {rows, r}, where);
}

void catalog_join(Catalog& catalog) {
  using A = const Arguments&;
  catalog.add("vstack(tensors*)", "one below another", [](A a) { return vstack(a.list); });
  catalog.add("hstack(tensors*)", "side by side", [](A a) { return hstack(a.list); });
  catalog.add("dstack(tensors*)", "one behind another", [](A a) { return dstack(a.list); });
  catalog.add("column_stack(tensors*)", "side by side, vectors as columns",
              [](A a) { return column_stack(a.list); });
  catalog.add("block_diag(tensors*)", "matrices on the diagonal, among zeros",
              [](A a) { return block_diag(a.list); });
  catalog.add("cartesian_prod(tensors*)", "all combinations of elements",
              [](A a) { return cartesian_prod(a.list); });
}

}  // namespace tapegrad
