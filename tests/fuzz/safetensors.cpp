// load() and load_metadata() of arbitrary bytes: the result must be a FormatError, or tensors whose
// bytes are the last bytes of the file, each used once.
#include "io/safetensors.h"

#include "core/base/error.h"
#include "tests/fuzz/file.h"

using namespace tapegrad;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const fuzz::File file({data, size});
  TensorMap tensors;
  std::map<std::string, std::string> metadata;
  try {
    tensors = load(file.path());
    metadata = load_metadata(file.path());
  } catch (const FormatError&) {
    return 0;
  }
  int64_t bytes = 0;
  uint64_t sum = 0, expected = 0;
  for (const auto& [name, tensor] : tensors) {
    const int64_t count = tensor.numel() * size_of(tensor.dtype());
    for (int64_t i = 0; i < count; ++i) sum += uint64_t(tensor.storage().data()[i]);
    bytes += count;
  }
  if (bytes > int64_t(size)) fuzz::finding("more elements than the file has bytes");
  for (size_t i = size - size_t(bytes); i < size; ++i) expected += data[i];
  if (sum != expected) fuzz::finding("other elements than the file's");
  return 0;
}
