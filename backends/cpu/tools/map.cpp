#include "backends/cpu/tools/map.h"

#include <algorithm>

#include "backends/cpu/fast/packed.h"
#include "backends/cpu/tools/pieces.h"
#include "backends/cpu/tools/transpose.h"

namespace tapegrad::backends::cpu {
namespace {

constexpr int kMaxOperands = 1 + detail::kMaxInputs;  // y first
constexpr int64_t kGathered = 1024;                   // elements gathered at a time
constexpr int64_t kShortestDirect = kLanes<float>;    // elements of a row that is used directly
constexpr int64_t kTileRows = 16, kTileColumns = kGathered / kTileRows;
using Joint = JointLayout<kMaxOperands>;

std::byte* first_byte(const Tensor& x) {
  return x.storage().data() + x.layout().offset * size_of(x.dtype());
}

/// Copies a tile whose rows are contiguous in memory as columns: to[r][c] = from[r + c * step].
template <typename Word>
void transpose_tile(const Word* from, int64_t step, int64_t rows, int64_t columns, Word* to) {
  int64_t first = 0;
  if constexpr (sizeof(Word) == 4) {
    constexpr int64_t kLane = kLanes<float>;
    for (; rows == kTileRows && first + kLane <= columns; first += kLane)
      for (int64_t row = 0; row < kTileRows; row += kLane) {
        FloatVector lines[kLane];
        unrolled<kLane>([&](auto l) {
          std::memcpy(&lines[l()], from + row + (first + l()) * step, sizeof(lines[l()]));
        });
        transpose(lines);
        unrolled<kLane>([&](auto l) {
          std::memcpy(to + (row + l()) * kTileColumns + first, &lines[l()], sizeof(lines[l()]));
        });
      }
  }
  for (int64_t c = first; c < columns; ++c)
    for (int64_t r = 0; r < rows; ++r) to[r * kTileColumns + c] = from[r + c * step];
}

/// One operand of map_pieces().
struct MapOperand {
  std::byte* data;
  int64_t element;        // element size in bytes
  bool linear;            // contiguous in y's row-major order
  bool single;            // one element for all
  bool periodic = false;  // one short row for all rows
  // In packed layouts: one element for each channel of an image, these steps apart.
  bool per_channel = false;
  int64_t image_step = 0, channel_step = 0;
};

class Pieces {
 public:
  Pieces(const detail::MapFormula& formula, Tensor& y, std::span<const Tensor* const> inputs)
      : formula_(formula), count_(y.numel()), operands_(1 + int(inputs.size())) {
    if (take_packed(y, inputs)) return;
    by_channel_ = false;
    std::array<Strides, kMaxOperands> strides;
    bool strided = false;
    for (int i = 0; i < operands_; ++i) {
      const Tensor& x = i == 0 ? y : *inputs[i - 1];
      const bool single = i > 0 && x.numel() == 1;
      const bool linear = x.is_contiguous() && x.numel() == count_;
      operand_[i] = {first_byte(x), size_of(x.dtype()), linear, single};
      strided |= !linear && !single;
    }
    if (!strided) return;
    for (int i = 0; i < operands_; ++i)
      strides[i] = i == 0 ? y.strides() : broadcast_strides(inputs[i - 1]->layout(), y.shape());
    for (int dim = 0; dim < y.rank(); ++dim) {
      std::array<int64_t, kMaxOperands> steps{};
      for (int i = 0; i < operands_; ++i) steps[i] = strides[i][dim];
      joint_.add_dim(y.shape()[dim], steps);
    }
    row_ = joint_.rank > 0 ? joint_.sizes[joint_.rank - 1] : 1;
    for (int i = 0; i < operands_; ++i)
      by_rows_ |= row_ >= kGathered / 4 && !operand_[i].linear && !operand_[i].single &&
                  joint_.strides[i][joint_.rank - 1] == 1;
    find_periods();
    if (has_direct_rows()) return;
    find_tiles();
  }

  void run(Tensor& y) const {
    if (direct_) return run_rows();
    if (tiled_ >= 0) return run_tiles();
    for_each_block(count_, kMapBlock, [&](int64_t first, int64_t last) { run_block(first, last); });
    if (packing_ && !y.storage().is_packed()) y.storage().set_packed(*packing_);
  }

 private:
  /// Takes packed operands if all inputs have the same packed layout, except for those that are
  /// constant in each channel of an image.
  bool take_packed(Tensor& y, std::span<const Tensor* const> inputs) {
    const auto found = std::ranges::find_if(
        inputs, [](const Tensor* x) { return bool(x->storage().is_packed()); });
    if (found == inputs.end()) return false;
    const std::optional<PackedValues> first = packed_values(**found);
    if (!first || packing_of(y.shape(), first->packing.block) != first->packing) return false;
    const Packing packing = first->packing;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Tensor& x = *inputs[i];
      MapOperand& operand = operand_[i + 1];
      operand = {nullptr, size_of(x.dtype()), x.numel() != 1, x.numel() == 1};
      if (operand.single) continue;
      std::optional<PackedValues> values = packed_values(x);
      if (values && x.numel() == count_ && values->packing == packing) {
        operand.data = values->buffer->data();
        packed_[i] = std::move(values->buffer);
      } else if (!take_channels(x, y.shape(), operand)) {
        return false;
      }
    }
    std::byte* to = nullptr;
    if (const auto values = packed_values(y); values && values->packing == packing)
      to = values->buffer->data();
    else if (can_be_packed(y, packing.block))
      to = y.storage().data();
    if (to == nullptr) return false;
    operand_[0] = {to, size_of(y.dtype()), true, false};
    for (size_t i = 0; i < inputs.size(); ++i)
      if (operand_[i + 1].data == nullptr) operand_[i + 1].data = first_byte(*inputs[i]);
    packing_ = packing;
    return true;
  }

  /// Returns whether x is constant in each channel of an image of `shape`.
  bool take_channels(const Tensor& x, const Shape& shape, MapOperand& operand) {
    const Strides strides = broadcast_strides(x.layout(), shape);
    const auto step = [&](int dim) { return shape[dim] == 1 ? 0 : strides[dim]; };
    for (int dim = 2; dim < shape.rank(); ++dim)
      if (step(dim) != 0) return false;
    operand.linear = false;
    operand.per_channel = by_channel_ = true;
    operand.image_step = step(0), operand.channel_step = step(1);
    return true;
  }

  /// Fills buffers with the elements of a block of channels of one image, over and over.
  void spread_channels(int64_t image_block, std::byte (*buffers)[kGathered * 8]) const {
    const Packing& p = *packing_;
    const int64_t blocks = p.channels / p.block, count = std::min(kGathered, p.size * p.block);
    for (int i = 1; i < operands_; ++i) {
      const MapOperand& x = operand_[i];
      if (!x.per_channel) continue;
      const int64_t start =
          image_block / blocks * x.image_step + image_block % blocks * p.block * x.channel_step;
      with_word(x.element, [&]<typename Word>(Word) {
        const Word* from = reinterpret_cast<const Word*>(x.data) + start;
        Word* to = reinterpret_cast<Word*>(buffers[i]);
        for (int64_t c = 0; c < p.block; ++c) to[c] = from[c * x.channel_step];
        for (int64_t j = p.block; j < count; ++j) to[j] = to[j - p.block];
      });
    }
  }

  bool all_linear() const {
    for (int i = 0; i < operands_; ++i)
      if (!operand_[i].linear) return false;
    return true;
  }

  void run_block(int64_t first, int64_t last) const {
    if (all_linear()) return run_piece(first, last - first, nullptr);
    alignas(64) std::byte buffers[kMaxOperands][kGathered * 8];
    for (int i = 1; i < operands_; ++i) {  // once for all pieces
      const MapOperand& x = operand_[i];
      if (!x.linear && x.single)
        gather(buffers[i], x.data, x.element, nullptr, nullptr, 0, 0,
               std::min(last - first, kGathered));
      else if (x.periodic)
        gather(buffers[i], x.data, x.element, joint_.sizes.data(), joint_.strides[i].data(),
               joint_.rank, 0, std::min(count_, kGathered));
    }
    int64_t filled = -1;
    const int64_t image_block = by_channel_ ? packing_->size * packing_->block : 0;
    while (first < last) {
      // Long rows are processed one by one if then some need no gathering.
      int64_t count = std::min(last - first, periodic_ ? kGathered - row_ : kGathered);
      if (by_rows_) count = std::min(count, row_ - first % row_);
      if (by_channel_) {
        count = std::min(count, image_block - first % image_block);
        if (filled != first / image_block) spread_channels(filled = first / image_block, buffers);
      }
      run_piece(first, count, buffers);
      first += count;
    }
  }

  void run_piece(int64_t first, int64_t count, std::byte (*buffers)[kGathered * 8]) const {
    const std::byte* inputs[detail::kMaxInputs];
    for (int i = 1; i < operands_; ++i) inputs[i - 1] = read(i, first, count, buffers);
    const MapOperand& y = operand_[0];
    const detail::MapRows piece{.rows = 1, .count = count};
    if (y.linear) return evaluate(y.data + first * y.element, inputs, piece);
    evaluate(buffers[0], inputs, piece);
    scatter(buffers[0], y.data, y.element, joint_.sizes.data(), joint_.strides[0].data(),
            joint_.rank, first, count);
  }

  void find_periods() {
    if (joint_.rank == 0) return;
    for (int i = 1; i < operands_; ++i) {
      const auto& strides = joint_.strides[i];
      if (operand_[i].linear || operand_[i].single || row_ >= kGathered / 4) continue;
      operand_[i].periodic = std::all_of(strides.begin(), strides.begin() + joint_.rank - 1,
                                         [](int64_t stride) { return stride == 0; });
      periodic_ |= operand_[i].periodic;
    }
  }

  /// Chooses tiles if y is contiguous along the last dimension and an input along another one.
  void find_tiles() {
    const int last = joint_.rank - 1;
    if (last < 1 || joint_.strides[0][last] != 1 || row_ < kTileRows) return;
    for (int dim = last - 1; dim >= 0; --dim)
      for (int i = 1; i < operands_; ++i)
        if (tiled_ < 0 && joint_.strides[i][dim] == 1 && joint_.strides[i][last] > 1 &&
            joint_.sizes[dim] >= kTileRows / 2)
          tiled_ = dim;
  }

  void run_tiles() const {
    const int64_t strips = (joint_.sizes[tiled_] + kTileRows - 1) / kTileRows;
    const int64_t tiles = strips * (count_ / (joint_.sizes[tiled_] * row_));
    const int64_t together = std::max<int64_t>(1, kMapBlock / (kTileRows * row_));
    for_each_block(tiles, together, [&](int64_t first, int64_t last) {
      for (int64_t tile = first; tile < last; ++tile) run_tile(tile / strips, tile % strips);
    });
  }

  /// Computes kTileRows rows along tiled_; `outer` is the index in the other dimensions.
  void run_tile(int64_t outer, int64_t strip) const {
    const int last = joint_.rank - 1;
    std::array<int64_t, kMaxOperands> offsets;
    for (int i = 0; i < operands_; ++i) offsets[i] = strip * kTileRows * joint_.strides[i][tiled_];
    for (int dim = last - 1; dim >= 0; --dim) {
      if (dim == tiled_) continue;
      const int64_t index = outer % joint_.sizes[dim];
      outer /= joint_.sizes[dim];
      for (int i = 0; i < operands_; ++i) offsets[i] += index * joint_.strides[i][dim];
    }
    const int64_t rows = std::min(kTileRows, joint_.sizes[tiled_] - strip * kTileRows);
    alignas(64) std::byte buffers[kMaxOperands][kGathered * 8];
    for (int64_t first = 0; first < row_; first += kTileColumns) {
      const int64_t columns = std::min(kTileColumns, row_ - first);
      const std::byte* inputs[detail::kMaxInputs];
      detail::MapRows tile{.rows = rows, .count = columns};
      tile.pitch[0] = joint_.strides[0][tiled_];
      for (int i = 1; i < operands_; ++i) {
        const MapOperand& x = operand_[i];
        const int64_t step = joint_.strides[i][last], across = joint_.strides[i][tiled_];
        const std::byte* from = x.data + (offsets[i] + first * step) * x.element;
        const bool direct = step == 1 || step == 0;
        tile.constant[i - 1] = step == 0;
        inputs[i - 1] = direct ? from : buffers[i];
        tile.pitch[i] = direct ? across : kTileColumns;
        if (!direct)
          with_word(x.element, [&]<typename Word>(Word) {
            const Word* words = reinterpret_cast<const Word*>(from);
            Word* to = reinterpret_cast<Word*>(buffers[i]);
            if (across == 1) return transpose_tile(words, step, rows, columns, to);
            for (int64_t r = 0; r < rows; ++r)
              for (int64_t c = 0; c < columns; ++c)
                to[r * kTileColumns + c] = words[r * across + c * step];
          });
      }
      evaluate(operand_[0].data + (offsets[0] + first) * operand_[0].element, inputs, tile);
    }
  }

  const std::byte* read(int i, int64_t first, int64_t count,
                        std::byte (*buffers)[kGathered * 8]) const {
    const MapOperand& x = operand_[i];
    if (x.linear) return x.data + first * x.element;
    if (x.single || x.per_channel) return buffers[i];
    if (x.periodic) return buffers[i] + first % row_ * x.element;
    const int64_t* strides = joint_.strides[i].data();
    if (strides[joint_.rank - 1] == 1 && first % row_ + count <= row_) {  // within a row
      int64_t rest = first, offset = 0;
      for (int dim = joint_.rank - 1; dim >= 0; --dim) {
        offset += rest % joint_.sizes[dim] * strides[dim];
        rest /= joint_.sizes[dim];
      }
      return x.data + offset * x.element;
    }
    gather(buffers[i], x.data, x.element, joint_.sizes.data(), strides, joint_.rank, first, count);
    return buffers[i];
  }

  /// Chooses direct rows if all operands can be used where they are, although some are neither
  /// contiguous nor repeated in short rows.
  bool has_direct_rows() {
    const int last = joint_.rank - 1;
    if (last < 0 || row_ < kShortestDirect || joint_.strides[0][last] != 1) return false;
    bool pays = false;
    for (int i = 0; i < operands_; ++i) {
      const MapOperand& x = operand_[i];
      const int64_t step = joint_.strides[i][last];
      if (step != 1 && step != 0) return false;
      pays |= !x.linear && !x.single && !x.periodic;
      // A formula that takes single rows would be called for each short row.
      if (!formula_.takes_rows && step == 0 && row_ < kShortRun && !x.single) return false;
    }
    return direct_ = pays;
  }

  /// Threads share blocks of rows, or of parts of long rows.
  void run_rows() const {
    const int64_t rows = count_ / row_, parts = (row_ + kMapBlock - 1) / kMapBlock;
    if (parts == 1) {
      for_each_block(rows, kMapBlock / row_,
                     [&](int64_t first, int64_t last) { run_some_rows(first, last, 0, row_); });
      return;
    }
    for_each_block(rows * parts, 1, [&](int64_t task, int64_t) {
      const int64_t start = task % parts * kMapBlock;
      run_some_rows(task / parts, task / parts + 1, start, std::min(kMapBlock, row_ - start));
    });
  }

  /// Computes `count` elements, starting at `start`, of the rows [row, end).
  void run_some_rows(int64_t row, int64_t end, int64_t start, int64_t count) const {
    const int last = joint_.rank - 1, across = last - 1;
    detail::MapRows rows{.rows = 1, .count = count};
    std::array<int64_t, kMaxOperands> offsets;
    for (int i = 0; i < operands_; ++i) {
      const auto& strides = joint_.strides[i];
      offsets[i] = start * strides[last];
      if (across >= 0) rows.pitch[i] = strides[across];
      if (i > 0) rows.constant[i - 1] = strides[last] == 0;
    }
    std::array<int64_t, kMaxRank> index;
    for (int64_t dim = across, rest = row; dim >= 0; --dim) {
      index[dim] = rest % joint_.sizes[dim];
      rest /= joint_.sizes[dim];
      for (int i = 0; i < operands_; ++i) offsets[i] += index[dim] * joint_.strides[i][dim];
    }
    while (true) {
      if (across >= 0) rows.rows = std::min(end - row, joint_.sizes[across] - index[across]);
      const std::byte* inputs[detail::kMaxInputs];
      for (int i = 1; i < operands_; ++i)
        inputs[i - 1] = operand_[i].data + offsets[i] * operand_[i].element;
      evaluate(operand_[0].data + offsets[0] * operand_[0].element, inputs, rows);
      row += rows.rows;
      if (row == end) return;
      for (int i = 0; i < operands_; ++i) offsets[i] -= index[across] * rows.pitch[i];
      index[across] = 0;
      for (int dim = across - 1; dim >= 0; --dim) {
        for (int i = 0; i < operands_; ++i) offsets[i] += joint_.strides[i][dim];
        if (++index[dim] < joint_.sizes[dim]) break;
        for (int i = 0; i < operands_; ++i)
          offsets[i] -= joint_.strides[i][dim] * joint_.sizes[dim];
        index[dim] = 0;
      }
    }
  }

  /// Applies the formula to rows.
  void evaluate(std::byte* y, const std::byte* const* inputs, const detail::MapRows& rows) const {
    if (formula_.takes_rows) return formula_.evaluate(formula_.formula, y, inputs, rows);
    constexpr int64_t kPiece = kGathered / 4;
    alignas(64) std::byte equal[detail::kMaxInputs][kPiece * 8];
    const bool has_constant = std::ranges::count(rows.constant, true) > 0;
    const int64_t piece = has_constant ? std::min(kPiece, rows.count) : rows.count;
    const int inputs_count = operands_ - 1;
    for (int64_t row = 0; row < rows.rows; ++row) {
      const std::byte* at[detail::kMaxInputs];
      for (int i = 0; i < inputs_count; ++i) {
        const MapOperand& x = operand_[i + 1];
        at[i] = inputs[i] + row * rows.pitch[i + 1] * x.element;
        if (!rows.constant[i]) continue;
        gather(equal[i], at[i], x.element, nullptr, nullptr, 0, 0, piece);
        at[i] = equal[i];
      }
      std::byte* to = y + row * rows.pitch[0] * operand_[0].element;
      for (int64_t first = 0; first < rows.count; first += piece) {
        const int64_t count = std::min(piece, rows.count - first);
        formula_.evaluate(formula_.formula, to, at, {.rows = 1, .count = count});
        to += count * operand_[0].element;
        for (int i = 0; i < inputs_count; ++i)
          if (!rows.constant[i]) at[i] += count * operand_[i + 1].element;
      }
    }
  }

  detail::MapFormula formula_;
  int64_t count_;
  int64_t row_ = 1;          // elements along the innermost dimension
  bool periodic_ = false;    // whether an operand is
  bool by_rows_ = false;     // whether a strided operand has long contiguous rows
  bool by_channel_ = false;  // whether an operand is constant in each channel
  bool direct_ = false;      // whether operands are used where they are, row by row
  int tiled_ = -1;           // dimension of the tiles' rows; -1: no tiles
  int operands_;
  std::array<MapOperand, kMaxOperands> operand_;
  Joint joint_;
  std::optional<Packing> packing_;                                // of all operands and y
  std::array<RefPtr<TensorStorage>, detail::kMaxInputs> packed_;  // keeps the packed operands alive
};

}  // namespace

void detail::map_pieces(const MapFormula& formula, Tensor& y,
                        std::span<const Tensor* const> inputs) {
  if (y.numel() > 0) Pieces(formula, y, inputs).run(y);
}

}  // namespace tapegrad::backends::cpu
