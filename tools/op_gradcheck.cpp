// tapegrad op gradcheck: compares the derivatives of the cases with central differences.
#include <algorithm>
#include <chrono>
#include <iostream>

#include <tapegrad/core/error.h>
#include <tapegrad/core/generator.h>
#include <tapegrad/core/gradcheck.h>
#include <tapegrad/core/view.h>

#include "tools/commands.h"
#include "tools/run_case.h"
#include "tools/selection.h"

namespace tapegrad::tools {
namespace {

using Variables = std::vector<Variable>;

/// Returns the op as a function of the flattened inputs. The function does not change its inputs.
GradcheckFunction function_of(const Case& c, const CaseInputs& inputs) {
  return [&c, &inputs](const Variables& flat) {
    Arguments arguments{.attributes = inputs.arguments.attributes};
    size_t at = 0;
    for (size_t i = 0; i < c.inputs.size(); ++i) {
      const InputInfo& info = c.op->inputs[i];
      const bool is_written = (c.op->traits.inplace && i == 0) || info.name.starts_with("running_");
      auto& into = info.list ? arguments.list : arguments.inputs;
      for (size_t k = 0; k < c.inputs[i].size(); ++k, ++at)
        into.push_back(is_written && flat[at].defined() ? clone(flat[at]) : flat[at]);
    }
    manual_seed(c.rng_seed);
    return c.op->call(std::move(arguments));
  };
}

void check(const CaseLine& line, const Selection& selection, Device device,
           const OpOptions& options, Outcome& outcome) {
  expected_error(line);
  const Case c = parse_case(line);
  InputMaker maker(selection.tensors, {.device = device, .for_gradcheck = true});
  const CaseInputs inputs = maker.make(c);
  const GradcheckFunction f = function_of(c, inputs);
  if (inputs.leaves().empty()) {
    f(inputs.flat);  // may throw an error that the case expects
    outcome.status = "skipped";
    outcome.message = "no input has grad";
    return;
  }
  const int order = std::max(1, order_of(c, options.order, 1));
  const GradcheckResult result = gradcheck_outputs(f, inputs.flat, {.order = order});
  if (result) return;
  outcome.status = "mismatch";
  outcome.kind = "gradcheck";
  outcome.message = result.message;
}

}  // namespace

ExitStatus gradcheck_cases(const OpOptions& options) {
  using Clock = std::chrono::steady_clock;
  if (options.order == 0) fail<UsageError>("--order: gradcheck knows 1 and 2");
  const Device device = parse_device(options.device);
  const Selection selection = select_cases(options);
  Tally tally;
  for (const CaseLine& line : selection.cases) {
    Outcome outcome{.id = line.id};
    const Clock::time_point start = Clock::now();
    guard(outcome, [&] { check(line, selection, device, options, outcome); });
    outcome.ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
    std::cout << to_line({{"id", outcome.id},
                          {"status", outcome.status},
                          {"kind", outcome.kind},
                          {"message", outcome.message},
                          {"ms", outcome.ms}})
              << std::endl;
    tally.add(line, outcome);
  }
  return tally.finish();
}

}  // namespace tapegrad::tools
