#include "backends/cpu/dnnl.h"

namespace tapegrad::backends::cpu {

const dnnl::engine& dnnl_engine() {
  static const dnnl::engine instance(dnnl::engine::kind::cpu, 0);
  return instance;
}

dnnl::stream& dnnl_stream() {
  thread_local dnnl::stream instance(dnnl_engine());
  return instance;
}

dnnl::memory scratch_memory(const dnnl::memory::desc& desc, Tensor& owner) {
  owner = Tensor::empty({int64_t(desc.get_size())}, u8);
  return dnnl::memory(desc, dnnl_engine(), owner.data<uint8_t>());
}

}  // namespace tapegrad::backends::cpu
