#include "backends/cpu/fast/channel_blocks.h"

#include <algorithm>

#include "backends/cpu/fast/packed.h"
#include "backends/cpu/tools/lanes.h"
#include "backends/cpu/tools/transpose.h"

namespace tapegrad::backends::cpu {

ChannelBlocks ChannelBlocks::of_input(const Tensor& x) {
  ChannelBlocks blocks(x.shape());
  if (auto values = packed_values(x); values && values->packing.block % kLane == 0) {
    blocks.unit_ = values->packing.block;
    blocks.data_ = cpu::data<float>(*values);
    blocks.owner_ = std::move(values->buffer);
  } else {
    blocks.data_ = x.data<float>();
  }
  return blocks;
}

ChannelBlocks ChannelBlocks::of_result(Tensor& y) {
  ChannelBlocks blocks(y.shape());
  blocks.data_ = y.data<float>();
  if (can_be_packed(y, kLane)) blocks.unit_ = kLane;
  return blocks;
}

void ChannelBlocks::finish(Tensor& y) const {
  if (unit_ != 0) y.storage().set_packed(packing_of(y.shape(), unit_));
}

void ChannelBlocks::read(int64_t n, int64_t block, int64_t row, int64_t rows, int64_t first,
                         int64_t count, float* to, int64_t pitch) const {
  if (unit_ != 0) {
    for (; rows > 0; --rows, ++row, to += pitch) {
      const float* from = place(n, block, row) + first * unit_;
      for (int64_t i = 0; i < count; ++i)
        Batch<float>::load_unaligned(from + i * unit_).store_unaligned(to + i * kLane);
    }
    return;
  }
  const int64_t channels = channels_of(block), positions = rows * width();
  const float* planes[kLane];
  for (int64_t c = 0; c < channels; ++c) planes[c] = plain(n, block * kLane + c, row);
  const float* end = data_ + numel(shape_);
  int64_t column = 0;
  for (int64_t i = 0; i < positions; i += kLane) {
    const int64_t some = std::min<int64_t>(kLane, positions - i);
    FloatVector lines[kLane];
    unrolled<kLane>([&](auto c) {
      if (c() >= channels)
        lines[c()] = Batch<float>(0.0f);
      else if (planes[c()] + i + kLane <= end)  // may read further than the rows
        lines[c()] = load_batch(planes[c()] + i);
      else
        lines[c()] = load_some(planes[c()] + i, some);
    });
    transpose(lines);
    alignas(64) float vectors[kLane * kLane];
    unrolled<kLane>([&](auto j) { store_batch(vectors + j() * kLane, Batch<float>(lines[j()])); });
    for (int64_t j = 0; j < some; ++j) {
      if (column >= first && column < first + count)
        load_batch(vectors + j * kLane).store_unaligned(to + (column - first) * kLane);
      if (++column == width()) column = 0, to += pitch;
    }
  }
}

void ChannelBlocks::write(int64_t n, int64_t block, int64_t row, int64_t rows,
                          const float* from) const {
  const int64_t positions = rows * width();
  if (unit_ != 0) {
    float* to = place(n, block, row);
    for (int64_t i = 0; i < positions; ++i)
      Batch<float>::load_unaligned(from + i * kLane).store_unaligned(to + i * unit_);
    return;
  }
  const int64_t channels = channels_of(block);
  for (int64_t i = 0; i < positions; i += kLane) {
    const int64_t some = std::min<int64_t>(kLane, positions - i);
    FloatVector lines[kLane];
    unrolled<kLane>([&](auto j) {
      lines[j()] = j() < some ? load_batch(from + (i + j()) * kLane) : Batch<float>(0.0f);
    });
    transpose(lines);
    unrolled<kLane>([&](auto c) {
      if (c() >= channels) return;
      float* to = plain(n, block * kLane + c(), row) + i;
      if (some == kLane)
        store_batch(to, Batch<float>(lines[c()]));
      else
        store_some(to, some, Batch<float>(lines[c()]));
    });
  }
}

}  // namespace tapegrad::backends::cpu
