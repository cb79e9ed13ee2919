// linalg by cuSOLVER and cuBLAS: the calls that the stand-ins record, and results that equal the
// CPU's, because the stand-ins compute them from the recorded arguments by the CPU's kernels.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "core/base/error.h"
#include "core/dispatch/dispatch_log.h"
#include "library_calls.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/linalg.h"
#include "ops/matmul.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/view.h"
#include "train/graphed_step.h"

namespace tapegrad {
namespace {

using Calls = std::vector<std::string>;
using Results = std::vector<Variable>;
using F = std::function<Results(const Variable&)>;

/// Computes f on both devices. Expects the calls of libraries on the GPU, and equal results.
void expect_calls(const char* name, const Shape& shape, const F& f, const Calls& calls) {
  for (const DType dtype : {f32, f64}) {
    manual_seed(1);
    const Variable x = randn(shape, {.dtype = dtype, .device = cpu});
    const Results expected = f(x);
    coh::take_library_calls();
    const Results results = f(x.to(gpu));
    EXPECT_EQ(coh::take_library_calls(), calls) << name << shape << dtype;
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(results[i].device(), gpu) << name;
      EXPECT_EQ(results[i].shape(), expected[i].shape()) << name;
      const auto a = results[i].to(f64).to_vector<double>();
      const auto b = expected[i].to(f64).to_vector<double>();
      for (size_t k = 0; k < b.size(); ++k)
        ASSERT_NEAR(a[k], b[k], (dtype == f32 ? 1e-4 : 1e-11) * std::max(1.0, std::abs(b[k])))
            << name << shape << dtype << ' ' << i << ' ' << k;
    }
  }
}

/// Returns a symmetric positive definite matrix.
Variable gram(const Variable& x) {
  const int64_t n = x.size(-1);
  return matmul(x, transpose(x, -1, -2)) + eye(n, n, {.dtype = x.dtype(), .device = x.device()});
}
Variable some_columns(const Variable& x) { return narrow(x, -1, 0, 2); }

TEST(CudaLinalg, Cholesky) {
  const F f = [](const Variable& x) { return Results{linalg::cholesky(gram(x))}; };
  expect_calls("cholesky", {3, 3}, f, {"potrf(lower, n 3, ld 3)"});
  expect_calls("cholesky", {2, 2, 3, 3}, f, {"potrfBatched(lower, n 3, ld 3, batch 4)"});
  expect_calls("cholesky", {2, 130, 130}, f,
               {"potrf(lower, n 130, ld 130)", "potrf(lower, n 130, ld 130)"});
  expect_calls("cholesky", {0, 3, 3}, f, {});
}

TEST(CudaLinalg, Solve) {
  const F f = [](const Variable& x) { return Results{linalg::solve(gram(x), some_columns(x))}; };
  expect_calls("solve", {3, 3}, f, {"getrf(n 3, ld 3)", "getrs(N, n 3, columns 2, ld 3 3)"});
  expect_calls(
      "solve", {5, 3, 3}, f,
      {"getrfBatched(n 3, ld 3, batch 5)", "getrsBatched(N, n 3, columns 2, ld 3 3, batch 5)"});
  expect_calls(
      "solve", {2, 130, 130}, f,
      {"getrf(n 130, ld 130)", "getrf(n 130, ld 130)", "getrs(N, n 130, columns 2, ld 130 130)",
       "getrs(N, n 130, columns 2, ld 130 130)"});
}

TEST(CudaLinalg, GradientOfSolve) {
  const F f = [](const Variable& x) {
    const Variable a = gram(x).detach().requires_grad_();
    Variable b = some_columns(x).detach().requires_grad_();
    sum(linalg::solve(a, b)).backward();
    return Results{a.grad(), b.grad()};
  };
  expect_calls(
      "solve", {4, 4}, f,
      {"getrf(n 4, ld 4)", "getrs(N, n 4, columns 2, ld 4 4)", "getrs(T, n 4, columns 2, ld 4 4)"});
  expect_calls(
      "solve", {3, 4, 4}, f,
      {"getrfBatched(n 4, ld 4, batch 3)", "getrsBatched(N, n 4, columns 2, ld 4 4, batch 3)",
       "getrsBatched(T, n 4, columns 2, ld 4 4, batch 3)"});
}

TEST(CudaLinalg, InverseAndDeterminant) {
  expect_calls("inv", {3, 3}, [](const Variable& x) { return Results{linalg::inv(gram(x))}; },
               {"getrf(n 3, ld 3)", "getrs(N, n 3, columns 3, ld 3 3)"});
  expect_calls("det", {4, 3, 3}, [](const Variable& x) { return Results{linalg::det(x)}; },
               {"getrfBatched(n 3, ld 3, batch 4)"});
}

TEST(CudaLinalg, TriangularSystems) {
  for (const bool upper : {false, true}) {
    const std::string part = upper ? "upper" : "lower";
    const F f = [&](const Variable& x) {
      const Variable a = gram(x);
      return Results{linalg::solve_triangular(a, some_columns(x), {.upper = upper})};
    };
    expect_calls("solve_triangular", {3, 3}, f, {"trsm(" + part + ", N, n 3, columns 2, ld 3 3)"});
    expect_calls("solve_triangular", {4, 3, 3}, f,
                 {"trsmBatched(" + part + ", N, n 3, columns 2, ld 3 3, batch 4)"});
  }
  expect_calls("solve_triangular", {3, 3},
               [](const Variable& x) {
                 return Results{linalg::solve_triangular(x, some_columns(x),
                                                         {.upper = true, .unitriangular = true})};
               },
               {"trsm(upper, N, unit, n 3, columns 2, ld 3 3)"});
}

TEST(CudaLinalg, Qr) {
  for (const auto mode : {linalg::QrMode::kReduced, linalg::QrMode::kComplete}) {
    const F f = [=](const Variable& x) {
      const auto [q, r] = linalg::qr(x, mode);
      return Results{q, r};
    };
    const bool all = mode == linalg::QrMode::kComplete;
    const auto form = [&](const char* reduced, const char* complete) {
      return std::string(all ? complete : reduced);
    };
    expect_calls(
        "qr", {5, 3}, f,
        {"geqrf(5 x 3, ld 5)", form("orgqr(5 x 3, k 3, ld 5)", "orgqr(5 x 5, k 3, ld 5)")});
    expect_calls("qr", {3, 5}, f, {"geqrf(3 x 5, ld 3)", "orgqr(3 x 3, k 3, ld 3)"});
    expect_calls("qr", {3, 0}, f, {});
    const std::string each = form("orgqr(4 x 2, k 2, ld 4)", "orgqr(4 x 4, k 2, ld 4)");
    expect_calls("qr", {3, 4, 2}, f, {"geqrfBatched(4 x 2, ld 4, batch 3)", each, each, each});
  }
}

TEST(CudaLinalg, Svd) {
  for (const bool full : {false, true}) {
    // Compares results that depend neither on the signs of vectors nor on the basis of the vectors
    // beyond the k-th.
    const F f = [=](const Variable& x) {
      const auto [u, s, vh] = linalg::svd(x, full);
      const int64_t k = s.size(-1);
      const Variable product = matmul(narrow(u, -1, 0, k) * unsqueeze(s, -2), narrow(vh, -2, 0, k));
      return Results{s, product, matmul(transpose(u, -1, -2), u),
                     matmul(vh, transpose(vh, -1, -2))};
    };
    const std::string job = full ? "A" : "S";
    expect_calls("svd", {5, 3}, f, {"gesvd(" + job + ", 5 x 3, ld 5 5 3)"});
    // A wide matrix is transposed.
    expect_calls("svd", {3, 5}, f, {"gesvd(" + job + ", 5 x 3, ld 5 5 3)"});
    expect_calls("svd", {4, 4}, f, {"gesvd(A, 4 x 4, ld 4 4 4)"});
    expect_calls("svd", {4, 5, 3}, f, {"gesvdjBatched(vectors, 5 x 3, batch 4)"});
    expect_calls("svd", {4, 3, 5}, f, {"gesvdjBatched(vectors, 3 x 5, batch 4)"});
    expect_calls("svd", {2, 2, 33}, f, Calls(2, "gesvd(" + job + ", 33 x 2, ld 33 33 2)"));
    expect_calls("svd", {3, 0, 2}, f, {});
  }
  const F values = [](const Variable& x) { return Results{linalg::svdvals(x)}; };
  expect_calls("svdvals", {5, 3}, values, {"gesvd(N, 5 x 3, ld 5 5 3)"});
  expect_calls("svdvals", {3, 5}, values, {"gesvd(N, 5 x 3, ld 5 5 3)"});
  expect_calls("svdvals", {2, 5, 3}, values, {"gesvdjBatched(values, 5 x 3, batch 2)"});
}

TEST(CudaLinalg, Eigh) {
  const F f = [](const Variable& x) {
    const auto [values, vectors] = linalg::eigh(gram(x));
    return Results{values, vectors};
  };
  expect_calls("eigh", {4, 4}, f, {"syevd(vectors, lower, n 4, ld 4)"});
  expect_calls("eigh", {3, 4, 4}, f, {"syevjBatched(vectors, lower, n 4, batch 3)"});
  expect_calls("eigh", {2, 33, 33}, f, Calls(2, "syevd(vectors, lower, n 33, ld 33)"));
  expect_calls("eigvalsh", {4, 4},
               [](const Variable& x) { return Results{linalg::eigvalsh(gram(x))}; },
               {"syevd(values, lower, n 4, ld 4)"});
}

TEST(CudaLinalg, LeastSquares) {
  expect_calls("lstsq", {5, 3},
               [](const Variable& x) {
                 const auto y = linalg::lstsq(x, some_columns(x));
                 return Results{y.solution, y.singular_values, y.residuals};
               },
               {"gesvd(S, 5 x 3, ld 5 5 3)"});
}

/// Calls f six times as a captured step, with new operands. Returns why it was not captured.
std::string captured(const Shape& shape, const std::function<Variable(const Variable&)>& f) {
  manual_seed(7);
  GraphedStep step(f);
  for (int i = 0; i < 6; ++i) {
    const Variable x = randn(shape, {.device = gpu});
    const double value = step(x).item();
    EXPECT_EQ(value, f(x).item());
  }
  return step.reason();
}

TEST(CudaLinalg, GraphsContainCublasOnly) {
  const auto triangle = [](const Variable& x) {
    return sum(linalg::solve_triangular(x, some_columns(x), {.upper = true}));
  };
  EXPECT_EQ(captured({4, 4}, triangle), "");
  EXPECT_EQ(captured({3, 4, 4}, triangle), "");
  const auto qr = [](const Variable& x) { return sum(linalg::qr(x).r); };
  EXPECT_NE(captured({4, 3}, qr).find("cuSOLVER runs"), std::string::npos);
}

TEST(CudaLinalg, GoesByTheCpuIfTheLibraryRefuses) {
  coh::libraries_refuse(true);
  const DispatchLog log;
  expect_calls("cholesky", {3, 3},
               [](const Variable& x) { return Results{linalg::cholesky(gram(x))}; }, {});
  expect_calls("svd", {2, 3, 4}, [](const Variable& x) { return Results{linalg::svd(x).s}; }, {});
  coh::libraries_refuse(false);
  EXPECT_EQ(log.calls("linalg.cholesky:by_cpu"), 2);
  EXPECT_EQ(log.calls("linalg.svd:by_cpu"), 2);
  EXPECT_NE(log.explain().find("copied to the CPU"), std::string::npos);
}

}  // namespace
}  // namespace tapegrad
