// Checks that run on every rank. Ranks are threads (threads_test.cpp) or processes
// (mpi_program.cpp).
#pragma once

#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "dist/communicator.h"
#include "nn/sequential.h"

namespace tapegrad::dist {

struct Check {
  std::string name;
  void (*run)(const Communicator& world);
};
/// All checks, in one order.
const std::vector<Check>& collective_checks();
const std::vector<Check>& group_checks();
const std::vector<Check>& training_checks();
const std::vector<Check>& loop_checks();
const std::vector<Check>& local_gradient_checks();
const std::vector<Check>& model_checks();
const std::vector<Check>& fit_checks();
const std::vector<Check>& sharded_fit_checks();
/// Runs all of these checks.
std::vector<Check> all_checks();

/// Trains `model` to so many epochs, from the checkpoint if there is one; compares two results.
void fit_with_checkpoint(const Communicator& world, const std::string& path, int64_t epochs,
                         nn::Sequential& model);
/// Like fit_with_checkpoint(), with accumulation, clipping, a schedule, an average of the weights,
/// and a sharded optimizer of the stage; 0: a whole one.
void fit_sharded(const Communicator& world, const std::string& path, int stage, int64_t epochs,
                 nn::Sequential& model);
/// Trains to so many steps, two of which are an epoch, from the checkpoint if there is one, and
/// saves. Stage 0: a whole optimizer; 1 and 2: a sharded one, without and with shard_gradients.
void train_sharded(const Communicator& world, const std::string& path, int stage, int64_t steps,
                   nn::Sequential& model);
void expect_equal_weights(const nn::Sequential& a, const nn::Sequential& b);

/// Random numbers that are equal on all ranks; threads share the default generator.
Variable drawn(uint64_t seed, const Shape& shape);
/// Gives the parameters the values of rank 0.
void make_equal(const nn::Module& model, const Communicator& world);

inline bool equal_bytes(const void* a, const void* b, size_t count) {
  return count == 0 || std::memcmp(a, b, count) == 0;
}
/// Throws Error with the text unless the condition holds.
void expect(bool condition, std::string_view text);
/// Expects that the parameters differ by at most 1e-13 of their norm.
void expect_close(const nn::Module& a, const nn::Module& b, std::string_view what);

}  // namespace tapegrad::dist
