// IDX, the format of the MNIST files: a big-endian header (two zero bytes, an element type, a rank,
// the sizes) and the elements.
#pragma once

#include "core/tape/variable.h"

namespace tapegrad {

/// The tensor in an IDX file, plain or gzipped, of the type and shape that its header says: uint8,
/// int8, int16, int32, float32 or float64. Memory for the elements is taken only when the file can
/// hold as many, and no more is read than the header promises.
/// IoError when the file cannot be read; FormatError, naming the file and the fault, when it is no
/// IDX file, is damaged, or ends too early or too late.
Variable read_idx(const std::string& path);

}  // namespace tapegrad
