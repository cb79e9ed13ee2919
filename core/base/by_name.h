// ByName: first member of an options struct whose other members must be given by name. ByName also
// stores the source line that made the options, so that errors of constructors name the user's
// line.
//
//   struct PadOptions {
//     ByName by_name = {};
//     int64_t size = 0;
//   };
//   pad(x, {.size = 2});   // PadOptions
//   pad(x, {2, 3});        // not PadOptions: another overload takes a list of numbers
#pragma once

#include "core/base/dtype.h"
#include "core/base/where.h"

namespace tapegrad {

struct ByName {
  Where where = Where::current();
};

/// Option of ops that convert their operand first: `softmax(x, 1, {.dtype = f64})`.
struct DTypeOption {
  ByName by_name = {};
  DType dtype;
};

}  // namespace tapegrad
