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
  bool is_done = false;
  std::exception_ptr error;
  Interval interval;
  int64_t note = 0;              // the largest of the ranks'
  std::function<void()> finish;  // run by the first wait()
};

/// Status of a process that ends because of another rank or because of abort().
inline constexpr int kAbortStatus = 75;

/// Throws ArgumentError unless the time is above 0 and finite.
void check_timeout(double seconds);
/// Seconds of the steady clock.
double now();

class Connection {
 public:
  using Make = std::function<std::unique_ptr<Engine>()>;
  /// Makes the engine on the communication thread; rethrows its error. The last owner says goodbye
  /// to the other ranks. If an exception is being thrown, a process does not: the error has not
  /// been printed yet, and the process ends the others when it exits (dist/init.cpp). The object of
  /// a process is never destroyed.
  static std::shared_ptr<Connection> open(const Make& make, double timeout);
  ~Connection();

  int rank() const { return rank_; }
  int size() const { return size_; }
  double timeout() const { return timeout_; }
  void set_timeout(double seconds) { timeout_ = seconds; }

  /// What a collective moves; runs on the communication thread after the headers were compared.
  using Move = std::function<void(Engine&, Waiting&)>;
  /// Queues a collective. `text` is its kind and name; `signature` must be equal on all ranks.
  std::shared_ptr<PendingState> start(std::string text, uint64_t signature, Move move,
                                      int64_t note = 0);

  /// The connections of this rank's GPUs by number, null where there is no NCCL. Filled by the
  /// communication thread, in a collective; read after the collective.
  std::map<int, std::unique_ptr<NcclLink>>& links() { return links_; }

  /// Writes a line and ends all ranks; returns for an engine of threads only. Any thread.
  void end_all(const std::string& line);
  /// Whether the other ranks do not know yet that this process is about to end.
  bool is_open();
  bool ends_processes() const { return ends_processes_; }
  /// Number of collectives that were begun.
  uint64_t collectives() const { return sequence_; }
  /// "rank 1 of 4"
  std::string who() const;

 private:
  class Wait;
  Connection(const Make& make, double timeout);
  void leave();

  struct Job {
    std::string text;
    uint64_t signature;
    Move move;
    std::shared_ptr<PendingState> state;
    int64_t note;
  };

  void work(const Make& make);
  void run(Job& job);
  void compare(const Header& own, const std::vector<Header>& all);
  void abort_now();

  std::unique_ptr<Engine> engine_;  // used by the communication thread
  std::map<int, std::unique_ptr<NcclLink>> links_;
  int rank_ = 0, size_ = 1;
  bool ends_processes_ = false;
  std::atomic<double> timeout_;
  const int exceptions_;  // in flight when the connection was made
  std::atomic<uint64_t> sequence_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  bool is_stopping_ = false, is_broken_ = false, is_made_ = false;
  std::exception_ptr error_;  // of making the engine
  std::atomic<bool> is_aborting_ = false;
  std::thread thread_;
};

/// The connections of communicators.
struct Connections {
  static Communicator wrap(std::shared_ptr<Connection> connection);
  /// Whether the ranks are threads of this process.
  static bool is_of_threads(const Communicator& world);
  /// Number of collectives that this rank has begun; 0 alone.
  static uint64_t count(const Communicator& world);
};

}  // namespace tapegrad::dist
