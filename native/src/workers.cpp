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

Workers::Workers(std::size_t cores, std::size_t loose, Work work, void* self) : work_(work), self_(self), loose_(loose) {
  for (std::size_t i = 0; i < cores; ++i) {
    cores_.push_back(std::make_unique<Core>());
    cores_.back()->loose = std::vector<Loose>(loose);
  }
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
    do_all(core);
  }
}

// Everything this core does in a run. `base` grows from run to run, so the number after it is that of the run.
void Workers::do_all(std::size_t core) {
  Core& own = *cores_[core];
  own.alone = false;
  const bool fine = do_list(core);
  if (!fine) own.progress.give_up();
  while (take_over(core)) {
  }
  if (fine) {
    own.over.raise(own.base + 1);
  } else {
    own.over.give_up();
  }
}

bool Workers::do_list(std::size_t core) {
  Core& own = *cores_[core];
  const std::vector<Part>& list = (*own.shares)[core];
  const std::size_t head = loose_in(list);
  if (head > 0 && !do_head(core, head)) return false;
  for (std::size_t position = head; position < list.size(); ++position) {
    const Part& part = list[position];
    for (const Spot& spot : part.waits) {
      const auto wanted = own.base + static_cast<std::uint64_t>(spot.position) + 1;
      if (!await(core, cores_[static_cast<std::size_t>(spot.core)]->progress, wanted)) return false;
    }
    if (!work_(self_, core, part.row)) {
      own.failed = true;
      return false;
    }
    own.progress.raise(own.base + position + 1);
  }
  return true;
}

// The loose parts of this core's list, from the first on, up to those that others have taken, who begin with the
// last: so what is done is always a row from the first on, as `progress` counts it.
bool Workers::do_head(std::size_t core, std::size_t count) {
  Core& own = *cores_[core];
  const std::vector<Part>& list = (*own.shares)[core];
  const std::uint64_t run = own.base + 1;
  bool fine = true;
  std::size_t done = 0;
  while (done < count && own.loose[done].taken.exchange(run, std::memory_order_acq_rel) != run) {
    if (fine) {  // otherwise it is taken so that nobody else begins it
      fine = work_(self_, lane_of(core, done), list[done].row);
      if (!fine) own.loose[done].failed = true;
    }
    ++done;
    if (fine) own.progress.raise(own.base + done);
  }
  for (; done < count; ++done) {
    await(core, own.loose[done].done, run);
    fine = fine && !own.loose[done].failed;
    if (fine) own.progress.raise(own.base + done + 1);
  }
  return fine;
}

// One loose part that its core has not begun, the last of a list first. False if there is none; nor will there be one
// before the next run.
bool Workers::take_over(std::size_t core) {
  Core& own = *cores_[core];
  if (own.alone) return false;
  const Shares& shares = *own.shares;
  const std::uint64_t run = own.base + 1;
  for (std::size_t step = 1; step < shares.size(); ++step) {
    const std::size_t other = (core + step) % shares.size();
    for (std::size_t at = loose_in(shares[other]); at-- > 0;) {
      Loose& loose = cores_[other]->loose[at];
      if (loose.taken.load(std::memory_order_relaxed) == run) continue;
      if (loose.taken.exchange(run, std::memory_order_acq_rel) == run) continue;
      if (!work_(self_, lane_of(other, at), shares[other][at].row)) loose.failed = true;
      loose.done.raise(run);
      return true;
    }
  }
  own.alone = true;
  return false;
}

bool Workers::await(std::size_t core, Flag& flag, std::uint64_t wanted) {
  while (!flag.settled(wanted) && take_over(core)) {
  }
  return flag.await(wanted, core == 0 ? pause_ : Pause{});
}

bool Workers::run(const Shares& shares) {
  std::size_t longest = 0;
  for (std::size_t core = 0; core < shares.size(); ++core) {
    Core& other = *cores_[core];
    if (failed_) {  // not written in vain: that would take it away from its core
      other.failed = false;
      for (Loose& loose : other.loose) loose.failed = false;
    }
    other.progress.renew();
    other.over.renew();
    other.shares = &shares;
    other.base = base_;
    longest = std::max(longest, shares[core].size());
  }
  for (std::size_t core = 1; core < shares.size(); ++core) {
    if (!shares[core].empty()) cores_[core]->begin.raise(++cores_[core]->begun);
  }
  do_all(0);
  bool fine = true;
  for (std::size_t core = 0; core < shares.size(); ++core) {
    if (shares[core].empty()) continue;
    fine = cores_[core]->over.await(base_ + 1, pause_) && fine;
  }
  failed_ = !fine;
  base_ += longest;
  return fine;
}

std::vector<std::size_t> Workers::failures(const Shares& shares) const {
  std::vector<std::size_t> found;
  for (std::size_t core = 0; core < shares.size(); ++core) {
    for (std::size_t at = 0; at < loose_in(shares[core]); ++at) {
      if (cores_[core]->loose[at].failed) found.push_back(lane_of(core, at));
    }
    if (cores_[core]->failed) found.push_back(core);
  }
  return found;
}

const char* problem_in(const Shares& shares, std::size_t rows) {
  for (std::size_t core = 0; core < shares.size(); ++core) {
    for (const Part& part : shares[core]) {
      if (part.row < 0 || static_cast<std::size_t>(part.row) >= rows) return "a core begins outside the code";
      if (part.loose && !part.waits.empty()) return "something loose waits for a core";
      for (const Spot& spot : part.waits) {
        const auto other = static_cast<std::size_t>(spot.core);
        if (spot.core < 0 || other >= shares.size() || other == core) return "a core waits for one that there is not";
        if (spot.position < 0 || static_cast<std::size_t>(spot.position) >= shares[other].size()) {
          return "a core waits for something that no core does";
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
