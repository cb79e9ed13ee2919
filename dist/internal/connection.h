// Connection: an engine with its communication thread, queue of collectives, deadlines and checks.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "dist/communicator.h"
#include "dist/internal/engine.h"
#include "dist/internal/nccl.h"

namespace tapegrad::dist {

struct PendingState {
  std::mutex mutex;
  std::condition_variable changed;
  std::string text;  // description, "all_reduce of loss (float32, 3 elements)"
  bool is_done = false, is_noted = false;  // noted: reported to a profiler
  std::exception_ptr error;
  Interval interval;
  int64_t note = 0;              // largest note of the ranks
  std::function<void()> finish;  // run by the first wait()
};

/// Status of a process that ends because of another rank or because of abort().
inline constexpr int kAbortStatus = 75;

/// Throws ArgumentError unless the time is above 0 and finite.
void check_timeout(double seconds);

class Connection;

/// The ranks of a communicator: all of them, or some.
struct RankGroup {
  explicit RankGroup(Connection& connection) : connection(connection) {}

  Connection& connection;
  std::unique_ptr<Engine> engine = {};  // used by the communication thread
  std::vector<int> members = {};        // numbers of the members among all ranks, ascending
  int rank = 0;                         // own number in the group
  std::atomic<uint64_t> sequence = 0;   // number of the last collective
  /// NCCL links of this rank's GPUs, by device number; null without NCCL. Filled by the
  /// communication thread, in a collective; read after the collective.
  std::map<int, std::unique_ptr<NcclLink>> links = {};

  int size() const { return int(members.size()); }
};

class Connection {
 public:
  using Make = std::function<std::unique_ptr<Engine>()>;
  /// Makes the engine on the communication thread; rethrows its error. The last owner disconnects
  /// from the other ranks. If an exception is being thrown, the last owner in a process does not
  /// disconnect: the error has not been printed yet, and the process ends the other ranks when it
  /// exits (dist/init.cpp). The object of a process is never destroyed.
  static std::shared_ptr<Connection> open(const Make& make, double timeout);
  ~Connection();

  double timeout() const { return timeout_; }
  void set_timeout(double seconds) { timeout_ = seconds; }
  /// Returns the group of all ranks.
  RankGroup& all() { return all_; }
  /// Returns the group of the given ranks, numbers in `group`, which include this rank.
  /// Called by the communication thread, in a collective of the group. The new group exists as long
  /// as the connection.
  RankGroup& add_group(const RankGroup& group, const std::vector<int>& ranks, Waiting& waiting);

  /// Function that moves the data of a collective. Runs on the communication thread after the
  /// headers were compared.
  using Move = std::function<void(Engine&, Waiting&)>;
  /// Queues a collective of a group. `text` is its kind and name; `signature` must be equal on all
  /// ranks.
  std::shared_ptr<PendingState> start(RankGroup& group, std::string text, uint64_t signature,
                                      Move move, int64_t note = 0);

  /// Writes a line and ends all ranks. Returns only for an engine of threads. May be called by any
  /// thread.
  void end_all(const std::string& line);
  /// Disconnects from the other ranks, unless already disconnected.
  void leave();
  /// Returns whether the other ranks have not yet been told that this process is about to end.
  bool is_open();
  bool ends_processes() const { return ends_processes_; }
  /// Returns "rank 1 of 4", for example.
  std::string who() const;

 private:
  class Wait;
  Connection(const Make& make, double timeout);

  struct Job {
    RankGroup* group;
    std::string text;
    uint64_t signature;
    Move move;
    std::shared_ptr<PendingState> state;
    int64_t note;
  };

  void work(const Make& make);
  void run(Job& job);
  void compare(const RankGroup& group, const Header& own, const std::vector<Header>& all) const;
  void drop_links();
  void abort_now();

  RankGroup all_{*this};
  std::deque<RankGroup> groups_;  // made by split(), on the communication thread
  bool ends_processes_ = false;
  std::atomic<double> timeout_;
  const int exceptions_;  // number of exceptions in flight at construction

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  bool is_stopping_ = false, is_broken_ = false, is_made_ = false;
  std::exception_ptr error_;  // error of making the engine
  std::atomic<bool> is_aborting_ = false;
  std::thread thread_;
};

/// The connections of communicators.
struct Connections {
  static Communicator wrap(const std::shared_ptr<Connection>& connection);
  static Communicator wrap(std::shared_ptr<RankGroup> group);
  /// Returns whether the ranks are threads of this process.
  static bool is_of_threads(const Communicator& world);
  /// Returns the number of collectives that this rank has begun; 0 for a single rank.
  static uint64_t count(const Communicator& world);
};

}  // namespace tapegrad::dist
