// See workers.hpp. How to wait was measured: threads that only spin are fastest on free cores, and twenty times slower
// than one thread on busy ones. So a wait spins as long as most waits last, then lets others go first, and then sleeps.
#include "workers.hpp"

#include <algorithm>
#include <chrono>

#if defined(__x86_64__) || defined(_M_X64) || defined(__i386__)
#include <immintrin.h>
#endif

namespace upbeat {

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto spinning = std::chrono::microseconds(10);
constexpr auto yielding = std::chrono::microseconds(500);
constexpr int between_looks = 16;  // at the clock, which takes longer than a look at the flag

void breathe() {
#if defined(__x86_64__) || defined(_M_X64) || defined(__i386__)
  _mm_pause();
#elif defined(__aarch64__) && !defined(_MSC_VER)
  __asm__ volatile("yield");
#endif
}

class Paused {
 public:
  explicit Paused(const Pause& pause) : pause_(pause), left_(pause.leave ? pause.leave() : nullptr) {}
  ~Paused() {
    if (pause_.enter) pause_.enter(left_);
  }
  Paused(const Paused&) = delete;
  Paused& operator=(const Paused&) = delete;

 private:
  const Pause& pause_;
  void* left_;
};

}  // namespace

bool Flag::settled(std::uint64_t wanted) const {
  return count_.load(std::memory_order_acquire) >= wanted || given_up_.load(std::memory_order_acquire);
}

bool Flag::patient(std::uint64_t wanted, const Pause& pause) {
  // Whoever gives up has raised the flag as far as it goes before, so the count is read last.
  const auto found = [&] { return count_.load(std::memory_order_acquire) >= wanted; };
  const Clock::time_point began = Clock::now();
  do {
    for (int i = 0; i < between_looks; ++i) {
      if (settled(wanted)) return found();
      breathe();
    }
  } while (Clock::now() - began < spinning);
  const Paused paused(pause);
  do {
    if (settled(wanted)) return found();
    std::this_thread::yield();
  } while (Clock::now() - began < yielding);
  sleep(wanted);
  return found();
}

// Either this thread sees the count that is being raised, or whoever raises it sees that somebody sleeps: both
// write first and look then, in one order that all threads agree on.
void Flag::sleep(std::uint64_t wanted) {
  std::unique_lock<std::mutex> lock(mutex_);
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  raised_.wait(lock, [&] {
    return count_.load(std::memory_order_seq_cst) >= wanted || given_up_.load(std::memory_order_seq_cst);
  });
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
}

void Flag::wake() {
  if (sleepers_.load(std::memory_order_seq_cst) == 0) return;
  { const std::lock_guard<std::mutex> lock(mutex_); }  // a sleeper that has looked already waits by now
  raised_.notify_all();
}

Workers::Workers(std::size_t cores, Work work, void* self) : work_(work), self_(self) {
  for (std::size_t i = 0; i < cores; ++i) cores_.push_back(std::make_unique<Core>());
  try {
    for (std::size_t i = 1; i < cores; ++i) cores_[i]->thread = std::thread(&Workers::serve, this, i);
  } catch (...) {  // there are no more threads to be had
    end();
    throw;
  }
}

Workers::~Workers() { end(); }

void Workers::end() {
  over_.store(true, std::memory_order_relaxed);  // which is seen by whoever sees the flag
  for (const auto& core : cores_) {
    if (!core->thread.joinable()) continue;
    core->begin.raise(++core->begun);
    core->thread.join();
  }
}

void Workers::serve(std::size_t core) {
  for (std::uint64_t time = 1;; ++time) {
    cores_[core]->begin.await(time, {});
    if (over_.load(std::memory_order_relaxed)) return;
    do_list(core);
  }
}

void Workers::do_list(std::size_t core) {
  Core& own = *cores_[core];
  const Pause pause = core == 0 ? pause_ : Pause{};
  const std::vector<Part>& list = (*own.shares)[core];
  const std::uint64_t base = own.base;
  std::uint64_t done = base;
  for (const Part& part : list) {
    for (const Spot& spot : part.waits) {
      const auto wanted = base + static_cast<std::uint64_t>(spot.position) + 1;
      if (cores_[static_cast<std::size_t>(spot.core)]->progress.await(wanted, pause)) continue;
      own.progress.give_up();
      return;
    }
    if (!work_(self_, core, part.row)) {
      own.failed = true;
      own.progress.give_up();
      return;
    }
    own.progress.raise(++done);
  }
}

std::ptrdiff_t Workers::run(const Shares& shares) {
  std::size_t longest = 0;
  for (std::size_t core = 0; core < shares.size(); ++core) {
    Core& other = *cores_[core];
    if (other.failed) other.failed = false;  // not written in vain: that would take it away from its core
    other.progress.renew();
    other.shares = &shares;
    other.base = base_;
    longest = std::max(longest, shares[core].size());
  }
  for (std::size_t core = 1; core < shares.size(); ++core) {
    if (!shares[core].empty()) cores_[core]->begin.raise(++cores_[core]->begun);
  }
  do_list(0);
  std::ptrdiff_t failed = cores_[0]->failed ? 0 : -1;
  for (std::size_t core = 1; core < shares.size(); ++core) {
    if (shares[core].empty()) continue;
    const bool all = cores_[core]->progress.await(base_ + shares[core].size(), pause_);
    if (!all && cores_[core]->failed && failed < 0) failed = static_cast<std::ptrdiff_t>(core);
  }
  base_ += longest;
  return failed;
}

const char* problem_in(const Shares& shares, std::size_t rows) {
  for (std::size_t core = 0; core < shares.size(); ++core) {
    for (const Part& part : shares[core]) {
      if (part.row < 0 || static_cast<std::size_t>(part.row) >= rows) return "a core begins outside the code";
      for (const Spot& spot : part.waits) {
        const auto other = static_cast<std::size_t>(spot.core);
        if (spot.core < 0 || other >= shares.size() || other == core) return "a core waits for one that there is not";
        if (spot.position < 0 || static_cast<std::size_t>(spot.position) >= shares[other].size()) {
          return "a core waits for something that nobody does";
        }
      }
    }
  }
  std::vector<std::size_t> done(shares.size(), 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t core = 0; core < shares.size(); ++core) {
      const auto ready = [&](const Spot& spot) {
        return done[static_cast<std::size_t>(spot.core)] > static_cast<std::size_t>(spot.position);
      };
      while (done[core] < shares[core].size()) {
        const std::vector<Spot>& waits = shares[core][done[core]].waits;
        if (!std::all_of(waits.begin(), waits.end(), ready)) break;
        ++done[core];
        moved = true;
      }
    }
  }
  for (std::size_t core = 0; core < shares.size(); ++core) {
    if (done[core] < shares[core].size()) return "cores wait for each other forever";
  }
  return nullptr;
}

}  // namespace upbeat
