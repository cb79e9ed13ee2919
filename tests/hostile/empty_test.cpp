// T72: an empty Variable or Tensor, as grad() gives before a backward pass, is an ArgumentError
// wherever a value is wanted. Generated from the case table, which has a row for each op of the
// catalog.
#include <set>

#include "core/tape/view.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/unary.h"
#include "tests/cases/op_families.h"
#include "tests/cases/operand.h"
#include "tests/make_variable.h"

namespace tapegrad::testing {
namespace {

Arguments arguments_of(const OpCase& row, bool requires_grad) {
  Arguments arguments{.attributes = row.attributes};
  uint64_t seed = 1;
  const auto value = [&](const Input& input) {
    Variable x(make_operand(input, row.dtypes.front(), seed++));
    return requires_grad && is_float(x.dtype()) ? clone(x.requires_grad_()) : x;
  };
  for (const auto& input : row.inputs)
    arguments.inputs.push_back(input ? value(*input) : Variable());
  for (const Input& input : row.list) arguments.list.push_back(value(input));
  if (row.before) arguments.inputs = row.before(std::move(arguments.inputs));
  return arguments;
}

TEST(HostileEmpty, T72_EveryOperandOfEveryOp) {
  std::set<std::string> seen;
  int errors = 0;
  for (const CaseFamily& family : case_families())
    for (const OpCase& row : family.cases) {
      if (!seen.insert(row.op).second) continue;
      const OpInfo& op = catalog().find(row.op);
      for (const bool requires_grad : {false, true}) {
        const Arguments whole = arguments_of(row, requires_grad);
        const auto try_call = [&](Arguments arguments, const InputInfo& input) {
          SCOPED_TRACE(row.op + ": " + input.name + " is empty");
          try {
            op.call(std::move(arguments));
            // Of the parameters of recurrent ops the biases may be left out.
            EXPECT_TRUE(input.optional || input.name == "params");
          } catch (const Error& error) {
            EXPECT_TRUE(dynamic_cast<const ArgumentError*>(&error)) << error.what();
            ++errors;
          }
        };
        for (size_t i = 0; i < op.inputs.size(); ++i) {
          if (op.inputs[i].list) continue;
          Arguments arguments = whole;
          if (i < arguments.inputs.size()) {
            arguments.inputs[i] = Variable();
            try_call(arguments, op.inputs[i]);
          }
        }
        for (size_t i = 0; i < whole.list.size(); ++i) {
          Arguments arguments = whole;
          arguments.list[i] = Variable();
          try_call(arguments, op.inputs.back());
        }
      }
    }
  EXPECT_GT(seen.size(), 250u);
  EXPECT_GT(errors, 500);
}

TEST(HostileEmpty, T72_MethodsOfVariable) {
  const Variable none;
  const auto expect = [](const char* what, const auto& call) {
    SCOPED_TRACE(what);
    EXPECT_THROW(call(), ArgumentError);
  };
  const Variable w = leaf({1, 2});
  expect("clone of a gradient", [&] { clone(w.grad()); });
  expect("value", [&] { none.value(); });
  expect("shape", [&] { none.shape(); });
  expect("size", [&] { none.size(0); });
  expect("rank", [&] { none.rank(); });
  expect("numel", [&] { none.numel(); });
  expect("dtype", [&] { none.dtype(); });
  expect("device", [&] { none.device(); });
  expect("item", [&] { none.item(); });
  expect("to_vector", [&] { none.to_vector<double>(); });
  expect("to a device", [&] { none.to(cpu); });
  expect("to a dtype", [&] { none.to(f32); });
  expect("cpu", [&] { none.cpu(); });
  expect("requires_grad_", [&] { Variable().requires_grad_(); });
  expect("requires_grad_(false)", [&] { Variable().requires_grad_(false); });
  expect("retain_grad", [&] { none.retain_grad(); });
  expect("register_hook", [&] { none.register_hook([](const Variable&) { return Variable(); }); });
  expect("register_post_accumulate_grad_hook",
         [&] { none.register_post_accumulate_grad_hook([](const Variable&) {}); });
  expect("detach", [&] { none.detach(); });
  expect("base", [&] { none.base(); });
  expect("rebind", [&] { none.rebind(Tensor::full({}, 1, f32)); });
  expect("rebind to nothing", [&] { w.rebind(Tensor()); });
  expect("|", [&] { none | cpu; });
  expect("sum of operands", [&] { w + none; });
  expect("sum with a number", [&] { none + 1; });
  expect("in place", [&] {
    Variable x = make({1});
    x += none;
  });
  expect("in place into nothing", [&] {
    Variable x;
    x += w;
  });
  expect("where", [&] { where(none, w, w); });
  EXPECT_THROW(none.backward(), Error);
  EXPECT_THROW(grad(none, w), Error);
  EXPECT_THROW(grad(exp(w), none), Error);
  EXPECT_FALSE(none.requires_grad() || none.grad().defined());
  EXPECT_TRUE(none.is_leaf());
  none.zero_grad();
}

TEST(HostileEmpty, T72_MethodsOfTensor) {
  const Tensor none;
  const auto expect = [](const char* what, const auto& call) {
    SCOPED_TRACE(what);
    EXPECT_THROW(call(), ArgumentError);
  };
  expect("clone", [&] { none.clone(); });
  expect("to a dtype", [&] { none.to(f64); });
  expect("to a device", [&] { none.to(Device{DeviceType::kPrivate1, 0}); });
  expect("device", [&] { none.device(); });
  expect("storage", [&] { none.storage(); });
  expect("data", [&] { none.data<float>(); });
  expect("item", [&] { none.item(); });
  expect("number", [&] { none.number(); });
  expect("empty_like", [&] { none.empty_like({2}); });
  expect("empty_like()", [&] { none.empty_like(); });
  EXPECT_FALSE(none.contiguous());
}

}  // namespace
}  // namespace tapegrad::testing
