// Limit of zlib's format deflate.
#pragma once

namespace tapegrad {

/// Largest number of bytes to which one compressed byte expands (258 bytes from two bits).
inline constexpr int kMostInflated = 1032;

}  // namespace tapegrad
