// DataParallel: every rank computes the gradients of its own batch, and all ranks receive the mean.
//
//   auto world = dist::init();
//   dist::DataParallel net(model, world);
//   optim::Adam opt(net);
//   DataLoader batches(train, {.batch_size = 128, .shuffle = true, .shard = world});
//   for (auto& [x, y] : batches) {
//     opt.zero_grad();
//     cross_entropy(net(x), y).backward();   // the gradients are means over the ranks
//     opt.step();
//   }
//
// fit(model, batches, opt, {.world = world}) does this, too (train/fit.h).
//
// The constructor compares the names, shapes and dtypes of all ranks' parameters and buffers, and
// copies the values of rank 0. The ranks' losses must be means over batches of equal size for the
// gradient to be that of all batches together.
//
// Parameters are grouped into buckets in the reverse order of registration, which is about the
// order in which their gradients become complete. A complete bucket is sent by the communication
// thread while the backward pass goes on. backward() returns when all gradients have arrived; the
// profiler shows the wait as "all_reduce". Sums are added in the order of the ranks, so their bits
// depend neither on the bucket sizes nor on timing.
//
// Every backward pass that reaches a parameter communicates, even if the model was called directly
// and not through the DataParallel. A pass that reaches only some of the parameters throws
// AutogradError, unless find_unused_parameters is set. Gradient penalties (grad() with
// create_graph, then backward()) are supported; backward() with create_graph throws AutogradError.
//
// In a step that is captured (train/graphed_step.h), a pass that communicates ends the recording,
// and the step is not captured. Instead, capture the pass in a no_sync() scope and the update as
// two steps, and call reduce_gradients() between them.
//
// With shard_gradients, each rank receives and keeps only a part of the mean gradients, for a
// ShardedOptimizer of the net ("ZeRO stage 2"; dist/sharded_optimizer.h). grad() of a parameter is
// then empty, and gradients are freed during the pass as soon as they have been sent.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "dist/communicator.h"
#include "nn/sequential.h"

namespace tapegrad::dist {

struct DataParallelOptions {
  int64_t bucket_bytes = 25 << 20;
  /// Size of the first bucket, which is small so that communication starts early.
  int64_t first_bucket_bytes = 1 << 20;
  /// Whether each call of the model in training mode first replaces its buffers, such as
  /// BatchNorm's running statistics, by those of rank 0.
  bool broadcast_buffers = true;
  /// Whether a pass may leave out parameters. If another rank has a gradient of the parameter, this
  /// rank contributes zero; a parameter without a gradient on any rank gets none. Costs a
  /// collective per pass.
  bool find_unused_parameters = false;
  /// Whether gradients are sent as bfloat16; see ReduceOptions.
  bool compress = false;
  /// Whether each rank keeps only a part of the gradients. Not possible with
  /// find_unused_parameters.
  bool shard_gradients = false;
};

/// A bucket of the last pass. Times are seconds since the pass began.
struct BucketTimes {
  int64_t bytes = 0;
  double ready = 0;           // when its gradients were complete
  double begin = 0, end = 0;  // when the communication thread worked on it
};

/// Statistics of one rank since the construction.
struct CommunicationStats {
  int64_t passes = 0;
  int64_t buckets = 0;  // number of buckets per pass
  int64_t bytes = 0;    // bytes of gradients in all passes
  int64_t early = 0;    // buckets in all passes whose transfer began before the last rule ended
  double busy = 0;      // seconds in which a transfer was in progress
  double exposed = 0;   // of these, seconds in which backward() only waited
  double backward = 0;  // seconds of the last pass, including exposed ones
  std::vector<BucketTimes> last = {};  // the buckets of the last pass, in the order of sending
};

/// A model whose gradients are averaged. Parameters and buffers are those of the model and have the
/// same names. Copies refer to the same model; a clone() is not connected to other ranks.
class DataParallel final : public nn::Model<DataParallel> {
 public:
  static constexpr std::string_view kName = "DataParallel";
  /// Throws ArgumentError on all ranks if their models differ, or if the model has layers whose
  /// sizes are unknown. On ranks other than 0 the default generator gets a separate stream, so that
  /// dropout differs; initial weights are those of rank 0.
  DataParallel(const nn::Module& model, const Communicator& world,
               DataParallelOptions options = {});

  void members(nn::Members& m) override;
  /// Calls a model with one argument. Call models with other arguments directly.
  Variable forward(const Variable& x, Where where = Where::current()) const;

  /// A scope in which backward passes accumulate gradients without communication. The next pass
  /// outside of the scope sends the sums.
  class [[nodiscard]] NoSync {
   public:
    explicit NoSync(const DataParallel& net);
    ~NoSync();
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    std::shared_ptr<class GradientReducer> reducer_;
    bool is_captured_;
  };
  NoSync no_sync() const;

  /// A scope for ranks with different numbers of batches. A rank without further batches takes part
  /// in the passes of the other ranks until all are done:
  ///
  ///   auto join = net.join();
  ///   for (auto& [x, y] : batches) {
  ///     opt.zero_grad();
  ///     cross_entropy(net(x), y).backward();
  ///     opt.step();
  ///   }
  ///   while (join.follow()) opt.step();
  ///
  /// Gradients are means over the ranks that have a batch. Costs a collective per pass. Buffers are
  /// not broadcast in the scope; the last follow() copies those of the rank with the most batches.
  class [[nodiscard]] Join {
   public:
    explicit Join(const DataParallel& net);
    ~Join();
    Join(const Join&) = delete;
    Join& operator=(const Join&) = delete;

    /// Waits for the next pass of the other ranks and sets the gradients to its result. Returns
    /// false when no rank has further batches. All ranks must call follow() until it returns false.
    bool follow();

   private:
    nn::AnyModule model_;
    std::shared_ptr<class GradientReducer> reducer_;
  };
  Join join() const;

  /// Replaces gradients accumulated by passes in no_sync() scopes by their means over the ranks, in
  /// place, as the next pass would. For passes that communication must not interrupt, such as
  /// captured ones (train/graphed_step.h). In training mode, also broadcasts the buffers. Throws
  /// AutogradError as a pass does.
  void reduce_gradients() const;

  /// Sends a number to the other ranks together with the gradients of later passes, so that ranks
  /// can agree without a separate collective.
  void tell(int64_t number) const;
  /// Returns the largest number that a rank had passed to tell() when the last pass sent its last
  /// bucket; 0 before. Equal on all ranks.
  int64_t heard() const;

  CommunicationStats stats() const;
  const Communicator& world() const;

 private:
  friend class FlatParameters;

  nn::AnyModule model_;
  std::shared_ptr<class GradientReducer> reducer_;
};

}  // namespace tapegrad::dist
