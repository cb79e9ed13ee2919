// The checks of tests/dist on ranks that are threads, and checks that require threads: errors that
// a test can catch.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <thread>

#include "dist/init.h"
#include "tests/dist/checks.h"
#include "tests/error_message.h"
#include "tests/temp_dir.h"

namespace tapegrad::dist {
namespace {

using testing::message_of;

class Ranks : public ::testing::TestWithParam<int> {};

TEST_P(Ranks, Collectives) {
  run_threads(GetParam(), [](const Communicator& world) {
    for (const Check& check : collective_checks()) check.run(world);
  });
}

TEST_P(Ranks, Groups) {
  run_threads(GetParam(), [](const Communicator& world) {
    for (const Check& check : group_checks()) check.run(world);
  });
}

TEST_P(Ranks, Loops) {
  run_threads(GetParam(), [](const Communicator& world) {
    for (const Check& check : loop_checks()) check.run(world);
  });
}

TEST_P(Ranks, LocalGradients) {
  run_threads(GetParam(), [](const Communicator& world) {
    for (const Check& check : local_gradient_checks()) check.run(world);
  });
}

TEST_P(Ranks, ShardedFit) {
  run_threads(GetParam(), [](const Communicator& world) {
    for (const Check& check : sharded_fit_checks()) check.run(world);
  });
}

TEST_P(Ranks, Training) {
  run_threads(GetParam(), [](const Communicator& world) {
    for (const Check& check : training_checks()) check.run(world);
  });
}

TEST_P(Ranks, Models) {
  run_threads(GetParam(), [](const Communicator& world) {
    for (const Check& check : model_checks()) check.run(world);
  });
}

TEST_P(Ranks, Fit) {
  run_threads(GetParam(), [](const Communicator& world) {
    for (const Check& check : fit_checks()) check.run(world);
  });
}

/// A checkpoint of four ranks is continued by this number of ranks.
TEST_P(Ranks, ContinueACheckpoint) {
  const testing::TempDir dir;
  const std::string path = dir / "run.safetensors";
  nn::Sequential expected;
  fit_with_checkpoint({}, dir / "alone.safetensors", 3, expected);
  for (const auto& [ranks, epochs] : {std::pair(4, 1), std::pair(GetParam(), 3)})
    run_threads(ranks, [&, epochs = epochs](const Communicator& world) {
      nn::Sequential model;
      fit_with_checkpoint(world, path, epochs, model);
      if (epochs == 3) expect_equal_weights(expected, model);
    });
}

/// A sharded checkpoint of four ranks, in the middle of an epoch, is continued by this number of
/// ranks in either stage, and by a whole optimizer.
TEST_P(Ranks, ContinueAShardedCheckpoint) {
  const testing::TempDir dir;
  nn::Sequential expected;
  train_sharded({}, dir / "alone", 0, 7, expected);
  for (const int stage : {1, 2})
    for (const int then : {0, 1, 2}) {
      const std::string path = dir / ("run" + std::to_string(3 * stage + then));
      run_threads(4, [&](const Communicator& world) {
        nn::Sequential model;
        train_sharded(world, path, stage, 3, model);
      });
      EXPECT_TRUE(std::filesystem::exists(path + ".1.3-of-4"));
      run_threads(GetParam(), [&](const Communicator& world) {
        nn::Sequential model;
        train_sharded(world, path, then, 7, model);
        expect_equal_weights(expected, model);
      });
      EXPECT_FALSE(std::filesystem::exists(path + ".1.3-of-4"));
    }
}

/// The checkpoint that fit() on four ranks has written, in parts if the optimizer is sharded, is
/// continued by fit() on this number of ranks, in any stage.
TEST_P(Ranks, FitContinuesAShardedCheckpoint) {
  const testing::TempDir dir;
  nn::Sequential expected;
  fit_sharded({}, dir / "alone", 0, 3, expected);
  for (const int stage : {0, 1, 2})
    for (const int then : {0, 1, 2}) {
      const std::string path = dir / ("run" + std::to_string(3 * stage + then));
      run_threads(4, [&](const Communicator& world) {
        nn::Sequential model;
        fit_sharded(world, path, stage, 1, model);
      });
      EXPECT_EQ(std::filesystem::exists(path + ".1.3-of-4"), stage > 0);
      run_threads(GetParam(), [&](const Communicator& world) {
        nn::Sequential model;
        fit_sharded(world, path, then, 3, model);
        expect_equal_weights(expected, model);
      });
    }
}

TEST(ShardedCheckpoint, FilesThatAreMissingOrFromAnotherSaveAreNamed) {
  const testing::TempDir dir;
  const std::string path = dir / "run";
  const auto train = [&](int64_t steps) {
    run_threads(2, [&](const Communicator& world) {
      nn::Sequential model;
      train_sharded(world, path, 1, steps, model);
    });
  };
  train(1);
  const std::string first = testing::contents(path + ".1.1-of-2");
  train(2);
  EXPECT_FALSE(std::filesystem::exists(path + ".1.1-of-2"));
  testing::put(path + ".2.1-of-2", first.substr(0, first.size() / 2));
  EXPECT_NE(message_of<FormatError>([&] { train(3); }).find(".2.1-of-2"), std::string::npos);
  std::filesystem::remove(path + ".2.1-of-2");
  EXPECT_NE(message_of<IoError>([&] { train(3); }).find(".2.1-of-2"), std::string::npos);
}

/// A folder that one rank cannot write to: all ranks throw, and the last checkpoint stays.
TEST(ShardedCheckpoint, IfOneRankCannotWriteAllThrow) {
  const testing::TempDir dir;
  const std::string path = dir / "run";
  nn::Sequential model;
  run_threads(3, [&](const Communicator& world) {
    nn::Sequential own;
    train_sharded(world, path, 2, 1, own);
  });
  const std::string before = testing::contents(path);
  std::filesystem::create_directory(path + ".2.1-of-3");  // where rank 1 wants to write
  std::atomic<int> errors = 0;
  const std::string message = message_of<IoError>([&] {
    run_threads(3, [&](const Communicator& world) {
      nn::Sequential own;
      try {
        train_sharded(world, path, 2, 2, own);
      } catch (const IoError& error) {
        errors += std::string(error.what()).find("rank 1: save: not a regular file") == 0;
        throw;
      }
    });
  });
  EXPECT_EQ(errors, 3) << message;
  EXPECT_EQ(testing::contents(path), before);
  EXPECT_FALSE(std::filesystem::exists(path + ".2.0-of-3"));
  std::filesystem::remove(path + ".2.1-of-3");
  train_sharded({}, path, 0, 2, model);
}

INSTANTIATE_TEST_SUITE_P(Dist, Ranks, ::testing::Values(1, 2, 3, 4, 5));

/// Returns the message of the error that ends the ranks.
template <typename E, typename Run>
std::string error_of(Run run, double timeout) {
  try {
    run_threads(3, run, timeout);
  } catch (const E& error) {
    return error.what();
  }
  return "no error";
}

TEST(Faults, ARankThatDoesNotArriveIsNamed) {
  const auto begin = std::chrono::steady_clock::now();
  const std::string message = error_of<TimeoutError>(
      [](const Communicator& world) {
        if (world.rank() == 1) std::this_thread::sleep_for(std::chrono::seconds(2));
        world.all_reduce(Tensor::full({3}, 1, f32), {.name = "fc1.weight"});
      },
      0.5);
  EXPECT_NE(message.find("all_reduce of fc1.weight"), message.npos) << message;
  EXPECT_NE(message.find("arrived: 0, 2; missing: 1"), message.npos) << message;
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

TEST(Faults, ARankThatThrowsEndsTheOthers) {
  const std::string message = error_of<ArgumentError>(
      [](const Communicator& world) {
        if (world.rank() == 2) throw ArgumentError("my own error");
        world.barrier();
      },
      60);
  EXPECT_EQ(message, "my own error");
}

TEST(Faults, ARankThatReturnsEarlyIsNamed) {
  const std::string message = error_of<MismatchError>(
      [](const Communicator& world) {
        if (world.rank() != 0) world.barrier("epoch 2");
      },
      60);
  EXPECT_NE(message.find("rank 0 number 1, the end of the program"), message.npos) << message;
  EXPECT_NE(message.find("rank 1 number 1, barrier of epoch 2"), message.npos) << message;
}

TEST(Faults, AbortEndsTheOthers) {
  const std::string message = error_of<Error>(
      [](const Communicator& world) {
        if (world.rank() == 1) world.abort("the disk is full");
        world.barrier();
      },
      60);
  EXPECT_EQ(message, "rank 1 of 3: the disk is full");
}

TEST(Init, AloneThereIsOneRank) {
  const Communicator world = init();
  EXPECT_EQ(world.rank(), 0);
  EXPECT_EQ(world.size(), 1);
  EXPECT_EQ(with_rank("no such file"), "no such file");
  for (const Check& check : all_checks()) check.run(world);
}

TEST(Init, SaysWhatIsMissing) {
  setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
  setenv("TAPEGRAD_MPI_MODULE", "/nowhere/libtapegrad_mpi.so", 1);
  try {
    (void)init();
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("4 processes (OMPI_COMM_WORLD_SIZE)"),
              std::string::npos)
        << error.what();
    EXPECT_NE(std::string(error.what()).find("libopenmpi-dev"), std::string::npos);
  }
  unsetenv("OMPI_COMM_WORLD_SIZE");
  unsetenv("TAPEGRAD_MPI_MODULE");
}

TEST(Init, TheDefaultTimeoutIsFinite) {
  run_threads(2, [](const Communicator& world) { EXPECT_EQ(world.timeout(), 300); });
}

TEST(Init, RefusesTimeouts) {
  EXPECT_THROW((void)init({.timeout = -1}), ArgumentError);
  setenv("TAPEGRAD_DIST_TIMEOUT", "soon", 1);
  EXPECT_THROW((void)init(), ArgumentError);
  unsetenv("TAPEGRAD_DIST_TIMEOUT");
}

}  // namespace
}  // namespace tapegrad::dist
