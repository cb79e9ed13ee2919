// T77: every op of the catalog with hostile operands and attributes: one operand at a time is of
// rank 0, without elements, huge, expanded, overlapping, of another dtype or device, not finite,
// the largest or the smallest; one attribute at a time is out of range. The process must live, an
// error must be a tapegrad::Error, and operands must be unchanged.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <set>
#include <span>

#include "core/base/allocator.h"
#include "core/tape/recording.h"
#include "ops/reduce.h"
#include "tests/cases/op_families.h"
#include "tests/cases/operand.h"
#include "tests/make_variable.h"

namespace tapegrad::testing {
namespace {

constexpr int kKinds = 15;

/// Returns a tensor in place of x. The first kinds keep its shape.
Tensor hostile(const Tensor& x, int kind) {
  const Shape& shape = x.shape();
  const auto filled = [&](double value) { return Tensor::full(shape, value, f64).to(x.dtype()); };
  const auto view = [&](const Shape& shape, int64_t stride) {
    return Tensor::full({std::max<int64_t>(numel(shape), 1) * std::max(shape.rank(), 1)}, 1,
                        x.dtype())
        .with_layout({shape, Strides::filled(shape.rank(), stride), 0});
  };
  const bool is_whole = !is_float(x.dtype());
  switch (kind) {
    case 0:
      return filled(is_whole ? 0 : NAN);
    case 1:
      return filled(is_whole ? 1 : INFINITY);
    case 2:
      return x.dtype() == i64 ? Tensor::full(shape, INT64_MAX, i64)
                              : filled(is_whole ? 1 : std::numeric_limits<float>::max());
    case 3:
      return x.dtype() == i64 ? Tensor::full(shape, INT64_MIN, i64)
                              : filled(is_whole ? 0 : -std::numeric_limits<float>::max());
    case 4:
      return view(shape, 0);  // expanded
    case 5:
      return view(shape, 1);  // overlapping
    case 6:
      return x.to(f16);
    case 7:
      return x.to(i64);
    case 8:
      return x.to(boolean);
    case 9:
      return x.to(f64);
    case 10: {
      static double memory[4096];  // the host's memory under another device's name
      return numel(shape) > 4096
                 ? Tensor()
                 : Tensor::wrap(memory, shape, x.dtype(), {DeviceType::kPrivate1, 0});
    }
    case 11:
      return Tensor::full({}, 1, x.dtype());
    case 12: {
      Shape none = shape.rank() == 0 ? Shape{0} : shape;
      none[0] = 0;
      return Tensor::empty(none, x.dtype());
    }
    case 13:
      return Tensor::empty(Shape::filled(shape.rank(), 0), x.dtype());
    default: {  // huge
      Shape huge = shape.rank() == 0 ? Shape{1} : shape;
      huge[huge.rank() - 1] = int64_t(1) << 22;
      return Tensor::full({1}, 1, x.dtype())
          .with_layout({huge, Strides::filled(huge.rank(), 0), 0});
    }
  }
}

struct Call {
  const OpInfo& op;
  Arguments arguments;
  std::string what;
};

bool writes(const OpInfo& op) {
  return op.traits.inplace ||
         std::any_of(op.inputs.begin(), op.inputs.end(),
                     [](const auto& input) { return input.name.starts_with("running_"); });
}

/// Makes the call and takes gradients of its results. Returns whether it succeeded.
bool try_call(const Call& call) {
  SCOPED_TRACE(call.op.name + ": " + call.what);
  std::vector<Tensor> operands, before;
  for (const auto* list : {&call.arguments.inputs, &call.arguments.list})
    for (const Variable& x : *list)
      if (x.defined() && x.device() == cpu && x.numel() < 10'000) {
        operands.push_back(x.value());
        before.push_back(x.value().clone());
      }
  set_memory_limit(memory_stats().in_use + (32 << 20));
  bool succeeded = false;
  const auto start = std::chrono::steady_clock::now();
  try {
    const std::vector<Variable> ys = call.op.call(call.arguments);
    succeeded = true;
    // Of four million entries of unbind(), a pass each takes too long.
    for (const Variable& y : std::span(ys).first(std::min<size_t>(ys.size(), 100)))
      if (y.defined() && y.requires_grad()) sum(y).backward({.retain_graph = true});
  } catch (const Error&) {
  } catch (const std::exception& error) {
    ADD_FAILURE() << "not an error of the library: " << error.what();
  }
  set_memory_limit(-1);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  EXPECT_LT(seconds.count(), 5);
  for (size_t i = 0; i < operands.size(); ++i)
    EXPECT_TRUE((succeeded && writes(call.op)) || same_bits(operands[i], before[i]))
        << "operand " << i << " was changed";
  return succeeded;
}

/// Returns the operands of a row, of which one is replaced by `hostile` unless that is empty.
std::vector<Tensor> operands_of(const OpCase& row) {
  std::vector<Tensor> all;
  uint64_t seed = 1;
  for (const auto& input : row.inputs)
    all.push_back(input ? make_operand(*input, row.dtypes.front(), seed++) : Tensor());
  for (const Input& input : row.list)
    all.push_back(make_operand(input, row.dtypes.front(), seed++));
  return all;
}

Arguments arguments_of(const OpCase& row, const std::vector<Tensor>& operands, bool requires_grad) {
  Arguments arguments{.attributes = row.attributes};
  for (size_t i = 0; i < operands.size(); ++i) {
    Variable x = operands[i] ? Variable(operands[i]) : Variable();
    const bool is_leaf = requires_grad && x.defined() && is_float(x.dtype()) && x.device() == cpu &&
                         !catalog().find(row.op).traits.inplace;
    if (is_leaf) x.requires_grad_();
    (i < row.inputs.size() ? arguments.inputs : arguments.list).push_back(x);
  }
  return arguments;
}

template <typename Visit>
void for_each_op(const Visit& visit) {
  std::set<std::string> seen;
  for (const CaseFamily& family : case_families())
    for (const OpCase& row : family.cases)
      if (seen.insert(row.op).second) visit(row, catalog().find(row.op));
  EXPECT_GT(seen.size(), 250u);
}

TEST(HostileOps, T77_Operands) {
  int calls = 0, succeeded = 0;
  for_each_op([&](const OpCase& row, const OpInfo& op) {
    const std::vector<Tensor> whole = operands_of(row);
    for (size_t i = 0; i < whole.size(); ++i)
      for (int kind = 0; kind < kKinds && whole[i]; ++kind)
        for (const bool requires_grad : {false, true}) {
          std::vector<Tensor> operands = whole;
          operands[i] = hostile(whole[i], kind);
          // unbind() makes four million results of the huge operand.
          if (!operands[i] || (op.name == "unbind" && kind == kKinds - 1)) continue;
          ++calls;
          const bool success =
              try_call({op, arguments_of(row, operands, requires_grad),
                        "operand " + std::to_string(i) + " of kind " + std::to_string(kind)});
          succeeded += success;
          // These two ops combine only shapes.
          const bool any_device = op.name == "meshgrid" || op.name == "broadcast_tensors";
          EXPECT_FALSE(success && kind == 10 && whole.size() > 1 && !any_device)
              << op.name << ": operand " << i << " is on another device";
        }
  });
  EXPECT_GT(calls, 8000);
  EXPECT_GT(succeeded, calls / 3);
}

TEST(HostileOps, T77_Attributes) {
  const int64_t kWhole[] = {0,         -1,       1 << 20, int64_t(1) << 31, int64_t(1) << 62,
                            INT64_MAX, INT64_MIN};
  const double kReal[] = {0, -1, NAN, INFINITY, -INFINITY, 1e308, 5e-324};
  for_each_op([&](const OpCase& row, const OpInfo& op) {
    for (const AttributeInfo& attribute : op.attributes) {
      std::vector<Attribute> values;
      for (const int64_t value : kWhole) {
        if (attribute.type == "int" || attribute.type == "number") values.emplace_back(value);
        if (attribute.type == "ints") {
          values.emplace_back(std::vector<int64_t>{value});
          values.emplace_back(std::vector<int64_t>(2, value));
          values.emplace_back(std::vector<int64_t>(9, value));
        }
      }
      for (const double value : kReal)
        if (attribute.type == "float" || attribute.type == "number") values.emplace_back(value);
      if (attribute.type == "ints") values.emplace_back(std::vector<int64_t>());
      if (values.empty() && attribute.type != "bool")
        for (const char* word : {"", "no such word", "int64", "mean"}) values.emplace_back(word);
      for (size_t k = 0; k < values.size(); ++k) {
        Arguments arguments = arguments_of(row, operands_of(row), true);
        arguments.attributes[attribute.name] = values[k];
        if (row.before) arguments.inputs = row.before(std::move(arguments.inputs));
        try_call({op, arguments, attribute.name + ", value " + std::to_string(k)});
      }
    }
  });
}

}  // namespace
}  // namespace tapegrad::testing
