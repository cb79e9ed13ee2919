// IDX, the format of the MNIST files: a big-endian header (two zero bytes, an element type, a rank,
// the sizes), then the elements.
#pragma once

#include "core/tape/variable.h"

namespace tapegrad {

/// Reads the tensor in an IDX file, plain or gzipped, with the type (uint8, int8, int16, int32,
/// float32 or float64) and shape of its header. Allocates memory for the elements only if the file
/// is large enough to contain them, and reads no more bytes than the header specifies. Throws
/// IoError if the file cannot be read. Throws FormatError, naming the file and the fault, if the
/// file is not an IDX file, is damaged, too short or too long.
Variable read_idx(const std::string& path);

}  // namespace tapegrad
