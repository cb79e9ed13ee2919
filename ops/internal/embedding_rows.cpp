#include "ops/internal/embedding_rows.h"
#include "ops/binary.h"
#include "ops/index.h"
#include "ops/rearrange.h"
#include "ops/sort.h"
#include "ops/view.h"

namespace tapegrad::detail {
namespace {

/// Computes y = zeros [size, d], then y[indices[i]] += rows[i].
Tensor added_to_zeros(const Tensor& indices, const Tensor& rows, int64_t size) {
  Tensor y = Tensor::full({size, rows.shape()[1]}, 0, rows.dtype(), rows.device());
  if (rows.numel() > 0) kernels::index_add(rows, indices, 0, 1.0, y);
  return y;
}

class EmbeddingRows final : public RowGradient {
 public:
  EmbeddingRows(Tensor indices, Tensor rows, int64_t size)
      : RowGradient(std::move(indices), std::move(rows)), size_(size) {}

  Tensor dense() const override { return added_to_zeros(indices(), rows(), size_); }

  RowGradientPtr plus(const RowGradient& other) const override {
    const Unique all = unique(cat({Variable(indices()), Variable(other.indices())}, 0));
    const int64_t split = indices().numel(), count = all.values.numel();
    const auto places = [&](int64_t first, int64_t length) {
      return narrow(all.inverse, 0, first, length).value().contiguous();
    };
    Tensor sum = added_to_zeros(places(0, split), rows(), count);
    if (other.rows().numel() > 0)
      kernels::index_add(other.rows(), places(split, other.indices().numel()), 0, 1.0, sum);
    return std::make_shared<EmbeddingRows>(all.values.value(), std::move(sum), size_);
  }

 private:
  int64_t size_;
};

}  // namespace

int64_t padding_row(std::string_view op, std::optional<int64_t> padding_idx, int64_t rows) {
  if (!padding_idx) return -1;
  if (*padding_idx < -rows || *padding_idx >= rows)
    fail<IndexError>(op, ": padding_idx ", *padding_idx, " is not one of ", rows, " rows");
  return *padding_idx < 0 ? *padding_idx + rows : *padding_idx;
}

RowGradientPtr sum_rows(const Tensor& indices, const Tensor& rows, int64_t size,
                        int64_t padding_idx) {
  const Unique distinct = unique(Variable(indices));
  Tensor sum = added_to_zeros(distinct.inverse.value().contiguous(), rows, distinct.values.numel());
  if (padding_idx >= 0 && sum.numel() > 0) {
    Variable summed{sum};
    masked_fill_(summed, unsqueeze(distinct.values == padding_idx, 1), 0);
  }
  return std::make_shared<EmbeddingRows>(distinct.values.value(), std::move(sum), size);
}

}  // namespace tapegrad::detail
