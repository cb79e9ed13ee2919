// Parses a case file of `tapegrad op` line by line and makes the inputs of each case without
// calling the op. The result must be an error of the library, or inputs inside of their tensors.
#include "tools/case_file.h"

#include <tapegrad/core/error.h>
#include <tapegrad/ops/create.h>

#include "tests/fuzz/file.h"
#include "tools/case_inputs.h"

using namespace tapegrad;

namespace {

const TensorMap& tensors() {
  static const TensorMap map = {{"x", arange(24, {.dtype = f32}).value()},
                                {"i", arange(6).value()},
                                {"e", zeros({0, 3}).value()}};
  return map;
}

/// Reads every element.
void read(const Variable& x) {
  if (!x.defined() || x.numel() > 10'000) return;
  const std::vector<double> values = x.to_vector<double>();
  for (double value : values)
    if (!(value >= 0 && value < 24)) fuzz::finding("an element of no tensor");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const fuzz::File file({data, size});
  std::vector<tools::CaseLine> lines;
  try {
    lines = tools::read_case_file(file.path());
  } catch (const Error&) {
    return 0;
  }
  for (const tools::CaseLine& line : lines) try {
      tools::expected_error(line);
      const tools::Case c = tools::parse_case(line);
      tools::InputMaker maker(tensors(), {});
      for (const Variable& x : maker.make(c).flat) read(x);
      for (const auto& seeds : {c.seeds, c.seeds2})
        for (const Variable& x : maker.make_seeds(seeds)) read(x);
    } catch (const Error&) {
    }
  return 0;
}
