// An engine whose ranks are threads of one process. Messages are copies in memory that all ranks
// share, so a rank that leaves with an error does not free memory that other ranks use.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "dist/internal/engine.h"

namespace tapegrad::dist {

/// State that the ranks share: the messages of each step of communication.
class Board {
 public:
  explicit Board(int size, Board* parent = nullptr) : size_(size), parent_(parent) {}

  int size() const { return size_; }
  /// Returns the board of some of the ranks, of which `first` is the smallest. The first of them
  /// that calls part() at this step makes the board.
  std::shared_ptr<Board> part(uint64_t step, int first, int size);
  /// Stores the message of a rank for a step.
  void post(uint64_t step, int rank, std::vector<std::byte> message);
  /// Calls visit(r, message) for each message of the step that has not been visited. seen[r]
  /// records visited messages. Returns whether all messages were visited.
  template <typename Visit>
  bool visit(uint64_t step, std::span<char> seen, Visit visit);
  /// Waits for a short time, or until a change.
  void wait();
  void break_off();
  bool is_broken();

 private:
  struct Step {
    std::vector<std::vector<std::byte>> messages;
    std::vector<char> is_posted;
    int readers = 0;  // ranks that have visited all messages
  };

  const int size_;
  Board* const parent_;  // null for the board of all ranks
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<uint64_t, Step> steps_;
  std::map<std::pair<uint64_t, int>, std::shared_ptr<Board>> parts_;
  bool is_broken_ = false;
};

class ThreadEngine final : public Engine {
 public:
  ThreadEngine(std::shared_ptr<Board> board, int rank) : board_(std::move(board)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return board_->size(); }
  void exchange(const Header& own, std::span<Header> all, std::span<char> arrived,
                Waiting& waiting) override;
  void all_to_all(const std::byte* in, std::byte* out, size_t bytes, Waiting& waiting) override;
  void all_gather(const std::byte* in, std::byte* out, size_t bytes, Waiting& waiting) override;
  void broadcast(std::byte* data, size_t bytes, int root, Waiting& waiting) override;
  std::unique_ptr<Engine> split(std::span<const int> members, Waiting& waiting) override;
  bool ends_processes() const override { return false; }
  void abort(int) override { board_->break_off(); }
  void finalize() override {}

 private:
  template <typename Visit>
  void swap_messages(std::vector<std::byte> own, std::span<char> seen, Waiting& waiting,
                     Visit visit);

  std::shared_ptr<Board> board_;
  const int rank_;
  uint64_t step_ = 0;
};

}  // namespace tapegrad::dist
