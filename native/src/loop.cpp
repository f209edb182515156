// See loop.hpp.
#include "loop.hpp"

#include <chrono>

namespace upbeat {

namespace {

// Looks at the clock only every so many steps, so that doing so costs nothing measurable.
class Budget {
 public:
  explicit Budget(double seconds) : seconds_(seconds), start_(Clock::now()) {}

  bool spent() {
    if (++steps_ < pause_) return false;
    steps_ = 0;
    const double elapsed = std::chrono::duration<double>(Clock::now() - start_).count();
    const double since = elapsed - last_;
    last_ = elapsed;
    if (since < 0.01 * seconds_ && pause_ < (std::int64_t{1} << 20)) {
      pause_ *= 2;
    } else if (since > 0.05 * seconds_ && pause_ > 1) {
      pause_ /= 2;
    }
    return elapsed >= seconds_;
  }

 private:
  using Clock = std::chrono::steady_clock;
  double seconds_;
  Clock::time_point start_;
  double last_ = 0.0;
  std::int64_t steps_ = 0;
  std::int64_t pause_ = 1;
};

// Events of one step carry the time it ended at, and their place among those of that time.
void stamp(std::vector<Fired>& fired, std::size_t from, double time) {
  for (std::size_t i = from; i < fired.size(); ++i) {
    fired[i].index = static_cast<std::int32_t>(i - from);
    fired[i].time = time;
  }
}

}  // namespace

Status run_fixed(Machine& machine, FixedRun& run, Recorder& recorder, double budget, std::int64_t most) {
  Cell* const cells = machine.cells();
  Cell& now = cells[machine.tables().now];
  Cell& next = cells[machine.tables().next];
  std::vector<Fired>& fired = machine.fired();
  Budget left(budget);
  for (;;) {
    const bool finished = run.time >= run.stop;
    if (run.pending) {
      if (recorder.wants(run.done, finished)) {
        if (recorder.full()) return Status::Full;
        recorder.row(run.time, cells);
      }
      run.pending = false;
    }
    if (finished) return Status::Finished;
    if (most-- <= 0 || left.spent()) return Status::Paused;

    const std::size_t before = fired.size();
    const std::int64_t index = run.done + 1;
    now.r = run.time;
    next.r = index >= run.count ? run.stop : run.start + static_cast<double>(index) * run.step;
    if (!machine.execute(run.block)) return Status::Failed;
    const double reached = next.r;
    if (!(reached > run.time) && fired.size() == before) {
      machine.stop(Fault::NoProgress, run.time);
      return Status::Failed;
    }
    now.r = reached;
    if (run.instant >= 0 && !machine.execute(run.instant)) return Status::Failed;
    if (fired.size() != before) stamp(fired, before, reached);
    run.time = reached;
    run.done = index;
    run.pending = true;
  }
}

}  // namespace upbeat
