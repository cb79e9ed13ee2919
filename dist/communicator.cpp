#include "dist/communicator.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "core/autograd/internal/capture.h"
#include "core/base/internal/clock.h"
#include "core/inspect/communication.h"
#include "dist/internal/connection.h"
#include "dist/internal/thread_engine.h"

namespace tapegrad::dist {
namespace {

/// FNV-1a of the properties that the text, which may be cut, does not determine.
uint64_t signature_of(const std::string& text, uint64_t options) {
  uint64_t sum = 0xcbf29ce484222325 ^ options;
  for (const char c : text) sum = (sum ^ uint8_t(c)) * 0x100000001b3;
  return sum;
}

}  // namespace

Communicator Connections::wrap(std::shared_ptr<RankGroup> group) {
  Communicator made;
  if (group->size() > 1) made.group_ = std::move(group);
  return made;
}

Communicator Connections::wrap(const std::shared_ptr<Connection>& connection) {
  return wrap(std::shared_ptr<RankGroup>(connection, &connection->all()));
}

bool Connections::is_of_threads(const Communicator& world) {
  return world.group_ && !world.group_->connection.ends_processes();
}

uint64_t Connections::count(const Communicator& world) {
  return world.group_ ? world.group_->sequence.load() : 0;
}

void Pending::wait() const {
  if (!state_) return;
  const double began = detail::steady_seconds();
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [&] { return state_->is_done; });
  if (state_->error) std::rethrow_exception(state_->error);
  if (!std::exchange(state_->is_noted, true))
    note_communication(state_->text, state_->interval.begin, state_->interval.end,
                       detail::steady_seconds() - began);
  if (const auto finish = std::exchange(state_->finish, nullptr)) finish();
}

bool Pending::is_done() const {
  if (!state_) return true;
  const std::lock_guard lock(state_->mutex);
  return state_->is_done;
}

Interval Pending::interval() const { return state_ ? state_->interval : Interval(); }
int64_t Pending::note() const { return state_ ? state_->note : 0; }

Communicator::Communicator() = default;
int Communicator::rank() const { return group_ ? group_->rank : 0; }
int Communicator::size() const { return group_ ? group_->size() : 1; }

Pending Communicator::start(std::string text, uint64_t options, Move move, int64_t note) const {
  // A replay of a captured step would not communicate.
  if (Capture* capture = Capture::current())
    capture->give_up("it sends tensors to other ranks: " + text);
  Connection& connection = group_->connection;
  if (group_.get() != &connection.all())
    absl::StrAppend(&text, " by ranks ", absl::StrJoin(group_->members, ", "));
  Pending pending;
  pending.state_ =
      connection.start(*group_, text, signature_of(text, options), std::move(move), note);
  return pending;
}

/// The collective begins when the work that the caller has enqueued is done.
Pending Communicator::start_on(Device device, const std::string& text, uint64_t options,
                               MoveOnDevice move, int64_t note) const {
  cuda::Event enqueued(device);
  enqueued.record();
  NcclLink& link = *group_->links.at(device.index);
  return start(
      text, options,
      [&link, enqueued, move = std::move(move)](Engine&, Waiting& waiting) {
        const cuda::StreamGuard stream(link.stream());
        link.stream().wait(enqueued);
        move(link, waiting);
        link.finish(waiting);
      },
      note);
}

bool Communicator::has_nccl(Device device) const {
  if (!group_ || device.type != DeviceType::kCuda) return false;
  auto& links = group_->links;
  if (!links.contains(device.index))
    start("the GPUs of the ranks", 0, [&](Engine& engine, Waiting& waiting) {
      links[device.index] = NcclLink::make(engine, device, waiting);
    }).wait();
  return links.at(device.index) != nullptr;
}

Communicator Communicator::split(int64_t color) const {
  if (!group_) return {};
  RankGroup* made = nullptr;
  start("split", 0, [&](Engine& engine, Waiting& waiting) {
    std::vector<int64_t> colors(static_cast<size_t>(size()));
    engine.all_gather(reinterpret_cast<const std::byte*>(&color),
                      reinterpret_cast<std::byte*>(colors.data()), sizeof color, waiting);
    std::vector<int> own;
    for (int r = 0; r < size(); ++r)
      if (colors[size_t(r)] == color) own.push_back(r);
    made = &group_->connection.add_group(*group_, own, waiting);
  }).wait();
  return Connections::wrap(std::shared_ptr<RankGroup>(group_, made));
}

Communicator Communicator::group(const std::vector<int>& ranks) const {
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] < 0 || ranks[i] >= size())
      fail<ArgumentError>("group: rank ", ranks[i], " of ", size());
    if (std::count(ranks.begin(), ranks.end(), ranks[i]) > 1)
      fail<ArgumentError>("group: rank ", ranks[i], " occurs twice");
  }
  const bool is_member = std::ranges::find(ranks, rank()) != ranks.end();
  return split(is_member ? -1 : rank());
}

double Communicator::timeout() const { return group_ ? group_->connection.timeout() : HUGE_VAL; }

void Communicator::set_timeout(double seconds) const {
  check_timeout(seconds);
  if (group_) group_->connection.set_timeout(seconds);
}

void Communicator::abort(const std::string& reason) const {
  const std::string line =
      absl::StrCat(group_ ? group_->connection.who() : "rank 0 of 1", ": ", reason);
  if (group_) group_->connection.end_all(line);
  throw Error(line);
}

void check_timeout(double seconds) {
  if (!(seconds > 0) || !std::isfinite(seconds))
    fail<ArgumentError>("timeout: ", seconds, " is not a time in seconds above 0");
}

void run_threads(int ranks, const std::function<void(Communicator)>& run, double timeout) {
  if (ranks < 1) fail<ArgumentError>("run_threads: ", ranks, " ranks");
  check_timeout(timeout);
  const auto board = std::make_shared<Board>(ranks);
  std::mutex mutex;
  std::exception_ptr first, of_peer;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      try {
        run(Connections::wrap(Connection::open(
            [&] { return std::make_unique<ThreadEngine>(board, rank); }, timeout)));
      } catch (const PeerError&) {
        const std::lock_guard lock(mutex);
        of_peer = std::current_exception();
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!first) first = std::current_exception();
      }
    });
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
  if (of_peer) std::rethrow_exception(of_peer);
}

Values::Values(const Tensor& x) : tensor_(x) {}
Values::Values(const Variable& x) : tensor_(x.value()) {}
bool Communicator::is_first() const { return rank() == 0; }
Communicator::operator Shard() const { return {rank(), size()}; }
}  // namespace tapegrad::dist
