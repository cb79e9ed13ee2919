// Runs one case: parses its line, calls the op through the public interface, computes gradients and
// catches errors.
#pragma once

#include <functional>

#include "tools/case_inputs.h"

namespace tapegrad::tools {

/// Outputs of a case, and the gradients that it requests.
struct Derivatives {
  std::vector<Variable> outputs;
  std::vector<Variable> first;   // per flattened input; empty if not requested or undefined
  std::vector<Variable> second;  // second-order gradients, per flattened input
  std::vector<Variable> second_of_seeds;
};

/// Calls the op. Order 1 computes the gradients of L1 = sum over k of <seeds[k], floating output
/// k>. Order 2 computes the gradients of L2 = sum over i of <seeds2[i], first[i]>, where i runs
/// over the inputs that request a gradient, with respect to the inputs and the seeds. Throws
/// ArgumentError or ShapeError for seeds that do not fit.
Derivatives differentiate(const Case& c, const CaseInputs& inputs,
                          const std::vector<Variable>& seeds, const std::vector<Variable>& seeds2,
                          int order);

/// Returns the order of derivatives of a case: its own order, limited by that of the command line;
/// for a case without an order, that of the command line, or `standard`.
int order_of(const Case& c, std::optional<int> limit, int standard);

/// Result of a case: its line in the status file.
struct Outcome {
  std::string id;
  /// ok, error, unsupported, crash or timeout; for gradcheck also mismatch and skipped.
  std::string status = "ok";
  std::string kind = {};  // of the error, for example "shape"
  std::string message = {};
  double ms = 0;
  std::vector<std::string> kernels = {};
  nlohmann::ordered_json out = nlohmann::ordered_json::array();  // dtype and shape of each output
  std::vector<int64_t> null_grads = {};  // flattened inputs whose gradient is undefined
};
nlohmann::ordered_json to_json(const Outcome& outcome);
/// Formats a JSON object on one line. Repairs a message that is not valid UTF-8 because an op has
/// cut it inside a character.
std::string to_line(const nlohmann::ordered_json& object);

/// Runs `body` and converts an exception to status, kind and message.
void guard(Outcome& outcome, const std::function<void()>& body);

/// Returns whether the case ended as expected. "argument" also accepts shape, dtype and index
/// errors.
bool is_as_expected(const CaseLine& line, const Outcome& outcome);

/// Runs the case and stores its results in `results` under <id>/out/0, <id>/g1/0, ...
Outcome run_case(const CaseLine& line, const TensorMap& tensors, Device device,
                 std::optional<int> order, TensorMap& results);

}  // namespace tapegrad::tools
