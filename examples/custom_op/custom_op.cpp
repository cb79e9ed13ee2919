// A custom op with its kernel and its gradient: log_cosh(x) = log(cosh(x)), a smooth |x|.
//
// An op is a struct with its saved tensors, its forward function, and its derivative, which is
// written with ops and therefore differentiable. A kernel is registered for each dtype and device;
// the GPU kernel is in custom_op.cu.
#include <cmath>
#include <iostream>
#include <string>

#include <tapegrad/tapegrad.h>

#include "absl/flags/flag.h"
#include "flags.h"
#include "log_cosh.h"

ABSL_FLAG(uint64_t, seed, 0, "seed of the random points at which the gradient is checked");
ABSL_FLAG(int, points, 5, "number of points");
ABSL_FLAG(std::string, device, "", "cpu or cuda; if empty, TAPEGRAD_DEVICE or else the CPU");

constinit tg::Kernel<void(const tg::Tensor& x, tg::Tensor& y)> log_cosh_kernel{"log_cosh"};

namespace {

/// log(cosh(x)) = |x| + log1p(exp(-2 |x|)) - log(2), which does not overflow.
void register_log_cosh() {
  tg::set_kernel(log_cosh_kernel, tg::DeviceType::kCpu, tg::kFloatTypes,
                 []<typename T>(tg::TypeTag<T>, const tg::Tensor& x, tg::Tensor& y) {
                   using C = tg::Compute<T>;  // float for the 16-bit types
                   const T* in = x.data<T>();
                   T* out = y.data<T>();
                   for (int64_t i = 0; i < y.numel(); ++i) {
                     const C a = std::abs(C(in[i]));
                     out[i] = T(a + std::log1p(std::exp(C(-2) * a)) - C(0.693147180559945309));
                   }
                 });
}

struct LogCosh {
  static constexpr std::string_view kName = "log_cosh";
  tg::SavedInput<0> x{};
  auto saved() { return std::tie(x); }

  tg::Tensor forward(const tg::Tensor& x) {
    tg::Tensor y = x.empty_like(x.shape());
    log_cosh_kernel(x.contiguous(), y);
    return y;
  }
  tg::Variable backward(const tg::Variable& dy) const { return dy * tg::tanh(x()); }
};

tg::Variable log_cosh(const tg::Variable& x, tg::Where where = tg::Where::current()) {
  return tg::apply(LogCosh{}, where, x);
}

}  // namespace

void run() {
  const int points = examples::in_range("--points", absl::GetFlag(FLAGS_points), 1);
  examples::use_device(absl::GetFlag(FLAGS_device));
  register_log_cosh();
#ifdef CUSTOM_OP_CUDA
  register_log_cosh_cuda();
#endif
  tg::manual_seed(absl::GetFlag(FLAGS_seed));
  tg::Variable x = tg::randn({points}, {.dtype = tg::f64, .requires_grad = true});

  std::cout << "x           = " << x << "\nlog_cosh(x) = " << log_cosh(x) << '\n';
  const auto checked =
      tg::gradcheck([](const auto& in) { return log_cosh(in[0]); }, {x}, {.order = 2});
  std::cout << "gradcheck to order 2: " << (checked ? "passed" : checked.message) << '\n';
  if (!checked) throw tg::Error("gradcheck failed");

  tg::sum(log_cosh(x)).backward();
  std::cout << "gradient    = " << x.grad() << "\ntanh(x)     = " << tg::tanh(x) << '\n';
  try {
    log_cosh(tg::arange(3));
  } catch (const tg::Error& error) {
    std::cout << "and for integers: " << error.what() << '\n';
  }
}

int main(int argc, char** argv) {
  return examples::run_example("custom_op", "A user-defined op, checked to second order.", argc,
                               argv, run);
}
