#include "tests/fuzz/call.h"

#include <algorithm>
#include <limits>
#include <sstream>

#include "tests/cases/op_families.h"

namespace tapegrad::fuzz {
namespace {

using testing::Input;
using testing::OpCase;

/// Limit of operand sizes; larger operands take longer and find no more.
constexpr int64_t kMostElements = 20'000;

constexpr int64_t kSizes[] = {0, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33, 65};
constexpr int64_t kIntegers[] = {0,
                                 1,
                                 2,
                                 3,
                                 4,
                                 5,
                                 7,
                                 8,
                                 16,
                                 -1,
                                 -2,
                                 -3,
                                 -5,
                                 31,
                                 64,
                                 100,
                                 1 << 20,
                                 int64_t(1) << 31,
                                 int64_t(1) << 62,
                                 std::numeric_limits<int64_t>::max(),
                                 std::numeric_limits<int64_t>::min()};
constexpr double kReals[] = {0,
                             1,
                             -1,
                             0.5,
                             2,
                             3,
                             0.1,
                             -0.5,
                             1e-9,
                             1e300,
                             -1e30,
                             std::numeric_limits<double>::infinity(),
                             -std::numeric_limits<double>::infinity(),
                             std::numeric_limits<double>::quiet_NaN()};
constexpr DType kDTypes[] = {f32, f32, f32, f64, bf16, f16, i64, i32, u8, boolean};

const std::vector<const OpCase*>& rows() {
  static const std::vector<const OpCase*> all = [] {
    std::vector<const OpCase*> rows;
    for (const testing::CaseFamily& family : testing::case_families())
      for (const OpCase& row : family.cases) rows.push_back(&row);
    return rows;
  }();
  return all;
}

Attribute make_attribute(const AttributeInfo& info, const Attribute& now, Choices& choices) {
  if (info.type == "bool") return choices.below(2) == 1;
  if (info.type == "int") return choices.of(kIntegers);
  if (info.type == "float") return choices.of(kReals);
  if (info.type == "number")
    return choices.below(2) == 1 ? Attribute(choices.of(kIntegers)) : Attribute(choices.of(kReals));
  if (info.type == "dtype") return std::string(name(choices.of(kDTypes)));
  if (info.type == "ints") {
    std::vector<int64_t> values;
    if (const auto* list = std::get_if<std::vector<int64_t>>(&now)) values = *list;
    if (const auto* one = std::get_if<int64_t>(&now)) values = {*one};
    const size_t kind = choices.below(4);
    if (kind == 0 || values.empty())
      values.push_back(choices.of(kIntegers));
    else if (kind == 1)
      values.pop_back();
    else
      values[choices.below(values.size())] = choices.of(kIntegers);
    return values;
  }
  // Strings that other rows use for an attribute of this name, and invalid ones.
  std::vector<std::string> words = {"", "no such word"};
  for (const OpCase* row : rows())
    if (const auto found = row->attributes.find(info.name); found != row->attributes.end())
      if (const auto* word = std::get_if<std::string>(&found->second)) words.push_back(*word);
  return choices.of(words);
}

}  // namespace

std::string print(const Attribute& value) {
  std::ostringstream out;
  std::visit(
      [&](const auto& x) {
        using T = std::decay_t<decltype(x)>;
        if constexpr (std::is_same_v<T, std::monostate>) {
          out << "none";
        } else if constexpr (std::is_same_v<T, std::vector<int64_t>>) {
          for (size_t i = 0; i < x.size(); ++i) out << (i == 0 ? "[" : ", ") << x[i];
          out << (x.empty() ? "[]" : "]");
        } else {
          out << std::boolalpha << x;
        }
      },
      value);
  return out.str();
}

bool Call::writes() const {
  const OpInfo& info = catalog().find(row_.op);
  return info.traits.inplace ||
         std::any_of(info.inputs.begin(), info.inputs.end(),
                     [](const InputInfo& input) { return input.name.starts_with("running_"); });
}
bool Call::is_random() const { return catalog().find(row_.op).traits.random; }
bool Call::has_values() const { return !row_.op.starts_with("empty"); }

std::string Call::text() const {
  std::ostringstream out;
  out << row_.op << " of";
  for (const auto& input : row_.inputs) {
    if (!input)
      out << " none";
    else
      out << ' ' << input->shape;
  }
  for (const Input& input : row_.list) out << ' ' << input.shape;
  for (const auto& [name, value] : row_.attributes) out << ", " << name << " = " << print(value);
  out << ", in " << dtype_;
  for (const auto& [i, dtype] : dtypes_) out << ", " << i << " in " << dtype;
  return out.str();
}

std::vector<Input*> Call::slots() {
  std::vector<Input*> slots;
  for (auto& input : row_.inputs)
    if (input) slots.push_back(&*input);
  for (Input& input : row_.list) slots.push_back(&input);
  return slots;
}

std::vector<Tensor> Call::operands() const {
  std::vector<Tensor> tensors;
  const auto add = [&](const Input* input) {
    const size_t i = tensors.size();
    tensors.push_back(input ? make_operand(*input, dtype_, 17 + 31 * i) : Tensor());
    for (const auto& [at, dtype] : dtypes_)
      if (at == i && tensors[i]) tensors[i] = tensors[i].to(dtype);
  };
  for (const auto& input : row_.inputs) add(input ? &*input : nullptr);
  for (const Input& input : row_.list) add(&input);
  return tensors;
}

std::vector<Variable> Call::run(const std::vector<Variable>& in) const {
  const auto list = in.begin() + std::ptrdiff_t(row_.inputs.size());
  Arguments arguments{{in.begin(), list}, {list, in.end()}, row_.attributes};
  if (row_.before) arguments.inputs = row_.before(std::move(arguments.inputs));
  std::vector<Variable> results = catalog().find(row_.op).call(std::move(arguments));
  return row_.after ? row_.after(std::move(results)) : results;
}

void Call::change_attribute(Choices& choices) {
  const OpInfo& info = catalog().find(row_.op);
  if (info.attributes.empty()) return;
  const AttributeInfo& attribute = choices.of(info.attributes);
  if (choices.below(8) == 0) {
    row_.attributes.erase(attribute.name);
    return;
  }
  Attribute& value = row_.attributes.emplace(attribute.name, attribute.standard).first->second;
  value = make_attribute(attribute, value, choices);
}

void Call::change(Choices& choices) {
  const std::vector<Input*> slots = this->slots();
  const size_t kind = choices.below(8);
  if (kind < 3 || slots.empty()) return change_attribute(choices);
  Input& input = *choices.of(slots);
  const int rank = input.shape.rank();
  switch (kind) {
    case 3:
    case 4: {  // changes a size in all inputs, so that shapes still match
      if (rank == 0) return;
      const int64_t old = input.shape[int(choices.below(size_t(rank)))], size = choices.of(kSizes);
      for (Input* slot : slots) {
        for (int i = 0; i < slot->shape.rank(); ++i)
          if (slot->shape[i] == old) slot->shape[i] = size;
        if (slot->bound == old) slot->bound = std::max<int64_t>(size, 1);
      }
      return;
    }
    case 5:  // changes one size only
      if (rank > 0) input.shape[int(choices.below(size_t(rank)))] = choices.of(kSizes);
      return;
    case 6: {  // adds or removes a dimension
      Shape shape;
      const int at = int(choices.below(size_t(rank) + 1));
      const bool more = choices.below(2) == 1 && rank < kMaxRank;
      for (int i = 0; i < rank; ++i) {
        if (i == at && more) shape.push_back(choices.of(kSizes));
        if (i != at || more) shape.push_back(input.shape[i]);
      }
      if (more && at == rank) shape.push_back(1);
      input.shape = shape;
      return;
    }
    case 7:
      dtypes_.emplace_back(choices.below(slots.size()), choices.of(kDTypes));
      return;
  }
}

Call make_call(Choices& choices) {
  const OpCase& row = *choices.of(rows());
  Call call(row, choices.below(2) == 0 ? f32 : choices.of(kDTypes));
  Call smaller = call;
  for (size_t changes = choices.below(6); changes > 0; --changes) {
    call.change(choices);
    int64_t elements = 0;
    for (const Input* input : call.slots()) elements += numel(input->shape);
    if (elements > kMostElements) call = smaller;
    smaller = call;
  }
  return call;
}

}  // namespace tapegrad::fuzz
