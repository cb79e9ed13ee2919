#include "dist/communicator.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>
#include <thread>

#include "absl/strings/str_cat.h"

#include "core/dispatch/kernels.h"
#include "dist/internal/connection.h"
#include "dist/internal/device_moves.h"
#include "dist/internal/rank_sum.h"
#include "dist/internal/thread_engine.h"

namespace tapegrad::dist {
namespace {

constexpr int64_t kSmallBytes = 8 << 10;   // one message of all values is faster than two of parts
constexpr int64_t kPieceBytes = 16 << 20;  // bounds the memory for messages

std::byte* bytes_of(const Tensor& x) {
  return reinterpret_cast<std::byte*>(x.storage().data()) + x.layout().offset * size_of(x.dtype());
}
/// memcpy() must not be given the null pointers of tensors without elements.
void copy_bytes(std::byte* to, const std::byte* from, size_t count) {
  if (count > 0) std::memcpy(to, from, count);
}
size_t byte_count(const Tensor& x) { return size_t(x.numel() * size_of(x.dtype())); }

/// Returns x itself if its elements are contiguous on the host, else a copy that is.
Tensor on_host(const Tensor& x) { return x.to(cpu).contiguous(); }

/// Copies the values of a host copy back to x, in place.
void put_back(const Tensor& host, const Tensor& x) {
  Tensor target = x;
  if (!host.shares_storage(x)) kernels::copy(host.to(x.device()), target);
  target.storage().bump_version();
}

/// Memory for messages, kept by the communication thread.
struct Buffers {
  std::vector<std::byte> out, in, sum;

  static std::byte* of_size(std::vector<std::byte>& buffer, int64_t bytes) {
    if (buffer.size() < size_t(bytes)) buffer.resize(size_t(bytes));
    return buffer.data();
  }
};

void convert_or_copy(DType from, const std::byte* in, DType to, std::byte* out, int64_t count) {
  if (from == to)
    std::memcpy(out, in, size_t(count * size_of(from)));
  else
    convert(from, in, to, out, count);
}

/// Replaces `count` values by their sum over the ranks. Runs on the communication thread.
void reduce_piece(Engine& engine, Waiting& waiting, Reduction how, std::byte* data, int64_t count) {
  static thread_local Buffers buffers;
  const int64_t ranks = engine.size(), size = size_of(how.wire);
  const bool is_small = count * size <= kSmallBytes;
  const int64_t part = is_small ? count : (count + ranks - 1) / ranks;
  const int64_t sent =
      is_small ? count : part * ranks;  // with the elements that fill the last part
  const std::byte* out = data;
  if (how.wire != how.dtype || sent != count) {
    std::byte* copy = Buffers::of_size(buffers.out, sent * size);
    convert_or_copy(how.dtype, data, how.wire, copy, count);
    std::fill(copy + count * size, copy + sent * size, std::byte());
    out = copy;
  }
  std::byte* in = Buffers::of_size(buffers.in, part * ranks * size);
  std::byte* sum = Buffers::of_size(buffers.sum, part * size);
  if (is_small)
    engine.all_gather(out, in, size_t(part * size), waiting);
  else
    engine.all_to_all(out, in, size_t(part * size), waiting);
  sum_ranks(how.wire, in, int(ranks), part, how.scale, sum);
  if (!is_small) engine.all_gather(sum, in, size_t(part * size), waiting);
  convert_or_copy(how.wire, is_small ? sum : in, how.dtype, data, count);
}

void reduce(Engine& engine, Waiting& waiting, Reduction how, std::byte* data, int64_t count) {
  const int64_t size = size_of(how.dtype), piece = kPieceBytes / size;
  for (int64_t first = 0; first < count; first += piece)
    reduce_piece(engine, waiting, how, data + first * size, std::min(piece, count - first));
}

Reduction reduction_of(const Tensor& x, const ReduceOptions& options, const char* function) {
  if (x.dtype() == boolean) fail<DTypeError>(function, ": bool has no sum");
  const bool cast = options.compress && (x.dtype() == f32 || x.dtype() == f64);
  return {x.dtype(), cast ? bf16 : x.dtype(), options.scale};
}

/// "all_reduce of loss (float32, 3 elements)"
std::string text_of(const std::string& kind, const std::string& name, const Tensor& x) {
  return absl::StrCat(kind, name.empty() ? "" : " of ", name, " (",
                      std::string(tapegrad::name(x.dtype())), ", ", x.numel(),
                      x.numel() == 1 ? " element)" : " elements)");
}

/// FNV-1a of what the text, which may be cut, does not say for certain.
uint64_t signature_of(const std::string& text, uint64_t options) {
  uint64_t sum = 0xcbf29ce484222325 ^ options;
  for (const char c : text) sum = (sum ^ uint8_t(c)) * 0x100000001b3;
  return sum;
}

}  // namespace

Communicator Connections::wrap(std::shared_ptr<Connection> connection) {
  Communicator made;
  if (connection->size() > 1) made.connection_ = std::move(connection);
  return made;
}

bool Connections::is_of_threads(const Communicator& world) {
  return world.connection_ && !world.connection_->ends_processes();
}

uint64_t Connections::count(const Communicator& world) {
  return world.connection_ ? world.connection_->collectives() : 0;
}

void Pending::wait() const {
  if (!state_) return;
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [&] { return state_->is_done; });
  if (state_->error) std::rethrow_exception(state_->error);
  if (const auto finish = std::exchange(state_->finish, nullptr)) finish();
}

bool Pending::is_done() const {
  if (!state_) return true;
  const std::lock_guard lock(state_->mutex);
  return state_->is_done;
}

Interval Pending::interval() const { return state_ ? state_->interval : Interval(); }
int64_t Pending::note() const { return state_ ? state_->note : 0; }

Communicator::Communicator() = default;
int Communicator::rank() const { return connection_ ? connection_->rank() : 0; }
int Communicator::size() const { return connection_ ? connection_->size() : 1; }

Pending Communicator::start(const std::string& text, uint64_t options, Move move,
                            int64_t note) const {
  Pending pending;
  pending.state_ = connection_->start(text, signature_of(text, options), std::move(move), note);
  return pending;
}

/// The collective begins when the work that the caller has enqueued is done.
Pending Communicator::start_on(Device device, const std::string& text, uint64_t options,
                               MoveOnDevice move, int64_t note) const {
  cuda::Event enqueued(device);
  enqueued.record();
  NcclLink& link = *connection_->links().at(device.index);
  return start(
      text, options,
      [&link, enqueued, move = std::move(move)](Engine&, Waiting& waiting) {
        const cuda::StreamGuard stream(link.stream());
        link.stream().wait(enqueued);
        move(link, waiting);
        link.finish(waiting);
      },
      note);
}

bool Communicator::has_nccl(Device device) const {
  if (!connection_ || device.type != DeviceType::kCuda) return false;
  auto& links = connection_->links();
  if (!links.contains(device.index))
    start("the GPUs of the ranks", 0, [&](Engine& engine, Waiting& waiting) {
      links[device.index] = NcclLink::make(engine, device, waiting);
    }).wait();
  return links.at(device.index) != nullptr;
}

Pending Communicator::start_all_reduce(const Tensor& x, const ReduceOptions& options) const {
  const Reduction how = reduction_of(x, options, "all_reduce");
  if (!connection_) return {};
  const bool is_direct = has_nccl(x.device());
  const Tensor host = is_direct ? x.contiguous() : on_host(x);
  const std::string kind = options.scale == Scale::kMean ? "all_reduce (mean)" : "all_reduce";
  const std::string text = text_of(kind, options.name, x);
  Pending pending;
  if (is_direct) {
    pending = start_on(
        x.device(), text, options.compress,
        [=](NcclLink& link, Waiting&) { reduce_on_device(link, how, host); }, options.note);
  } else {
    std::byte* data = bytes_of(host);
    pending = start(
        text, options.compress,
        [=](Engine& engine, Waiting& waiting) { reduce(engine, waiting, how, data, host.numel()); },
        options.note);
  }
  const std::lock_guard lock(pending.state_->mutex);
  pending.state_->finish = [host, x] { put_back(host, x); };
  return pending;
}

void Communicator::all_reduce(const Tensor& x, const ReduceOptions& options) const {
  start_all_reduce(x, options).wait();
}

void Communicator::broadcast(const Tensor& x, int root, const std::string& name) const {
  if (root < 0 || root >= size()) fail<ArgumentError>("broadcast: root ", root, " of ", size());
  if (!connection_) return;
  const std::string text = text_of("broadcast", name, x);
  if (has_nccl(x.device())) {
    const Tensor dense = x.contiguous();
    start_on(x.device(), text, uint64_t(root), [=](NcclLink& link, Waiting&) {
      link.broadcast(bytes_of(dense), byte_count(dense), root);
    }).wait();
    return put_back(dense, x);
  }
  const Tensor host = on_host(x);
  start(text, uint64_t(root), [&](Engine& engine, Waiting& waiting) {
    std::byte* data = bytes_of(host);
    for (size_t first = 0; first < byte_count(host); first += kPieceBytes)
      engine.broadcast(data + first, std::min(size_t(kPieceBytes), byte_count(host) - first), root,
                       waiting);
  }).wait();
  put_back(host, x);
}

Tensor Communicator::all_gather(const Tensor& x, const std::string& name) const {
  Shape shape{size()};
  for (const int64_t each : x.shape()) shape.push_back(each);
  const std::string text = text_of("all_gather", name, x);
  if (has_nccl(x.device())) {
    const Tensor dense = x.contiguous(), all = Tensor::empty(shape, x.dtype(), x.device());
    start_on(x.device(), text, 0, [=](NcclLink& link, Waiting&) {
      link.all_gather(bytes_of(dense), bytes_of(all), byte_count(dense));
    }).wait();
    return all;
  }
  const Tensor host = on_host(x);
  const Tensor all = Tensor::empty(shape, x.dtype());
  if (!connection_) {
    copy_bytes(bytes_of(all), bytes_of(host), byte_count(host));
    return all.to(x.device());
  }
  start(text, 0, [&](Engine& engine, Waiting& waiting) {
    const size_t total = byte_count(host), piece = size_t(kPieceBytes);
    std::vector<std::byte> parts;
    for (size_t first = 0; first < total; first += piece) {
      const size_t bytes = std::min(piece, total - first);
      parts.resize(bytes * size_t(size()));
      engine.all_gather(bytes_of(host) + first, parts.data(), bytes, waiting);
      for (size_t r = 0; r < size_t(size()); ++r)
        std::memcpy(bytes_of(all) + r * total + first, parts.data() + r * bytes, bytes);
    }
  }).wait();
  return all.to(x.device());
}

Pending Communicator::start_reduce_scatter(const Tensor& x, const Tensor& own,
                                           const ReduceOptions& options) const {
  const Reduction how = reduction_of(x, options, "reduce_scatter");
  if (x.rank() == 0 || x.shape()[0] % size() != 0)
    fail<ShapeError>("reduce_scatter: ", size(), " ranks do not divide dimension 0 of ", x.shape());
  Shape shape = x.shape();
  shape[0] /= size();
  if (own.device() != x.device() || !own.is_contiguous() || own.dtype() != x.dtype() ||
      own.shape() != shape)
    fail<ShapeError>("reduce_scatter: the result of ", x.shape(), " of ", size(),
                     " ranks does not fit a tensor of ", own.shape());
  if (!connection_) {
    put_back(x.contiguous(), own);
    return {};
  }
  const std::string kind =
      options.scale == Scale::kMean ? "reduce_scatter (mean)" : "reduce_scatter";
  const std::string text = text_of(kind, options.name, x);
  if (has_nccl(x.device()))
    return start_on(
        x.device(), text, options.compress,
        [=, dense = x.contiguous()](NcclLink& link, Waiting&) {
          reduce_scatter_on_device(link, how, dense, own);
        },
        options.note);
  const Tensor host = on_host(x);
  const Tensor part_on_host = own.device() == cpu ? own : Tensor::empty(own.shape(), own.dtype());
  Pending pending = start(
      text, options.compress,
      [=, own = part_on_host, ranks = int64_t(size())](Engine& engine, Waiting& waiting) {
        const int64_t part = own.numel(), size = size_of(how.dtype), sent = size_of(how.wire);
        const int64_t piece = std::max<int64_t>(1, kPieceBytes / size / ranks);
        std::vector<std::byte> out, in, sum;
        for (int64_t first = 0; first < part; first += piece) {
          const int64_t count = std::min(piece, part - first);
          out.resize(size_t(count * sent * ranks));
          in.resize(out.size());
          sum.resize(size_t(count * sent));
          for (int64_t r = 0; r < ranks; ++r)
            convert_or_copy(how.dtype, bytes_of(host) + (r * part + first) * size, how.wire,
                            out.data() + r * count * sent, count);
          engine.all_to_all(out.data(), in.data(), size_t(count * sent), waiting);
          sum_ranks(how.wire, in.data(), int(ranks), count, how.scale, sum.data());
          convert_or_copy(how.wire, sum.data(), how.dtype, bytes_of(own) + first * size, count);
        }
      },
      options.note);
  const std::lock_guard lock(pending.state_->mutex);
  pending.state_->finish = [part_on_host, own] { put_back(part_on_host, own); };
  return pending;
}

Tensor Communicator::reduce_scatter(const Tensor& x, const ReduceOptions& options) const {
  Shape shape = x.shape();
  if (shape.rank() > 0) shape[0] /= size();
  const Tensor own = Tensor::empty(shape, x.dtype(), x.device());
  start_reduce_scatter(x, own, options).wait();
  return own;
}

void Communicator::barrier(const std::string& name) const {
  if (!connection_) return;
  start(absl::StrCat("barrier", name.empty() ? "" : " of ", name), 0, [](Engine&, Waiting&) {
  }).wait();
}

int64_t Communicator::max(int64_t value, const std::string& name) const {
  if (!connection_) return value;
  const Tensor all = all_gather(Tensor::full({}, value, i64), name);
  return *std::max_element(all.data<int64_t>(), all.data<int64_t>() + size());
}

std::vector<double> Communicator::mean(std::vector<double> values, const std::string& name) const {
  if (!connection_ || values.empty()) return values;
  const Tensor all = Tensor::from<double>(values, {int64_t(values.size())});
  all_reduce(all, {.scale = Scale::kMean, .name = name});
  return {all.data<double>(), all.data<double>() + all.numel()};
}

std::vector<std::string> Communicator::all_gather_text(const std::string& text,
                                                       const std::string& name) const {
  if (!connection_) return {text};
  const Tensor lengths = all_gather(Tensor::full({}, int64_t(text.size()), i64), name);
  const auto* length = lengths.data<int64_t>();
  const int64_t longest = *std::max_element(length, length + size());
  const Tensor own = Tensor::full({longest}, 0, u8);
  copy_bytes(bytes_of(own), reinterpret_cast<const std::byte*>(text.data()), text.size());
  const Tensor all = all_gather(own, name);
  std::vector<std::string> texts;
  for (int64_t r = 0; r < size(); ++r) {
    const auto* begin = reinterpret_cast<const char*>(all.data<uint8_t>()) + r * longest;
    texts.emplace_back(begin, size_t(length[r]));
  }
  return texts;
}

double Communicator::timeout() const { return connection_ ? connection_->timeout() : HUGE_VAL; }

void Communicator::set_timeout(double seconds) const {
  check_timeout(seconds);
  if (connection_) connection_->set_timeout(seconds);
}

void Communicator::abort(const std::string& reason) const {
  const std::string line =
      absl::StrCat(connection_ ? connection_->who() : "rank 0 of 1", ": ", reason);
  if (connection_) connection_->end_all(line);
  throw Error(line);
}

void check_timeout(double seconds) {
  if (!(seconds > 0) || !std::isfinite(seconds))
    fail<ArgumentError>("timeout: ", seconds, " is not a time in seconds above 0");
}

void run_threads(int ranks, const std::function<void(Communicator)>& run, double timeout) {
  if (ranks < 1) fail<ArgumentError>("run_threads: ", ranks, " ranks");
  check_timeout(timeout);
  const auto board = std::make_shared<Board>(ranks);
  std::mutex mutex;
  std::exception_ptr first, of_peer;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      try {
        run(Connections::wrap(Connection::open(
            [&] { return std::make_unique<ThreadEngine>(board, rank); }, timeout)));
      } catch (const PeerError&) {
        const std::lock_guard lock(mutex);
        of_peer = std::current_exception();
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!first) first = std::current_exception();
      }
    });
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
  if (of_peer) std::rethrow_exception(of_peer);
}

}  // namespace tapegrad::dist
