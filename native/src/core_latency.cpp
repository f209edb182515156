// See core_latency.hpp. Where the machine is busy, the system likes to put both threads on one core, where each would wait
// for its time slice to end. So they are told where to be, as far as the system can be told.
#include "core_latency.hpp"

#include <algorithm>
#include <chrono>
#include <vector>

#if defined(__linux__)
#include <sched.h>
#endif

#include "workers.hpp"

namespace upbeat {

namespace {

constexpr std::int32_t turns = 64;  // of a round; around them, the step begins and ends
constexpr std::size_t min_rounds = 10, enough = 2000;  // rounds
enum Row : std::int32_t { hand_on, settle };

#if defined(__linux__)
// The cores that the calling thread may use, which it may use again afterwards.
class Cores {
 public:
  Cores() : known_(sched_getaffinity(0, sizeof before_, &before_) == 0) {}
  ~Cores() {
    if (known_) sched_setaffinity(0, sizeof before_, &before_);
  }
  Cores(const Cores&) = delete;
  Cores& operator=(const Cores&) = delete;

  // From now on the calling thread stays on the first of them, or on the second one, and so on.
  void stay(std::size_t place) const {
    for (std::size_t core = 0; known_ && core < CPU_SETSIZE; ++core) {
      if (!CPU_ISSET(core, &before_) || place-- > 0) continue;
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(core, &one);
      sched_setaffinity(0, sizeof one, &one);
      return;
    }
  }

 private:
  cpu_set_t before_;
  bool known_;
};
#else
struct Cores {
  void stay(std::size_t) const {}
};
#endif

Shares in_turns() {
  Shares shares(2);
  for (std::int32_t turn = 0; turn < turns; ++turn) {
    const auto core = static_cast<std::size_t>(turn % 2);
    Part part{hand_on, {}};
    if (turn > 0) part.waits.push_back({1 - turn % 2, (turn - 1) / 2});
    shares[core].push_back(part);
  }
  return shares;
}

// What the threads share: a core that waits for another wants to know what that has found.
struct Table {
  Cores cores;
  alignas(line) double number = 0.0;
};

bool work(void* self, std::size_t core, std::int32_t row) {
  auto& table = *static_cast<Table*>(self);
  if (row == settle) {
    table.cores.stay(core);
  } else {
    table.number += 1.0;
  }
  return true;
}

}  // namespace

double core_latency(double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto since = [](Clock::time_point then) { return std::chrono::duration<double>(Clock::now() - then).count(); };
  const Shares shares = in_turns();
  Table table;
  Workers workers(2, 0, work, &table);
  workers.run({{{settle, {}}}, {{settle, {}}}});
  std::vector<double> spent;
  const Clock::time_point first = Clock::now();
  while (spent.size() < min_rounds || (spent.size() < enough && since(first) < seconds)) {
    const Clock::time_point began = Clock::now();
    workers.run(shares);
    spent.push_back(since(began));
  }
  const auto quick = spent.begin() + static_cast<std::ptrdiff_t>(spent.size() / 10);
  std::nth_element(spent.begin(), quick, spent.end());
  return *quick / (turns + 1);
}

}  // namespace upbeat
