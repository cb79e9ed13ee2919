#include "tools/run_case.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <set>

#include <tapegrad/core/dispatch_log.h>
#include <tapegrad/core/error.h>
#include <tapegrad/core/generator.h>

namespace tapegrad::tools {
namespace {

using Variables = std::vector<Variable>;

void check_seed(std::string_view what, size_t k, const Variable& seed, const Variable& y) {
  if (seed.shape() != y.shape())
    fail<ShapeError>(what, ": seed ", k, " has shape ", seed.shape(), ", not ", y.shape());
  if (seed.dtype() != y.dtype())
    fail<DTypeError>(what, ": seed ", k, " is ", seed.dtype(), ", not ", y.dtype());
}

/// Returns gradients of the sum of <seeds, ys> with respect to xs, without the ys that have no
/// history.
Variables gradients(const Variables& ys, const Variables& seeds, const Variables& xs,
                    bool create_graph) {
  Variables roots, root_seeds;
  for (size_t k = 0; k < ys.size(); ++k) {
    if (!ys[k].defined() || !ys[k].requires_grad()) continue;
    roots.push_back(ys[k]);
    root_seeds.push_back(seeds[k]);
  }
  if (roots.empty()) return Variables(xs.size());
  return grad(roots, xs, root_seeds, {.create_graph = create_graph, .allow_unused = true});
}

/// For each flattened input, returns the gradient of the leaf at its position.
Variables by_position(const CaseInputs& inputs, const Variables& leaves, const Variables& values) {
  Variables result(inputs.flat.size());
  for (size_t i = 0; i < result.size(); ++i)
    for (size_t k = 0; k < leaves.size(); ++k)
      if (inputs.wants_gradient[i] && leaves[k].is_same(inputs.flat[i])) result[i] = values[k];
  return result;
}

void store(TensorMap& results, const std::string& prefix, const Variables& values) {
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i].defined())
      results[prefix + std::to_string(i)] = values[i].value().to(cpu).contiguous();
}

}  // namespace

Derivatives differentiate(const Case& c, const CaseInputs& inputs, const Variables& seeds,
                          const Variables& seeds2, int order) {
  Derivatives result;
  result.outputs = c.op->call(inputs.arguments);
  if (order == 0) return result;

  Variables ys;
  for (const Variable& y : result.outputs)
    if (y.defined() && is_float(y.dtype())) ys.push_back(y);
  if (seeds.size() != ys.size())
    fail<ArgumentError>("seeds: ", seeds.size(), " given for ", ys.size(), " floating outputs");
  for (size_t k = 0; k < ys.size(); ++k) check_seed("seeds", k, seeds[k], ys[k]);
  const Variables leaves = inputs.leaves();
  if (order == 2)
    for (Variable seed : seeds) seed.requires_grad_();
  result.first = by_position(inputs, leaves, gradients(ys, seeds, leaves, order == 2));
  if (order == 1) return result;

  Variables firsts;
  for (size_t i = 0; i < inputs.flat.size(); ++i) {
    if (!inputs.wants_gradient[i]) continue;
    if (firsts.size() < seeds2.size())
      check_seed("seeds2", firsts.size(), seeds2[firsts.size()], inputs.flat[i]);
    firsts.push_back(result.first[i]);
  }
  if (seeds2.size() != firsts.size())
    fail<ArgumentError>("seeds2: ", seeds2.size(), " given for ", firsts.size(),
                        " inputs with grad");
  Variables varied = leaves;
  varied.insert(varied.end(), seeds.begin(), seeds.end());
  const Variables second = gradients(firsts, seeds2, varied, false);
  const auto of_seeds = second.begin() + std::ptrdiff_t(leaves.size());
  result.second = by_position(inputs, leaves, {second.begin(), of_seeds});
  result.second_of_seeds.assign(of_seeds, second.end());
  return result;
}

int order_of(const Case& c, std::optional<int> limit, int standard) {
  if (!c.order) return limit.value_or(standard);
  return limit ? std::min(*c.order, *limit) : *c.order;
}

nlohmann::ordered_json to_json(const Outcome& outcome) {
  return {{"id", outcome.id},     {"status", outcome.status},
          {"kind", outcome.kind}, {"message", outcome.message},
          {"ms", outcome.ms},     {"kernels", outcome.kernels},
          {"out", outcome.out},   {"null_grads", outcome.null_grads}};
}

std::string to_line(const nlohmann::ordered_json& object) {
  return object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

void guard(Outcome& outcome, const std::function<void()>& body) {
  const auto failed = [&](const char* kind, const std::exception& error) {
    outcome.status = "error";
    outcome.kind = kind;
    const auto* ours = dynamic_cast<const Error*>(&error);  // omit the place, which is in this tool
    outcome.message = ours != nullptr ? ours->message() : error.what();
  };
  try {
    body();
  } catch (const ShapeError& error) {
    failed("shape", error);
  } catch (const IndexError& error) {
    failed("index", error);
  } catch (const DTypeError& error) {
    failed("dtype", error);
  } catch (const ArgumentError& error) {
    failed("argument", error);
  } catch (const DeviceError& error) {
    failed("device", error);
  } catch (const AutogradError& error) {
    failed("autograd", error);
  } catch (const KernelError& error) {
    failed("kernel", error);
  } catch (const OutOfMemory& error) {
    failed("out_of_memory", error);
  } catch (const std::bad_alloc& error) {
    failed("out_of_memory", error);
  } catch (const std::exception& error) {
    failed("other", error);
  }
  if (outcome.kind == "kernel") outcome.status = "unsupported";
}

bool is_as_expected(const CaseLine& line, const Outcome& outcome) {
  std::string expected;
  try {
    expected = expected_error(line);
  } catch (const ArgumentError&) {
    return false;
  }
  if (expected.empty()) return outcome.status == "ok" || outcome.status == "skipped";
  if (outcome.status != "error" && outcome.status != "unsupported") return false;
  const bool is_argument = std::set<std::string>{"shape", "dtype", "index"}.contains(outcome.kind);
  return outcome.kind == expected || (expected == "argument" && is_argument);
}

Outcome run_case(const CaseLine& line, const TensorMap& tensors, Device device,
                 std::optional<int> order, TensorMap& results) {
  using Clock = std::chrono::steady_clock;
  Outcome outcome{.id = line.id};
  guard(outcome, [&] {
    expected_error(line);  // throws if the line is invalid, as an error of the case
    const Case c = parse_case(line);
    InputMaker maker(tensors, {.device = device});
    const CaseInputs inputs = maker.make(c);
    const int to_order = order_of(c, order, 0);
    InputMaker seed_maker(tensors, {.device = device});  // makes copies that no op writes to
    const Variables seeds = seed_maker.make_seeds(c.seeds);
    const Variables seeds2 = seed_maker.make_seeds(c.seeds2);
    manual_seed(c.rng_seed);

    const DispatchLog log;
    const Clock::time_point start = Clock::now();
    Derivatives derivatives;
    const auto finish = [&] {
      outcome.ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
      outcome.kernels = log.kernels();
    };
    try {
      derivatives = differentiate(c, inputs, seeds, seeds2, to_order);
    } catch (...) {
      finish();
      throw;
    }
    finish();

    for (const Variable& y : derivatives.outputs)
      outcome.out.push_back({{"dtype", name(y.dtype())},
                             {"shape", std::vector<int64_t>(y.shape().begin(), y.shape().end())}});
    for (size_t i = 0; to_order > 0 && i < inputs.flat.size(); ++i)
      if (inputs.wants_gradient[i] && !derivatives.first[i].defined())
        outcome.null_grads.push_back(int64_t(i));
    store(results, line.id + "/out/", derivatives.outputs);
    store(results, line.id + "/g1/", derivatives.first);
    store(results, line.id + "/g2/", derivatives.second);
    store(results, line.id + "/g2/seed/", derivatives.second_of_seeds);
  });
  return outcome;
}

}  // namespace tapegrad::tools
