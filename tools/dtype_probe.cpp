#include "tools/dtype_probe.h"

#include <algorithm>
#include <exception>
#include <functional>
#include <optional>

#include <tapegrad/core/error.h>
#include <tapegrad/core/recording.h>

namespace tapegrad::tools {
namespace {

/// Limit of calls per op. If it is reached, the catalog row should give an `.example`.
constexpr int kMaxCalls = 30'000;

/// Shape and dtype of a guessed input; nullopt stands for the dtype that is probed.
struct ProbeInput {
  Shape shape;
  std::optional<DType> fixed = {};
};

struct Guess {
  std::vector<std::optional<ProbeInput>> inputs;  // a list gets two elements
  Attributes attributes;
  bool only_ones = false;
};

/// Returns a tensor with 2 on the diagonal and 1 elsewhere: invertible, positive definite, and a
/// valid index into a dimension of size 3.
Variable make_operand(const ProbeInput& operand, DType asked, const Guess& guess, Device device) {
  std::vector<double> values(size_t(numel(operand.shape)), 1.0);
  for (size_t i = 0; i < values.size() && !guess.only_ones; ++i)
    if (i / 3 % 3 == i % 3) values[i] = 2;
  return Variable(
      Tensor::from<double>(values, operand.shape).to(operand.fixed.value_or(asked)).to(device));
}

Arguments make_arguments(const OpInfo& op, const Guess& guess, DType asked, Device device) {
  Arguments arguments{.attributes = guess.attributes};
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const auto make = [&] {
      return guess.inputs[i] ? make_operand(*guess.inputs[i], asked, guess, device) : Variable();
    };
    if (op.inputs[i].list)
      arguments.list = {make(), make()};
    else
      arguments.inputs.push_back(make());
  }
  if (op.inputs.empty())
    for (const AttributeInfo& info : op.attributes)
      if (info.type == "dtype") arguments.attributes[info.name] = std::string(name(asked));
  return arguments;
}

bool runs(const OpInfo& op, const Arguments& arguments) {
  try {
    op.call(arguments);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

/// Calls visit() for each combination of choices, in order, until it returns true.
bool search(const std::vector<std::vector<std::function<void()>>>& places,
            const std::function<bool()>& visit, size_t at = 0) {
  if (at == places.size()) return visit();
  for (const auto& choose : places[at]) {
    choose();
    if (search(places, visit, at + 1)) return true;
  }
  return false;
}

std::vector<ProbeInput> operands() {
  std::vector<ProbeInput> all;
  for (std::optional<DType> fixed :
       {std::optional<DType>(), std::optional(i64), std::optional(boolean)})
    for (const Shape& shape :
         {Shape{3, 3}, Shape{3}, Shape{3, 3, 3}, Shape{3, 3, 3, 3}, Shape{3, 3, 3, 3, 3}, Shape{}})
      all.push_back({shape, fixed});
  return all;
}

std::vector<Attribute> values_of(const AttributeInfo& info) {
  using Ints = std::vector<int64_t>;
  if (info.type == "bool") return {true, false};
  if (info.type == "int") return {int64_t(1), int64_t(0), int64_t(3)};
  if (info.type == "ints")
    return {Ints{1}, Ints{3}, Ints{0}, Ints{3, 3}, Ints{1, 0}, Ints{3, 1}, Ints{3, 3, 3}};
  if (info.type == "dtype") return {std::string("float32")};
  if (info.type == "str") return {};
  return {1.0};
}

/// Returns the first arguments that the op accepts with dtype `asked`. A higher effort passes more
/// of the optional arguments: 1 the optional inputs, 2 also each attribute in turn.
std::optional<Guess> find_guess(const OpInfo& op, DType asked, Device device, int effort,
                                bool only_ones) {
  Guess guess;
  guess.only_ones = only_ones;
  guess.inputs.resize(op.inputs.size());
  std::vector<std::vector<std::function<void()>>> places;
  for (const AttributeInfo& info : op.attributes) {
    if (!info.required) continue;
    places.emplace_back();
    for (const Attribute& value : values_of(info))
      places.back().push_back([&, value] { guess.attributes[info.name] = value; });
  }
  if (effort == 2) {
    places.emplace_back();
    for (const AttributeInfo& info : op.attributes) {
      if (!std::holds_alternative<std::monostate>(info.standard) || info.required) continue;
      for (const Attribute& value : values_of(info))
        places.back().push_back([&, value] {
          for (const AttributeInfo& other : op.attributes)
            if (!other.required) guess.attributes.erase(other.name);
          guess.attributes[info.name] = value;
        });
    }
  }
  bool optional_given = false;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (op.inputs[i].optional && (effort == 0 || optional_given)) continue;
    optional_given = op.inputs[i].optional;
    places.emplace_back();
    for (const ProbeInput& operand : operands())
      places.back().push_back([&, i, operand] {
        guess.inputs[i] = operand;
        for (size_t k = i + 1; op.inputs[i].optional && k < op.inputs.size(); ++k)
          guess.inputs[k] = operand;  // all optional inputs get the same operand
      });
  }
  int calls = 0;
  const bool found = search(places, [&] {
    const bool has_choice =
        op.inputs.empty() || std::any_of(guess.inputs.begin(), guess.inputs.end(),
                                         [](const auto& x) { return x && !x->fixed; });
    if (!has_choice) return false;
    return ++calls > kMaxCalls || runs(op, make_arguments(op, guess, asked, device));
  });
  if (!found || calls > kMaxCalls) return {};
  return guess;
}

std::optional<Guess> find_guess(const OpInfo& op, Device device) {
  for (int effort : {0, 1, 2})
    for (bool only_ones : {false, true})
      for (DType asked : {f32, i64, boolean})
        if (auto guess = find_guess(op, asked, device, effort, only_ones)) return guess;
  return {};
}

}  // namespace

std::vector<DType> find_dtypes(const OpInfo& op, Device device) {
  const NoGrad off;
  std::vector<DType> dtypes;
  std::optional<Guess> guess;
  if (op.traits.example == nullptr && !(guess = find_guess(op, device))) return dtypes;
  for (int i = 0; i < kDTypeCount; ++i) {
    const DType dtype = DType(i);
    Arguments arguments =
        op.traits.example ? op.traits.example(dtype) : make_arguments(op, *guess, dtype, device);
    for (auto* list : {&arguments.inputs, &arguments.list})
      for (Variable& x : *list)
        if (x.defined()) x = x.to(device);
    if (runs(op, arguments)) dtypes.push_back(dtype);
  }
  return dtypes;
}

}  // namespace tapegrad::tools
