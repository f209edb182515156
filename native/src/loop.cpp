// See loop.hpp.
#include "loop.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>

namespace upbeat {

namespace {

// Events that come one right after the other: what is left of the budget for them, as in
// upbeat.master.paces.watching.
namespace chains {

constexpr double burst = 2000.0;   // so many events may come one right after the other
constexpr double per_step = 10.0;  // so many more for each usual step that passes

// What is left of a budget after the step from `t` to `reached`, which has ended at an event or not.
inline double left(double budget, double rate, double t, double reached, double limit, bool event) {
  const double passed = reached - t;
  const double earned = rate > 0.0 ? passed * rate : per_step * (passed / (limit - t));
  budget = std::min(budget + earned, burst);
  return event ? budget - 1.0 : budget;
}

}  // namespace chains

// How many steps to take before looking at the clock again: so many that doing so costs nothing measurable.
class Budget {
 public:
  explicit Budget(double seconds) : seconds_(seconds), start_(Clock::now()) {}

  std::int64_t steps() const { return steps_; }
  bool spent() {
    const double elapsed = std::chrono::duration<double>(Clock::now() - start_).count();
    const double since = elapsed - last_;
    last_ = elapsed;
    if (since < 0.01 * seconds_ && steps_ < (std::int64_t{1} << 20)) {
      steps_ *= 2;
    } else if (since > 0.05 * seconds_ && steps_ > 1) {
      steps_ /= 2;
    }
    return elapsed >= seconds_;
  }

 private:
  using Clock = std::chrono::steady_clock;
  double seconds_;
  Clock::time_point start_;
  double last_ = 0.0;
  std::int64_t steps_ = 1;
};

// The time `t` stands: what happens at that instant, what the pace makes of it, and the row. Events from
// `mark` on are those of this time.
bool commit(Machine& machine, Memory& memory, Recorder* recorder, std::size_t mark, double t, bool last, Before* before = nullptr) {
  const ProgramTables& tables = machine.tables();
  Cell* const cells = machine.cells();
  cells[tables.now].r = t;
  if (tables.instant_block >= 0) {
    if (recorder) recorder->before(t, cells);
    if (before) before->take(cells);
    if (!machine.execute(tables.instant_block)) return false;
  }
  FiredLog& fired = machine.fired();
  for (std::size_t i = mark; i < fired.size(); ++i) {
    fired.data()[i].index = static_cast<std::int32_t>(i - mark);
    fired.data()[i].time = t;
  }
  if (tables.budget >= 0 && fired.size() > mark) memory.fired.add(fired.data()[fired.size() - 1].event);
  if (tables.pace.note >= 0) {
    cells[tables.pace.fired].r = static_cast<double>(fired.size() - mark);
    if (!machine.execute(tables.pace.note)) return false;
  }
  if (recorder) recorder->offer(t, cells, last || over(machine));
  return true;
}

Error error_at(double t, Fault fault) {
  Error error;
  error.fault = fault;
  error.time = t;
  return error;
}

// Which unit, counted from 1, has ended the step before its proposed end; 0: none has.
std::int32_t stopped(const Machine& machine, const Cell* cells, double reached, double until) {
  if (!(reached < until)) return 0;
  return machine.tables().stops < 0 ? 1 : static_cast<std::int32_t>(cells[machine.tables().stops].r);
}

// The number that the program gives a reason, as its cells tell it.
std::int32_t given(const Cell* reason) {
  const double number = reason[0].r;
  return number >= 0.0 && number < 2147483647.0 ? static_cast<std::int32_t>(number) : 0;
}

// Whether a step for this reason ends at an event that depends on states. What a pace of the host says is told with it.
bool lands(const PaceTables& pace, const Cell* reason) {
  const auto number = static_cast<std::size_t>(given(reason));
  return number < pace.reasons.size() ? pace.reasons[number].landed : reason[1].r != 0.0;
}

// Too many steps have ended at events: which these are, and how long one is behind the other.
bool chatters(Machine& machine, const Memory& latest, double t) {
  Error error = error_at(t, Fault::Chattering);
  const std::size_t first = latest.times.first();
  error.value = (t - latest.times[first]) / static_cast<double>(latest.times.count - 1 - first);
  for (std::size_t i = first; i < latest.why.count; ++i) {
    const std::int32_t number = latest.why[i];
    if (i > first) error.message += '\n';
    error.message += number == known_event ? "-" : number < 0 ? "#" + std::to_string(-1 - number) : "'" + std::to_string(number);
  }
  for (std::size_t i = latest.fired.first(); i < latest.fired.count; ++i) {
    error.message += "\n!" + std::to_string(latest.fired[i]);
  }
  return machine.stop(error);
}

// Keeps account of a step. False: too many have ended at events.
bool pay(Machine& machine, Memory& memory, double t, double reached, double limit, bool event, std::int32_t why) {
  Cell* const budget = machine.cells() + machine.tables().budget;
  budget[0].r = chains::left(budget[0].r, budget[1].r, t, reached, limit, event);
  if (!event) return true;
  memory.times.add(reached);
  memory.why.add(why);
  return budget[0].r < 0.0 ? chatters(machine, memory, reached) : true;
}

// One step from `t`, retries included, until the program has accepted it.
bool step(Machine& machine, Memory& memory, StepLog* log, std::size_t mark, double t, double limit, double& reached) {
  const ProgramTables& tables = machine.tables();
  const PaceTables& pace = tables.pace;
  Cell* const cells = machine.cells();
  const double& until = cells[pace.until].r;
  FiredLog& fired = machine.fired();
  // Known events bound every pace, so that none needs to know of them.
  const double due = tables.due >= 0 ? cells[tables.due].r : limit;
  const double whole = limit;
  const bool event = due < limit;
  if (event) limit = due;
  cells[pace.limit].r = limit;
  if (!machine.execute(pace.propose)) return false;
  if (pace.keep >= 0 && !machine.execute(pace.keep)) return false;
  std::int64_t rejected = 0;
  std::int32_t block = 0;
  for (;;) {
    const double wanted = cells[pace.block].r;
    if (!(t < until && until <= limit)) {
      Error error = error_at(t, Fault::BadStep);
      error.until = until;
      error.value = limit;
      return machine.stop(error);
    }
    const bool known = wanted >= 0.0 && wanted < static_cast<double>(pace.steps.size());  // cells may come from a file
    block = pace.steps[known ? static_cast<std::size_t>(wanted) : 0];
    cells[tables.next].r = until;
    if (!machine.execute(block)) return false;
    reached = cells[tables.next].r;
    if (pace.review < 0) break;
    if (!machine.execute(pace.review)) return false;
    if (cells[pace.again].r == 0.0) break;
    if (++rejected > most_retries) return machine.stop(error_at(t, Fault::Rejected));
    if (!machine.execute(pace.back)) return false;
    fired.cut(mark);
  }
  const std::int32_t stop = tables.stops < 0 ? 0 : stopped(machine, cells, reached, until);
  const bool known = event && reached == due;
  if (!(reached > t) && fired.size() == mark) return machine.stop(error_at(t, Fault::NoProgress));
  const Cell* const reason = cells + pace.reason;
  if (tables.budget >= 0) {
    const bool early = tables.stops < 0 ? reached < until : stop > 0;
    const bool landed = !known && (early || lands(pace, reason));
    const std::int32_t why = stop > 0 ? first_stop + 1 - stop : lands(pace, reason) ? given(reason) : known_event;
    if (!pay(machine, memory, t, reached, whole, landed, why)) return false;
  }
  if (log) {
    const std::int32_t why = known ? known_event : stop > 0 ? first_stop + 1 - stop : memory.reasons.number(pace, reason);
    log->append(t, reached, why, block, rejected);
  }
  ++memory.steps;
  memory.rejected += rejected;
  return true;
}

}  // namespace

std::int32_t Reasons::number(const PaceTables& pace, const Cell* reason) {
  const std::int32_t number = given(reason);
  const auto place = static_cast<std::size_t>(number);
  first_ = static_cast<std::int32_t>(pace.reasons.size());
  const bool own = place < pace.reasons.size();
  if (own && !pace.reasons[place].at && pace.reasons[place].of == 0) return number;
  ReasonCells key = {reason[0].r, 0.0, 0.0, 0.0};
  if (own && pace.reasons[place].at) key[1] = reason[1].r;
  for (std::int32_t k = 0; own && k < pace.reasons[place].of; ++k) key[2 + static_cast<std::size_t>(k)] = reason[2 + k].r;
  std::array<std::uint64_t, 4> bits;
  std::memcpy(bits.data(), key.data(), sizeof bits);
  const auto [found, is_new] = numbers_.emplace(bits, first_ + static_cast<std::int32_t>(known_.size()));
  if (is_new) known_.push_back(key);
  return found->second;
}

Reasons::ReasonCells Reasons::of(std::int32_t number) const {
  if (number < first_ || known_.empty()) return {static_cast<double>(number), 0.0, 0.0, 0.0};
  return known_.at(static_cast<std::size_t>(number - first_));
}

bool begin(Machine& machine, Memory& memory, Recorder* recorder, double limit) {
  const ProgramTables& tables = machine.tables();
  const double t = machine.cells()[tables.now].r;
  machine.cells()[tables.pace.limit].r = limit;
  if (tables.start_block >= 0 && !machine.execute(tables.start_block)) return false;
  return commit(machine, memory, recorder, 0, t, false);
}

Status run(Machine& machine, Memory& memory, Recorder* recorder, StepLog* log, double limit, double budget,
           std::int64_t max_steps, double pause) {
  const double& now = machine.cells()[machine.tables().now].r;
  FiredLog& fired = machine.fired();
  std::size_t mark = 0;  // the first event that is not committed
  while (mark < fired.size() && fired.data()[mark].index >= 0) ++mark;
  Budget left(budget);
  for (;;) {
    // What a step can use up at most once is counted for many of them together.
    const std::int64_t room = std::min(log ? log->room() : INT64_MAX, recorder ? recorder->room() : INT64_MAX);
    const std::int64_t count = std::min({max_steps, room, left.steps()});
    if (now >= limit || over(machine)) return Status::Finished;
    if (room == 0) return Status::Full;
    for (std::int64_t k = 0; k < count; ++k) {
      const double t = now;
      if (t >= limit) return Status::Finished;
      if (t >= pause) return Status::Paused;
      if (machine.asked_to_stop()) return Status::Stopped;
      double reached = t;
      if (!step(machine, memory, log, mark, t, limit, reached) ||
          !commit(machine, memory, recorder, mark, reached, reached >= limit)) {
        fired.cut(mark);
        return machine.asked_to_stop() ? Status::Abandoned : Status::Failed;  // a nested one came back, too
      }
      mark = fired.size();
      if (over(machine)) return Status::Finished;
    }
    if (((max_steps -= count) <= 0 || left.spent()) && now < limit) return Status::Paused;
  }
}

void Before::take(const Cell* from) {
  for (std::size_t i = 0; i < cells.size(); ++i) values[i] = from[cells[i]];
  taken = true;
}

void Before::look(Machine& machine) {
  FiredLog& fired = machine.fired();
  happened = fired.size() > 0;
  for (std::size_t i = 0; i < cells.size() && taken && !happened; ++i) happened = values[i].i != machine.cells()[cells[i]].i;
  taken = false;
  for (std::size_t i = 0; i < fired.size() && say; ++i) say(to, fired.data()[i].event, fired.data()[i].time);
}

Status follow(Machine& machine, Memory& memory, double limit, bool early, Before* before) {
  const ProgramTables& tables = machine.tables();
  const double& now = machine.cells()[tables.now].r;
  while (now < limit && !over(machine)) {
    if (machine.asked_to_stop() || Working::should_stop()) return Status::Stopped;
    double reached = now;
    const bool made = step(machine, memory, nullptr, 0, now, limit, reached);
    const double until = machine.cells()[tables.pace.until].r;
    const bool done = made && commit(machine, memory, nullptr, 0, reached, false, before);
    if (before && done) before->look(machine);
    machine.fired().cut(0);
    if (!done) return machine.asked_to_stop() ? Status::Stopped : Status::Failed;
    if (before) {
      if (early && before->happened) break;
    } else if (early && stopped(machine, machine.cells(), reached, until) > 0) {
      break;
    }
  }
  return Status::Finished;
}

bool hear_of_change(Machine& machine) {
  const PaceTables& pace = machine.tables().pace;
  if (pace.changed < 0) return true;
  machine.cells()[pace.fired].r = static_cast<double>(machine.fired().size());
  return machine.execute(pace.changed);
}

}  // namespace upbeat
