// Reads NumPy's files: .npy for one array, .npz, a ZIP archive of .npy files, for several.
// io/numpy_file.h writes both.
#pragma once

#include <map>
#include <string>

#include "core/tape/variable.h"

namespace tapegrad {

/// Returns the arrays of a file by name, without ".npy". Members may be stored or deflated; their
/// checksums (CRC-32) are verified. Element types: bool, uint8, int8, int16, int32, int64, float16,
/// float32 and float64, little-endian, in row-major order. Throws IoError if the file cannot be
/// read. Throws FormatError, naming the file and the fault, if the file is damaged or has any other
/// content.
std::map<std::string, Variable> read_npz(const std::string& path, Where where = Where::current());
/// Returns the array of a .npy file. Types and errors are those of read_npz().
Variable read_npy(const std::string& path, Where where = Where::current());
std::map<std::string, Variable> load_npz(const std::string& path, Where where = Where::current());
Variable load_npy(const std::string& path, Where where = Where::current());

}  // namespace tapegrad
