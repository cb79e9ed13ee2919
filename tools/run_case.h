// One case from its line to its results: the op called as users call it, its gradients, its errors.
#pragma once

#include <functional>

#include "tools/case_inputs.h"

namespace tapegrad::tools {

/// The outputs of a case and the gradients that it asks for.
struct Derivatives {
  std::vector<Variable> outputs;
  std::vector<Variable> first;   // by flattened input; empty where not asked for or undefined
  std::vector<Variable> second;  // the same, of the second order
  std::vector<Variable> second_of_seeds;
};

/// Calls the op. Order 1: the gradients of L1 = sum over k of <seeds[k], floating output k>.
/// Order 2: those of L2 = sum over i of <seeds2[i], first[i]>, i over the inputs that want a
/// gradient, in the inputs and in the seeds. ArgumentError or ShapeError for seeds that do not fit.
Derivatives differentiate(const Case& c, const CaseInputs& inputs,
                          const std::vector<Variable>& seeds, const std::vector<Variable>& seeds2,
                          int order);

/// The order to which a case is run: its own, at most that of the command line; without one of its
/// own, that of the command line, or `standard`.
int order_of(const Case& c, std::optional<int> limit, int standard);

/// What became of a case: its line in the status file.
struct Outcome {
  std::string id;
  /// ok, error, unsupported, crash, timeout; of gradcheck also mismatch and skipped.
  std::string status = "ok";
  std::string kind = {};  // of the error: shape, say
  std::string message = {};
  double ms = 0;
  std::vector<std::string> kernels = {};
  nlohmann::ordered_json out = nlohmann::ordered_json::array();  // dtype and shape of each output
  std::vector<int64_t> null_grads = {};  // flattened inputs whose gradient is undefined
};
nlohmann::ordered_json to_json(const Outcome& outcome);
/// On one line. A message that is not UTF-8, cut by an op in the middle of a character, is mended.
std::string to_line(const nlohmann::ordered_json& object);

/// Runs `body` for a case, and turns what it throws into status, kind and message.
void guard(Outcome& outcome, const std::function<void()>& body);

/// Whether the case ended as it says. An expected "argument" is met by what is one: by shape, dtype
/// and index errors too.
bool is_as_expected(const CaseLine& line, const Outcome& outcome);

/// Runs the case; its results go to `results` under <id>/out/0, <id>/g1/0, ...
Outcome run_case(const CaseLine& line, const TensorMap& tensors, Device device,
                 std::optional<int> order, TensorMap& results);

}  // namespace tapegrad::tools
