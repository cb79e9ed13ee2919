// The version of the library. CMakeLists.txt reads the numbers from this file.
//
//   #if TAPEGRAD_VERSION >= 200   // 0.2.0 or newer
#pragma once

#define TAPEGRAD_VERSION_MAJOR 0
#define TAPEGRAD_VERSION_MINOR 1
#define TAPEGRAD_VERSION_PATCH 0

/// The version as one number that increases with each release: 10203 for 1.2.3.
#define TAPEGRAD_VERSION \
  (TAPEGRAD_VERSION_MAJOR * 10000 + TAPEGRAD_VERSION_MINOR * 100 + TAPEGRAD_VERSION_PATCH)

#define TAPEGRAD_TEXT_OF(x) #x
#define TAPEGRAD_DOTTED(a, b, c) TAPEGRAD_TEXT_OF(a) "." TAPEGRAD_TEXT_OF(b) "." TAPEGRAD_TEXT_OF(c)
#define TAPEGRAD_VERSION_STRING \
  TAPEGRAD_DOTTED(TAPEGRAD_VERSION_MAJOR, TAPEGRAD_VERSION_MINOR, TAPEGRAD_VERSION_PATCH)
