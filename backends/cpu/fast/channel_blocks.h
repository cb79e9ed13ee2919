// Images as vectors of channels: rows of a block of kLanes<float> channels, read from and written
// to tensors in row-major or packed layout.
#pragma once

#include "backends/cpu/tools/simd.h"
#include "core/base/tensor.h"

namespace tapegrad::backends::cpu {

/// A contiguous or packed float32 tensor [batch, channels, height, width]. A block is the
/// kLanes<float> channels from a multiple of kLanes<float>.
class ChannelBlocks {
 public:
  /// Returns the values of an operand. Unpacks it if its packed layout has smaller blocks.
  static ChannelBlocks of_input(const Tensor& x);
  /// Returns the memory of a result, which becomes packed if its shape permits that.
  static ChannelBlocks of_result(Tensor& y);
  /// Called after a result is written.
  void finish(Tensor& y) const;

  int64_t batch() const { return shape_[0]; }
  int64_t channels() const { return shape_[1]; }
  int64_t height() const { return shape_[2]; }
  int64_t width() const { return shape_[3]; }
  int64_t blocks() const { return (channels() + kLane - 1) / kLane; }

  /// Reads columns [first, first + count) of `rows` rows as vectors. The vectors of a row are
  /// contiguous, and rows are `pitch` floats apart. Lanes without a channel are 0.
  void read(int64_t n, int64_t block, int64_t row, int64_t rows, int64_t first, int64_t count,
            float* to, int64_t pitch) const;
  /// Writes whole rows from contiguous vectors.
  void write(int64_t n, int64_t block, int64_t row, int64_t rows, const float* from) const;
  /// Returns a row whose vectors are contiguous in memory; null if the layout has none.
  float* row(int64_t n, int64_t block, int64_t row) const {
    return unit_ == kLane ? place(n, block, row) : nullptr;
  }

 private:
  static constexpr int64_t kLane = kLanes<float>;

  explicit ChannelBlocks(const Shape& shape) : shape_(shape) {}
  /// Address of the first vector of a row in a packed tensor.
  float* place(int64_t n, int64_t block, int64_t row) const {
    const int64_t channel = block * kLane;
    return data_ + ((n * channels() + channel / unit_ * unit_) * height() + row * unit_) * width() +
           channel % unit_;
  }
  float* plain(int64_t n, int64_t channel, int64_t row) const {
    return data_ + ((n * channels() + channel) * height() + row) * width();
  }
  int64_t channels_of(int64_t block) const { return std::min(kLane, channels() - block * kLane); }

  Shape shape_;
  float* data_ = nullptr;
  int64_t unit_ = 0;  // channels per block of the packed layout, 0: row-major
  RefPtr<TensorStorage> owner_;
};

}  // namespace tapegrad::backends::cpu
