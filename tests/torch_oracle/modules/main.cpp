// Runs every module in every floating-point type and writes inputs and results to <prefix>.json and
// <prefix>.safetensors, which torch_modules.py compares with PyTorch.
#include <fstream>
#include <iostream>

#include "io/safetensors.h"
#include "tests/torch_oracle/modules/recorder.h"

int main(int argc, char** argv) try {
  using namespace tapegrad;
  using namespace tapegrad::torch_oracle;
  if (argc != 2) {
    std::cerr << "usage: torch_oracle_modules <prefix of the files to write>\n";
    return 2;
  }
  TensorMap tensors;
  nlohmann::json lines = nlohmann::json::array();
  for (DType dtype : {f64, f32, bf16, f16}) {
    Recorder record(dtype, tensors, lines);
    for (auto* rows : {layer_rows, window_rows, loss_rows, sequence_rows, option_rows,
                       sequence_option_rows, computed_weight_rows})
      rows(record);
  }
  const std::string prefix = argv[1];
  save(prefix + ".safetensors", tensors);
  std::ofstream(prefix + ".json") << lines.dump(1) << '\n';
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
