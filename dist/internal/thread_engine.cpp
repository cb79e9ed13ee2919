#include "dist/internal/thread_engine.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "dist/communicator.h"

namespace tapegrad::dist {

void Board::post(uint64_t step, int rank, std::vector<std::byte> message) {
  const std::lock_guard lock(mutex_);
  Step& at = steps_[step];
  at.messages.resize(size_t(size_));
  at.is_posted.resize(size_t(size_));
  at.messages[size_t(rank)] = std::move(message);
  at.is_posted[size_t(rank)] = 1;
  changed_.notify_all();
}

template <typename Visit>
bool Board::visit(uint64_t step, std::span<char> seen, Visit visit) {
  const std::lock_guard lock(mutex_);
  Step& at = steps_[step];
  int count = 0;
  for (size_t r = 0; r < at.messages.size(); ++r) {
    if (at.is_posted[r] && !seen[r]) {
      visit(r, at.messages[r]);
      seen[r] = 1;
    }
    count += seen[r];
  }
  if (count < size_) return false;
  if (++at.readers == size_) steps_.erase(step);
  return true;
}

std::shared_ptr<Board> Board::part(uint64_t step, int first, int size) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Board>& at = parts_[{step, first}];
  if (!at) at = std::make_shared<Board>(size, this);
  return at;
}

void Board::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::microseconds(200));
}

/// The end of one communicator is the end of all.
void Board::break_off() {
  if (parent_ != nullptr) parent_->break_off();
  const std::lock_guard lock(mutex_);
  is_broken_ = true;
  changed_.notify_all();
}

bool Board::is_broken() {
  if (parent_ != nullptr && parent_->is_broken()) return true;
  const std::lock_guard lock(mutex_);
  return is_broken_;
}

template <typename Visit>
void ThreadEngine::swap_messages(std::vector<std::byte> own, std::span<char> seen, Waiting& waiting,
                                 Visit visit) {
  const uint64_t step = ++step_;
  board_->post(step, rank_, std::move(own));
  while (!board_->visit(step, seen, visit)) {
    if (board_->is_broken()) fail<PeerError>("another rank ended the communication");
    waiting.pause();
    board_->wait();
  }
}

void ThreadEngine::exchange(const Header& own, std::span<Header> all, std::span<char> arrived,
                            Waiting& waiting) {
  std::vector<std::byte> message(sizeof own);
  std::memcpy(message.data(), &own, sizeof own);
  swap_messages(std::move(message), arrived, waiting,
                [&](size_t r, const std::vector<std::byte>& from) {
                  std::memcpy(&all[r], from.data(), sizeof(Header));
                });
}

void ThreadEngine::all_to_all(const std::byte* in, std::byte* out, size_t bytes, Waiting& waiting) {
  std::vector<char> seen(static_cast<size_t>(size()));
  swap_messages(std::vector(in, in + bytes * size_t(size())), seen, waiting,
                [&](size_t r, const std::vector<std::byte>& from) {
                  std::memcpy(out + r * bytes, from.data() + size_t(rank_) * bytes, bytes);
                });
}

void ThreadEngine::all_gather(const std::byte* in, std::byte* out, size_t bytes, Waiting& waiting) {
  std::vector<char> seen(static_cast<size_t>(size()));
  swap_messages(std::vector(in, in + bytes), seen, waiting,
                [&](size_t r, const std::vector<std::byte>& from) {
                  std::memcpy(out + r * bytes, from.data(), bytes);
                });
}

std::unique_ptr<Engine> ThreadEngine::split(std::span<const int> members, Waiting&) {
  const auto own = std::ranges::find(members, rank_);
  return std::make_unique<ThreadEngine>(board_->part(++step_, members[0], int(members.size())),
                                        int(own - members.begin()));
}

void ThreadEngine::broadcast(std::byte* data, size_t bytes, int root, Waiting& waiting) {
  std::vector<char> seen(static_cast<size_t>(size()));
  std::vector<std::byte> own;
  if (rank_ == root) own.assign(data, data + bytes);
  swap_messages(std::move(own), seen, waiting, [&](size_t r, const std::vector<std::byte>& from) {
    if (int(r) == root && rank_ != root) std::memcpy(data, from.data(), bytes);
  });
}

}  // namespace tapegrad::dist
