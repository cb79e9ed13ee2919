#include "tests/torch_oracle/modules/recorder.h"

#include "ops/binary.h"
#include "ops/random.h"

namespace tapegrad::torch_oracle {

Variable Recorder::leaf(const Variable& values) const {
  return Variable(values.value().to(dtype_)).requires_grad_();
}

Variable Recorder::normal(const Shape& shape) {
  return leaf(randn(shape, {.dtype = f64}, generator_));
}
Variable Recorder::positive(const Shape& shape) {
  return leaf(2 * rand(shape, {.dtype = f64}, generator_) + 0.2);
}
Variable Recorder::unit(const Shape& shape) {
  return leaf(0.9 * rand(shape, {.dtype = f64}, generator_) + 0.05);
}
Variable Recorder::sign(const Shape& shape) {
  return (2 * randint(0, 2, shape, {}, generator_) - 1).to(dtype_);
}
Variable Recorder::ids(int64_t low, int64_t high, const Shape& shape) {
  return randint(low, high, shape, {}, generator_);
}

/// Gives every parameter and buffer different values; a bias of 0 would hide a mistake.
void Recorder::fill(const nn::Module& module) {
  module.to(dtype_);
  for (const auto& [name, parameter] : module.named_parameters())
    parameter.rebind(
        (0.5 * randn(parameter.shape(), {.dtype = f64}, generator_)).value().to(dtype_));
  for (const auto& [name, buffer] : module.named_buffers())
    if (is_float(buffer.dtype())) buffer.rebind(positive(buffer.shape()).value());
  module.requires_grad_();
}

void Recorder::operator()(const std::string& torch, const nn::Module& module, const Variable& x) {
  compare(torch, "m(*x)", module, {x},
          [&] { return Variables{module.copy()->call(x, Where::current())}; });
}

void Recorder::compare(const std::string& torch, const std::string& call, const nn::Module& module,
                       const Variables& x, const std::function<Variables()>& forward) {
  try {
    run(torch, call, module, x, forward);
  } catch (const Error& error) {
    lines_.push_back({{"torch", torch},
                      {"training", module.is_training()},
                      {"dtype", name(dtype_)},
                      {"error", error.what()}});
  }
}

void Recorder::run(const std::string& torch, const std::string& call, const nn::Module& module,
                   const Variables& x, const std::function<Variables()>& forward) {
  fill(module);
  const std::string id = std::to_string(lines_.size()) + '/';
  nlohmann::json line = {{"torch", torch},
                         {"call", call},
                         {"training", module.is_training()},
                         {"dtype", name(dtype_)},
                         {"wants_gradient", nlohmann::json::array()}};
  const auto store = [&](const std::string& key, const Variable& value) {
    if (value.defined()) tensors_[id + key] = value.value().clone();
  };
  Variables leaves;
  std::vector<std::string> gradients;
  for (const auto& [name, value] : module.state_dict())
    tensors_[id + "state/" + name] = value.clone();
  for (const auto& [name, parameter] : module.named_parameters()) {
    leaves.push_back(parameter);
    gradients.push_back("gradient/of/" + name);
  }
  for (size_t i = 0; i < x.size(); ++i) {
    store("x/" + std::to_string(i), x[i]);
    line["wants_gradient"].push_back(x[i].requires_grad());
    if (!x[i].requires_grad()) continue;
    leaves.push_back(x[i]);
    gradients.push_back("gradient/" + std::to_string(i));
  }

  Variables ys, seeds;
  size_t count = 0;
  for (const Variable& y : forward()) {
    const std::string number = std::to_string(count++);
    store("y/" + number, y);
    if (!y.requires_grad()) continue;
    ys.push_back(y);
    seeds.push_back(normal(y.shape()).detach());
    store("seed/" + number, seeds.back());
  }
  for (const auto& [name, buffer] : module.named_buffers()) store("after/" + name, buffer);
  Variables found, firsts, weights;
  try {
    found = grad(ys, leaves, seeds, {.create_graph = true, .allow_unused = true});
  } catch (const AutogradError&) {
    line["once"] = true;
    found = grad(ys, leaves, seeds, {.allow_unused = true});
  }
  for (size_t i = 0; i < leaves.size(); ++i) {
    store(gradients[i], found[i]);
    if (!found[i].defined() || !found[i].requires_grad()) continue;
    firsts.push_back(found[i]);
    weights.push_back(normal(found[i].shape()).detach());
    store("weight/" + gradients[i], weights.back());
  }
  if (!firsts.empty()) {
    const Variables seconds = grad(firsts, leaves, weights, {.allow_unused = true});
    for (size_t i = 0; i < leaves.size(); ++i) store("second/" + gradients[i], seconds[i]);
  }
  lines_.push_back(std::move(line));
}

}  // namespace tapegrad::torch_oracle
