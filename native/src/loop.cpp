// See loop.hpp.
#include "loop.hpp"

#include <algorithm>
#include <chrono>

#include "chains.hpp"

namespace upbeat {

namespace {

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
template <class P>
bool commit(Machine& machine, P& pace, Recorder* recorder, std::size_t mark, double t, bool last) {
  const ProgramTables& tables = machine.tables();
  Cell* const cells = machine.cells();
  cells[tables.now].r = t;
  if (tables.instant_block >= 0 && !machine.execute(tables.instant_block)) return false;
  FiredLog& fired = machine.fired();
  for (std::size_t i = mark; i < fired.size(); ++i) {
    fired.data()[i].index = static_cast<std::int32_t>(i - mark);
    fired.data()[i].time = t;
  }
  if (tables.budget >= 0 && fired.size() > mark) pace.landings.fired.add(fired.data()[fired.size() - 1].event);
  pace.note(t, fired.data() + mark, fired.size() - mark, cells);
  if (recorder) recorder->offer(t, cells, last);
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

// Whether a step for this reason ends at an event that depends on states.
bool is_landing(const Reason& reason) {
  return reason.kind == Why::Expected || reason.kind == Why::Over || reason.kind == Why::Back ||
         reason.kind == Why::Between;
}

// Too many steps have ended at events: which these are, and how long one is behind the other.
template <class P>
bool chatters(Machine& machine, const P& pace, double t) {
  const Landings& latest = pace.landings;
  Error error = error_at(t, Fault::Chattering);
  const std::size_t first = latest.times.first();
  error.value = (t - latest.times[first]) / static_cast<double>(latest.times.count - 1 - first);
  for (std::size_t i = first; i < latest.reasons.count; ++i) {
    const std::int32_t number = latest.reasons[i];
    if (i > first) error.message += '\n';
    if (number < 0) {
      error.message += "#" + std::to_string(-1 - number);
    } else {
      error.message += is_landing(pace.reason(number)) ? "'" + pace.reason(number).about : "-";
    }
  }
  for (std::size_t i = latest.fired.first(); i < latest.fired.count; ++i) {
    error.message += "\n!" + std::to_string(latest.fired[i]);
  }
  return machine.stop(error);
}

// Keeps account of a step. False: too many have ended at events.
template <class P>
bool pay(Machine& machine, P& pace, double t, double reached, double limit, bool event, std::int32_t reason) {
  Cell* const budget = machine.cells() + machine.tables().budget;
  budget[0].r = chains::left(budget[0].r, budget[1].r, t, reached, limit, event);
  if (!event) return true;
  pace.landings.times.add(reached);
  pace.landings.reasons.add(reason);
  return budget[0].r < 0.0 ? chatters(machine, pace, reached) : true;
}

// One step from `t`, retries included, until the program has accepted it.
template <class P>
bool step(Machine& machine, P& pace, StepLog* log, std::size_t mark, double t, double limit, Proposal& wanted,
          double& reached) {
  Cell* const cells = machine.cells();
  double& next = cells[machine.tables().next].r;
  FiredLog& fired = machine.fired();
  // Known events bound every pace, so that none needs to know of them.
  const double due = machine.tables().due >= 0 ? cells[machine.tables().due].r : limit;
  const double whole = limit;
  const bool event = due < limit;
  if (event) limit = due;
  wanted = pace.propose(t, limit, cells);
  pace.tell(cells);
  if (pace.retries() && !machine.save(Machine::for_retries)) return false;
  std::int64_t rejected = 0;
  for (;;) {
    if (!(t < wanted.until && wanted.until <= limit)) {
      Error error = error_at(t, Fault::BadStep);
      error.until = wanted.until;
      error.value = limit;
      error.cell = wanted.reason;
      return machine.stop(error);
    }
    next = wanted.until;
    if (!machine.execute(wanted.block)) return false;
    reached = next;
    if (pace.review(t, reached, cells, wanted)) break;
    if (++rejected > most_retries) {
      Error error = error_at(t, Fault::Rejected);
      error.cell = wanted.reason;
      return machine.stop(error);
    }
    if (!machine.restore(Machine::for_retries)) return false;
    fired.cut(mark);
  }
  const std::int32_t stop = machine.tables().stops < 0 ? 0 : stopped(machine, cells, reached, wanted.until);
  if (event && reached == due) {
    wanted.reason = number_of(Why::Known);
  } else if (stop > 0) {
    wanted.reason = first_stop + 1 - stop;
  }
  if (!(reached > t) && fired.size() == mark) return machine.stop(error_at(t, Fault::NoProgress));
  if (machine.tables().budget >= 0) {
    const bool early = machine.tables().stops < 0 ? reached < wanted.until : stop > 0;
    const bool known = event && reached == due;
    const bool landed = !known && (early || is_landing(pace.reason(wanted.reason)));
    if (!pay(machine, pace, t, reached, whole, landed, wanted.reason)) return false;
  }
  if (log) log->append(t, reached, wanted.reason, wanted.block, rejected);
  return true;
}

template <class P>
Status drive(Machine& machine, P& pace, Recorder* recorder, StepLog& log, double limit, double budget,
             std::int64_t most, double pause) {
  const double& now = machine.cells()[machine.tables().now].r;
  FiredLog& fired = machine.fired();
  std::size_t mark = 0;  // the first event that is not committed
  while (mark < fired.size() && fired.data()[mark].index >= 0) ++mark;
  Budget left(budget);
  for (;;) {
    // What a step can use up at most once is counted for many of them together.
    const std::int64_t room = std::min(log.room(), recorder ? recorder->room() : INT64_MAX);
    const std::int64_t count = std::min({most, room, left.steps()});
    if (now >= limit) return Status::Finished;
    if (room == 0) return Status::Full;
    for (std::int64_t k = 0; k < count; ++k) {
      const double t = now;
      if (t >= limit) return Status::Finished;
      if (t >= pause) return Status::Paused;
      if (machine.asked_to_stop()) return Status::Stopped;
      Proposal wanted;
      double reached = t;
      if (!step(machine, pace, &log, mark, t, limit, wanted, reached) ||
          !commit(machine, pace, recorder, mark, reached, reached >= limit)) {
        fired.cut(mark);
        return machine.asked_to_stop() ? Status::Abandoned : Status::Failed;  // a nested one came back, too
      }
      mark = fired.size();
    }
    if (((most -= count) <= 0 || left.spent()) && now < limit) return Status::Paused;
  }
}

template <class P>
Status chase(Machine& machine, P& pace, double limit, bool early) {
  const double& now = machine.cells()[machine.tables().now].r;
  while (now < limit) {
    if (machine.asked_to_stop() || Working::should_stop()) return Status::Stopped;
    Proposal wanted;
    double reached = now;
    const bool done = step(machine, pace, nullptr, 0, now, limit, wanted, reached) &&
                      commit(machine, pace, nullptr, 0, reached, false);
    machine.fired().cut(0);
    if (!done) return machine.asked_to_stop() ? Status::Stopped : Status::Failed;
    if (early && stopped(machine, machine.cells(), reached, wanted.until) > 0) break;
  }
  return Status::Finished;
}

}  // namespace

bool begin(Machine& machine, Pace& pace, Recorder* recorder, double limit) {
  const ProgramTables& tables = machine.tables();
  const double t = machine.cells()[tables.now].r;
  pace.begin(t, limit);
  if (tables.start_block >= 0 && !machine.execute(tables.start_block)) return false;
  return commit(machine, pace, recorder, 0, t, false);
}

// The commonest pace gets a loop of its own, in which its few operations are inlined: with units that do
// little, three virtual calls a step can be seen.
Status run(Machine& machine, Pace& pace, Recorder* recorder, StepLog& log, double limit, double budget,
           std::int64_t most, double pause) {
  if (auto* const fixed = dynamic_cast<Fixed*>(&pace)) {
    return drive(machine, *fixed, recorder, log, limit, budget, most, pause);
  }
  return drive(machine, pace, recorder, log, limit, budget, most, pause);
}

Status follow(Machine& machine, Pace& pace, double limit, bool early) {
  if (auto* const fixed = dynamic_cast<Fixed*>(&pace)) return chase(machine, *fixed, limit, early);
  return chase(machine, pace, limit, early);
}

}  // namespace upbeat
