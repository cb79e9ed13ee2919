#include "backends/cpu/dnnl/matmul_dnnl.h"

#include <unordered_map>

#include <omp.h>

#include "backends/cpu/dnnl/dnnl.h"
#include "backends/cpu/tools/simd.h"

namespace tapegrad::backends::cpu {
namespace {

using dnnl::memory;

// With fewer rows, conversion to blocks does not pay off; with more rows, sgemm can split the work.
constexpr int64_t kMinDnnlRows = 16, kMaxDnnlRows = 512;
// With fewer multiplications, a call is too expensive: it takes 4 us.
constexpr int64_t kMinMultiplications = int64_t(1) << 16;
// Larger results exceed the caches, and sgemm writes them faster.
constexpr int64_t kMaxResult = int64_t(1) << 20;

/// Types of operands and results. kRounded: float32 operands rounded to bfloat16 give float32.
enum class Numbers { kFloat, kRounded, kBFloat16 };

/// All properties that a primitive depends on; the key of the cache.
struct MatmulProblem {
  int64_t m, n, k;
  int64_t a_row, a_column, b_row, b_column;
  int64_t threads;
  bool bias;
  Numbers numbers;
  int64_t batch = 0;  // number of products; 0: one, of operands of rank 2
  int64_t a_matrix = 0, b_matrix = 0;
  int64_t room = 0;  // elements for a b whose layout oneDNN chooses; 0: b has the strides above

  auto operator<=>(const MatmulProblem&) const = default;
};

/// A primitive for one problem. Threads share it; running does not modify it.
struct MatmulPlan {
  memory::desc a, b, bias, c, scratch;
  dnnl::matmul primitive;
};

std::shared_ptr<const MatmulPlan> make_matmul_plan(const MatmulProblem& p) {
  auto plan = std::make_shared<MatmulPlan>();
  constexpr auto kFloat = memory::data_type::f32, kShort = memory::data_type::bf16;
  const auto operand = p.numbers == Numbers::kFloat ? kFloat : kShort;
  const auto result = p.numbers == Numbers::kBFloat16 ? kShort : kFloat;
  const auto matrices = [&](int64_t rows, int64_t columns, auto type, int64_t matrix, int64_t row,
                            int64_t column) {
    if (p.batch == 0) return memory::desc({rows, columns}, type, memory::dims{row, column});
    return memory::desc({p.batch, rows, columns}, type, memory::dims{matrix, row, column});
  };
  plan->a = matrices(p.m, p.k, operand, p.a_matrix, p.a_row, p.a_column);
  plan->b = p.room > 0 ? memory::desc({p.k, p.n}, operand, memory::format_tag::any)
                       : matrices(p.k, p.n, operand, p.b_matrix, p.b_row, p.b_column);
  plan->c = matrices(p.m, p.n, result, p.m * p.n, p.n, 1);
  if (p.bias) plan->bias = memory::desc({1, p.n}, result, memory::dims{p.n, 1});
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const dnnl::matmul::primitive_desc description({plan->a, plan->b, plan->bias, plan->c},
                                                 attributes, dnnl_engine());
  plan->b = description.weights_desc();
  if (p.room > 0 && plan->b.get_size() > size_t(p.room) * sizeof(float)) {  // too much padding
    MatmulProblem plain = p;
    plain.room = 0, plain.b_row = p.n, plain.b_column = 1;
    return make_matmul_plan(plain);
  }
  plan->scratch = description.scratchpad_desc();
  plan->primitive = dnnl::matmul(description);
  return plan;
}

std::shared_ptr<const MatmulPlan> matmul_plan_for(const MatmulProblem& problem) {
  static PlanCache<MatmulProblem, MatmulPlan> cache;
  return cache.find(problem, make_matmul_plan);
}

memory memory_of(const memory::desc& desc, const void* data) {
  return memory(desc, dnnl_engine(), const_cast<void*>(data));
}

void run(const MatmulProblem& problem, const void* a, const void* b, const void* bias, void* c) {
  const auto plan = matmul_plan_for(problem);
  Tensor scratch;
  std::unordered_map<int, memory> arguments{
      {DNNL_ARG_SRC, memory_of(plan->a, a)},
      {DNNL_ARG_WEIGHTS, memory_of(plan->b, b)},
      {DNNL_ARG_DST, memory_of(plan->c, c)},
      {DNNL_ARG_SCRATCHPAD, scratch_memory(plan->scratch, scratch)}};
  if (bias != nullptr) arguments.emplace(DNNL_ARG_BIAS, memory_of(plan->bias, bias));
  plan->primitive.execute(dnnl_stream(), arguments);
  dnnl_stream().wait();
}

/// The product of a contiguous a and a packed b.
MatmulProblem packed_problem(int64_t m, int64_t n, int64_t k, bool bias, int64_t room) {
  return {.m = m,
          .n = n,
          .k = k,
          .a_row = k,
          .a_column = 1,
          .b_row = 0,
          .b_column = 0,
          .threads = omp_get_max_threads(),
          .bias = bias,
          .numbers = Numbers::kFloat,
          .room = room};
}

/// An operand for the primitive: the matrix itself, or a copy rounded to bfloat16 without gaps
/// between rows (or columns, if columns are contiguous).
class MatrixOperand {
 public:
  MatrixOperand(const Matrix<float>& x, int64_t rows, int64_t columns, bool rounded)
      : data_(x.data), row_(x.row), column_(x.column) {
    if (!rounded) return;
    const bool by_columns = x.column != 1;
    const int64_t lines = by_columns ? columns : rows, length = by_columns ? rows : columns;
    const int64_t step = by_columns ? x.column : x.row;
    copy_ = Tensor::empty({lines, length}, bf16);
    bfloat16* to = copy_.data<bfloat16>();
#pragma omp parallel for if (lines * length > 32768)
    for (int64_t i = 0; i < lines; ++i) narrow(x.data + i * step, length, to + i * length);
    data_ = to;
    (by_columns ? column_ : row_) = length;
  }
  const void* data() const { return data_; }
  int64_t row() const { return row_; }
  int64_t column() const { return column_; }

 private:
  Tensor copy_;
  const void* data_;
  int64_t row_, column_;
};

}  // namespace

bool has_dnnl_blocks() {
  static const bool has_blocks = has(dnnl::cpu_isa::avx512_core);
  return has_blocks;
}

bool suits_dnnl(int64_t m, int64_t n, int64_t k, Matrix<float> a, Matrix<float> b) {
  return has_dnnl_blocks() && with_valid_strides(m, k, a).column == 1 &&
         with_valid_strides(k, n, b).column != 1 && m >= kMinDnnlRows && m <= kMaxDnnlRows &&
         m * n <= kMaxResult && m * n * k >= kMinMultiplications;
}

bool suits_bfloat16(int64_t m, int64_t n, int64_t k) {
  return multiplies_bfloat16() && m * n * k >= kMinMultiplications;
}

void multiply_dnnl(int64_t m, int64_t n, int64_t k, Matrix<float> a0, Matrix<float> b0,
                   const float* bias, float* c, bool rounded) {
  with_dnnl("matmul", [&] {
    const MatrixOperand a(with_valid_strides(m, k, a0), m, k, rounded);
    const MatrixOperand b(with_valid_strides(k, n, b0), k, n, rounded);
    run({m, n, k, a.row(), a.column(), b.row(), b.column(), omp_get_max_threads(), bias != nullptr,
         rounded ? Numbers::kRounded : Numbers::kFloat},
        a.data(), b.data(), bias, c);
  });
}

void pack_dnnl(int64_t m, int64_t n, int64_t k, Matrix<float> b0, bool bias, float* packed,
               int64_t room) {
  const auto b = with_valid_strides(k, n, b0);
  with_dnnl("matmul", [&] {
    const auto plan = matmul_plan_for(packed_problem(m, n, k, bias, room));
    memory from =
        memory_of({{k, n}, memory::data_type::f32, memory::dims{b.row, b.column}}, b.data);
    memory to = memory_of(plan->b, packed);
    dnnl::reorder(from, to).execute(dnnl_stream(), from, to);
    dnnl_stream().wait();
  });
}

void multiply_packed(int64_t m, int64_t n, int64_t k, const float* a, const float* packed,
                     int64_t room, const float* bias, float* c) {
  with_dnnl("matmul",
            [&] { run(packed_problem(m, n, k, bias != nullptr, room), a, packed, bias, c); });
}

void multiply_dnnl(int64_t m, int64_t n, int64_t k, Matrix<bfloat16> a0, Matrix<bfloat16> b0,
                   const bfloat16* bias, bfloat16* c) {
  const auto a = with_valid_strides(m, k, a0), b = with_valid_strides(k, n, b0);
  with_dnnl("matmul", [&] {
    run({m, n, k, a.row, a.column, b.row, b.column, omp_get_max_threads(), bias != nullptr,
         Numbers::kBFloat16},
        a.data, b.data, bias, c);
  });
}

void multiply_dnnl(int64_t batch, int64_t m, int64_t n, int64_t k, Matrix<bfloat16> a0,
                   int64_t a_matrix, Matrix<bfloat16> b0, int64_t b_matrix, bfloat16* c) {
  const auto a = with_valid_strides(m, k, a0), b = with_valid_strides(k, n, b0);
  with_dnnl("matmul", [&] {
    run({m, n, k, a.row, a.column, b.row, b.column, omp_get_max_threads(), /*bias=*/false,
         Numbers::kBFloat16, batch, a_matrix, b_matrix},
        a.data, b.data, nullptr, c);
  });
}

}  // namespace tapegrad::backends::cpu
