// Tests whether cuDNN itself has kernels for our graphs. cuDNN can be asked without a device if it
// is given the description of one, and then compiles its kernels. The toolkit's stub library
// provides the symbols of the driver.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstring>

#include "backends/cuda/cudnn/attention_graph.h"
#include "backends/cuda/cudnn/image_graphs.h"
#include "core/cuda.h"

namespace tapegrad::backends::cuda {
namespace {

// Description of an H200. The fields that are needed depend on the version.
constexpr char kDevice[] = R"({
  "deviceName": "NVIDIA H200", "deviceVer": 900, "driverVer": 13000, "cudaDeviceId": 0,
  "multiProcessorCount": 132, "smCountOrigin": 0, "warpSize": 32,
  "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64],
  "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "maxCtasPerSM": 32,
  "regsPerBlock": 65536, "maxRegistersPerSM": 65536,
  "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 232448,
  "oversizedSharedMemoryPerBlock": 0, "reservedSharedMemoryPerBlock": 1024,
  "totalGlobalMem": 150000000000, "l2CacheSize": 62914560, "memoryBusWidth": 6144,
  "smClockRateKHz": 1980000, "memClockRateKHz": 3201000,
  "pciDeviceId": 0, "isTccDriver": 0, "supportCoopLaunch": 1})";

class CudnnAccepts : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (dlopen("libcuda.so.1", RTLD_NOW) == nullptr) dlopen(TAPEGRAD_DRIVER_STUB, RTLD_NOW);
  }
  void SetUp() override {
    if (dlopen("libcudnn.so.9", RTLD_NOW) == nullptr) GTEST_SKIP() << dlerror();
    if (dnn().cudnnGetVersion() < 90800) GTEST_SKIP() << "needs cuDNN 9.8 or newer";
    device_.emplace(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
    check(dnn().cudnnBackendSetAttribute(**device_, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                                         CUDNN_TYPE_CHAR, sizeof(kDevice), kDevice),
          "the description of a device");
    if (const auto status = dnn().cudnnBackendFinalize(**device_); status != CUDNN_STATUS_SUCCESS)
      GTEST_SKIP() << "this cuDNN requires other fields in the description of a device: "
                   << describe(status);
  }

  /// Returns whether a plan was made, or its kernel compiled, and only loading failed for lack of a
  /// driver.
  template <typename Plan>
  bool has_kernel(const Plan& plan) {
    try {
      return plan(GraphTarget{.device = &*device_}).has_value();
    } catch (const tapegrad::cuda::CudaError& error) {
      if (std::strstr(error.what(), "cuLibraryLoadData") != nullptr) return true;
      ADD_FAILURE() << error.what();
      return false;
    }
  }

  std::optional<Backend> device_;
};

TEST_F(CudnnAccepts, Attention) {
  struct Sizes {
    int64_t queries, keys, features, width;
  };
  for (const cudnnDataType_t type : {CUDNN_DATA_HALF, CUDNN_DATA_BFLOAT16})
    for (const bool causal : {false, true})
      for (const Sizes& s :
           {Sizes{1024, 1024, 64, 64}, Sizes{640, 896, 128, 128}, Sizes{512, 512, 8, 40}}) {
        // In the layout of a network: [examples, length, heads, columns] in memory.
        const auto form = [&](int64_t length, int64_t columns) {
          Graph::Form x = Graph::dense({4, 12, length, columns}, type);
          x.steps = {length * 12 * columns, columns, 12 * columns, 1};
          return x;
        };
        const AttentionProblem p{form(s.queries, s.features), form(s.keys, s.features),
                                 form(s.keys, s.width), causal};
        SCOPED_TRACE(testing::Message() << s.queries << " x " << s.keys << " scores, " << s.features
                                        << " features" << (causal ? ", causal" : ""));
        EXPECT_TRUE(has_kernel([&](GraphTarget to) { return plan_attention(p, to); }));
        EXPECT_TRUE(has_kernel([&](GraphTarget to) { return plan_attention_backward(p, to); }));
      }
}

TEST_F(CudnnAccepts, BatchNormOfImagesWhoseChannelsLieLast) {
  for (const cudnnDataType_t type : {CUDNN_DATA_HALF, CUDNN_DATA_BFLOAT16})
    for (const Graph::Sizes& sizes :
         {Graph::Sizes{64, 64, 56 * 56, 1}, Graph::Sizes{64, 2048, 7 * 7, 1},
          Graph::Sizes{17, 24, 51 * 53, 1}}) {
      const BatchNormProblem p{Graph::channels_last(sizes, type)};
      SCOPED_TRACE(testing::Message() << sizes[1] << " channels");
      EXPECT_TRUE(has_kernel([&](GraphTarget to) { return plan_batch_norm(p, to); }));
      EXPECT_TRUE(has_kernel([&](GraphTarget to) { return plan_batch_norm_backward(p, to); }));
    }
}

TEST_F(CudnnAccepts, Pooling) {
  for (const cudnnResampleMode_t mode :
       {CUDNN_RESAMPLE_MAXPOOL, CUDNN_RESAMPLE_AVGPOOL_INCLUDE_PADDING,
        CUDNN_RESAMPLE_AVGPOOL_EXCLUDE_PADDING})
    for (const cudnnDataType_t type : {CUDNN_DATA_FLOAT, CUDNN_DATA_HALF, CUDNN_DATA_BFLOAT16})
      for (const bool last : {false, true}) {
        const auto form = [&](int64_t height, int64_t width) {
          const Graph::Sizes sizes{32, 64, height, width};
          return last ? Graph::channels_last(sizes, type) : Graph::dense(sizes, type);
        };
        // Kernels for channels last take a while to compile, so fewer are tested.
        const size_t enough = last && type != CUDNN_DATA_HALF ? 1 : 3;
        const PoolProblem problems[] = {
            {{mode, {3, 3}, {2, 2}, {1, 1}}, form(56, 56), form(28, 28)},
            {{mode, {3, 2}, {2, 1}, {0, 1}}, form(55, 31), form(27, 32)},
            {{mode, {28, 28}, {28, 28}, {0, 0}}, form(28, 28), form(1, 1)}};
        for (const PoolProblem& p : std::span(problems).first(enough)) {
          SCOPED_TRACE(testing::Message() << "mode " << mode << ", type " << type << ", windows of "
                                          << p.windows.size[0] << (last ? ", last" : ""));
          EXPECT_TRUE(has_kernel([&](GraphTarget to) { return plan_pool(p, to); }));
          if (mode != CUDNN_RESAMPLE_MAXPOOL) {
            EXPECT_TRUE(has_kernel([&](GraphTarget to) { return plan_pool_backward(p, to); }));
          }
        }
      }
}

TEST_F(CudnnAccepts, NotEveryGraph) {
  EXPECT_FALSE(has_kernel([&](GraphTarget to) {  // a softmax of a logarithm, which is not attention
    Graph g;
    const Graph::Value q = g.tensor(Graph::dense({1, 1, 64, 64}, CUDNN_DATA_HALF));
    const Graph::Value scores = g.map(CUDNN_POINTWISE_LOG, g.matmul(q, q));
    const Graph::Value total = g.reduce(CUDNN_REDUCE_TENSOR_ADD, scores);
    g.matmul(g.transpose(g.map(CUDNN_POINTWISE_DIV, scores, total), CUDNN_DATA_HALF), q,
             g.tensor(Graph::dense({1, 1, 64, 64}, CUDNN_DATA_HALF)));
    return g.plan(to);
  }));
}

}  // namespace
}  // namespace tapegrad::backends::cuda
