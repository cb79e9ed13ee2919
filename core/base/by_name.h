// ByName: the members of an options struct that begins with it must be named.
//
//   struct PadOptions {
//     ByName by_name = {};
//     int64_t size = 0;
//   };
//   pad(x, {.size = 2});   // PadOptions
//   pad(x, {2, 3});        // not PadOptions: another overload takes a list of numbers
#pragma once

namespace tapegrad {

struct ByName {};

}  // namespace tapegrad
