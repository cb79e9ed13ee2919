// Channels-last images in recorded steps and in streams of the program.
#include <gtest/gtest.h>

#include "backends/cuda/cudnn/available.h"
#include "core/base/allocator.h"
#include "core/base/generator.h"
#include "core/cuda.h"
#include "core/tape/autocast.h"
#include "nn/conv.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "nn/sequential.h"
#include "ops/activation.h"
#include "ops/binary.h"
#include "ops/conv.h"
#include "ops/loss.h"
#include "ops/pool.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/view.h"
#include "optim/optimizers.h"
#include "train/graphed_step.h"

namespace tapegrad {
namespace {

using Values = std::vector<float>;

Variable uniform(const Shape& shape, uint64_t seed, DType dtype = bf16) {
  manual_seed(seed);
  return (rand(shape, {.dtype = f32}) - 0.5).to(dtype).to(gpu).detach();
}
Values values_of(const Variable& x) { return x.detach().to(f32).to(cpu).to_vector<float>(); }
bool is_packed(const Variable& x) { return x.value().storage().is_packed(); }

Variable convolved(uint64_t seed = 1) {
  return conv2d(uniform({4, 16, 11, 12}, seed), uniform({32, 16, 3, 3}, 2));
}

/// Makes the GPU the default device during its lifetime.
struct OnGpu {
  Device before = default_device();
  OnGpu() { set_default_device(gpu); }
  ~OnGpu() { set_default_device(before); }
};

/// Channels-last images are made by cuDNN only.
class CudaChannelsLastGraph : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = backends::cuda::why_no_cudnn(gpu); !reason.empty())
      GTEST_SKIP() << reason;
  }
};
using CudaChannelsLastStreams = CudaChannelsLastGraph;

struct Residual : nn::Model<Residual> {
  nn::Conv2d stem{{.in_channels = 3, .out_channels = 16, .kernel_size = 3, .padding = 1}};
  nn::Conv2d first{{.in_channels = 16, .out_channels = 16, .kernel_size = 3, .padding = 1}};
  nn::Conv2d second{{.in_channels = 16, .out_channels = 32, .kernel_size = 1}};
  nn::Conv2d shortcut{{.in_channels = 16, .out_channels = 32, .kernel_size = 1, .bias = false}};
  nn::BatchNorm2d norm1{{.num_features = 16}}, norm2{{.num_features = 32}};
  nn::Linear fc{{.in_features = 32, .out_features = 4}};
  mutable bool stays_packed = true;

  void members(nn::Members& m) override {
    m("stem", stem)("first", first)("second", second)("shortcut", shortcut);
    m("norm1", norm1)("norm2", norm2)("fc", fc);
  }
  Variable forward(const Variable& x) const {
    const Variable y = max_pool2d(relu(stem(x)), {.kernel_size = 3, .stride = 1, .padding = 1});
    const Variable z = norm2(second(relu(norm1(first(y)))));
    const Variable sum = relu(z + shortcut(y));
    stays_packed = stays_packed && is_packed(sum);
    return fc(flatten(adaptive_avg_pool2d(sum, 1), 1));
  }
};

TEST_F(CudaChannelsLastGraph, RepeatsAreTheBitsOfEagerSteps) {
  const auto train = [](bool graph) {
    manual_seed(3);
    Residual net;
    net.to(gpu);
    optim::SGD optimizer(net, {.lr = 0.1, .momentum = 0.9});
    GraphedStep step(
        [&](const Variable& x, const Variable& target) {
          optimizer.zero_grad();
          Variable loss;
          {
            const Autocast amp(bf16);
            loss = cross_entropy(net(x), target);
          }
          loss.backward();
          optimizer.step();
          return loss;
        },
        {}, {.enabled = graph});
    std::vector<Values> results;
    for (int i = 0; i < 7; ++i)
      results.push_back(values_of(step(randn({4, 3, 12, 12}).to(gpu), randint(0, 4, {4}).to(gpu))));
    for (const Variable& parameter : net.parameters()) results.push_back(values_of(parameter));
    results.push_back(values_of(net.norm2.running_var));
    EXPECT_TRUE(net.stays_packed);
    EXPECT_EQ(step.is_graphed(), graph) << step.reason();
    return results;
  };
  EXPECT_EQ(train(true), train(false));
}

/// Results and side effects of a step, and its inputs, may be channels-last images.
TEST_F(CudaChannelsLastGraph, WhatLeavesItIsInOrder) {
  const auto run = [](bool graph) {
    Variable kept;
    bool packed = false;
    const Variable weight = uniform({32, 32, 1, 1}, 5);
    GraphedStep step(
        [&](const Variable& x) {
          kept = relu(conv2d(x, weight));
          packed = is_packed(kept);
          return kept + x;
        },
        {}, {.enabled = graph});
    std::vector<Values> results;
    for (uint64_t i = 0; i < 7; ++i) {
      const Variable x = convolved(i), y = step(x);
      EXPECT_TRUE(is_packed(x) || graph);
      results.push_back(values_of(kept));
      results.push_back(values_of(y));
    }
    EXPECT_TRUE(packed);
    EXPECT_EQ(step.is_graphed(), graph) << step.reason();
    return results;
  };
  EXPECT_EQ(run(true), run(false));
}

/// A step reads an image that was packed before the recording; the conversion happens at the
/// image's address.
TEST_F(CudaChannelsLastGraph, ReadsWhatWasThereBefore) {
  const auto run = [](bool graph) {
    const OnGpu on_gpu;
    Variable image = convolved(), read = convolved(2);
    const Variable weight = uniform({32, 32, 1, 1}, 5);
    GraphedStep step([&] { return conv2d(image, weight) + read; }, {}, {.enabled = graph});
    std::vector<Values> results;
    for (uint64_t i = 0; i < 8; ++i) {
      results.push_back(values_of(step()));
      if (i == 4) copy_(image, convolved(7));
      if (i == 5) relu_(read);
      if (i == 6) values_of(read);
      EXPECT_FALSE(graph && i >= 3 && is_packed(image));
    }
    EXPECT_EQ(step.is_graphed(), graph) << step.reason();
    return results;
  };
  EXPECT_EQ(run(true), run(false));
}

/// Memory for the conversion may have to be allocated during the recording.
TEST_F(CudaChannelsLastGraph, MakesRoomForWhatWasThereBefore) {
  const OnGpu on_gpu;
  const Variable weight = uniform({64, 8, 1, 1}, 5);
  const auto make = [&] { return conv2d(uniform({4, 8, 48, 48}, 1), weight); };  // above 1 MiB
  const Values expected = values_of(relu(make()));
  Variable image;
  GraphedStep step([&] { return relu(image); });
  for (int i = 0; i < 5; ++i) {
    if (i < 4) image = make();
    if (i == 3) empty_cache(gpu);
    EXPECT_EQ(values_of(step()), expected);
  }
  EXPECT_TRUE(step.is_graphed()) << step.reason();
}

/// Gradients of a leaf that is an image: stored in new memory, and accumulated.
TEST_F(CudaChannelsLastGraph, GradientsOfImages) {
  const auto run = [](bool graph) {
    const OnGpu on_gpu;
    Variable x = uniform({4, 16, 11, 12}, 1).requires_grad_();
    const Variable weight = uniform({32, 16, 3, 3}, 2);
    GraphedStep step(
        [&] {
          const Variable loss = sum(relu(conv2d(x, weight)));
          loss.backward();
          return loss;
        },
        {}, {.enabled = graph});
    std::vector<Values> results;
    for (int i = 0; i < 8; ++i) {
      if (i % 2 == 0) x.zero_grad();
      step();
      results.push_back(values_of(x.grad()));
    }
    EXPECT_EQ(step.is_graphed(), graph) << step.reason();
    return results;
  };
  EXPECT_EQ(run(true), run(false));
}

/// The recording ends early: tensors that were packed before stay valid.
TEST_F(CudaChannelsLastGraph, MayBeGivenUp) {
  const auto run = [](bool graph) {
    const Variable weight = uniform({32, 32, 1, 1}, 5);
    Variable kept, image;
    GraphedStep step(
        [&](const Variable& x) {
          const Variable y = conv2d(x, weight);
          kept = relu(y);
          const double number = sum(x).item();
          return relu(conv2d(y, weight)) * number + image;
        },
        {}, {.enabled = graph});
    std::vector<Values> results;
    for (uint64_t i = 0; i < 6; ++i) {
      image = convolved(i + 7);  // produced in another stream than the recording's
      results.push_back(values_of(step(convolved(i))));
      results.push_back(values_of(relu(kept)));
    }
    EXPECT_FALSE(step.is_graphed());
    EXPECT_EQ(step.reason().find("waits") != std::string::npos, graph) << step.reason();
    return results;
  };
  EXPECT_EQ(run(true), run(false));
}

// The following tests create streams of the program.

TEST_F(CudaChannelsLastStreams, ReadInAnother) {
  const Values expected = values_of(convolved()), next = values_of(relu(convolved()));
  const cuda::Stream side = cuda::Stream::create();
  for (int i = 0; i < 3; ++i) {
    const Variable y = convolved();
    cuda::Event made;
    made.record();
    Variable copy;
    {
      const cuda::StreamGuard guard(side);
      side.wait(made);
      copy = relu(y);
      EXPECT_FALSE(is_packed(y));  // its memory belongs to the first stream
      EXPECT_EQ(values_of(copy), next);
    }
    EXPECT_EQ(values_of(y), expected);  // needs no event, since it was only read
  }
}

/// Converted in its own stream while another stream, which waited for the values, reads.
TEST_F(CudaChannelsLastStreams, ReadInTwoAtOnce) {
  const Values expected = values_of(convolved());
  const cuda::Stream side = cuda::Stream::create();
  const Variable y = convolved();
  cuda::Event made;
  made.record();
  y.value().storage().data();
  const cuda::StreamGuard guard(side);
  side.wait(made);
  EXPECT_EQ(values_of(y), expected);
}

/// Written in another stream, which then requests contiguous values.
TEST_F(CudaChannelsLastStreams, WrittenInAnother) {
  const Values expected = values_of(convolved());
  const cuda::Stream side = cuda::Stream::create();
  Variable y = convolved();
  cuda::Event made, changed;
  made.record();
  Variable moved;
  {
    const cuda::StreamGuard guard(side);
    side.wait(made);
    y *= 2.0;
    moved = convolved();
    changed.record();
  }
  cuda::current_stream().wait(changed);
  const Values doubled = values_of(y), same = values_of(moved);
  EXPECT_EQ(same, expected);
  for (size_t i = 0; i < expected.size(); ++i) ASSERT_EQ(doubled[i], 2 * expected[i]);
}

}  // namespace
}  // namespace tapegrad
