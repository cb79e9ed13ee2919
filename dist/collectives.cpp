// The collectives of a Communicator.
#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"

#include "core/dispatch/kernels.h"
#include "dist/communicator.h"
#include "dist/internal/connection.h"
#include "dist/internal/device_moves.h"
#include "dist/internal/rank_sum.h"

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
  reduce_ranks(how.wire, in, int(ranks), part, how.op, sum);
  if (!is_small) engine.all_gather(sum, in, size_t(part * size), waiting);
  convert_or_copy(how.wire, is_small ? sum : in, how.dtype, data, count);
}

void reduce_on_host(Engine& engine, Waiting& waiting, Reduction how, std::byte* data,
                    int64_t count) {
  const int64_t size = size_of(how.dtype), piece = kPieceBytes / size;
  for (int64_t first = 0; first < count; first += piece)
    reduce_piece(engine, waiting, how, data + first * size, std::min(piece, count - first));
}

/// Calls move(first, bytes) for pieces of `total` bytes, of which `ranks` are in memory at a time.
template <typename Move>
void each_piece(size_t total, size_t ranks, Move move) {
  const size_t piece = std::max<size_t>(1, size_t(kPieceBytes) / ranks);
  for (size_t first = 0; first < total; first += piece) move(first, std::min(piece, total - first));
}

/// [ranks, ...]
Shape with_ranks(int ranks, const Shape& shape) {
  Shape all{ranks};
  for (const int64_t each : shape) all.push_back(each);
  return all;
}

std::string text_of_type(const Tensor& x) {
  detail::ErrorText text;
  text.add(x.dtype());
  text.add(' ');
  text.add(x.shape());
  return std::string(text.text());
}

Reduction reduction_of(const Tensor& x, const ReduceOptions& options, const char* function) {
  const bool adds = options.op != ReduceOp::kMin && options.op != ReduceOp::kMax;
  if (x.dtype() == boolean && adds) fail<DTypeError>(function, ": bool has no sum");
  const bool cast = options.compress && (x.dtype() == f32 || x.dtype() == f64);
  return {x.dtype(), cast ? bf16 : x.dtype(), options.op};
}

/// "all_reduce", "all_reduce (mean)" or "all_reduce (mean, compressed)"
std::string kind_of(const char* function, const ReduceOptions& options) {
  constexpr const char* kNames[] = {"sum", "mean", "product", "min", "max"};
  if (options.op == ReduceOp::kSum && !options.compress) return function;
  return absl::StrCat(function, " (", kNames[int(options.op)],
                      options.compress ? ", compressed)" : ")");
}

/// "broadcast" or "broadcast from rank 1"
std::string with_root(std::string kind, const char* preposition, int root) {
  if (root > 0) absl::StrAppend(&kind, " ", preposition, " rank ", root);
  return kind;
}

/// "all_reduce of loss (float32, 3 elements)" or "all_gather of x (float32 [2, 3])"
std::string text_of(const std::string& kind, const std::string& name, const Tensor& x) {
  return absl::StrCat(kind, name.empty() ? "" : " of ", name, " (",
                      x.rank() > 1
                          ? text_of_type(x)
                          : absl::StrCat(std::string(tapegrad::name(x.dtype())), ", ", x.numel(),
                                         x.numel() == 1 ? " element" : " elements"),
                      ")");
}

}  // namespace

Pending Communicator::start_reduction(const char* function, const Tensor& x,
                                      const ReduceOptions& options, uint64_t root) const {
  const Reduction how = reduction_of(x, options, function);
  if (!group_) return {};
  const bool is_direct = has_nccl(x.device());
  const Tensor host = is_direct ? x.contiguous() : on_host(x);
  const std::string text =
      text_of(with_root(kind_of(function, options), "to", int(root)), options.name, x);
  const uint64_t compared = root << 1 | uint64_t(options.compress);
  Pending pending;
  if (is_direct) {
    pending = start_on(
        x.device(), text, compared,
        [=](NcclLink& link, Waiting&) { reduce_on_device(link, how, host); }, options.note);
  } else {
    std::byte* data = bytes_of(host);
    pending = start(
        text, compared,
        [=](Engine& engine, Waiting& waiting) {
          reduce_on_host(engine, waiting, how, data, host.numel());
        },
        options.note);
  }
  const std::lock_guard lock(pending.state_->mutex);
  pending.state_->finish = [host, x] { put_back(host, x); };
  return pending;
}

Pending Communicator::start_all_reduce(const Values& x, const ReduceOptions& options) const {
  return start_reduction("all_reduce", x.tensor(), options, 0);
}

void Communicator::all_reduce(const Values& x, const ReduceOptions& options) const {
  start_all_reduce(x, options).wait();
}

void Communicator::reduce(const Values& x, int root, const ReduceOptions& options) const {
  check_root("reduce", root);
  const Tensor copy = rank() == root ? x.tensor() : x.tensor().clone();
  start_reduction("reduce", copy, options, uint64_t(root)).wait();
}

void Communicator::check_root(const char* function, int root) const {
  if (root < 0 || root >= size()) fail<ArgumentError>(function, ": root ", root, " of ", size());
}

void Communicator::broadcast(const Values& values, int root, const std::string& name) const {
  check_root("broadcast", root);
  if (!group_) return;
  const Tensor& x = values.tensor();
  const std::string text = text_of(with_root("broadcast", "from", root), name, x);
  if (has_nccl(x.device())) {
    const Tensor dense = x.contiguous();
    start_on(x.device(), text, uint64_t(root), [=](NcclLink& link, Waiting&) {
      link.broadcast(bytes_of(dense), byte_count(dense), root);
    }).wait();
    return put_back(dense, x);
  }
  const Tensor host = on_host(x);
  start(text, uint64_t(root), [&](Engine& engine, Waiting& waiting) {
    each_piece(byte_count(host), 1, [&](size_t first, size_t bytes) {
      engine.broadcast(bytes_of(host) + first, bytes, root, waiting);
    });
  }).wait();
  put_back(host, x);
}

Tensor Communicator::gather_to(const char* function, const Tensor& x, const std::string& name,
                               int root) const {
  const bool keeps = root < 0 || root == rank();
  const Shape shape = with_ranks(size(), x.shape());
  const std::string text = text_of(with_root(function, "to", root), name, x);
  const uint64_t compared = uint64_t(root + 1);
  if (has_nccl(x.device())) {
    const Tensor dense = x.contiguous(), all = Tensor::empty(shape, x.dtype(), x.device());
    start_on(x.device(), text, compared, [=](NcclLink& link, Waiting&) {
      link.all_gather(bytes_of(dense), bytes_of(all), byte_count(dense));
    }).wait();
    return keeps ? all : Tensor();
  }
  const Tensor host = on_host(x);
  const Tensor all = keeps ? Tensor::empty(shape, x.dtype()) : Tensor();
  if (!group_) {
    copy_bytes(bytes_of(all), bytes_of(host), byte_count(host));
    return all.to(x.device());
  }
  start(text, compared, [&](Engine& engine, Waiting& waiting) {
    const size_t ranks = size_t(size()), total = byte_count(host);
    std::vector<std::byte> parts;
    each_piece(total, 1, [&](size_t first, size_t bytes) {
      parts.resize(bytes * ranks);
      engine.all_gather(bytes_of(host) + first, parts.data(), bytes, waiting);
      for (size_t r = 0; keeps && r < ranks; ++r)
        std::memcpy(bytes_of(all) + r * total + first, parts.data() + r * bytes, bytes);
    });
  }).wait();
  return keeps ? all.to(x.device()) : Tensor();
}

Tensor Communicator::all_gather(const Values& x, const std::string& name) const {
  return gather_to("all_gather", x.tensor(), name, -1);
}

Tensor Communicator::gather(const Values& x, int root, const std::string& name) const {
  check_root("gather", root);
  return gather_to("gather", x.tensor(), name, root);
}

void Communicator::scatter(const Tensor& all, const Values& values, int root,
                           const std::string& name) const {
  check_root("scatter", root);
  const Tensor& own = values.tensor();
  const Shape shape = with_ranks(size(), own.shape());
  const bool is_root = rank() == root;
  if (is_root && (!all || all.shape() != shape || all.dtype() != own.dtype()))
    fail<ShapeError>("scatter: rank ", root, " has ", all ? text_of_type(all) : "no tensor",
                     " for parts of ", text_of_type(own));
  const size_t part = byte_count(own), ranks = size_t(size());
  const Tensor host =
      own.device() == cpu && own.is_contiguous() ? own : Tensor::empty(own.shape(), own.dtype());
  const Tensor from = is_root ? on_host(all) : Tensor();
  if (!group_) {
    copy_bytes(bytes_of(host), bytes_of(from), part);
    return put_back(host, own);
  }
  const std::string text = text_of(with_root("scatter", "from", root), name, own);
  start(text, uint64_t(root), [&](Engine& engine, Waiting& waiting) {
    std::vector<std::byte> parts;
    each_piece(part, ranks, [&](size_t first, size_t bytes) {
      parts.resize(bytes * ranks);
      for (size_t r = 0; is_root && r < ranks; ++r)
        std::memcpy(parts.data() + r * bytes, bytes_of(from) + r * part + first, bytes);
      engine.broadcast(parts.data(), parts.size(), root, waiting);
      std::memcpy(bytes_of(host) + first, parts.data() + size_t(rank()) * bytes, bytes);
    });
  }).wait();
  put_back(host, own);
}

Tensor Communicator::all_to_all(const Values& values, const std::string& name) const {
  const Tensor& x = values.tensor();
  if (x.rank() == 0 || x.shape()[0] % size() != 0)
    fail<ShapeError>("all_to_all: ", size(), " ranks do not divide dimension 0 of ", x.shape());
  if (!group_) return x.clone();
  const std::string text = text_of("all_to_all", name, x);
  const size_t ranks = size_t(size()), part = byte_count(x) / ranks;
  if (has_nccl(x.device())) {
    const Tensor dense = x.contiguous(), made = Tensor::empty(x.shape(), x.dtype(), x.device());
    start_on(x.device(), text, 0, [=](NcclLink& link, Waiting&) {
      link.all_to_all(bytes_of(dense), bytes_of(made), part);
    }).wait();
    return made;
  }
  const Tensor host = on_host(x), made = Tensor::empty(x.shape(), x.dtype());
  start(text, 0, [&](Engine& engine, Waiting& waiting) {
    std::vector<std::byte> out, in;
    each_piece(part, ranks, [&](size_t first, size_t bytes) {
      out.resize(bytes * ranks);
      in.resize(bytes * ranks);
      for (size_t r = 0; r < ranks; ++r)
        std::memcpy(out.data() + r * bytes, bytes_of(host) + r * part + first, bytes);
      engine.all_to_all(out.data(), in.data(), bytes, waiting);
      for (size_t r = 0; r < ranks; ++r)
        std::memcpy(bytes_of(made) + r * part + first, in.data() + r * bytes, bytes);
    });
  }).wait();
  return made.to(x.device());
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
  if (!group_) {
    put_back(x.contiguous(), own);
    return {};
  }
  const std::string text = text_of(kind_of("reduce_scatter", options), options.name, x);
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
          reduce_ranks(how.wire, in.data(), int(ranks), count, how.op, sum.data());
          convert_or_copy(how.wire, sum.data(), how.dtype, bytes_of(own) + first * size, count);
        }
      },
      options.note);
  const std::lock_guard lock(pending.state_->mutex);
  pending.state_->finish = [part_on_host, own] { put_back(part_on_host, own); };
  return pending;
}

Tensor Communicator::reduce_scatter(const Values& values, const ReduceOptions& options) const {
  const Tensor& x = values.tensor();
  Shape shape = x.shape();
  if (shape.rank() > 0) shape[0] /= size();
  const Tensor own = Tensor::empty(shape, x.dtype(), x.device());
  start_reduce_scatter(x, own, options).wait();
  return own;
}

void Communicator::barrier(const std::string& name) const {
  if (!group_) return;
  start(absl::StrCat("barrier", name.empty() ? "" : " of ", name), 0, [](Engine&, Waiting&) {
  }).wait();
}

int64_t Communicator::max(int64_t value, const std::string& name) const {
  const Tensor all = Tensor::full({}, value, i64);
  all_reduce(all, {.op = ReduceOp::kMax, .name = name});
  return *all.data<int64_t>();
}

std::vector<double> Communicator::mean(std::vector<double> values, const std::string& name) const {
  if (!group_ || values.empty()) return values;
  const Tensor all = Tensor::from<double>(values, {int64_t(values.size())});
  all_reduce(all, {.op = ReduceOp::kMean, .name = name});
  return {all.data<double>(), all.data<double>() + all.numel()};
}

std::vector<std::string> Communicator::all_gather_text(const std::string& text,
                                                       const std::string& name) const {
  if (!group_) return {text};
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

std::string Communicator::broadcast_text(const std::string& text, int root,
                                         const std::string& name) const {
  check_root("broadcast_text", root);
  if (!group_) return text;
  const Tensor length = Tensor::full({}, int64_t(text.size()), i64);
  broadcast(length, root, name);
  const Tensor bytes = Tensor::full({*length.data<int64_t>()}, 0, u8);
  if (rank() == root)
    copy_bytes(bytes_of(bytes), reinterpret_cast<const std::byte*>(text.data()), text.size());
  broadcast(bytes, root, name);
  return {reinterpret_cast<const char*>(bytes.data<uint8_t>()), size_t(bytes.numel())};
}

}  // namespace tapegrad::dist
