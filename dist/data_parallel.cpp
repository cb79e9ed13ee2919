#include "dist/data_parallel.h"

#include <algorithm>
#include <functional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "core/autograd/internal/capture.h"
#include "core/base/generator.h"
#include "core/dispatch/kernels.h"
#include "core/tape/recording.h"
#include "dist/internal/gradient_reducer.h"

namespace tapegrad::dist {
namespace {

/// Returns a line per parameter and buffer: "parameter fc1.weight, float32 [10, 784]".
std::string describe(const nn::Module& model) {
  std::string text;
  const auto add = [&](const char* kind, const nn::NamedVariable& each) {
    detail::ErrorText line;
    line.add(kind);
    line.add(each.name);
    line.add(", ");
    line.add(each.variable.dtype());
    line.add(' ');
    line.add(each.variable.shape());
    line.add(each.variable.requires_grad() ? "" : ", without gradient");
    absl::StrAppend(&text, line.text(), "\n");
  };
  for (const auto& each : model.named_parameters()) add("parameter ", each);
  for (const auto& each : model.named_buffers()) add("buffer ", each);
  return text;
}

/// Throws ArgumentError on all ranks unless all have one description. Hashes are compared first.
void compare(const Communicator& world, const std::string& own) {
  const int64_t hash = int64_t(std::hash<std::string>()(own));
  const Tensor hashes = world.all_gather(Tensor::full({}, hash, i64), "hash of the model");
  bool is_equal = true;
  for (int r = 0; r < world.size(); ++r) is_equal &= hashes.data<int64_t>()[r] == hash;
  // The ranks that are equal to each other must take part, too.
  if (world.max(!is_equal, "models differ") == 0) return;
  const std::vector<std::string> texts = world.all_gather_text(own, "models");
  const std::vector<std::string> first = absl::StrSplit(texts[0], '\n');
  for (size_t r = 1; r < texts.size(); ++r) {
    if (texts[r] == texts[0]) continue;
    const std::vector<std::string> other = absl::StrSplit(texts[r], '\n');
    size_t line = 0;
    while (line < std::min(first.size(), other.size()) && first[line] == other[line]) ++line;
    const auto at = [&](const std::vector<std::string>& lines) {
      return line < lines.size() && !lines[line].empty() ? lines[line] : "nothing more";
    };
    fail<ArgumentError>("DataParallel: the models differ: rank 0 has ", at(first), "; rank ", r,
                        " has ", at(other));
  }
}

/// Replaces all tensors by those of rank `root`, with one message.
void broadcast_all(const Communicator& world, const std::vector<Variable>& variables,
                   int root = 0) {
  const auto bytes_of = [](const Variable& x) { return x.numel() * size_of(x.dtype()); };
  int64_t bytes = 0;
  for (const Variable& each : variables) bytes += bytes_of(each);
  const Tensor all = Tensor::empty({bytes}, u8);
  const auto each_part = [&](auto visit) {
    uint8_t* at = all.data<uint8_t>();
    for (const Variable& each : variables) {
      Tensor part = Tensor::wrap(at, each.shape(), each.dtype());
      visit(each, part);
      at += bytes_of(each);
    }
  };
  if (world.rank() == root)
    each_part([](const Variable& x, Tensor& part) { kernels::copy(x.value().to(cpu), part); });
  world.broadcast(all, root, "buffers");
  if (world.rank() == root) return;
  const NoGrad no_grad;
  each_part([](Variable x, const Tensor& part) { x.copy_(Variable(part)); });
}

}  // namespace

DataParallel::DataParallel(const nn::Module& model, const Communicator& world,
                           DataParallelOptions options)
    : model_(model) {
  if (options.bucket_bytes < 1 || options.first_bucket_bytes < 1)
    fail<ArgumentError>("DataParallel: buckets of ", options.first_bucket_bytes, " and ",
                        options.bucket_bytes, " bytes: each must be at least 1");
  if (options.shard_gradients && options.find_unused_parameters)
    fail<ArgumentError>("DataParallel: shard_gradients excludes find_unused_parameters");
  const std::string description = describe(model);
  reducer_ = std::make_shared<GradientReducer>(model.named_parameters(), world, options);
  if (world.size() == 1 && !options.shard_gradients) return;
  compare(world, description);
  for (const auto& [name, variable] : model.named_parameters())
    world.broadcast(variable.value(), 0, name);
  for (const auto& [name, variable] : model.named_buffers())
    world.broadcast(variable.value(), 0, name);
  if (!world.is_first()) {
    const RandomState state = default_generator().state();
    const auto words = philox(state.seed, uint64_t(world.rank()));
    default_generator().set_state({uint64_t(words[0]) << 32 | words[1], state.offset});
  }
  add_leaf_observer(reducer_);
  if (!options.broadcast_buffers || model.buffers().empty()) return;
  (*model_).register_forward_pre_hook(
      [weak = std::weak_ptr(reducer_)](nn::Module& module, std::span<Variable>) {
        const auto reducer = weak.lock();
        if (reducer && !reducer->is_silent() && !reducer->is_joining() && module.is_training() &&
            is_recording() && !is_recomputing())
          broadcast_all(reducer->world(), module.buffers());
      });
}

DataParallel::NoSync::NoSync(const DataParallel& net)
    : reducer_(net.reducer_), is_captured_(Capture::current() != nullptr) {
  reducer_->add_silence(1, is_captured_);
}

DataParallel::NoSync::~NoSync() { reducer_->add_silence(-1, is_captured_); }

DataParallel::Join::Join(const DataParallel& net) : model_(net.model_), reducer_(net.reducer_) {
  reducer_->add_join(1);
}

DataParallel::Join::~Join() { reducer_->add_join(-1); }

bool DataParallel::Join::follow() {
  if (reducer_->follow()) return true;
  if (reducer_->options().broadcast_buffers && !model_->buffers().empty())
    broadcast_all(reducer_->world(), model_->buffers(), reducer_->busiest_rank());
  return false;
}

void DataParallel::reduce_gradients() const {
  reducer_->reduce_gradients();
  if (world().size() > 1 && reducer_->options().broadcast_buffers && model_->is_training() &&
      !model_->buffers().empty())
    broadcast_all(world(), model_->buffers());
}

const Communicator& DataParallel::world() const { return reducer_->world(); }

void DataParallel::tell(int64_t number) const { reducer_->tell(number); }
int64_t DataParallel::heard() const { return reducer_->heard(); }

CommunicationStats DataParallel::stats() const { return reducer_->stats(); }

void DataParallel::members(nn::Members& m) { model_->members(m); }
Variable DataParallel::forward(const Variable& x, Where where) const {
  return model_->call(x, where);
}
DataParallel::NoSync DataParallel::no_sync() const { return NoSync(*this); }
DataParallel::Join DataParallel::join() const { return Join(*this); }
}  // namespace tapegrad::dist
