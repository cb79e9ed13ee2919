// read_idx() of arbitrary bytes. The first byte decides whether the others are gzipped first. The
// result must be a FormatError, or a tensor with as many elements as the file has bytes for.
#include "data/idx.h"

#include <zlib.h>

#include <vector>

#include "core/base/error.h"
#include "tests/fuzz/file.h"

using namespace tapegrad;

namespace {

std::vector<uint8_t> gzipped(const uint8_t* data, size_t size) {
  z_stream stream{};
  if (deflateInit2(&stream, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    fuzz::finding("zlib does not start");
  std::vector<uint8_t> packed(deflateBound(&stream, size));
  stream.next_in = const_cast<uint8_t*>(data);
  stream.avail_in = unsigned(size);
  stream.next_out = packed.data();
  stream.avail_out = unsigned(packed.size());
  if (deflate(&stream, Z_FINISH) != Z_STREAM_END) fuzz::finding("zlib does not finish");
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const bool pack = data[0] % 2 == 1;
  ++data, --size;
  const fuzz::File file(pack ? gzipped(data, size) : std::vector<uint8_t>(data, data + size));
  Variable x;
  try {
    x = read_idx(file.path());
  } catch (const FormatError&) {
    return 0;
  }
  // A gzipped file may contain more bytes than its own size.
  const bool is_gzipped = !pack && size > 1 && data[0] == 0x1f && data[1] == 0x8b;
  const size_t bytes = size_t(x.numel() * size_of(x.dtype()));
  if (!is_gzipped && bytes + 4 + 4 * size_t(x.rank()) != size)
    fuzz::finding("other sizes than the file's");
  uint64_t sum = 0, expected = 0;
  for (size_t i = 0; i < bytes; ++i) sum += uint64_t(x.value().storage().data()[i]);
  if (is_gzipped) return 0;
  for (size_t i = size - bytes; i < size; ++i) expected += data[i];
  if (sum != expected) fuzz::finding("other elements than the file's");
  return 0;
}
