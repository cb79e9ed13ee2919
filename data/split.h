// Splits a data set at random, for example into training and validation examples.
//
//   const auto [train, validation] = split_dataset(data, 0.1);   // a tenth for validation
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "data/dataset.h"

namespace tapegrad {

/// Moves a share of the examples, rounded to whole examples, to the second part. The order of the
/// examples does not change within a part. Equal seeds give equal parts. Throws ArgumentError
/// unless 0 <= share <= 1.
std::pair<TensorDataset, TensorDataset> split_dataset(const TensorDataset& dataset, double share,
                                                      uint64_t seed = 0);
/// Parts that read from the data set. Random numbers of an example are those that it has in the
/// whole data set.
std::pair<std::shared_ptr<const Dataset>, std::shared_ptr<const Dataset>> split_dataset(
    std::shared_ptr<const Dataset> dataset, double share, uint64_t seed = 0);

}  // namespace tapegrad
