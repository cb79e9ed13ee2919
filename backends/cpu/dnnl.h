// What every use of oneDNN shares.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>

namespace tapegrad::backends::cpu {

const dnnl::engine& dnnl_engine();
dnnl::stream& dnnl_stream();  // of this thread

}  // namespace tapegrad::backends::cpu
