#include "backends/cpu/dnnl/dnnl.h"

#include <cstdlib>

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

bool has(dnnl::cpu_isa level) {
  return (int(dnnl::get_effective_cpu_isa()) & int(level)) == int(level);
}

bool multiplies_bfloat16() {
  static const bool does = [] {
    const char* text = std::getenv("TAPEGRAD_CPU_BFLOAT16");
    const std::string_view wanted = text != nullptr ? text : "";
    const auto required =
        wanted == "1" ? dnnl::cpu_isa::avx512_core : dnnl::cpu_isa::avx512_core_bf16;
    return wanted != "0" && has(required);
  }();
  return does;
}

}  // namespace tapegrad::backends::cpu
