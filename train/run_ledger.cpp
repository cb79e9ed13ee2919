#include "train/run_ledger.h"

#include "core/base/error.h"
#include "io/safetensors.h"
#include "ops/internal/sketch_signs.h"
#include "train/internal/ledger.h"

namespace tapegrad {
namespace {

std::string place_text(Where where) {
  if (where.line() == 0) return "";
  const std::string_view file = where.file_name();
  return std::string(file.substr(file.rfind('/') + 1)) + ':' + std::to_string(where.line());
}

std::string type_text(const Tensor& x) {
  detail::ErrorText text;
  text.add(name(x.dtype()));
  text.add(' ');
  text.add(x.shape());
  return text.text();
}

}  // namespace

RunLedger::RunLedger(LedgerOptions options) : impl_(std::make_unique<Impl>()) {
  if (options.every < 1)
    fail<ArgumentError>("RunLedger: every is ", options.every, ", not at least 1");
  impl_->every = options.every;
  impl_->observe.emplace(impl_.get());
}
RunLedger::~RunLedger() = default;

void RunLedger::stop() {
  impl_->observe.reset();
  impl_->is_stopped = true;
}

int32_t RunLedger::Impl::string(const std::string& text) {
  const auto [found, is_new] = numbers.try_emplace(text, int32_t(numbers.size()));
  if (is_new) ledger.strings.push_back(text);
  return found->second;
}

void RunLedger::Impl::add(LedgerPass pass, std::string_view op, const std::string* module,
                          Where where, const Tensor& value) {
  if (before_entry) before_entry(int64_t(ledger.entries.size()), value);
  const std::string_view module_text = module == nullptr ? std::string_view() : *module;
  uint64_t key = 0;
  for (const uint64_t part : {uint64_t(std::hash<std::string_view>()(op)),
                              uint64_t(std::hash<std::string_view>()(module_text)),
                              uint64_t(reinterpret_cast<uintptr_t>(where.file_name())),
                              uint64_t(where.line()), uint64_t(value.dtype())})
    key = mix_bits(key ^ part);
  for (const int64_t size : value.shape()) key = mix_bits(key ^ uint64_t(size));
  const auto [place, is_new] = places.try_emplace(key);
  if (is_new)
    place->second = {string(std::string(op)), string(std::string(module_text)),
                     string(place_text(where)), string(type_text(value))};
  ledger.entries.push_back({.sketch = sketch_of(value),
                            .step = step,
                            .pass = pass,
                            .op = place->second.op,
                            .module = place->second.module,
                            .line = place->second.line,
                            .type = place->second.type});
}

void RunLedger::Impl::on_result(std::string_view op, Where where, const Tensor& y) {
  if (!y) return;
  // An op that is not recorded is attributed to the line of its module's call.
  if (where.line() == 0 && detail::context.scope != nullptr) where = nn::ModuleCall::line();
  add(LedgerPass::kForward, op, detail::context.scope, where, y);
}

void RunLedger::Impl::on_gradient(const TapeNode& node, const Tensor& gradient) {
  add(LedgerPass::kBackward, node.name(), node.scope(), node.where(), gradient);
}

void RunLedger::note(const std::string& name, const Variable& value) {
  if (value.defined()) impl_->add(LedgerPass::kValue, name, nullptr, Where(), value.value());
}

void RunLedger::note(const nn::Module& model) {
  if (impl_->observe)
    for (const auto& [name, parameter] : model.named_parameters()) note(name, parameter);
  impl_->observe.reset();
  if (impl_->step++ % impl_->every == 0 && !impl_->is_stopped) impl_->observe.emplace(impl_.get());
}

int64_t RunLedger::size() const { return int64_t(impl_->ledger.entries.size()); }

void RunLedger::save(const std::string& path) const { impl_->ledger.save(path); }

Callback record(RunLedger& ledger) {
  return {.before_batch =
              [&ledger](Training& run) {
                ledger.note("batch", run.example.data);
                ledger.note("target", run.example.target);
              },
          .after_step = [&ledger](Training& run) { ledger.note(run.model); }};
}

// The file has a vector per field, one element an entry, and the strings, each followed by a line
// feed.
void Ledger::save(const std::string& path) const {
  const auto n = int64_t(entries.size());
  TensorMap state;
  const auto add = [&]<typename T>(const char* name, auto value_of) {
    std::vector<T> values;
    values.reserve(entries.size());
    for (const LedgerEntry& entry : entries) values.push_back(T(value_of(entry)));
    state.emplace(name, Tensor::from<T>(values, {n}));
  };
  add.operator()<int64_t>("hash", [](const LedgerEntry& e) { return e.sketch.hash; });
  add.operator()<double>("sum0", [](const LedgerEntry& e) { return e.sketch.sums[0]; });
  add.operator()<double>("sum1", [](const LedgerEntry& e) { return e.sketch.sums[1]; });
  add.operator()<double>("norm", [](const LedgerEntry& e) { return e.sketch.norm; });
  add.operator()<int32_t>("step", [](const LedgerEntry& e) { return e.step; });
  add.operator()<uint8_t>("pass", [](const LedgerEntry& e) { return uint8_t(e.pass); });
  add.operator()<int32_t>("op", [](const LedgerEntry& e) { return e.op; });
  add.operator()<int32_t>("module", [](const LedgerEntry& e) { return e.module; });
  add.operator()<int32_t>("line", [](const LedgerEntry& e) { return e.line; });
  add.operator()<int32_t>("type", [](const LedgerEntry& e) { return e.type; });
  std::vector<uint8_t> text;
  for (const std::string& each : strings) {
    text.insert(text.end(), each.begin(), each.end());
    text.push_back('\n');
  }
  state.emplace("strings", Tensor::from<uint8_t>(text, {int64_t(text.size())}));
  tapegrad::save(path, state);
}

Ledger Ledger::load(const std::string& path) {
  const TensorMap state = tapegrad::load(path);
  const auto at = [&](const char* name, DType dtype) -> Variable {
    const auto found = state.find(name);
    if (found == state.end() || found->second.dtype() != dtype || found->second.rank() != 1)
      fail<FormatError>(path, ": no ledger of a run: no vector \"", name, "\" of ", dtype);
    return Variable(found->second);
  };
  Ledger ledger;
  std::string text;
  for (const uint8_t c : at("strings", u8).to_vector<uint8_t>()) {
    if (c != '\n') {
      text += char(c);
      continue;
    }
    ledger.strings.push_back(text);
    text.clear();
  }
  const auto hash = at("hash", i64).to_vector<int64_t>();
  const auto sum0 = at("sum0", f64).to_vector<double>(), sum1 = at("sum1", f64).to_vector<double>();
  const auto norm = at("norm", f64).to_vector<double>();
  const auto step = at("step", i32).to_vector<int32_t>(), op = at("op", i32).to_vector<int32_t>(),
             module = at("module", i32).to_vector<int32_t>(),
             line = at("line", i32).to_vector<int32_t>(),
             type = at("type", i32).to_vector<int32_t>();
  const auto pass = at("pass", u8).to_vector<uint8_t>();
  const size_t n = hash.size();
  for (const size_t size : {sum0.size(), sum1.size(), norm.size(), step.size(), op.size(),
                            module.size(), line.size(), type.size(), pass.size()})
    if (size != n) fail<FormatError>(path, ": no ledger of a run: vectors of ", n, " and ", size);
  for (size_t i = 0; i < n; ++i) {
    for (const int32_t each : {op[i], module[i], line[i], type[i]})
      if (each < 0 || size_t(each) >= ledger.strings.size())
        fail<FormatError>(path, ": entry ", i, " has string ", each, " of ", ledger.strings.size());
    if (pass[i] >= std::size(kLedgerPasses))
      fail<FormatError>(path, ": entry ", i, " has pass ", int(pass[i]));
    ledger.entries.push_back({{uint64_t(hash[i]), {sum0[i], sum1[i]}, norm[i]},
                              step[i],
                              LedgerPass(pass[i]),
                              op[i],
                              module[i],
                              line[i],
                              type[i]});
  }
  return ledger;
}

}  // namespace tapegrad
