#include "dist/internal/connection.h"

#include <sched.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "core/base/internal/clock.h"

namespace tapegrad::dist {
namespace {

/// Writes a line by one call, so that the lines of several ranks do not mix.
void write_line(const std::string& line) {
  const std::string text = absl::StrCat("tapegrad: ", line, "\n");
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
}

void sleep_seconds(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

std::string join_ranks(const RankGroup& group, const std::vector<char>& arrived, bool value) {
  std::vector<int> ranks;
  for (size_t r = 0; r < arrived.size(); ++r)
    if (bool(arrived[r]) == value) ranks.push_back(group.members[r]);
  return ranks.empty() ? "none" : absl::StrJoin(ranks, ", ");
}

// A line that a signal handler can write: mpirun sends SIGTERM to the ranks that are left when one
// of them was killed.
constexpr size_t kNote = 1024;
char note[kNote];
std::atomic<size_t> note_length = 0;
struct sigaction before_note;

extern "C" void write_note(int signal) {
  const size_t length = note_length.exchange(0);
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, note, length);
  sigaction(SIGTERM, &before_note, nullptr);
  raise(signal);
}

}  // namespace

/// The wait of one collective: its deadline, and who has arrived.
class Connection::Wait final : public Waiting {
 public:
  Wait(const RankGroup& group, const Header& own)
      : arrived(size_t(group.size())),
        connection_(group.connection),
        group_(group),
        own_(own),
        begin_(detail::steady_seconds()),
        seconds_(group.connection.timeout_) {}
  ~Wait() { withdraw_note(); }

  void pause() override {
    if (connection_.is_aborting_) throw Error("this rank ends");
    if (++pauses_ < 200) {
      sched_yield();
      return;
    }
    const double waited = detail::steady_seconds() - begin_;
    if (waited > seconds_)
      throw TimeoutError(
          absl::StrCat(describe(), " has waited for ", waited, " s: ", who_is_here()));
    if (waited > kNoteAfter && !has_note_ && connection_.ends_processes_) leave_note();
    // All ranks have arrived when the data moves, so frequent polling pays off.
    if (is_moving)
      sched_yield();
    else
      sleep_seconds(waited < 0.01 ? 20e-6 : 200e-6);
  }

  std::string describe() const {
    return absl::StrCat(connection_.who(), ": collective ", own_.sequence, ", ", own_.text);
  }
  std::string who_is_here() const {
    if (is_moving) return "all ranks arrived, but the data did not";
    return absl::StrCat("arrived: ", join_ranks(group_, arrived, true),
                        "; missing: ", join_ranks(group_, arrived, false));
  }

  std::vector<char> arrived;
  bool is_moving = false;

 private:
  static constexpr double kNoteAfter = 0.1;

  void leave_note() {
    has_note_ = true;
    const std::string text =
        absl::StrCat("tapegrad: ", describe(), " was ended by SIGTERM: ", who_is_here(), "\n");
    const size_t length = std::min(text.size(), kNote);
    std::memcpy(note, text.data(), length);
    if (sigaction(SIGTERM, nullptr, &before_note) != 0 || before_note.sa_handler == SIG_IGN) return;
    struct sigaction action {};
    action.sa_handler = write_note;
    action.sa_flags = SA_RESTART;
    note_length = length;
    sigaction(SIGTERM, &action, nullptr);
  }
  void withdraw_note() {
    if (has_note_ && note_length.exchange(0) != 0) sigaction(SIGTERM, &before_note, nullptr);
  }

  Connection& connection_;
  const RankGroup& group_;
  const Header& own_;
  const double begin_, seconds_;
  int64_t pauses_ = 0;
  bool has_note_ = false;
};

Connection::Connection(const Make& make, double timeout)
    : timeout_(timeout), exceptions_(std::uncaught_exceptions()) {
  thread_ = std::thread([this, &make] { work(make); });
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return is_made_; });
  if (!error_) return;
  lock.unlock();
  thread_.join();
  std::rethrow_exception(error_);
}

std::shared_ptr<Connection> Connection::open(const Make& make, double timeout) {
  return {new Connection(make, timeout), [](Connection* connection) {
            const bool is_unwinding = std::uncaught_exceptions() > connection->exceptions_;
            const bool stays = connection->ends_processes_;
            if (!is_unwinding)
              connection->leave();
            else if (!stays)
              connection->end_all("");
            if (!stays) delete connection;
          }};
}

Connection::~Connection() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void Connection::leave() {
  if (!is_open()) return;
  const auto last = start(all_, "the end of the program", 0, [this](Engine& engine, Waiting&) {
    const auto is_done = std::make_shared<std::atomic<bool>>(false);
    if (ends_processes_)  // the library of messages has no deadline for its own end
      std::thread([is_done, line = who() + ": the other ranks did not end", seconds = timeout()] {
        sleep_seconds(seconds);
        if (*is_done) return;
        write_line(line);
        _exit(kAbortStatus);
      }).detach();
    drop_links();
    engine.finalize();
    *is_done = true;
    const std::lock_guard lock(mutex_);
    is_broken_ = true;
  });
  std::unique_lock lock(last->mutex);
  last->changed.wait(lock, [&] { return last->is_done; });
  if (!last->error) return;
  lock.unlock();
  try {
    std::rethrow_exception(last->error);
  } catch (const std::exception& error) {
    end_all(error.what());
  }
}

std::string Connection::who() const {
  return absl::StrCat("rank ", all_.rank, " of ", all_.size());
}

/// NCCL ends before the engine does.
void Connection::drop_links() {
  all_.links.clear();
  for (RankGroup& group : groups_) group.links.clear();
}

RankGroup& Connection::add_group(const RankGroup& group, const std::vector<int>& ranks,
                                 Waiting& waiting) {
  RankGroup& made = groups_.emplace_back(*this);
  for (const int r : ranks) {
    if (r == group.rank) made.rank = int(made.members.size());
    made.members.push_back(group.members[size_t(r)]);
  }
  made.engine = group.engine->split(ranks, waiting);
  return made;
}

bool Connection::is_open() {
  const std::lock_guard lock(mutex_);
  return !is_broken_;
}

std::shared_ptr<PendingState> Connection::start(RankGroup& group, std::string text,
                                                uint64_t signature, Move move, int64_t note) {
  auto state = std::make_shared<PendingState>();
  state->text = text;
  const std::lock_guard lock(mutex_);
  if (is_broken_) {
    state->error = std::make_exception_ptr(
        PeerError(absl::StrCat(who(), ": ", text, ": the communication has ended")));
    state->is_done = true;
    return state;
  }
  jobs_.push_back({&group, std::move(text), signature, std::move(move), state, note});
  changed_.notify_all();
  return state;
}

void Connection::work(const Make& make) {
  try {
    all_.engine = make();
    all_.rank = all_.engine->rank();
    for (int r = 0; r < all_.engine->size(); ++r) all_.members.push_back(r);
    ends_processes_ = all_.engine->ends_processes();
  } catch (...) {
    error_ = std::current_exception();
  }
  std::unique_lock lock(mutex_);
  is_made_ = true;
  changed_.notify_all();
  if (error_) return;
  while (true) {
    changed_.wait(lock, [&] { return is_stopping_ || is_aborting_ || !jobs_.empty(); });
    if (is_aborting_ && ends_processes_) abort_now();
    if (jobs_.empty()) {
      if (is_stopping_ || is_aborting_) break;
      continue;
    }
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    run(job);
    lock.lock();
  }
  drop_links();
  groups_.clear();
  all_.engine.reset();
}

void Connection::run(Job& job) {
  RankGroup& group = *job.group;
  Header own;
  own.sequence = ++group.sequence;
  own.signature = job.signature;
  own.note = job.note;
  const size_t length = std::min(job.text.size(), sizeof own.text - 1);
  std::memcpy(own.text, job.text.data(), length);
  std::exception_ptr error;
  int64_t note = job.note;
  const double begin = detail::steady_seconds();
  Wait wait(group, own);
  try {
    std::vector<Header> all(static_cast<size_t>(group.size()));
    group.engine->exchange(own, all, wait.arrived, wait);
    compare(group, own, all);
    for (const Header& each : all) note = std::max(note, each.note);
    wait.is_moving = true;
    job.move(*group.engine, wait);
  } catch (const MismatchError&) {
    error = std::current_exception();  // all ranks throw it, and none has moved data
  } catch (const PeerError& failure) {
    error = std::current_exception();
    end_all(absl::StrCat(wait.describe(), ": ", failure.message()));
  } catch (const std::exception& failure) {
    error = std::current_exception();
    if (is_aborting_ && ends_processes_) abort_now();
    end_all(failure.what());
  }
  job.move = nullptr;  // drops references to tensors before wait() returns
  const std::lock_guard lock(job.state->mutex);
  job.state->error = error;
  job.state->interval = {begin, detail::steady_seconds()};
  job.state->note = note;
  job.state->is_done = true;
  job.state->changed.notify_all();
}

void Connection::compare(const RankGroup& group, const Header& own,
                         const std::vector<Header>& all) const {
  bool is_equal = true;
  for (const Header& each : all)
    is_equal &= each.sequence == own.sequence && each.signature == own.signature &&
                std::strcmp(each.text, own.text) == 0;
  if (is_equal) return;
  std::string text = absl::StrCat(who(), ": the ranks called different collectives:");
  for (size_t r = 0; r < all.size(); ++r)
    absl::StrAppend(&text, r == 0 ? " " : "; ", "rank ", group.members[r], " number ",
                    all[r].sequence, ", ", all[r].text);
  throw MismatchError(text);
}

/// Runs on the communication thread. MPI itself may hang in an abort.
void Connection::abort_now() {
  std::thread([] {
    sleep_seconds(3);
    _exit(kAbortStatus);
  }).detach();
  all_.engine->abort(kAbortStatus);
  _exit(kAbortStatus);
}

void Connection::end_all(const std::string& line) {
  {
    const std::lock_guard lock(mutex_);
    is_broken_ = true;
  }
  if (!ends_processes_) {
    all_.engine->abort(kAbortStatus);
    return;
  }
  write_line(line);
  sleep_seconds(0.5);  // the other ranks come to write their lines
  if (std::this_thread::get_id() == thread_.get_id()) abort_now();
  {
    const std::lock_guard lock(mutex_);
    is_aborting_ = true;
    changed_.notify_all();
  }
  sleep_seconds(3);
  _exit(kAbortStatus);
}

}  // namespace tapegrad::dist
