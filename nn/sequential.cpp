#include "nn/sequential.h"

#include <algorithm>
#include <utility>

#include "core/tape/internal/call_line.h"
#include "nn/activation.h"
#include "nn/conv.h"
#include "nn/init.h"
#include "nn/linear.h"

namespace tapegrad::nn {
namespace {

/// Returns layer i if it is a Layer and nothing observes its result, else null.
template <typename Layer>
const Layer* plain(std::span<const AnyModule> layers, size_t i) {
  if (i >= layers.size() || layers[i]->is_watched()) return nullptr;
  return dynamic_cast<const Layer*>(&*layers[i]);
}

/// Returns whether layer i is a ReLU followed by a MaxPool2d and the two may change places:
/// relu(max(x)) is max(relu(x)), and the gradient goes to the same element or to none. A window
/// that covers only padding gives -inf in one order and 0 in the other, so such pools keep their
/// place.
bool swaps_with_pool(std::span<const AnyModule> layers, size_t i) {
  const auto* pool = plain<MaxPool2d>(layers, i + 1);
  return pool != nullptr && plain<ReLU>(layers, i) != nullptr && !pool->has_windows_of_padding();
}

/// Returns layer i as an epilogue of the layer before it; empty if it is no such activation.
Epilogue epilogue_of(std::span<const AnyModule> layers, size_t i) {
  if (plain<ReLU>(layers, i) != nullptr && !swaps_with_pool(layers, i)) return {Activation::kRelu};
  const auto* gelu = plain<GELU>(layers, i);
  if (gelu != nullptr && gelu->approximate() == Gelu::kTanh) return {Activation::kGelu};
  return {};
}

/// Runs the first layer, or the first two if they are faster together. Returns their number.
size_t run_first(std::span<const AnyModule> layers, Variable& value, Where where) {
  Variable x = std::move(value);
  if (swaps_with_pool(layers, 0)) {
    value = layers[0]->call(layers[1]->call(std::move(x), where), where);
    return 2;
  }
  if (const Epilogue behind = epilogue_of(layers, 1)) {
    if (const auto* layer = plain<Linear>(layers, 0))
      value = (*layer)(x, behind, where);
    else if (const auto* layer = plain<Conv2d>(layers, 0))
      value = (*layer)(x, behind, where);
    if (value.defined()) return 2;
  }
  value = layers[0]->call(std::move(x), where);
  return 1;
}

}  // namespace

Module& AnyModule::fail_empty() { fail<ArgumentError>("AnyModule: the object holds no module"); }

ModuleList::ModuleList() : Module(OfModel()) {}
ModuleList::ModuleList(std::initializer_list<AnyModule> modules) : ModuleList() {
  const bool is_list = modules.size() == 1 && *modules.begin() && modules.begin()->is<ModuleList>();
  if (is_list)
    *this = modules.begin()->as<ModuleList>();
  else
    assign(modules);
}
ModuleList::ModuleList(std::vector<AnyModule> modules) : ModuleList() {
  std::vector<AnyModule>::operator=(std::move(modules));
}
ModuleList::ModuleList(const ModuleList&) = default;
ModuleList& ModuleList::operator=(const ModuleList&) = default;
std::unique_ptr<Module> ModuleList::copy() const { return std::make_unique<ModuleList>(*this); }
std::span<const std::byte> ModuleList::bytes() const {
  return {reinterpret_cast<const std::byte*>(this), sizeof(*this)};
}
ModuleList ModuleList::clone() const {
  ModuleList copy = *this;
  copy.unshare();
  return copy;
}
void ModuleList::members(Members& m) {
  for (size_t i = 0; i < size(); ++i)
    if (AnyModule& module = data()[i]) m(std::to_string(i), *module);
}

ModuleDict::ModuleDict() : Module(OfModel()) {}
ModuleDict::ModuleDict(std::initializer_list<std::pair<const std::string, AnyModule>> modules)
    : Module(OfModel()), Map(modules) {}
ModuleDict::ModuleDict(const ModuleDict&) = default;
ModuleDict& ModuleDict::operator=(const ModuleDict&) = default;
std::unique_ptr<Module> ModuleDict::copy() const { return std::make_unique<ModuleDict>(*this); }
std::span<const std::byte> ModuleDict::bytes() const {
  return {reinterpret_cast<const std::byte*>(this), sizeof(*this)};
}
ModuleDict ModuleDict::clone() const {
  ModuleDict copy = *this;
  copy.unshare();
  return copy;
}
void ModuleDict::members(Members& m) {
  for (auto& [name, module] : *this)
    if (module) m(name, *module);
}
void ModuleDict::insert(const std::string& key, AnyModule module) {
  (*this)[key] = std::move(module);
}
const AnyModule& ModuleDict::at(const std::string& key, Where where) const {
  if (const auto found = find(key); found != end()) return found->second;
  std::string names;
  for (const std::string& name : keys()) names += (names.empty() ? "" : ", ") + name;
  fail_at<IndexError>(where, "ModuleDict: no module is called \"", key, "\"; there are ", names);
}
AnyModule& ModuleDict::at(const std::string& key, Where where) {
  return const_cast<AnyModule&>(std::as_const(*this).at(key, where));
}
std::vector<std::string> ModuleDict::keys() const {
  std::vector<std::string> names;
  for (const auto& [name, module] : *this) names.push_back(name);
  return names;
}

void ParameterDict::insert(const std::string& key, const Variable& parameter) {
  (*this)[key] = detail::as_parameter(parameter);
}

AnyModule AnyModule::of_function(std::function<Variable(const Variable&)> function) {
  return Lambda(std::move(function));
}

std::ostream& operator<<(std::ostream& out, const AnyModule& module) { return out << *module; }

size_t detail::place_in_list(int64_t index, size_t size) {
  const auto count = int64_t(size);
  if (index < -count || index >= count) fail<IndexError>("no part ", index, " among ", count);
  return size_t(index < 0 ? index + count : index);
}

void Sequential::push_back(std::string name, AnyModule layer) {
  if (std::find(names_.begin(), names_.end(), name) != names_.end())
    fail<ArgumentError>("Sequential: there is a layer \"", name, "\"");
  names_.push_back(std::move(name));
  layers_.push_back(std::move(layer));
}

Sequential Sequential::operator[](const Slice& slice) const {
  const auto bound = [this](std::optional<int64_t> at, int64_t otherwise) {
    return at ? std::clamp<int64_t>(*at < 0 ? *at + size() : *at, 0, size()) : otherwise;
  };
  if (slice.step < 1) fail<ArgumentError>("Sequential: a step of ", slice.step);
  Sequential part;
  for (int64_t i = bound(slice.start, 0); i < bound(slice.stop, size()); i += slice.step)
    part.push_back(layers_[size_t(i)]);
  return part;
}

Sequential::Sequential(const Sequential&) = default;
Sequential& Sequential::operator=(const Sequential&) = default;
Sequential::Sequential(std::initializer_list<NamedLayer> layers, SequentialOptions options) {
  for (const NamedLayer& part : layers) push_back(part.name, part.layer);
  if (options.init) nn::initialize(*this, options.init);
  if (options.input_shape) infer(*options.input_shape);
}
Sequential::Sequential(std::vector<AnyModule> layers, SequentialOptions options) {
  extend(layers);
  if (options.init) nn::initialize(*this, options.init);
  if (options.input_shape) infer(*options.input_shape);
}

size_t Sequential::place_of(int64_t index) const {
  if (index < -size() || index >= size())
    fail<IndexError>("Sequential: no layer ", index, " among ", size());
  return size_t(index < 0 ? index + size() : index);
}
Module& Sequential::operator[](tapegrad::detail::IndexHere i) const {
  const ErrorLine line(i.where);
  return *layers_[place_of(i.index)];
}
Module& Sequential::operator[](tapegrad::detail::NameHere name) const {
  const auto found = std::find(names_.begin(), names_.end(), name.name);
  if (found == names_.end())
    fail_at<ArgumentError>(name.where, "Sequential: there is no layer \"", name.name, "\"");
  return *layers_[size_t(found - names_.begin())];
}
void Sequential::pop_back(Where where) {
  if (is_empty()) fail_at<IndexError>(where, "Sequential: pop_back: there is no layer");
  layers_.pop_back();
  names_.pop_back();
}
void Sequential::insert(int64_t index, AnyModule layer) {
  const size_t place = index == size() ? layers_.size() : place_of(index);
  for (size_t i = place; i < names_.size(); ++i)
    if (names_[i] != std::to_string(i))
      fail<ArgumentError>(
          "Sequential: insert() renumbers the layers behind the new one, but layer ", i,
          " has the name \"", names_[i], '"');
  push_back(std::to_string(layers_.size()), std::move(layer));
  std::rotate(layers_.begin() + int64_t(place), layers_.end() - 1, layers_.end());
}
void Sequential::replace(int64_t index, AnyModule layer) {
  layers_[place_of(index)] = std::move(layer);
}

void Sequential::members(Members& m) {
  for (size_t i = 0; i < layers_.size(); ++i) m(names_[i], *layers_[i]);
}

Variable Sequential::forward(const Variable& x, Where where) const {
  Variable value = x;
  for (std::span<const AnyModule> left = layers_; !left.empty();)
    left = left.subspan(run_first(left, value, where));
  return value;
}

Sequential::Sequential(std::initializer_list<AnyModule> layers, SequentialOptions options)
    : Sequential(std::vector<AnyModule>(layers), std::move(options)) {}

AnyModule::AnyModule(const Module& module) : module_(module.copy()) {}
AnyModule::AnyModule(const AnyModule& other) : module_(other ? other->copy() : nullptr) {}
AnyModule& AnyModule::operator=(AnyModule other) {
  module_ = std::move(other.module_);
  return *this;
}
Module& AnyModule::operator*() const { return module_ ? *module_ : fail_empty(); }
Variable AnyModule::operator()(const Variable& x, Where where) const {
  return (**this).call(x, where);
}
Variable AnyModule::forward(const Variable& x, Where where) const { return (*this)(x, where); }
Variable AnyModule::weight() const { return (**this).weight(); }
Variable AnyModule::bias() const { return (**this).bias(); }
std::vector<Variable> AnyModule::parameters() const { return (**this).parameters(); }
NamedVariables AnyModule::named_parameters() const { return (**this).named_parameters(); }
void AnyModule::requires_grad_(bool on) const { (**this).requires_grad_(on); }
const AnyModule& ModuleDict::operator[](const std::string& key) const { return at(key); }
}  // namespace tapegrad::nn

namespace tapegrad::nn::detail {
Variable as_parameter(const Variable& x) {
  return !x.defined() || x.requires_grad() || !is_float(x.dtype()) ? x : Parameter(x);
}
}  // namespace tapegrad::nn::detail

namespace tapegrad::nn {
ParameterList::ParameterList(const std::vector<Variable>& parts) {
  for (const Variable& part : parts) push_back(part);
}
ParameterList::ParameterList(std::initializer_list<Variable> parts)
    : ParameterList(std::vector<Variable>(parts)) {}
void ParameterList::append(const Variable& part) { push_back(part); }
void ParameterList::push_back(const Variable& part) {
  ListOf<Variable>::push_back(detail::as_parameter(part));
}
ParameterDict::ParameterDict(std::initializer_list<std::pair<const std::string, Variable>> parts) {
  for (const auto& part : parts) insert(part);
}
void ParameterDict::insert(const std::pair<const std::string, Variable>& part) {
  insert(part.first, part.second);
}
InputShape::InputShape(std::initializer_list<int64_t> sizes) : optional(Shape(sizes)) {}
void Sequential::push_back(AnyModule layer) { push_back(std::to_string(size()), std::move(layer)); }
void Sequential::extend(const std::vector<AnyModule>& layers) {
  for (const AnyModule& layer : layers) push_back(layer);
}
void Sequential::append(AnyModule layer) { push_back(std::move(layer)); }
void Sequential::add(AnyModule layer) { push_back(std::move(layer)); }
void Sequential::add_module(std::string name, AnyModule layer) {
  push_back(std::move(name), std::move(layer));
}
int64_t Sequential::size() const { return int64_t(layers_.size()); }
bool Sequential::is_empty() const { return layers_.empty(); }
bool Sequential::empty() const { return is_empty(); }
const AnyModule* Sequential::begin() const { return layers_.data(); }
const AnyModule* Sequential::end() const { return layers_.data() + layers_.size(); }
template class Model<Sequential, Module, false>;

}  // namespace tapegrad::nn
