#include "train/run_ledger.h"

#include <algorithm>
#include <iterator>

#include "core/base/error.h"
#include "io/safetensors.h"
#include "ops/internal/sketch_signs.h"
#include "train/internal/ledger.h"

namespace tapegrad {
namespace {

constexpr int kSums = 3, kNumbers = 7;  // columns of the file

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

/// Returns whether x is a view with gaps or in another order, too large to be copied for a sketch.
/// Its values belong to a tensor that an earlier op or rule made. The answer must not depend on
/// addresses, so that equal runs have equal ledgers.
bool is_large_view(std::string_view op, const Tensor& x) {
  constexpr int64_t kLarge = 1 << 16;  // bytes
  if (x.is_contiguous() || x.numel() * size_of(x.dtype()) < kLarge) return false;
  constexpr std::string_view kViews[] = {"expand", "permute", "reshape", "select",    "slice",
                                         "split",  "unbind",  "unfold",  "transpose", "view"};
  return std::ranges::find(kViews, op) != std::end(kViews);
}

}  // namespace

RunLedger::RunLedger(LedgerOptions options) : impl_(new Impl()) {
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
  const auto add_to_key = [&](uint64_t part) { key = key * kHashFactor + part; };
  add_to_key(std::hash<std::string_view>()(op));
  add_to_key(std::hash<std::string_view>()(module_text));
  add_to_key(reinterpret_cast<uintptr_t>(where.file_name()));
  add_to_key(where.line());
  add_to_key(uint64_t(value.dtype()));
  for (const int64_t size : value.shape()) add_to_key(uint64_t(size));
  const auto [place, is_new] = places.try_emplace(mix_bits(key));
  if (is_new)
    place->second = {string(std::string(op)), string(std::string(module_text)),
                     string(place_text(where)), string(type_text(value))};
  const bool has_sketch = pass == LedgerPass::kValue || !is_large_view(op, value);
  ledger.entries.push_back({.sketch = has_sketch ? sketch_of(value) : kNoSketch,
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
  end_step();
}

void RunLedger::end_step() {
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

// The file has a row per entry in each of four tensors, and the strings, each followed by a line
// feed. tools/torch_ledger.py writes the same tensors.
//   hashes   int64 [entries]; "hash" in files of earlier versions, which had other hashes
//   sums     float64 [entries, 3]: both sums and the norm
//   numbers  int32 [entries, 7]: words, products, step, and the strings of op, module, line, type
//   pass     uint8 [entries]
void Ledger::save(const std::string& path) const {
  std::vector<int64_t> hash;
  std::vector<double> sums;
  std::vector<int32_t> numbers;
  std::vector<uint8_t> pass, text;
  for (const LedgerEntry& e : entries) {
    hash.push_back(int64_t(e.sketch.hash));
    sums.insert(sums.end(), {e.sketch.sums[0], e.sketch.sums[1], e.sketch.norm});
    numbers.insert(numbers.end(),
                   {e.sketch.words, e.sketch.products, e.step, e.op, e.module, e.line, e.type});
    pass.push_back(uint8_t(e.pass));
  }
  for (const std::string& each : strings) {
    text.insert(text.end(), each.begin(), each.end());
    text.push_back('\n');
  }
  const auto n = int64_t(entries.size());
  tapegrad::save(path, {{"hashes", Tensor::from<int64_t>(hash, {n})},
                        {"sums", Tensor::from<double>(sums, {n, kSums})},
                        {"numbers", Tensor::from<int32_t>(numbers, {n, kNumbers})},
                        {"pass", Tensor::from<uint8_t>(pass, {n})},
                        {"strings", Tensor::from<uint8_t>(text, {int64_t(text.size())})}});
}

Ledger Ledger::load(const std::string& path) {
  const TensorMap state = tapegrad::load(path);
  if (state.contains("hash") && (state.contains("sum0") || state.contains("sums")))
    fail<FormatError>(path,
                      ": ledger of an earlier version, with other hashes; record the run again");
  const auto found_hash = state.find("hashes");
  const int64_t n = found_hash != state.end() ? found_hash->second.numel() : 0;
  const auto at = [&]<typename T>(const char* name, DType dtype, const Shape& shape) {
    const auto found = state.find(name);
    if (found == state.end() || found->second.dtype() != dtype || found->second.shape() != shape)
      fail<FormatError>(path, ": no ledger of a run: no tensor \"", name, "\", ", dtype, ' ',
                        shape);
    return Variable(found->second).to_vector<T>();
  };
  const auto hash = at.operator()<int64_t>("hashes", i64, {n});
  const auto sums = at.operator()<double>("sums", f64, {n, kSums});
  const auto numbers = at.operator()<int32_t>("numbers", i32, {n, kNumbers});
  const auto pass = at.operator()<uint8_t>("pass", u8, {n});
  const auto found_text = state.find("strings");
  const int64_t characters = found_text != state.end() ? found_text->second.numel() : 0;
  Ledger ledger;
  std::string text;
  for (const uint8_t c : at.operator()<uint8_t>("strings", u8, {characters})) {
    if (c != '\n') {
      text += char(c);
      continue;
    }
    ledger.strings.push_back(text);
    text.clear();
  }
  for (size_t i = 0; i < size_t(n); ++i) {
    const double* sum = &sums[i * kSums];
    const int32_t* number = &numbers[i * kNumbers];
    for (int k = 3; k < kNumbers; ++k)
      if (number[k] < 0 || size_t(number[k]) >= ledger.strings.size())
        fail<FormatError>(path, ": entry ", i, " has string ", number[k], " of ",
                          ledger.strings.size());
    if (pass[i] >= std::size(kLedgerPasses))
      fail<FormatError>(path, ": entry ", i, " has pass ", int(pass[i]));
    ledger.entries.push_back({{uint64_t(hash[i]), {sum[0], sum[1]}, sum[2], number[0], number[1]},
                              number[2],
                              LedgerPass(pass[i]),
                              number[3],
                              number[4],
                              number[5],
                              number[6]});
  }
  return ledger;
}

}  // namespace tapegrad
