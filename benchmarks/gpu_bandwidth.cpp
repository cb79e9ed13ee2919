// Bandwidth of memory-bound kernels, from the bytes that they read and write.
#include "benchmarks/gpu.h"
#include "benchmarks/measure.h"
#include "core/tape/recording.h"
#include "ops/activation.h"
#include "ops/binary.h"
#include "ops/conv.h"
#include "ops/create.h"
#include "ops/norm.h"
#include "ops/pool.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/view.h"

namespace tapegrad::bench {

using ::bench::print_line;

void measure_bandwidth() {
  const NoGrad no_grad;
  constexpr int64_t kBytes = int64_t(256) << 20;
  for (const DType dtype : {f32, bf16}) {
    const int64_t n = kBytes / size_of(dtype), columns = 4096, rows = n / columns;
    const TensorOptions options{.dtype = dtype};
    const Variable x = rand({rows, columns}, options), y = rand({rows, columns}, options);
    const Variable scale = ones({columns}, options), shift = zeros({columns}, options);
    Variable to = zeros({rows, columns}, options);
    // Prints the bandwidth of a call that reads or writes `tensors` tensors of 256 MiB.
    const auto line = [&](const char* name, double tensors, const std::function<void()>& call) {
      const double ms = device_ms(call);
      print_line(std::string(name) + '.' + std::string(tapegrad::name(dtype)),
                 tensors * double(kBytes) / ms / 1e6, "GB/s");
    };
    line("copy", 2, [&] { copy_(to, x); });
    line("add", 3, [&] { x + y; });
    line("relu", 2, [&] { relu(x); });
    line("gelu", 2, [&] { gelu(x); });
    line("sum", 1, [&] { sum(x); });
    line("sum_rows", 1, [&] { sum(x, {1}); });
    line("sum_columns", 1, [&] { sum(x, {0}); });
    line("softmax", 2, [&] { softmax(x, 1); });
    line("layer_norm", 2, [&] { layer_norm(x, {columns}, scale, shift); });

    // Images as a convolution returns them: with 16 bits and cuDNN, in the channels-last layout.
    const Shape shape{n / (64 * 128 * 128), 64, 128, 128};
    const Variable images = conv2d(rand(shape, options), rand({64, 64, 1, 1}, options));
    const Variable mean = zeros({64}), var = ones({64}), weight = ones({64}), bias = zeros({64});
    const auto normalize = [&](const Variable& from) {
      return batch_norm(from, mean, var, weight, bias, {.training = true});
    };
    line("batch_norm", 2, [&] { normalize(images); });
    line("max_pool2d", 1.25, [&] { max_pool2d(images, {.kernel_size = 2}); });
    line("avg_pool2d", 1.25, [&] { avg_pool2d(images, {.kernel_size = 2}); });
    const Recording on(true);
    const Variable leaf = images.detach().requires_grad_(), normal = normalize(leaf);
    const Variable dy = images.detach();
    line("batch_norm_gradient", 3,
         [&] { grad(normal, std::vector{leaf}, dy, {.retain_graph = true}); });

    // The gradient of max pooling uses the saved indices of the maxima. The mask method (a
    // comparison and a product) is timed beside it; it is wrong where two elements are equal.
    const MaxPool2dOptions pairs{.kernel_size = 2};
    const Variable pooled = max_pool2d(leaf, pairs), d_pooled = pooled.detach();
    line("max_pool2d_gradient", 1.5,
         [&] { grad(pooled, std::vector{leaf}, d_pooled, {.retain_graph = true}); });
    const NoGrad off;
    line("max_pool2d_gradient_by_mask", 1.5, [&] {
      const Shape windows{shape[0], 64, 64, 2, 64, 2}, each{shape[0], 64, 64, 1, 64, 1};
      (reshape(leaf, windows) == reshape(pooled, each)).to(dtype) * reshape(d_pooled, each);
    });
  }
}

}  // namespace tapegrad::bench
