// printf into a std::string, for the sources of train/. Not part of the public interface.
#pragma once

#include <cstdio>
#include <string>

namespace tapegrad {

[[gnu::format(printf, 1, 2)]] std::string format(const char* pattern, ...);

}  // namespace tapegrad
