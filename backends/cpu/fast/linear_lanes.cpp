#include "backends/cpu/fast/linear_lanes.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "backends/cpu/fast/linear_sums.h"
#include "backends/cpu/tools/functions.h"
#include "backends/cpu/tools/transpose.h"
#include "backends/cpu/tools/wide_sum.h"
#include "backends/formulas_activation.h"
#include "ops/linear.h"

namespace tapegrad::backends::cpu {
namespace {

using namespace narrow_layer;

using B = Batch<float>;
constexpr int64_t kMaskedRows = 16;    // rows of a lane whose masked gradients are stored at once
constexpr int64_t kTransposition = 4;  // vector operations for an element of each lane
// Sums that are computed together fill the registers of the processor: 32 or 16.
constexpr bool kHasManyRegisters = kLane == 16;
constexpr int kMostOutputsTogether = kHasManyRegisters ? 6 : 3;
constexpr int kMostA = kHasManyRegisters ? 5 : 3, kMostB = kHasManyRegisters ? 4 : 3;
constexpr int rows_together(int outputs) { return kHasManyRegisters && outputs <= 3 ? 8 : 4; }

/// Calls run(first, integral_constant<count>) for nearly equal parts of [0, number).
template <int kMost, typename Run>
void for_each_part(int64_t number, const Run& run) {
  const int64_t parts = (number + kMost - 1) / kMost;
  for (int64_t i = 0; i < parts; ++i) {
    const int64_t first = i * number / parts;
    with_count<kMost>((i + 1) * number / parts - first, [&](auto count) { run(first, count); });
  }
}

/// A matrix whose element (j, k) is data[j * row + k * column].
struct Weight {
  const float* data;
  int64_t row, column;
};

template <bool kRelu, int kRows, int kOutputs>
void multiply_part(const float* a, int64_t inner, const float* weight, int64_t row, int64_t column,
                   const float* start, float* y, int64_t outputs) {
  B sums[kRows][kOutputs];
  unrolled<kOutputs>([&](auto j) {
    const B first(start != nullptr ? start[j] : 0.0f);
    unrolled<kRows>([&](auto r) { sums[r][j] = first; });
  });
  for (int64_t k = 0; k < inner; ++k, a += kLane, weight += column) {
    B values[kRows];
    unrolled<kRows>([&](auto r) { values[r] = B::load_aligned(a + r * inner * kLane); });
    unrolled<kOutputs>([&](auto j) {
      const B factor(weight[j * row]);
      unrolled<kRows>(
          [&](auto r) { sums[r][j] = functions::fused(values[r], factor, sums[r][j]); });
    });
  }
  unrolled<kRows>([&](auto r) {
    unrolled<kOutputs>([&](auto j) {
      const B sum = kRelu ? formulas::Relu()(sums[r][j]) : sums[r][j];
      sum.store_aligned(y + (r * outputs + j) * kLane);
    });
  });
}

/// Computes y[i, j] = start[j] + the sum over k of a[i, k] weight(j, k), then max(y, 0) if kRelu. A
/// null start means zeros.
template <bool kRelu>
void multiply_by_weight(const float* a, int64_t rows, int64_t inner, Weight weight,
                        const float* start, int64_t outputs, float* y) {
  for_each_part<kMostOutputsTogether>(
      outputs, [&]<int kOutputs>(int64_t first, std::integral_constant<int, kOutputs>) {
        const float* factors = weight.data + first * weight.row;
        const float* from = start != nullptr ? start + first : nullptr;
        for_each_group<rows_together(kOutputs), 4, 1>(
            rows, [&]<int kRows>(int64_t i, std::integral_constant<int, kRows>) {
              multiply_part<kRelu, kRows, kOutputs>(a + i * inner * kLane, inner, factors,
                                                    weight.row, weight.column, from,
                                                    y + (i * outputs + first) * kLane, outputs);
            });
      });
}

/// Adds to sums[k, j] the sum over i of a[i, k] b[i, j]; zeros are the first summand if is_first.
template <int kA, int kB>
void add_part(int64_t rows, const float* a, int64_t a_step, const float* b, int64_t b_step,
              bool is_first, float* sums, int64_t sums_step) {
  B part[kA][kB];
  unrolled<kA>([&](auto k) {
    unrolled<kB>([&](auto j) {
      part[k][j] = is_first ? B(0.0f) : B::load_aligned(sums + k * sums_step + j * kLane);
    });
  });
  for (int64_t i = 0; i < rows; ++i, a += a_step, b += b_step) {
    B values[kB];
    unrolled<kB>([&](auto j) { values[j] = B::load_aligned(b + j * kLane); });
    unrolled<kA>([&](auto k) {
      const B factor = B::load_aligned(a + k * kLane);
      unrolled<kB>([&](auto j) { part[k][j] = functions::fused(factor, values[j], part[k][j]); });
    });
  }
  unrolled<kA>([&](auto k) {
    unrolled<kB>([&](auto j) { part[k][j].store_aligned(sums + k * sums_step + j * kLane); });
  });
}

/// Adds to sums[j] the sum over i of b[i, j]; zeros are the first summand if is_first.
template <int kB>
void add_part_of_total(int64_t rows, const float* b, int64_t b_step, bool is_first, float* sums) {
  B part[kB];
  unrolled<kB>([&](auto j) { part[j] = is_first ? B(0.0f) : B::load_aligned(sums + j * kLane); });
  for (int64_t i = 0; i < rows; ++i, b += b_step)
    unrolled<kB>([&](auto j) { part[j] += B::load_aligned(b + j * kLane); });
  unrolled<kB>([&](auto j) { part[j].store_aligned(sums + j * kLane); });
}

/// Adds vectors to sums of doubles, one after the other. Sums of the same place stay in registers.
class SumInRegisters {
 public:
  explicit SumInRegisters(double* to) : to_(to) { load(); }
  ~SumInRegisters() { store(); }
  SumInRegisters(const SumInRegisters&) = delete;
  SumInRegisters& operator=(const SumInRegisters&) = delete;

  void add(FloatVector values, double* to) {
    if (to != to_) {
      store();
      to_ = to;
      load();
    }
    alignas(64) float floats[kLane];
    B(values).store_aligned(floats);
    lower_ += widen(load_vector<HalfFloats>(floats));
    upper_ += widen(load_vector<HalfFloats>(floats + kDoubles));
  }

 private:
  void load() {
    std::memcpy(&lower_, to_, sizeof(lower_));
    std::memcpy(&upper_, to_ + kDoubles, sizeof(upper_));
  }
  void store() {
    std::memcpy(to_, &lower_, sizeof(lower_));
    std::memcpy(to_ + kDoubles, &upper_, sizeof(upper_));
  }

  double* to_;
  Doubles lower_, upper_;
};

/// The sums over the rows of a tile that add_products() of linear_narrow.cpp computes, for one tile
/// in each lane: a[:, k] b[:, j] for all columns, and b[:, j] if `total`.
class LaneSums {
 public:
  LaneSums(int64_t a_columns, int64_t b_columns, bool total)
      : a_columns_(a_columns), b_columns_(b_columns), total_(total) {}

  int64_t floats() const {
    int64_t floats = 0;
    each_group([&](int64_t, int sums, int64_t chains, bool, float*) {
      floats += chains * sums * b_columns_ * kLane;
    });
    return floats;
  }

  /// Adds the rows [at, at + rows) of the tiles. Both numbers are multiples of 8.
  void add(int64_t at, int64_t rows, const float* a, const float* b, float* memory) const {
    each_group(
        [&](int64_t first, int sums, int64_t chains, bool has_total, float* to) {
          const int count = sums - int(has_total);
          const float* from = a + first * kLane;
          const bool is_first = at == 0;
          if (chains == 1)
            add_rows(rows, from, b, is_first, count, has_total, to);
          else if (chains == 2)
            add_chains<2>(rows, from, b, is_first, count, has_total, to);
          else if (chains == 4)
            add_chains<4>(rows, from, b, is_first, count, has_total, to);
          else
            add_chains<8>(rows, from, b, is_first, count, has_total, to);
        },
        memory);
  }

  /// Adds the sums of each lane, one after the other, to those of its piece.
  void finish(float* memory, double* const* parts) const {
    const int64_t step = vectors_of(b_columns_) * kLane;
    each_group(
        [&](int64_t first, int sums, int64_t chains, bool, const float* group) {
          for (int64_t k = 0; k < sums; ++k)
            for (int64_t j = 0; j < b_columns_; j += kLane) {
              const int64_t count = std::min(kLane, b_columns_ - j);
              FloatVector lanes[kLane]{};
              for (int64_t c = 0; c < count; ++c) {
                const float* from = group + (k * b_columns_ + j + c) * kLane;
                B sum = B::load_aligned(from);
                for (int64_t chain = 1; chain < chains; ++chain)
                  sum += B::load_aligned(from + chain * sums * b_columns_ * kLane);
                lanes[c] = sum;
              }
              transpose(lanes);
              const int64_t at = (first + k) * step + j;
              SumInRegisters sum(parts[0] + at);
              for (int64_t lane = 0; lane < kLane; ++lane) sum.add(lanes[lane], parts[lane] + at);
            }
        },
        memory);
  }

 private:
  /// Calls visit(first column of a, sums, chains, whether the last sum is that of b, its memory).
  template <typename Visit>
  void each_group(const Visit& visit, float* memory = nullptr) const {
    const int64_t vectors = vectors_of(b_columns_);
    for_each_group_of_sums(a_columns_, vectors, total_,
                           [&](int64_t first, int64_t last, bool has_total) {
                             const int sums = int(last - first) + int(has_total);
                             const int64_t chains = chains_of(sums, int(vectors));
                             visit(first, sums, chains, has_total, memory);
                             if (memory != nullptr) memory += chains * sums * b_columns_ * kLane;
                           });
  }

  void add_rows(int64_t rows, const float* a, const float* b, bool is_first, int a_count,
                bool has_total, float* to) const {
    const int64_t a_step = a_columns_ * kLane, step = b_columns_ * kLane;
    for_each_part<kMostB>(b_columns_, [&]<int kB>(int64_t j, std::integral_constant<int, kB>) {
      for_each_part<kMostA>(a_count, [&]<int kA>(int64_t k, std::integral_constant<int, kA>) {
        add_part<kA, kB>(rows, a + k * kLane, a_step, b + j * kLane, step, is_first,
                         to + k * step + j * kLane, step);
      });
      if (has_total)
        add_part_of_total<kB>(rows, b + j * kLane, step, is_first, to + a_count * step + j * kLane);
    });
  }
  template <int kChains>
  void add_chains(int64_t rows, const float* a, const float* b, bool is_first, int a_count,
                  bool has_total, float* to) const {
    const int64_t a_step = a_columns_ * kLane, b_step = b_columns_ * kLane;
    const int64_t step = (a_count + int(has_total)) * b_step;  // of the chains in `to`
    const auto add_all = [&](const float* column, const auto& add) {
      B part[kChains];
      unrolled<kChains>(
          [&](auto c) { part[c] = is_first ? B(0.0f) : B::load_aligned(to + c * step); });
      for (int64_t i = 0; i < rows; i += kChains)
        unrolled<kChains>(
            [&](auto c) { add(i + c, B::load_aligned(column + (i + c) * b_step), part[c]); });
      unrolled<kChains>([&](auto c) { part[c].store_aligned(to + c * step); });
      to += kLane;
    };
    for (int k = 0; k < a_count; ++k)
      for (int64_t j = 0; j < b_columns_; ++j)
        add_all(b + j * kLane, [&](int64_t i, B value, B& sum) {
          sum = functions::fused(B::load_aligned(a + i * a_step + k * kLane), value, sum);
        });
    if (!has_total) return;
    for (int64_t j = 0; j < b_columns_; ++j)
      add_all(b + j * kLane, [](int64_t, B value, B& sum) { sum += value; });
  }

  const int64_t a_columns_, b_columns_;
  const bool total_;
};

/// Returns the sums of dw, or of its transpose, which may include those of db.
LaneSums weight_sums(const Sums& sums, bool has_bias) {
  return sums.along_in ? LaneSums(sums.out, sums.in, false) : LaneSums(sums.in, sums.out, has_bias);
}
/// Returns the sums of db alone.
LaneSums bias_sums(const Sums& sums) { return LaneSums(0, sums.out, true); }

bool has_own_bias_sums(const Sums& sums, bool has_weight, bool has_bias) {
  return has_bias && (!has_weight || sums.along_in);
}

}  // namespace

LaneLayout describe_lanes(RecordedCall& call) {
  struct Shapes final : ArgumentVisitor {
    void on_argument(int number) override { argument = size_t(number); }
    void on_tensor(Tensor& x, bool) override { shapes.at(argument) = x.shape(); }
    int64_t columns(size_t number) const {
      return shapes[number].rank() == 2 ? shapes[number][1] : 0;
    }
    size_t argument = 0;
    std::array<Shape, 8> shapes;
  } shapes;
  LaneLayout answer{.lanes = kLane, .tile = kTile};
  const auto add = [&](int64_t inner, int64_t outer) {
    answer.row_cost += kLane * inner * vectors_of(outer);
    answer.lane_cost += inner * outer;
  };
  const auto add_product = [&](int64_t inner, int64_t outer) {
    if (outer > 1) return add(inner, outer);
    answer.row_cost += (1 + kTransposition) * inner;  // one column is computed with rows in lanes
    answer.lane_cost += inner;
  };
  if (call.kernel() == &kernels::linear) {
    call.visit(shapes);
    add_product(shapes.columns(0), shapes.columns(4));
  } else if (call.kernel() == &kernels::linear_backward) {
    call.visit(shapes);
    const int64_t out = shapes.columns(0);
    if (const int64_t in = shapes.columns(5)) add_product(out, in);
    if (const int64_t in = shapes.columns(6)) {
      if (out * vectors_of(in) <= in * vectors_of(out))
        add(out, in);
      else
        add(in, out);
    }
  } else {
    return {};
  }
  return answer;
}

void multiply_lanes(const Tensor& x, const Tensor& weight, const Tensor& bias,
                    const Epilogue& epilogue, Tensor& y) {
  const int64_t in = weight.shape()[1], out = weight.shape()[0];
  const auto run = [&]<bool kRelu>(std::bool_constant<kRelu>) {
    multiply_by_weight<kRelu>(x.data<float>(), y.shape()[0], in, {weight.data<float>(), in, 1},
                              bias ? bias.data<float>() : nullptr, out, y.data<float>());
  };
  if (epilogue.activation == Activation::kRelu)
    run(std::true_type());
  else
    run(std::false_type());
}

size_t bytes_for_lanes(const Sums& sums, bool has_weight, bool has_bias) {
  int64_t floats = 0;
  if (has_weight) floats += weight_sums(sums, has_bias).floats();
  if (has_own_bias_sums(sums, has_weight, has_bias)) floats += bias_sums(sums).floats();
  return size_t(floats) * sizeof(float);
}

void differentiate_lanes(const RowBlock& block, const PieceSums& pieces, float* memory,
                         const Tensor& dy, const Epilogue& behind, const Tensor& x,
                         const Tensor& weight, const Epilogue& front, Tensor& dx, Tensor& dw,
                         Tensor& db) {
  const Sums sums(dy, dx, dw, db);
  const int64_t in = sums.in, out = sums.out, count = dy.shape()[0], at = block.first % kTile;
  const LaneSums of_weight = weight_sums(sums, bool(db)), of_bias = bias_sums(sums);
  const bool has_own = has_own_bias_sums(sums, bool(dw), bool(db));
  float* bias_memory = memory + (dw ? of_weight.floats() : 0);
  alignas(64) float masked[kMaskedRows * kMaxColumns * kLane];
  for (int64_t i = 0; i < count; i += kMaskedRows) {
    const int64_t rows = std::min(kMaskedRows, count - i);
    const float* dz = dy.data<float>() + i * out * kLane;
    if (behind.at) {
      const float* y = behind.at.data<float>() + i * out * kLane;
      for (int64_t k = 0; k < rows * out * kLane; k += kLane)
        formulas::ReluBackward()(B::load_aligned(dz + k), B::load_aligned(y + k))
            .store_aligned(masked + k);
      dz = masked;
    }
    if (dx)
      multiply_by_weight<false>(dz, rows, out, {weight.data<float>(), 1, in}, nullptr, in,
                                dx.data<float>() + i * in * kLane);
    if (dw) {
      const float* down = x.data<float>() + i * in * kLane;
      of_weight.add(at + i, rows, sums.along_in ? dz : down, sums.along_in ? down : dz, memory);
    }
    if (has_own) of_bias.add(at + i, rows, nullptr, dz, bias_memory);
  }
  if (dx) kernels::run_epilogue_backward(front, dx, dx);
  if (at + count < kTile) return;
  const int64_t tile = block.first / kTile;
  double *parts[kLane], *bias_parts[kLane];
  pieces.begin(tile, kLane, parts);
  for (int64_t lane = 0; lane < kLane; ++lane) bias_parts[lane] = parts[lane] + sums.bias_at;
  if (dw) of_weight.finish(memory, parts);
  if (has_own) of_bias.finish(bias_memory, bias_parts);
  pieces.end(tile, kLane, parts);
}

}  // namespace tapegrad::backends::cpu
