// Functions of a backend that code outside of the backends needs: teams of threads, and whether
// kernels compute rows in lanes.
#pragma once

#include "core/dispatch/dispatcher.h"

namespace tapegrad {

/// A function that every thread of a team calls with the thread's number and the size of the team.
/// The function must not throw.
struct TeamTask {
  void (*run)(void* object, int64_t thread, int64_t threads);
  void* object;
  bool is_alone;  // a team of one thread

  Device device() const { return cpu; }
  DType dtype() const { return f32; }
};

/// Query whether a call with RowFunctions also takes blocks with rows in lanes.
struct LaneQuery {
  RecordedCall* call;

  Device device() const { return cpu; }
  DType dtype() const { return f32; }
};

/// With rows in lanes, a vector holds one element of a row of each of `lanes` tiles; a tile has
/// `tile` consecutive rows. A block has the same consecutive rows of each of these tiles.
/// RowBlock::first is the first row of the first tile. The shape of a divided operand is [rows of a
/// tile, columns, lanes] instead of [rows, columns]. A thread has all blocks of the tiles, in
/// ascending order. If RowDivision::unit > 1, the first tile of a call begins at a multiple of
/// `tile`.
struct LaneLayout {
  int64_t lanes = 0, tile = 0;          // 0: the call does not take such blocks
  int64_t row_cost = 0, lane_cost = 0;  // vector operations for `lanes` rows without and with lanes
};

namespace kernels {

extern Kernel<void(const TeamTask&)> run_team;
extern Kernel<void(const LaneQuery&, LaneLayout&)> describe_lanes;

}  // namespace kernels

/// Calls run(thread, threads) on every thread of a team.
template <typename Run>
void run_on_threads(bool is_alone, Run& run) {
  kernels::run_team({[](void* object, int64_t thread, int64_t threads) {
                       (*static_cast<Run*>(object))(thread, threads);
                     },
                     &run, is_alone});
}

/// Returns the number of threads of a team.
inline int64_t team_size() {
  int64_t size = 1;
  auto store = [&](int64_t thread, int64_t threads) {
    if (thread == 0) size = threads;
  };
  run_on_threads(/*is_alone=*/false, store);
  return size;
}

}  // namespace tapegrad
