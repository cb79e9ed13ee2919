// Writes NumPy's files: .npy for one array, .npz for several. data/npz.h reads both.
//
//   write_npy("x.npy", x);                       // numpy.load("x.npy")
//   write_npz("xy.npz", {{"x", x}, {"y", y}});   // numpy.load("xy.npz")["x"]
#pragma once

#include <map>
#include <string>

#include "core/tape/variable.h"

namespace tapegrad {

/// Writes one array of any shape, in row-major order, as numpy.save does. The file is replaced
/// atomically. Throws DTypeError for bfloat16, which NumPy does not have, and IoError if the file
/// cannot be written.
void write_npy(const std::string& path, const Variable& x, Where where = Where::current());
/// Writes several arrays by name, uncompressed, as numpy.savez does. The file is replaced
/// atomically. Throws the errors of write_npy(), and ArgumentError for an empty name, for a name of
/// more than 65531 bytes, and for 4 GiB or more in one file.
void write_npz(const std::string& path, const std::map<std::string, Variable>& arrays,
               Where where = Where::current());
/// write_npz() under NumPy's name. Appends ".npz" to a path with another ending, as NumPy does.
void savez(const std::string& path, const std::map<std::string, Variable>& arrays,
           Where where = Where::current());

void save_npy(const std::string& path, const Variable& x, Where where = Where::current());
void save_npz(const std::string& path, const std::map<std::string, Variable>& arrays,
              Where where = Where::current());

}  // namespace tapegrad
