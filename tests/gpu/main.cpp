// Runs the tests that need a GPU. Without a GPU they are skipped, with the reason.
#include <gtest/gtest.h>

#include <iostream>

#include "core/cuda.h"

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (!tapegrad::cuda::is_available()) {
    std::cout << "skipped: " << tapegrad::cuda::why_unavailable() << '\n';
    return 77;
  }
  return RUN_ALL_TESTS();
}
