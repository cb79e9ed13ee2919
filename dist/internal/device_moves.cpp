#include "dist/internal/device_moves.h"

#include <algorithm>

#include "core/dispatch/kernels.h"
#include "core/tape/recording.h"
#include "ops/binary.h"
#include "ops/bitwise.h"

namespace tapegrad::dist {

Tensor elements(const Tensor& x, int64_t first, int64_t count) {
  return x.with_layout(contiguous_layout({count}, x.layout().offset + first));
}

namespace {

constexpr int64_t kDevicePieceBytes = 64 << 20;  // bounds the memory for messages

void* device_bytes(const Tensor& x) {
  return x.storage().data() + x.layout().offset * size_of(x.dtype());
}

void copy(const Tensor& from, Tensor to) { kernels::copy(from, to); }

/// sum = sum + x, or the result of another op.
void combine(ReduceOp op, const Tensor& x, Tensor& sum) {
  const Variable a(sum), b(x);
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kMean:
      return kernels::accumulate(x, sum);
    case ReduceOp::kProduct:
      sum = (a * b).value();
      return;
    case ReduceOp::kMin:
      sum = minimum(a, b).value();
      return;
    case ReduceOp::kMax:
      sum = maximum(a, b).value();
      return;
  }
}

/// Returns the sum of part r of `out` of all ranks on rank r, as messages are.
Tensor exchange_and_sum(NcclLink& link, const Reduction& how, const Tensor& out) {
  const int64_t ranks = link.ranks(), part = out.numel() / ranks;
  const Tensor in = out.empty_like();
  link.all_to_all(device_bytes(out), device_bytes(in), size_t(part * size_of(how.wire)));
  const bool is_short = how.wire == f16 || how.wire == bf16;
  const auto of_rank = [&](int64_t r) {
    const Tensor values = elements(in, r * part, part);
    return is_short ? values.to(f32) : values;
  };
  const NoGrad no_grad;
  Tensor sum = of_rank(0).clone();
  for (int64_t r = 1; r < ranks; ++r) combine(how.op, of_rank(r), sum);
  if (how.op == ReduceOp::kMean) {
    const Variable count = Variable(Tensor::full({}, double(ranks), sum.dtype(), sum.device()));
    sum = (Variable(sum) / count).value().to(sum.dtype());
  }
  return sum.to(how.wire);
}

}  // namespace

void reduce_on_device(NcclLink& link, const Reduction& how, const Tensor& x) {
  const int64_t ranks = link.ranks(), piece = kDevicePieceBytes / size_of(how.dtype);
  for (int64_t first = 0; first < x.numel(); first += piece) {
    const int64_t count = std::min(piece, x.numel() - first);
    const int64_t part = (count + ranks - 1) / ranks;
    const Tensor all = Tensor::empty({part * ranks}, how.wire, x.device());
    copy(elements(x, first, count), elements(all, 0, count));
    if (Tensor rest = elements(all, count, part * ranks - count); rest.numel() > 0)
      kernels::fill(rest, 0);
    const Tensor sum = exchange_and_sum(link, how, all);
    link.all_gather(device_bytes(sum), device_bytes(all), size_t(part * size_of(how.wire)));
    copy(elements(all, 0, count), elements(x, first, count));
  }
}

void reduce_scatter_on_device(NcclLink& link, const Reduction& how, const Tensor& x,
                              const Tensor& own) {
  const int64_t ranks = link.ranks(), part = own.numel();
  const int64_t piece = std::max<int64_t>(1, kDevicePieceBytes / size_of(how.dtype) / ranks);
  for (int64_t first = 0; first < part; first += piece) {
    const int64_t count = std::min(piece, part - first);
    const Tensor all = Tensor::empty({count * ranks}, how.wire, x.device());
    for (int64_t r = 0; r < ranks; ++r)
      copy(elements(x, r * part + first, count), elements(all, r * count, count));
    copy(exchange_and_sum(link, how, all), elements(own, first, count));
  }
}

}  // namespace tapegrad::dist
