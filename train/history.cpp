#include "train/history.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

#include "core/base/error.h"
#include "core/base/internal/escaped_text.h"
#include "core/tape/variable.h"
#include "io/atomic_file.h"

namespace tapegrad {
namespace {

struct Field {
  const char* name;
  double EpochResult::*member;
};

/// The values that a line of progress shows; the loss is first.
constexpr Field kMeasures[] = {{"loss", &EpochResult::loss},
                               {"accuracy", &EpochResult::accuracy},
                               {"train_loss", &EpochResult::train_loss},
                               {"train_accuracy", &EpochResult::train_accuracy},
                               {"val_loss", &EpochResult::val_loss},
                               {"val_accuracy", &EpochResult::val_accuracy}};
constexpr Field kCosts[] = {{"lr", &EpochResult::lr}, {"seconds", &EpochResult::seconds}};
// Of each further value, the checkpoint has the numbers and the place among those of an epoch.
constexpr std::string_view kMore = "more.", kPlace = "place.";

/// All values of an epoch, in the order of the columns of a table.
NamedValues all_values(const EpochResult& result) {
  NamedValues all = result.values();
  for (const Field& cost : kCosts)
    if (!std::isnan(result.*cost.member)) all.emplace_back(cost.name, result.*cost.member);
  return all;
}

std::vector<std::string> columns(const std::vector<EpochResult>& epochs) {
  std::vector<std::string> names;
  for (const EpochResult& epoch : epochs)
    for (const auto& [name, value] : all_values(epoch))
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  return names;
}

auto find(const NamedValues& values, const std::string& name) {
  return std::ranges::find(values, name, &NamedValues::value_type::first);
}

double find_value(const NamedValues& values, const std::string& name) {
  const auto found = find(values, name);
  return found == values.end() ? kNaN : found->second;
}

std::string number_text(double value) {
  return std::isnan(value) ? "nan" : absl::StrFormat("%.17g", value);
}

/// Returns a field of a table, in quotes if it contains a separator (RFC 4180).
std::string csv_text(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return valid_utf8(text);
  return '"' + absl::StrReplaceAll(valid_utf8(text), {{"\"", "\"\""}}) + '"';
}

}  // namespace

NamedValues EpochResult::values() const {
  NamedValues found;
  for (const auto& [name, member] : kMeasures)
    if (const double value = this->*member; !std::isnan(value) || member == &EpochResult::loss ||
                                            (member == &EpochResult::train_loss && has_train) ||
                                            (member == &EpochResult::val_loss && has_val))
      found.emplace_back(name, value);
  for (const auto& [name, value] : more)
    if (find(found, name) == found.end()) found.emplace_back(name, value);
  return found;
}

double EpochResult::value(const std::string& name) const {
  std::vector<std::string> names;
  for (const auto& [each, value] : all_values(*this)) {
    if (each == name) return value;
    names.push_back(each);
  }
  fail<ArgumentError>("no value \"", name, "\" in epoch ", epoch,
                      "; there are: ", absl::StrJoin(names, ", "));
}

std::vector<double> History::operator[](const std::string& name) const {
  std::vector<double> values;
  for (const EpochResult& epoch : epochs) values.push_back(epoch.value(name));
  return values;
}

PlotSeries History::series(const std::string& value, const std::string& name) const {
  PlotSeries curve{name, {}, {}};
  for (const EpochResult& epoch : epochs)
    if (const double found = find_value(all_values(epoch), value); !std::isnan(found)) {
      curve.x.push_back(double(epoch.epoch));
      curve.y.push_back(found);
    }
  return curve;
}

void History::save_error_curves(const std::string& path, bool accuracies) const {
  PlotSeries train{"train", {}, {}}, test{"test", {}, {}};
  for (const EpochResult& epoch : epochs) {
    const bool after = !std::isnan(accuracies ? epoch.train_accuracy : epoch.train_loss);
    const double train_value = accuracies ? 1 - (after ? epoch.train_accuracy : epoch.accuracy)
                               : after    ? epoch.train_loss
                                          : epoch.loss;
    const double test_value = accuracies ? 1 - epoch.val_accuracy : epoch.val_loss;
    train.x.push_back(double(epoch.epoch));
    train.y.push_back(train_value);
    if (std::isnan(test_value)) continue;
    test.x.push_back(double(epoch.epoch));
    test.y.push_back(test_value);
  }
  std::vector<PlotSeries> curves{train};
  if (!test.x.empty()) curves.push_back(test);
  save_line_chart(path, curves,
                  {.title = accuracies ? "Error rate over epochs" : "Loss over epochs",
                   .x_label = "epoch",
                   .y_label = accuracies ? "error rate" : "loss"});
}

void History::save_csv(const std::string& path) const {
  const std::vector<std::string> names = columns(epochs);
  std::string text = "epoch";
  for (const std::string& name : names) text += ',' + csv_text(name);
  text += '\n';
  for (const EpochResult& epoch : epochs) {
    text += std::to_string(epoch.epoch);
    const NamedValues values = all_values(epoch);
    for (const std::string& name : names) {
      const auto found = find(values, name);
      text += ',' + (found == values.end() ? "" : number_text(found->second));
    }
    text += '\n';
  }
  write_file(path, text);
}

void History::save_jsonl(const std::string& path) const {
  std::string text;
  for (const EpochResult& epoch : epochs) {
    text += absl::StrFormat("{\"epoch\": %d", epoch.epoch);
    for (const auto& [name, value] : all_values(epoch))
      text += ", \"" + json_escape(name) +
              "\": " + (std::isfinite(value) ? number_text(value) : "null");
    text += "}\n";
  }
  write_file(path, text);
}

TensorMap History::state_dict() const {
  TensorMap state;
  const auto add = [&](const std::string& name, auto value_of) {
    std::vector<double> values;
    for (const EpochResult& epoch : epochs) values.push_back(value_of(epoch));
    state.emplace(name, Tensor::from<double>(values, {int64_t(values.size())}));
  };
  add("epoch", [](const EpochResult& epoch) { return double(epoch.epoch); });
  for (const auto& fields : {std::span<const Field>(kMeasures), std::span<const Field>(kCosts)})
    for (const Field& field : fields)
      add(field.name, [&](const EpochResult& epoch) { return epoch.*field.member; });
  for (const EpochResult& epoch : epochs)
    for (const auto& [name, value] : epoch.more)
      if (const std::string full = std::string(kMore) + name; !state.contains(full)) {
        add(full, [&](const EpochResult& each) { return find_value(each.more, name); });
        add(std::string(kPlace) + name, [&](const EpochResult& each) {
          const auto found = find(each.more, name);
          return found == each.more.end() ? kNaN : double(found - each.more.begin());
        });
      }
  add("has_train", [](const EpochResult& epoch) { return double(epoch.has_train); });
  add("has_val", [](const EpochResult& epoch) { return double(epoch.has_val); });
  return state;
}

void History::load_state_dict(const TensorMap& state) {
  const auto count = state.find("epoch");
  if (count == state.end()) fail<ArgumentError>("no epochs of a history");
  std::vector<EpochResult> loaded(size_t(count->second.numel()));
  std::vector<std::map<double, NamedValues::value_type>> more(loaded.size());  // by place
  for (const auto& [name, tensor] : state) {
    if (tensor.dtype() != f64 || tensor.rank() != 1 || size_t(tensor.numel()) != loaded.size())
      fail<ArgumentError>("\"", name, "\" is not ", loaded.size(), " float64 numbers");
    const std::vector<double> values = Variable(tensor).to_vector<double>();
    const bool is_further = name.starts_with(kMore);
    const std::string further = is_further ? name.substr(kMore.size()) : "";
    std::vector<double> places;  // none in files of version 0.1
    if (const auto found = state.find(std::string(kPlace) + further); found != state.end())
      places = Variable(found->second).to_vector<double>();
    for (size_t i = 0; i < loaded.size(); ++i) {
      EpochResult& epoch = loaded[i];
      if (name == "epoch") epoch.epoch = int64_t(values[i]);
      for (const auto& fields : {std::span<const Field>(kMeasures), std::span<const Field>(kCosts)})
        for (const Field& field : fields)
          if (name == field.name) epoch.*field.member = values[i];
      if (name == "has_train") epoch.has_train = values[i] != 0;
      if (name == "has_val") epoch.has_val = values[i] != 0;
      if (!is_further) continue;
      const double last = std::isnan(values[i]) ? kNaN : double(more[i].size());
      if (const double place = i < places.size() ? places[i] : last; !std::isnan(place))
        more[i].emplace(place, std::pair(further, values[i]));
    }
  }
  for (size_t i = 0; i < loaded.size(); ++i)
    for (auto& [place, value] : more[i]) loaded[i].more.push_back(std::move(value));
  epochs = std::move(loaded);
}

double EpochResult::operator[](const std::string& name) const { return value(name); }
double EpochResult::at(const std::string& name) const { return value(name); }
}  // namespace tapegrad
