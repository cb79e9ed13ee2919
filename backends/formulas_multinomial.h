// The choice of classes by their weights. All devices choose the same classes: the sum of two
// weights is the same on every device, and the tree determines which two are added.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/base/host_device.h"

namespace tapegrad::formulas {

/// The sums of weights over a binary tree with the root 1. Node i has the children 2 i and 2 i + 1,
/// and class c is node leaves + c. Picks and removes a class in logarithmic time.
struct WeightTree {
  double* sums;    // of 2 leaves nodes
  int64_t leaves;  // a power of two

  /// Returns the number of leaves for a number of classes. Leaves without a class have weight 0.
  static TG_HD int64_t leaves_for(int64_t classes) {
    int64_t leaves = 1;
    while (leaves < classes) leaves *= 2;
    return leaves;
  }
  TG_HD double total() const { return sums[1]; }
  /// Adds the children of an inner node.
  TG_HD void add(int64_t node) const { sums[node] = sums[2 * node] + sums[2 * node + 1]; }
  /// Returns the class whose part of the cumulative weights contains share * total(); never one of
  /// weight 0.
  TG_HD int64_t pick(double share) const {
    double target = share * total();
    int64_t node = 1;
    while (node < leaves) {
      node *= 2;
      if (sums[node] > 0 && (target < sums[node] || sums[node + 1] == 0)) continue;
      target -= sums[node++];
    }
    return node - leaves;
  }
  TG_HD void remove(int64_t id) const {
    int64_t node = leaves + id;
    for (sums[node] = 0; node > 1; node /= 2) sums[node / 2] = sums[node] + sums[node ^ 1];
  }
};

}  // namespace tapegrad::formulas
