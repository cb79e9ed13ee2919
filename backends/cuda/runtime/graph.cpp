// CUDA graphs, the implementation of core/autograd/internal/capture.h.
#include <atomic>
#include <mutex>

#include "backends/cuda/runtime/allocator.h"
#include "backends/cuda/runtime/api.h"
#include "backends/cuda/runtime/pinned.h"
#include "backends/cuda/runtime/stream.h"
#include "core/autograd/internal/capture.h"
#include "core/base/error.h"

namespace tapegrad {
namespace backends::cuda {
namespace {

/// Host memory that the device writes to.
class PinnedWords {
 public:
  explicit PinnedWords(size_t count) {
    void* data = nullptr;
    TG_CUDA(cudaHostAlloc(&data, count * sizeof(int64_t), cudaHostAllocDefault));
    words_ = static_cast<int64_t*>(data);
  }
  ~PinnedWords() { cudaFreeHost(words_); }  // errors are ignored
  PinnedWords(const PinnedWords&) = delete;
  PinnedWords& operator=(const PinnedWords&) = delete;

  int64_t* data() const { return words_; }

 private:
  int64_t* words_ = nullptr;
};

class Graph final : public Capture {
 public:
  explicit Graph(tapegrad::Device device)
      : Capture(device),
        device_(device),
        live_(Tensor::empty({int64_t(kLiveBytes)}, u8, device)),
        verdicts_(kWatched * kWords) {
    static std::atomic<int64_t> pools{0};
    pool_ = ++pools;
  }

  ~Graph() override {
    try {
      const cudaStream_t stream = stream_of(device_);
      if (last_ != nullptr) cudaStreamSynchronize(last_);             // errors are ignored
      if (executable_ != nullptr) cudaGraphExecDestroy(executable_);  // errors are ignored
      release_pool(pool_, device_, stream);
    } catch (const Error&) {  // the device can no longer be used
    }
  }

  int64_t* watch(std::string_view op) override {
    if (watched_.size() == kWatched) return nullptr;
    int64_t* words = verdicts_.data() + watched_.size() * kWords;
    words[0] = -1;
    watched_.emplace_back(op);
    return words;
  }

 private:
  static constexpr size_t kWatched = 256, kWords = 4;

  void begin() override {
    RecordingStream& own = recording_stream(device_);
    lock_ = std::unique_lock(own.mutex);
    stream_ = own.stream;
    pool_before_ = use_pool(pool_);
    caller_ = set_stream(device_, stream_);
    TG_CUDA(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
  }

  void settle() override {
    TensorStorage::unpack_all([this](const TensorStorage& packed) {
      return packed.device() == device_ && home_of(packed).pool == pool_;
    });
  }

  bool end(bool) override {
    cudaGraph_t graph = nullptr;
    cudaError_t status = cudaStreamEndCapture(stream_, &graph);
    if (status == cudaSuccess && graph != nullptr) {
      status = cudaGraphInstantiate(&executable_, graph, 0);
      cudaGraphDestroy(graph);  // errors are ignored
    }
    if (status != cudaSuccess) {
      executable_ = nullptr;
      cudaGetLastError();
    }
    order(caller_, device_, stream_, device_);
    return executable_ != nullptr;
  }

  void leave() override {
    set_stream(device_, caller_);
    use_pool(pool_before_);
    if (!is_ready()) order(stream_, device_, caller_, device_);
    lock_.unlock();
  }

  std::byte* live_memory() override { return live_.storage().data(); }

  void launch(const std::vector<std::byte>& live) override {
    const cudaStream_t stream = stream_of(device_);
    if (last_ != nullptr) order(last_, device_, stream, device_);
    last_ = stream;
    if (!live.empty()) copy_to_device(live.data(), live_memory(), live.size(), device_);
    TG_CUDA(cudaGraphLaunch(executable_, stream));
  }

  void check_watched(bool wait) override {
    if (wait && last_ != nullptr) TG_CUDA(cudaStreamSynchronize(last_));
    for (size_t i = 0; i < watched_.size(); ++i) {
      int64_t* words = verdicts_.data() + i * kWords;
      const int64_t place = *static_cast<volatile int64_t*>(words);
      if (place < 0) continue;
      words[0] = -1;
      fail<ArgumentError>("GraphedStep: an earlier call met a value that ", watched_[i],
                          " does not take, as element ", place);
    }
  }

  bool is_own(const Tensor& x) const override {
    return x.device() == device_ && is_from_pool(pool_, x);
  }

  const tapegrad::Device device_;
  const Tensor live_;
  const PinnedWords verdicts_;
  std::vector<std::string> watched_;
  int64_t pool_, pool_before_ = 0;
  cudaStream_t stream_ = nullptr, caller_ = nullptr;
  cudaStream_t last_ = nullptr;  // the stream of the last run
  cudaGraphExec_t executable_ = nullptr;
  std::unique_lock<std::mutex> lock_;
};

}  // namespace
}  // namespace backends::cuda

std::unique_ptr<Capture> Capture::create_on_gpu(Device device) {
  if (device.type != DeviceType::kCuda)
    fail<DeviceError>("GraphedStep: ", device, " has no graphs");
  if (backends::cuda::is_direct())
    fail<DeviceError>("GraphedStep: TAPEGRAD_CUDA_ALLOCATOR=direct leaves a graph no memory");
  return std::make_unique<backends::cuda::Graph>(device);
}

}  // namespace tapegrad
