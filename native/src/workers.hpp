// Worker threads that do the parts of a block together: each its own list, waiting only where it needs another; and
// instead of waiting it takes over what another has not begun, where that is loose.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "shares.hpp"

namespace upbeat {

// What a thread lets go of before a wait that is not short, and takes again after it (a lock that others may
// need meanwhile). Both may be missing.
struct Pause {
  void* (*leave)() = nullptr;
  void (*enter)(void* left) = nullptr;
};

// A count that only grows: one thread raises it, others wait for it. What was written before it was raised is
// seen by whoever has waited.
//
// What waiting threads look at comes last, so that whatever lies behind a flag reaches them with it, in one line
// of the cache (`line`). What lies before it is for those who sleep, who are in no hurry.
class Flag {
 public:
  void raise(std::uint64_t to) {
    count_.store(to, std::memory_order_seq_cst);
    wake();
  }

  // It will not be raised until it is renewed: nobody waits for it any longer.
  void give_up() {
    given_up_.store(true, std::memory_order_seq_cst);
    wake();
  }
  void renew() {
    if (given_up_.load(std::memory_order_relaxed)) given_up_.store(false, std::memory_order_relaxed);
  }

  // Whether it is raised so far, or was given up: whether there is nothing to wait for.
  bool settled(std::uint64_t wanted) const {
    return count_.load(std::memory_order_acquire) >= wanted || given_up_.load(std::memory_order_acquire);
  }

  // Until it is raised so far; false if it was given up before.
  bool await(std::uint64_t wanted, const Pause& pause) {
    return count_.load(std::memory_order_acquire) >= wanted || patient(wanted, pause);
  }

 private:
  bool patient(std::uint64_t wanted, const Pause& pause);
  void sleep(std::uint64_t wanted);
  void wake();

  std::mutex mutex_;
  std::condition_variable raised_;
  std::atomic<std::uint64_t> count_{0};
  std::atomic<bool> given_up_{false};
  std::atomic<std::int32_t> sleepers_{0};
};

// How much memory cores hand to each other at a time.
constexpr std::size_t line = 64;

// The thread that calls `run` is core 0; the others are threads that live as long as this object.
class Workers {
 public:
  // Does the part that begins at a row, in this lane; says whether all went well. It must not throw.
  //
  // A lane is what one part after another needs for itself. Each core has one of its own number, and each loose part
  // one of the numbers that follow: so what it leaves there does not depend on who has done it.
  using Work = bool (*)(void* self, std::size_t lane, std::int32_t row);

  // `loose`: how many loose parts a list has at most.
  Workers(std::size_t cores, std::size_t loose, Work work, void* self);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // For long waits of core 0. The other threads hold nothing that anybody needs.
  void set_pause(const Pause& pause) { pause_ = pause; }

  // All parts of `shares`, which are for at most as many cores; returns when no core works any more, whether all
  // went well. Where a part fails, its core stops, and so does whoever needs what it has not done; all other parts
  // are done, so that what is found does not depend on the timing. (Loose parts that come after it in its list may
  // have been done.)
  bool run(const Shares& shares);

  // The lanes in which parts failed in the last run, by core, and in the order of its list.
  std::vector<std::size_t> failures(const Shares& shares) const;

  std::size_t lanes() const { return cores_.size() * (1 + loose_); }

 private:
  // Of a loose part: in which run it was taken, and whether whoever is not its core has done it.
  struct Loose {
    alignas(line) std::atomic<std::uint64_t> taken{0};
    Flag done;
    bool failed = false;
  };
  struct Core {
    // Written by core 0, while this one has nothing to do.
    alignas(line) Flag begin;  // how often it has been told to begin
    const Shares* shares = nullptr;
    std::uint64_t base = 0;
    std::uint64_t begun = 0;
    // Written by this one.
    alignas(line) Flag progress;  // `base` and how many parts of its list are done
    bool failed = false;          // in a part that is not loose
    bool alone = false;           // no other core has left anything to be taken over in this run
    alignas(line) Flag over;      // raised to the run's number when this core does nothing more in it
    std::vector<Loose> loose;
    std::thread thread;
  };

  void serve(std::size_t core);
  void do_all(std::size_t core);
  bool do_list(std::size_t core);
  bool do_head(std::size_t core, std::size_t count);
  bool take_over(std::size_t core);
  bool await(std::size_t core, Flag& flag, std::uint64_t wanted);
  std::size_t lane_of(std::size_t core, std::size_t loose) const { return cores_.size() + core * loose_ + loose; }
  void end();

  Work work_;
  void* self_;
  std::size_t loose_;
  std::vector<std::unique_ptr<Core>> cores_;
  Pause pause_;
  std::atomic<bool> over_{false};
  alignas(line) std::uint64_t base_ = 0;  // for core 0 alone: all else here is read by all of them
  bool failed_ = false;                   // whether the last run left marks of failures
};

// Why these shares cannot be done by anybody (rows of which there are `rows`), or nullptr.
const char* problem_in(const Shares& shares, std::size_t rows);

}  // namespace upbeat
