// Communicator: the processes ("ranks") that train one model together.
//
//   dist::Communicator world = dist::init();       // dist/init.h; started by mpirun
//   if (world.is_first()) std::cout << world.size() << " ranks\n";
//   world.all_reduce(x);                           // x becomes the sum over the ranks
//   world.all_reduce(x, {.op = dist::ReduceOp::kMean, .name = "loss"});
//   dist::Communicator pair = world.split(world.rank() / 2);    // ranks 0 and 1, 2 and 3 ...
//
// All ranks must call the same collectives in the same order. Before each collective the ranks
// exchange a description of the call. If kind, dtype, size or name differ, all ranks throw
// MismatchError, which lists the call of each rank, and no data is changed.
//
// Sums are added in the order of the ranks, so their bits depend neither on timing nor on how
// tensors are grouped, and all ranks receive equal bits.
//
// No call waits for ever. If a rank does not arrive within timeout(), the other ranks write a line
// that names the collective and the ranks that arrived, and all processes end with status 75. In a
// communicator of threads, the collective throws TimeoutError instead.
//
// Tensors may be on any device. Tensors on a GPU are moved by NCCL if NCCL is installed and each
// rank has a separate GPU; otherwise they are copied through host memory.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/tensor.h"
#include "core/tape/variable.h"
#include "data/shard.h"

namespace tapegrad::dist {

class Engine;
class NcclLink;
class Waiting;
struct PendingState;
struct RankGroup;

/// The ranks called different collectives.
struct MismatchError : Error {
  using Error::Error;
};
/// A rank did not arrive in time.
struct TimeoutError : Error {
  using Error::Error;
};
/// Another rank has failed and has ended the communication.
struct PeerError : Error {
  using Error::Error;
};

enum class ReduceOp {
  kSum,
  kMean,  // divides the sum by the number of ranks
  kProduct,
  kMin,  // NaN if a value is NaN; false is less than true
  kMax,
};

struct ReduceOptions {
  ReduceOp op = ReduceOp::kSum;
  /// Send float32 and float64 values as bfloat16. The sum is computed in float32, rounded to
  /// bfloat16 and equal on all ranks. Halves or quarters the bytes; keeps 8 bits of precision.
  bool compress = false;
  std::string name = {};  // for error messages
  int64_t note = 0;       // sent with the collective at no cost; see Pending::note()
};

/// Interval in which the communication thread ran a collective, in seconds of the steady clock.
struct Interval {
  double begin = 0, end = 0;
};

/// A collective that runs on the communication thread. The tensor must not be used before wait().
class Pending {
 public:
  Pending() = default;
  /// Waits for the end of the collective. Rethrows its error.
  void wait() const;
  bool is_done() const;
  /// Returns when the collective ran; valid after wait().
  Interval interval() const;
  /// Returns the largest note of the ranks (ReduceOptions), equal on all ranks; valid after wait().
  int64_t note() const;

 private:
  friend class Communicator;
  std::shared_ptr<PendingState> state_;
};

/// An operand of a collective: a tensor, or the value of a variable. Collectives on Values are not
/// recorded on the tape; those of dist/collective_ops.h are.
class Values {
 public:
  Values(const Tensor& x);
  Values(const Variable& x);
  const Tensor& tensor() const { return tensor_; }

 private:
  Tensor tensor_;
};

/// A handle to a group of ranks. Copies share the connection, which ends with the last copy.
/// Several threads may call collectives only if all ranks still call them in the same order.
class Communicator {
 public:
  /// Makes a communicator of one rank.
  Communicator();

  int rank() const;
  int size() const;
  /// Returns whether this is rank 0, which usually prints and saves.
  bool is_first() const;
  /// Returns the part of a data set for this rank: `DataLoader(train, {.shard = world})`.
  operator Shard() const;

  /// Replaces x by the sum over the ranks, or by the result of options.op. Throws DTypeError for
  /// bool, unless the op is kMin or kMax.
  void all_reduce(const Values& x, const ReduceOptions& options = {}) const;
  /// Equivalent to all_reduce(), but returns at once. Collectives run in the order of their calls.
  Pending start_all_reduce(const Values& x, const ReduceOptions& options = {}) const;
  /// Equivalent to all_reduce(), but only rank `root` receives the result; x of other ranks is
  /// unchanged.
  void reduce(const Values& x, int root = 0, const ReduceOptions& options = {}) const;
  /// Replaces x by x of rank `root`.
  void broadcast(const Values& x, int root = 0, const std::string& name = {}) const;
  /// Returns x of all ranks, [size, ...].
  Tensor all_gather(const Values& x, const std::string& name = {}) const;
  /// Returns x of all ranks, [size, ...], on rank `root`, and an empty tensor on other ranks.
  Tensor gather(const Values& x, int root = 0, const std::string& name = {}) const;
  /// Replaces `own` of rank r by all[r] of rank `root`. `all` may be empty on other ranks. Throws
  /// ShapeError on rank `root` unless `all` is [size, ...] with the shape and dtype of `own`.
  void scatter(const Tensor& all, const Values& own, int root = 0,
               const std::string& name = {}) const;
  /// Returns entries rank * n ... (rank + 1) * n - 1 of the sum over the ranks, where x has
  /// n * size entries in dimension 0. Throws ShapeError if size does not divide them.
  Tensor reduce_scatter(const Values& x, const ReduceOptions& options = {}) const;
  /// Equivalent to reduce_scatter(), but returns at once, and writes to `own`, which is contiguous
  /// and on the device of x.
  Pending start_reduce_scatter(const Tensor& x, const Tensor& own,
                               const ReduceOptions& options = {}) const;
  /// Divides x along dimension 0 into size equal parts and sends part r to rank r. Returns the
  /// parts from all ranks, in their order, in the shape of x. Throws ShapeError if size does not
  /// divide dimension 0.
  Tensor all_to_all(const Values& x, const std::string& name = {}) const;
  /// Returns when all ranks have called barrier().
  void barrier(const std::string& name = {}) const;

  /// Returns the largest of the ranks' values.
  int64_t max(int64_t value, const std::string& name = {}) const;
  /// Returns the means over the ranks.
  std::vector<double> mean(std::vector<double> values, const std::string& name = {}) const;
  /// Returns the texts of all ranks.
  std::vector<std::string> all_gather_text(const std::string& text,
                                           const std::string& name = {}) const;
  /// Returns the text of rank `root`, for example an object as JSON.
  std::string broadcast_text(const std::string& text, int root = 0,
                             const std::string& name = {}) const;

  /// Returns a communicator of the ranks that passed the same color, in the order of their ranks in
  /// this communicator. A collective. The communicators of a process share one communication
  /// thread: ranks that belong to several must call the collectives of all of them in one order.
  Communicator split(int64_t color) const;
  /// Returns a communicator of the given ranks; other ranks receive a communicator of one rank. A
  /// collective of all ranks, with equal arguments. Throws ArgumentError for a number that is not a
  /// rank or occurs twice.
  Communicator group(const std::vector<int>& ranks) const;

  /// Returns whether NCCL moves tensors of this device. The first call for a GPU is a collective.
  bool has_nccl(Device device) const;

  /// Returns how long a rank waits for the others, in seconds. Initially TAPEGRAD_DIST_TIMEOUT, or
  /// 300.
  double timeout() const;
  /// Sets the timeout. Throws ArgumentError unless the time is above 0 and finite.
  void set_timeout(double seconds) const;
  /// Writes the reason with the rank, and ends all processes with status 75. In a communicator of
  /// threads, throws Error and makes the collectives of the other ranks throw.
  [[noreturn]] void abort(const std::string& reason) const;

 private:
  friend struct Connections;
  using Move = std::function<void(Engine&, Waiting&)>;
  using MoveOnDevice = std::function<void(NcclLink&, Waiting&)>;
  Pending start(std::string text, uint64_t options, Move move, int64_t note = 0) const;
  Pending start_on(Device device, const std::string& text, uint64_t options, MoveOnDevice move,
                   int64_t note = 0) const;
  void check_root(const char* function, int root) const;
  Pending start_reduction(const char* function, const Tensor& x, const ReduceOptions& options,
                          uint64_t root) const;
  /// Gathers to rank `root`, or to all ranks if root is -1.
  Tensor gather_to(const char* function, const Tensor& x, const std::string& name, int root) const;

  std::shared_ptr<RankGroup> group_;  // null for a communicator of one rank
};

/// Runs the function on `ranks` threads of this process, each with its own communicator. Rethrows
/// the first error that is not a PeerError. For tests, and for running a program without MPI.
void run_threads(int ranks, const std::function<void(Communicator)>& run, double timeout = 300);

}  // namespace tapegrad::dist
