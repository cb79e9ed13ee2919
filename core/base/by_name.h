// ByName: the members of an options struct that begins with it must be named. It also knows the
// line that makes the options, so that errors of constructors name the user's line.
//
//   struct PadOptions {
//     ByName by_name = {};
//     int64_t size = 0;
//   };
//   pad(x, {.size = 2});   // PadOptions
//   pad(x, {2, 3});        // not PadOptions: another overload takes a list of numbers
#pragma once

#include "core/base/where.h"

namespace tapegrad {

struct ByName {
  Where where = Where::current();
};

}  // namespace tapegrad
