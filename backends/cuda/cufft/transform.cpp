#include "backends/cuda/cufft/transform.h"

#include <cufft.h>

#include <array>

#include "absl/container/node_hash_map.h"

#include "backends/cuda/runtime/address.h"
#include "backends/cuda/runtime/api.h"
#include "backends/cuda/runtime/library.h"
#include "backends/cuda/runtime/stream.h"
#include "core/base/error.h"
#include "core/base/internal/mutex.h"
#include "core/cuda.h"
#include "core/dispatch/kernels.h"

namespace tapegrad::backends::cuda::cufft {
namespace {

/// The cuFFT functions in use, with the prototypes of its header.
#define TG_CUFFT(name) \
  const Found<decltype(::cufft##name)> name { find_in_cufft("cufft" #name) }
struct Cufft {
  TG_CUFFT(Create);
  TG_CUFFT(Destroy);
  TG_CUFFT(SetAutoAllocation);
  TG_CUFFT(MakePlanMany64);
  TG_CUFFT(SetWorkArea);
  TG_CUFFT(SetStream);
  TG_CUFFT(ExecC2C);
  TG_CUFFT(ExecR2C);
  TG_CUFFT(ExecC2R);
  TG_CUFFT(ExecZ2Z);
  TG_CUFFT(ExecD2Z);
  TG_CUFFT(ExecZ2D);
};
#undef TG_CUFFT
const Cufft& library() {
  static const Cufft opened;
  return opened;
}

void check(cufftResult status, std::string_view call) {
  if (status != CUFFT_SUCCESS)
    fail<tapegrad::cuda::CudaError>(current_op(), ": ", call, ": status ", int(status));
}

/// Places of the elements of signals: element j of signal i is at i distance + j stride.
struct Places {
  int64_t stride, distance;
  bool operator==(const Places&) const = default;
};

/// All properties that a plan depends on.
struct Problem {
  cufftType type;
  int64_t n, count;  // length and number of the signals
  Places x, y;

  bool operator==(const Problem&) const = default;
  template <typename H>
  friend H AbslHashValue(H h, const Problem& p) {
    return H::combine(std::move(h), p.type, p.n, p.count, p.x.stride, p.x.distance, p.y.stride,
                      p.y.distance);
  }
};

class Plan {
 public:
  explicit Plan(const Problem& p) : type_(p.type) {
    const Cufft& f = library();
    check(f.Create(&native_), "cufftCreate");
    check(f.SetAutoAllocation(native_, 0), "cufftSetAutoAllocation");
    // The sizes of the memory around a signal are read for further dimensions only, but must not be
    // null, which would mean that strides are ignored.
    std::array<long long, 1> n{p.n}, around{p.n};
    is_made_ = f.MakePlanMany64(native_, 1, n.data(), around.data(), p.x.stride, p.x.distance,
                                around.data(), p.y.stride, p.y.distance, p.type, p.count,
                                &workspace_) == CUFFT_SUCCESS;
  }
  ~Plan() { library().Destroy(native_); }  // errors are ignored
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  /// Returns whether a recorded graph uses the plan, and with it the plan's tables in device
  /// memory.
  bool is_in_graph() const { return is_in_graph_; }

  /// Returns false if cuFFT could not make the plan or there is no memory for its workspace.
  bool run(cudaStream_t stream, Kind kind, const Tensor& x, const Tensor& y) {
    if (!is_made_) return false;
    Tensor workspace;
    try {
      if (workspace_ > 0) workspace = Tensor::empty({int64_t(workspace_)}, u8, y.device());
    } catch (const OutOfMemory&) {
      return false;
    }
    const Cufft& f = library();
    if (workspace) check(f.SetWorkArea(native_, workspace.data<uint8_t>()), "cufftSetWorkArea");
    check(f.SetStream(native_, stream), "cufftSetStream");
    is_in_graph_ |= is_recording_graph();
    check(execute(kind == Kind::kInverse ? CUFFT_INVERSE : CUFFT_FORWARD, address_of(x),
                  address_of(y)),
          "cufftExec");
    return true;
  }

 private:
  cufftResult execute(int direction, void* x, void* y) const {
    const Cufft& f = library();
    switch (type_) {
      case CUFFT_C2C:
        return f.ExecC2C(native_, static_cast<cufftComplex*>(x), static_cast<cufftComplex*>(y),
                         direction);
      case CUFFT_R2C:
        return f.ExecR2C(native_, static_cast<cufftReal*>(x), static_cast<cufftComplex*>(y));
      case CUFFT_C2R:
        return f.ExecC2R(native_, static_cast<cufftComplex*>(x), static_cast<cufftReal*>(y));
      case CUFFT_Z2Z:
        return f.ExecZ2Z(native_, static_cast<cufftDoubleComplex*>(x),
                         static_cast<cufftDoubleComplex*>(y), direction);
      case CUFFT_D2Z:
        return f.ExecD2Z(native_, static_cast<cufftDoubleReal*>(x),
                         static_cast<cufftDoubleComplex*>(y));
      default:
        return f.ExecZ2D(native_, static_cast<cufftDoubleComplex*>(x),
                         static_cast<cufftDoubleReal*>(y));
    }
  }

  cufftType type_;
  cufftHandle native_ = 0;
  size_t workspace_ = 0;
  bool is_made_ = false, is_in_graph_ = false;
};

/// The plans of a device, used by one thread at a time. Never destroyed.
struct Plans {
  static constexpr size_t kMost = 256;

  Mutex mutex;
  absl::node_hash_map<Problem, Plan> plans ABSL_GUARDED_BY(mutex);

  Plan& plan_for(const Problem& problem) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (const auto known = plans.find(problem); known != plans.end()) return known->second;
    stop_recording("cuFFT plans a transform");
    if (plans.size() >= kMost)
      absl::erase_if(plans, [](const auto& entry) { return !entry.second.is_in_graph(); });
    return plans.try_emplace(problem, problem).first->second;
  }
};
Plans& plans_of(tapegrad::Device device) {
  static auto* all = new Plans[kMaxDevices];
  return all[device.index];
}

bool is_complex_in(Kind kind) { return kind != Kind::kRealToComplex; }
bool is_complex_out(Kind kind) { return kind != Kind::kComplexToReal; }

cufftType type_of(Kind kind, DType dtype) {
  const bool wide = dtype == f64;
  if (!is_complex_in(kind)) return wide ? CUFFT_D2Z : CUFFT_R2C;
  if (!is_complex_out(kind)) return wide ? CUFFT_Z2D : CUFFT_C2R;
  return wide ? CUFFT_Z2Z : CUFFT_C2C;
}

/// Views x as [outer, length, inner, numbers per element].
Tensor by_element(const Tensor& x, bool is_complex) {
  const int64_t per = is_complex ? 2 : 1;
  const Shape shape{x.shape()[0], x.shape()[1], x.shape()[2] / per, per};
  return x.with_layout(contiguous_layout(shape, x.layout().offset));
}
/// Exchanges the dimensions `length` and `inner` of such a view.
Tensor turned(const Tensor& x) {
  StridedLayout layout = x.layout();
  std::swap(layout.shape[1], layout.shape[2]);
  std::swap(layout.strides[1], layout.strides[2]);
  return x.with_layout(layout);
}

/// Returns the signals of [outer, length, inner], where outer or inner is 1.
Places places_of(const Tensor& x) {
  const int64_t inner = x.shape()[2];
  return inner == 1 ? Places{1, x.shape()[1]} : Places{inner, 1};
}

/// cuFFT requires the alignment of a complex number, also for real numbers.
Tensor aligned(const Tensor& x) {
  const bool fits =
      reinterpret_cast<uintptr_t>(address_of(x)) % size_t(2 * size_of(x.dtype())) == 0;
  return fits ? x : x.clone();
}

/// x and y are views [outer, length, inner, numbers], where outer or inner is 1.
bool run(Kind kind, const Tensor& x, const Tensor& y) {
  const Problem problem{.type = type_of(kind, x.dtype()),
                        .n = is_complex_out(kind) ? x.shape()[1] : y.shape()[1],
                        .count = x.shape()[0] * x.shape()[2],
                        .x = places_of(x),
                        .y = places_of(y)};
  const cudaStream_t stream = stream_of(y);  // also makes the device current for this thread
  Plans& all = plans_of(y.device());
  const MutexLock lock(all.mutex);
  return all.plan_for(problem).run(stream, kind, x, y);
}

}  // namespace

bool transform(Kind kind, const Tensor& x, Tensor& y) {
  if (!library().Create) return false;
  const Tensor from = by_element(aligned(x), is_complex_in(kind));
  Tensor to = by_element(y, is_complex_out(kind));
  if (from.shape()[0] == 1 || from.shape()[2] == 1) return run(kind, from, to);
  // A plan has one distance between signals: interleaved signals of several groups are copied.
  const auto lines = [](const Shape& s) { return Shape{s[0] * s[1], s[2], 1, s[3]}; };
  const Tensor lying = turned(from).clone();
  const Tensor result = to.empty_like(turned(to).shape());
  const auto as_lines = [&](const Tensor& x) {
    const Shape shape = lines(x.shape());
    return x.with_layout(contiguous_layout(shape, x.layout().offset));
  };
  if (!run(kind, as_lines(lying), as_lines(result))) return false;
  kernels::copy(turned(result), to);
  return true;
}

}  // namespace tapegrad::backends::cuda::cufft
