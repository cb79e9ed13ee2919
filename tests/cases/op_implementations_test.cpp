// Implementations of one kernel (core/dispatch/implementations.h) have the same results.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "core/dispatch/dispatch_log.h"
#include "core/dispatch/implementations.h"
#include "ops/conv.h"
#include "ops/create.h"
#include "tests/cases/op_case_run.h"
#include "tests/cases/op_families.h"

namespace tapegrad::testing {
namespace {

/// Parts of the name of an implementation, "cpu/float32/conv2d:dnnl".
struct ImplementationName {
  explicit ImplementationName(const std::string& text)
      : slot(text.substr(0, text.find(':'))),
        kernel(slot.substr(slot.rfind('/') + 1)),
        name(text.substr(text.find(':') + 1)) {}
  std::string slot, kernel, name;
};

/// Returns the implementations of all kernels that the case runs and that have several.
std::vector<std::string> implementations_for(const Case& c, const std::vector<Tensor>& operands) {
  const OnlyImplementation any("none", "");  // restricts no kernel, TAPEGRAD_FAST_PATHS or not
  const DispatchLog log;
  run(c, operands);
  std::vector<std::string> slots, found;
  for (const std::string& entry : log.kernels())
    if (entry.find(':') != entry.npos) slots.push_back(ImplementationName(entry).slot);
  for (const std::string& text : implementations())
    if (std::ranges::find(slots, ImplementationName(text).slot) != slots.end())
      found.push_back(text);
  return found;
}

/// Returns whether convolutions of bfloat16 have packed results. With AMX, oneDNN computes them
/// with the channels last.
bool packs_bfloat16() {
  const Variable x = ones({1, 32, 4, 4}, bf16), weight = ones({32, 32, 3, 3}, bf16);
  return conv2d(x, weight, {}, {.padding = 1}).value().storage().is_packed();
}

TEST(CaseTable, EveryImplementationHasACase) {
  std::set<std::string> done;
  for (const CaseFamily& family : case_families())
    for (const OpCase& row : family.cases) {
      const Case c(row);
      for (DType dtype : row.dtypes) try {
          const std::vector<Tensor> operands = c.operands(dtype);
          for (const std::string& text : implementations_for(c, operands)) {
            if (done.contains(text)) continue;
            const ImplementationName implementation(text);
            const OnlyImplementation only(implementation.kernel, implementation.name);
            const DispatchLog log;
            run(c, operands);
            for (const std::string& ran : log.kernels()) done.insert(ran);
          }
        } catch (const KernelError& error) {
          EXPECT_TRUE(is_missing(error)) << error.what();
        }
    }
  // cuDNN accepts larger operands than those of the table; attention_cudnn_test,
  // images_cudnn_test and channels_last_test of tests/cuda_on_host compare it with our own kernels.
  const std::string device(name(default_device().type));
  const bool packs = packs_bfloat16();
  const auto needs_packed = [](const std::string& text) {
    return text.starts_with("cpu/bfloat16/") &&
           (text.ends_with(":packed") || text.ends_with("/pad:by_parts"));
  };
  for (const std::string& text : implementations())
    if (text.starts_with(device + '/') && text.find(":cudnn") == text.npos &&
        (packs || !needs_packed(text))) {
      EXPECT_TRUE(done.contains(text)) << text << " runs in no case";
    }
}

}  // namespace

void test_implementations(const Case& c) {
  for (DType dtype : c.row().dtypes) {
    const std::vector<Tensor> operands = c.operands(dtype);
    for (const std::string& text : implementations_for(c, operands)) {
      SCOPED_TRACE(std::string(name(dtype)) + ", " + text);
      const ImplementationName implementation(text);
      const auto run_only = [&](std::string_view name) {
        const OnlyImplementation only(implementation.kernel, name);
        return run(c, operands);
      };
      const Results got = run_only(implementation.name), expected = run_only("");
      expect_same(c, got.values, expected.values, "value");
      expect_same(c, got.gradients, expected.gradients, "gradient");
    }
  }
}

}  // namespace tapegrad::testing
