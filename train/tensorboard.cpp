#include "train/tensorboard.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "core/base/error.h"
#include "core/inspect/internal/tape_graph.h"
#include "train/internal/pixels.h"
#include "train/internal/protobuf.h"

namespace tapegrad {
namespace {

double wall_time() {
  using std::chrono::duration, std::chrono::system_clock;
  return duration<double>(system_clock::now().time_since_epoch()).count();
}

/// CRC-32C (Castagnoli), rotated and shifted as the record format asks for.
uint32_t masked_crc(std::string_view bytes) {
  static const std::array<uint32_t, 256> kTable = [] {
    std::array<uint32_t, 256> table{};
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t crc = i;
      for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? crc >> 1 ^ 0x82F63B78 : crc >> 1;
      table[i] = crc;
    }
    return table;
  }();
  uint32_t crc = 0xffffffff;
  for (const char byte : bytes) crc = crc >> 8 ^ kTable[(crc ^ uint8_t(byte)) & 0xff];
  crc = ~crc;
  return (crc >> 15 | crc << 17) + 0xa282ead8;
}

template <typename T>
std::string raw(T value) {
  std::string text(sizeof value, '\0');
  std::memcpy(text.data(), &value, sizeof value);
  return text;
}

// Field numbers of tensorflow/core/util/event.proto, framework/summary.proto and tensor.proto.
Protobuf string_tensor(std::string_view text) {
  const Protobuf shape = Protobuf().message(2, Protobuf().integer(1, 1));
  return Protobuf().integer(1, /*DT_STRING=*/7).message(2, shape).string(8, text);
}
Protobuf plugin(std::string_view name, std::string_view content = "") {
  return Protobuf().message(1, Protobuf().string(1, name).bytes(2, content));
}
Protobuf string_value(std::string_view text) { return Protobuf().string(3, text); }
Protobuf number_value(double value) { return Protobuf().number(2, value); }

/// Returns the limits of TensorFlow's buckets: +-1e-12 times powers of 1.1.
const std::vector<double>& bucket_limits() {
  static const std::vector<double> kLimits = [] {
    std::vector<double> positive;
    for (double limit = 1e-12; limit < 1e20; limit *= 1.1) positive.push_back(limit);
    std::vector<double> all;
    for (auto limit = positive.rbegin(); limit != positive.rend(); ++limit) all.push_back(-*limit);
    all.push_back(0);
    all.insert(all.end(), positive.begin(), positive.end());
    all.push_back(1e308);
    return all;
  }();
  return kLimits;
}

Protobuf histogram_of(const std::vector<double>& values) {
  const std::vector<double>& limits = bucket_limits();
  std::vector<double> counts(limits.size(), 0.0);
  double low = INFINITY, high = -INFINITY, sum = 0, squares = 0, count = 0;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    const auto bucket = std::ranges::lower_bound(limits, value) - limits.begin();
    counts[std::min(size_t(bucket), counts.size() - 1)] += 1;
    low = std::min(low, value);
    high = std::max(high, value);
    sum += value;
    squares += value * value;
    count += 1;
  }
  if (count == 0) low = high = 0;
  std::string used_limits, used_counts;
  for (size_t i = 0; i < counts.size(); ++i)
    // A bucket begins where the previous one ends, so an empty bucket is kept before a nonempty
    // one.
    if (counts[i] > 0 || (i + 1 < counts.size() && counts[i + 1] > 0)) {
      used_limits += raw(limits[i]);
      used_counts += raw(counts[i]);
    }
  if (used_limits.empty()) {
    used_limits = raw(0.0);
    used_counts = raw(0.0);
  }
  return Protobuf()
      .number(1, low)
      .number(2, high)
      .number(3, count)
      .number(4, sum)
      .number(5, squares)
      .bytes(6, used_limits)
      .bytes(7, used_counts);
}

}  // namespace

struct TensorBoard::Impl {
  std::string path;
  std::FILE* file = nullptr;

  ~Impl() {
    if (file != nullptr) std::fclose(file);
  }

  /// Appends an event: the time, the step and one more field.
  void write(int64_t step, const Protobuf& rest) {
    const std::string event =
        Protobuf().number(1, wall_time()).integer(2, step).text() + rest.text();
    const std::string length = raw(uint64_t(event.size()));
    const std::string record = length + raw(masked_crc(length)) + event + raw(masked_crc(event));
    if (std::fwrite(record.data(), 1, record.size(), file) != record.size() ||
        std::fflush(file) != 0)
      fail<IoError>("TensorBoard: cannot write ", path, ": ", std::strerror(errno));
  }
  /// Appends a summary of one value, whose tag is field 1.
  void write_value(int64_t step, const Protobuf& value) {
    write(step, Protobuf().message(5, Protobuf().message(1, value)));
  }
};

TensorBoard::TensorBoard(const std::string& folder, int64_t first_step, Where where)
    : impl_(new Impl()) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  static std::atomic<int> number{0};
  char host[64] = "host";
  gethostname(host, sizeof host - 1);
  const std::string name = "events.out.tfevents." + std::to_string(int64_t(wall_time())) + '.' +
                           host + '.' + std::to_string(getpid()) + '.' + std::to_string(number++);
  impl_->path = std::filesystem::path(folder) / name;  // without a folder, the current one
  impl_->file = std::fopen(impl_->path.c_str(), "wbe");
  if (impl_->file == nullptr)
    fail_at<IoError>(where, "TensorBoard: cannot make ", impl_->path, ": ", std::strerror(errno));
  impl_->write(0, Protobuf().bytes(3, "brain.Event:2"));
  if (first_step > 0)
    impl_->write(first_step, Protobuf().message(7, Protobuf().integer(1, /*START=*/1)));
}

TensorBoard::TensorBoard(detail::Owner<Impl> impl) : impl_(std::move(impl)) {}
TensorBoard::~TensorBoard() = default;

TensorBoard::operator Callback() & { return log_to(*this); }
TensorBoard::operator Callback() && {
  const std::shared_ptr<TensorBoard> board(new TensorBoard(std::move(impl_)));
  return {.after_epoch = [board, log = log_to(*board).after_epoch](Training& run) { log(run); }};
}

const std::string& TensorBoard::path() const { return impl_->path; }

void TensorBoard::scalar(const std::string& tag, double value, int64_t step) {
  impl_->write_value(step, Protobuf().string(1, tag).number32(2, float(value)));
}

void TensorBoard::histogram(const std::string& tag, const Variable& values, int64_t step) {
  impl_->write_value(
      step, Protobuf().string(1, tag).message(5, histogram_of(values.to_vector<double>())));
}

void TensorBoard::histograms(const nn::Module& model, int64_t step) {
  for (const auto& [name, weight] : model.named_parameters()) {
    histogram("weights/" + name, weight, step);
    if (weight.grad().defined()) histogram("gradients/" + name, weight.grad(), step);
  }
}

void TensorBoard::image(const std::string& tag, const Variable& pixels, int64_t step) {
  const Picture picture = picture_of(pixels);
  const Protobuf image = Protobuf()
                             .integer(1, picture.height)
                             .integer(2, picture.width)
                             .integer(3, picture.channels)
                             .bytes(4, encode_png(picture));
  impl_->write_value(step, Protobuf().string(1, tag).message(4, image));
}

void TensorBoard::text(const std::string& tag, const std::string& markdown, int64_t step) {
  impl_->write_value(step, Protobuf()
                               .string(1, tag + "/text_summary")
                               .message(8, string_tensor(markdown))
                               .message(9, plugin("text")));
}

// A GraphDef: nodes (1) with name (1), op (2), inputs (3) and attributes (5). Slashes in names make
// groups.
void TensorBoard::graph(const Variable& root) {
  const TapeGraph tape = collect_tape(root);
  const auto name_of = [&](int vertex) {
    const TapeGraph::Vertex& each = tape.vertices[size_t(vertex)];
    std::string path = tape.groups[size_t(each.group)].name;
    std::ranges::replace(path, '.', '/');
    if (!path.empty()) path += '/';
    std::string name = each.name;
    std::ranges::replace_if(
        name, [](char c) { return !std::isalnum(uint8_t(c)) && c != '_' && c != '.'; }, '_');
    return path + name + '_' + std::to_string(vertex);
  };
  Protobuf graph;
  for (int vertex = 0; vertex < int(tape.vertices.size()); ++vertex) {
    const TapeGraph::Vertex& each = tape.vertices[size_t(vertex)];
    Protobuf node;
    node.string(1, name_of(vertex)).string(2, each.is_leaf ? "leaf" : each.name);
    for (const TapeGraph::Edge& edge : tape.edges)
      if (edge.to == vertex) node.string(3, name_of(edge.from));
    std::string values;
    for (const std::string& value : each.values) values += (values.empty() ? "" : ", ") + value;
    node.entry(5, "value", Protobuf().string(2, values));
    if (!each.where.empty()) node.entry(5, "line", Protobuf().string(2, each.where));
    graph.message(1, node);
  }
  graph.message(4, Protobuf().integer(1, 22));  // the producer's version
  impl_->write(0, Protobuf().message(4, graph));
}

// Three summaries of the plugin's data (tensorboard/plugins/hparams): the experiment (2), the begin
// (3) and the end (4) of this run.
void TensorBoard::hyper_parameters(const std::map<std::string, double>& numbers,
                                   const std::map<std::string, std::string>& words,
                                   const std::vector<std::string>& metrics) {
  Protobuf experiment, begin;
  for (const auto& [name, value] : numbers) {
    experiment.message(4, Protobuf().string(1, name).integer(4, /*FLOAT64=*/3));
    begin.entry(1, name, number_value(value));
  }
  for (const auto& [name, value] : words) {
    experiment.message(4, Protobuf().string(1, name).integer(4, /*STRING=*/1));
    begin.entry(1, name, string_value(value));
  }
  for (const std::string& tag : metrics)
    experiment.message(5, Protobuf().message(1, Protobuf().string(2, tag)));
  begin.number(5, wall_time());
  const Protobuf end = Protobuf().integer(1, /*SUCCESS=*/1).number(2, wall_time());
  const std::pair<const char*, Protobuf> parts[] = {
      {"_hparams_/experiment", Protobuf().integer(1, 0).message(2, experiment)},
      {"_hparams_/session_start_info", Protobuf().integer(1, 0).message(3, begin)},
      {"_hparams_/session_end_info", Protobuf().integer(1, 0).message(4, end)}};
  for (const auto& [tag, content] : parts) {
    const Protobuf null = Protobuf().integer(1, /*DT_FLOAT=*/1).message(2, Protobuf());
    impl_->write_value(0, Protobuf().string(1, tag).message(8, null).message(
                              9, plugin("hparams", content.text())));
  }
}

Callback log_to(TensorBoard& board, BoardOptions options) {
  return {.after_epoch = [&board, options](Training& run) {
    const EpochResult& result = run.history.epochs.back();
    for (const auto& [name, value] : result.values()) board.scalar(name, value, result.epoch);
    board.scalar("lr", result.lr, result.epoch);
    if (options.histograms) board.histograms(run.model, result.epoch);
  }};
}

SummaryWriter::SummaryWriter(const std::string& log_dir, Where where)
    : TensorBoard(log_dir, 0, where) {}
void SummaryWriter::add_scalar(const std::string& tag, double value, int64_t global_step) {
  scalar(tag, value, global_step);
}
void SummaryWriter::add_scalars(const std::string& main_tag,
                                const std::map<std::string, double>& values, int64_t global_step) {
  for (const auto& [key, value] : values) scalar(main_tag + "/" + key, value, global_step);
}
void SummaryWriter::add_histogram(const std::string& tag, const Variable& values,
                                  int64_t global_step) {
  histogram(tag, values, global_step);
}
void SummaryWriter::add_image(const std::string& tag, const Variable& pixels, int64_t global_step) {
  image(tag, pixels, global_step);
}
void SummaryWriter::add_images(const std::string& tag, const Variable& pixels,
                               int64_t global_step) {
  image(tag, pixels, global_step);
}
void SummaryWriter::add_text(const std::string& tag, const std::string& text_string,
                             int64_t global_step) {
  text(tag, text_string, global_step);
}
}  // namespace tapegrad
