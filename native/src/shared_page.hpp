// Two processes, one call at a time: the memory that both see, and how each waits for its turn.
//
// The one whose turn it is may read and write all of the shared page; the other only looks at what is atomic. It looks for
// some microseconds, because most answers come that fast, then lets others have the core, then sleeps in
// the kernel and is woken. Where there is a single core for both, it sleeps at once.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>

namespace upbeat {

enum class Side : std::uint32_t { Client = 0, Server = 1 };

// What the client may ask for. The calls of unit.h, the end, and payloads that do not fit in one piece.
enum class Command : std::int32_t {
  Get = 1,
  Set = 2,
  Advance = 3,
  Jump = 4,
  Save = 5,
  Restore = 6,
  Slope = 7,
  Pack = 8,
  Unpack = 9,
  Due = 10,
  End = 11,
  Feed = 12,   // a piece of the payload of the next command
  Fetch = 13,  // the piece of the last answer's payload that begins at `size`
};

// A cache line of its own: a question or an answer without payload moves one line between two cores. Fresh
// memory, all zero, is a shared page at which it is the client's turn.
struct alignas(64) SharedPage {
  std::atomic<std::uint32_t> turn;
  std::atomic<std::uint32_t> asleep[2];  // by side
  std::atomic<std::uint32_t> records;    // how many log records the server's process has written
  std::int32_t command;
  std::int32_t status;
  std::int32_t a;
  std::int32_t b;
  double x;
  double y;
  std::uint64_t size;  // of the whole payload, in bytes
  // For how many microseconds the server should look before it sleeps. It reads this when it begins to wait, which
  // may be while the client already writes its next question: either value will do.
  std::atomic<std::uint32_t> looking;
  // The number of the question. An answer carries its complement: what does not was written by another.
  std::uint32_t serial;

  // What an answer says besides its payload. The server's process may write here at any time, whatever it has
  // promised: the client reads it once, and goes by its copy.
  struct Answer {
    std::int32_t status, a;
    double y;
    std::uint64_t size;
    std::uint32_t serial;
  };
  Answer answer() const {
    const volatile SharedPage& seen = *this;
    return {seen.status, seen.a, seen.y, seen.size, seen.serial};
  }

  unsigned char* payload() { return reinterpret_cast<unsigned char*>(this + 1); }
};
static_assert(sizeof(SharedPage) == 64, "the two sides must agree on where things are");
static_assert(std::atomic<std::uint32_t>::is_always_lock_free, "a lock would not be shared");

// The shared page at the beginning of a file of so many bytes that lies in memory; null if it cannot be reached.
std::shared_ptr<SharedPage> mapped(int file, std::uint64_t size);

// How many cores this process may use now: not all that there are, if it is pinned to some.
unsigned usable_cores();

// Sleeps until those are woken who sleep on `word`, or it is no longer `seen`, or this long.
void sleep_on(std::atomic<std::uint32_t>& word, std::uint32_t seen, std::chrono::nanoseconds limit);
void wake(std::atomic<std::uint32_t>& word);

inline void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// How long a side looks at the memory, lets others have the core, and sleeps before it asks whether to go on.
//
// Looking is of use only where the other side can run meanwhile. Whoever sleeps takes long to wake up, longer than
// others look: of several units that are called in turn, all would soon sleep whenever they are called. So they
// look the longer the more of them there are; and not at all where there are more than cores.
struct Patience {
  std::chrono::microseconds looking{0};
  std::chrono::microseconds yielding{0};
  std::chrono::milliseconds sleeping{20};  // below the tick of the kernel, every sleep would set a timer

  static Patience look(std::uint32_t microseconds) {
    Patience made;
    made.looking = std::chrono::microseconds(microseconds);
    if (microseconds > 0) made.yielding = std::chrono::microseconds(20);
    return made;
  }
};

// Hands the turn to the other side.
inline void hand_over(SharedPage& page, Side to) {
  page.turn.store(static_cast<std::uint32_t>(to), std::memory_order_seq_cst);
  if (page.asleep[static_cast<std::size_t>(to)].load(std::memory_order_seq_cst)) wake(page.turn);
}

// Waits until it is `own`'s turn. Where that takes long, `going_on` is asked now and then; if it says false,
// so does this.
template <class Check>
bool await_turn(SharedPage& page, Side own, const Patience& patience, Check going_on) {
  using Clock = std::chrono::steady_clock;
  const auto mine = static_cast<std::uint32_t>(own);
  const auto there = [&] { return page.turn.load(std::memory_order_acquire) == mine; };
  if (there()) return true;
  const Clock::time_point began = Clock::now();
  if (patience.looking.count() > 0) {
    do {
      for (int i = 0; i < 32; ++i) {
        if (there()) return true;
        pause();
      }
    } while (Clock::now() - began < patience.looking);
  }
  while (Clock::now() - began < patience.looking + patience.yielding) {
    std::this_thread::yield();
    if (there()) return true;
  }
  std::atomic<std::uint32_t>& asleep = page.asleep[static_cast<std::size_t>(own)];
  for (;;) {
    asleep.store(1, std::memory_order_seq_cst);  // before looking again: whoever hands over now sees it
    const std::uint32_t seen = page.turn.load(std::memory_order_seq_cst);
    if (seen != mine) sleep_on(page.turn, seen, patience.sleeping);
    asleep.store(0, std::memory_order_seq_cst);
    if (there()) return true;
    if (!going_on()) return there();
  }
}

}  // namespace upbeat
