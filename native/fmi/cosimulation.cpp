// See cosimulation.hpp.
#include "fmi/cosimulation.hpp"

#include <algorithm>

#include "fmi/clocks.hpp"
#include "fmi/course.hpp"
#include "fmi/entered.hpp"
#include "fmi/fmi2.hpp"
#include "fmi/fmi3.hpp"
#include "fmi/intermediate.hpp"
#include "fmi/memory.hpp"
#include "fmi/states.hpp"
#include "fmi/steady.hpp"
#include "text.hpp"

namespace upbeat::fmi {

namespace {

constexpr int most_rounds = 1000;  // of event iteration at one instant, and of pieces that a step falls into
constexpr double near_enough = 1e-9;  // a step that ends this near to where it should, by its length, has got there

enum Mode : std::int64_t { Initialization = 0, Stepping = 1, Event = 2 };

// What the innermost loop touches, together and first.
template <class F>
struct Hot {
  void* instance = nullptr;
  const typename F::Real* reals = nullptr;  // by port; without functions where a port is something else
  double* now = nullptr;
  double* clock = nullptr;  // where others look for the time
  bool ready = false;       // the next step is nothing but a step
  bool no_prior = true;     // no state is kept
  SteadySteps steady;
};

template <class F>
class CoSimulation final : private Hot<F>, private Memory, private Follower {
 public:
  explicit CoSimulation(const FmuTables& tables)
      : Memory(tables),
        fmu_(tables),
        states_(fmu_, static_cast<Memory&>(*this)),
        clocks_(fmu_, tables.clocks, tables.start, Memory::clocks()),
        event_mode_(tables.event_mode),
        start_(tables.start),
        slopes_(tables) {
    hot().instance = fmu_.instance();
    hot().steady = SteadySteps(tables.steady);
    hot().now = &now();
    hot().clock = tables.clock ? tables.clock : &own_clock_;
    *hot().clock = tables.start;
    for (const Port& port : ports()) {
      const bool plain = port.role == Port::Plain && port.type == Type::Float64 && port.cells == 1;
      reals_.push_back(plain ? fmu_.real(port) : typename F::Real());
    }
    hot().reals = reals_.data();
    column_.resize(widest_of(tables));
    moved_.resize(column_.size());
  }

  ~CoSimulation() {
    if (!fmu_.failed() && !fmu_.fatal() && mode() != Initialization) fmu_.terminate();
    states_.drop_all();
    if (!fmu_.fatal()) fmu_.free();
  }

  int get(int number, Cell* to) {
    const typename F::Real& real = hot().reals[number];
    if (real.get_) {
      const int status = real.get(hot().instance, &to->r);
      return status == 0 ? 0 : got(status);
    }
    return get_other(number, to);
  }
  UPBEAT_APART int get_other(int number, Cell* to) {
    const Port& asked = port(number);
    if (asked.role == Port::Plain) return fmu_.get(asked, to) ? 0 : refused();
    if (asked.order > 0 && !wants(number)) return refused();
    if (asked.role == Port::Sent) {
      to[0].i = to[1].i = own(asked)->i;  // the value, and whether it is there
    } else {
      std::copy_n(own(asked), asked.cells, to);
    }
    return 0;
  }

  int set(int number, const Cell* coefficients, int count) {
    const typename F::Real& real = hot().reals[number];
    if (real.set_) {
      const int status = real.set(hot().instance, &coefficients->r);
      return status == 0 ? 0 : was_set(status);
    }
    return set_other(number, coefficients, count);
  }
  UPBEAT_APART int set_other(int number, const Cell* coefficients, int count) {
    const Port& given = port(number);
    if (given.role == Port::Plain) return fmu_.set(given, coefficients) ? 0 : refused();
    return keep(given, coefficients, count) ? 0 : refused();
  }

  int advance(double t, double to, int early, double* reached) {
    // First the usual case, a step that simply gets there.
    const double length = to - t;
    if (hot().ready && length > hot().steady.above && length < hot().steady.below) {
      Stepped ended;
      ended.reached = to;
      *hot().clock = t;
      const int status = fmu_.attempt(t, to, hot().no_prior, ended);
      if (!F::plain(status, ended)) return end_otherwise(status, ended, t, to, early, reached);
      *hot().now = to;
      return 0;
    }
    return go(t, to, early, reached);
  }
  UPBEAT_APART int end_otherwise(int status, Stepped& ended, double t, double to, int early, double* reached) {
    if (!fmu_.conclude(status, t, ended) || !arrived(t, to, ended)) return refused();
    if (now() < to && !early) return go(t, to, early, reached);
    *reached = now();
    return 0;
  }
  UPBEAT_APART int go(double t, double to, int early, double* reached) {
    if (!(to >= t)) return refuse("cannot advance backwards, from " + shorter(t) + " to " + shorter(to));
    for (int pieces = 0; pieces < most_rounds; ++pieces) {
      if (!make_ready()) return refused();
      if (now() >= to) break;
      if (!step(std::min({to, next_event(), clocks_.due()}))) return refused();
      if (now() >= to || (early && now() > t)) break;
      if (pieces == most_rounds - 1) return refuse(shattered(t, to));
    }
    *reached = now();
    return 0;
  }

  int due(double* time) {
    *time = due_at();
    return 0;
  }

  // One round of event mode, if there is something to do; what ticked is sent by the next jump.
  int jump(int* again) {
    if (mode() == Initialization) {
      if (!leave_initialization() || !settle()) return refused();
    } else {
      sent();
      if (happens() && !round()) return refused();
    }
    *again = due_at() <= now();
    return 0;
  }

  int slope(int output, int input, Cell* to) {
    return slopes_.find(fmu_, port(output), port(input), to) ? 0 : refused();
  }

  int save(int slot) {
    hot().no_prior = false;
    return states_.save(slot) ? 0 : refused();
  }
  int restore(int slot) {
    if (!states_.restore(slot)) return refused();
    count_moving();
    return 0;
  }
  int pack(int slot, void* to, std::uint64_t* size) { return states_.pack(slot, to, size) ? 0 : refused(); }
  int unpack(int slot, const void* from, std::uint64_t size) {
    hot().no_prior = false;
    if (states_.unpack(slot, from, size)) return 0;
    message_ = fmu_.why();
    return 1;
  }

  const char* message() const { return message_.c_str(); }

 private:
  Hot<F>& hot() { return *this; }
  UPBEAT_APART int got(int status) { return fmu_.got(status) ? 0 : refused(); }
  UPBEAT_APART int was_set(int status) { return fmu_.was_set(status) ? 0 : refused(); }

  // -- inputs ------------------------------------------------------------------------------------

  bool keep(const Port& given, const Cell* coefficients, int count) {
    Cell* const mine = own(given);
    switch (given.role) {
      case Port::Heard: mine->i = 1; return true;
      case Port::Discrete: return happen(given, coefficients);
      case Port::Clocked: count = 1; break;
      default:
        if (!fmu_.set(given, coefficients)) return false;
        moving_ += static_cast<int>(count > 1) - static_cast<int>(mine[0].i > 1);
        prepare();
        if (count == 1) count = 0;  // there is nothing to follow
    }
    const std::int64_t cells = given.most() * given.cells;
    mine[0].i = count;
    mine[1].r = count > 0 ? now() : 0.0;
    for (std::int64_t i = 0; i < cells; ++i) mine[2 + i].i = i < count * given.cells ? coefficients[i].i : 0;
    return true;
  }

  // A discrete input that changes is an event of its own: the FMU enters event mode for it.
  bool happen(const Port& given, const Cell* value) {
    Cell* const mine = own(given);
    const bool known = mine[0].i != 0 && std::equal(value, value + given.cells, mine + 1, [&](Cell a, Cell b) {
                         return given.kind() == Kind::Real ? a.r == b.r : a.i == b.i;
                       });
    if (mode() != Initialization) {
      if (known) return true;
      if (!enter_event_mode()) return false;
      pending() = 1;
    }
    std::copy_n(value, given.cells, mine + 1);
    mine[0].i = 1;
    return fmu_.set(given, value);
  }

  void count_moving() {
    moving_ = 0;
    for (const std::int32_t number : all(Port::Followed)) moving_ += static_cast<int>(own(port(number))[0].i > 1);
    prepare();
  }
  void prepare() { hot().ready = mode() == Stepping && !event_mode_ && moving_ == 0 && rates_.empty(); }

  // A step begins: hands over the values of inputs whose courses began earlier, and the derivatives.
  bool follow(double t) {
    static constexpr int orders[] = {1, 2, 3, 4, 5};
    static_assert(UPBEAT_MAX_DEGREE == 5, "one order for each coefficient but the first");
    for (const std::int32_t number : all(Port::Followed)) {
      const Port& input = port(number);
      const Course course{own(input)};
      if (course.count() < 2) continue;
      Cell value;
      course.value(t, 1, &value.r);
      if (t != course.origin() && !fmu_.set(input, &value)) return false;
      double slopes[UPBEAT_MAX_DEGREE];
      const auto count = static_cast<int>(course.count());
      for (int k = 1; k < count; ++k) slopes[k - 1] = course.derivative(k, t);
      if (!fmu_.give_slopes(input, orders, static_cast<std::size_t>(count - 1), slopes)) return false;
    }
    return true;
  }

  // -- time --------------------------------------------------------------------------------------

  // Into step mode, with everything done that is to be done at this time.
  bool make_ready() {
    if (mode() == Initialization && !leave_initialization()) return false;
    if (event_mode_ && !settle()) return false;
    if (mode() == Event) {
      if (!fmu_.enter_step_mode()) return false;
      mode() = Stepping;
    }
    sent();
    prepare();
    return true;
  }

  bool step(double until) {
    const double from = now();
    const std::string uneven = hot().steady.begin(from, until, until >= std::min(next_event(), clocks_.due()));
    if (!uneven.empty()) return fmu_.refuse(uneven);
    if (moving_ > 0 && F::version == 2 && !follow(from)) return false;
    Stepped ended;
    ended.reached = until;
    *hot().clock = from;
    if (moving_ == 0 || F::version == 2) {
      return attempt(from, until, ended) && arrived(from, until, ended);
    }
    const Follower::Within here(this);
    misled_ = false;
    const bool done = attempt(from, until, ended);
    return !misled_ && done && arrived(from, until, ended);
  }

  bool attempt(double from, double until, Stepped& ended) {
    return fmu_.conclude(fmu_.attempt(from, until, hot().no_prior, ended), from, ended);
  }

  // Within a step (FMI 3): inputs that move are where they should be.
  void look_in(double time) override {
    for (const std::int32_t number : all(Port::Followed)) {
      const Course course{own(port(number))};
      if (course.count() < 2 || misled_) continue;
      course.value(time, port(number).cells, column_.data());
      for (std::size_t i = 0; i < column_.size(); ++i) moved_[i].r = column_[i];
      misled_ = !fmu_.set(port(number), moved_.data());
    }
  }

  bool arrived(double from, double until, const Stepped& ended) {
    if (ended.terminate) return fmu_.refuse("the FMU asked to end the simulation at t = " + shorter(ended.reached));
    const bool there = std::fabs(until - ended.reached) <= near_enough * (until - from);
    const double reached = there ? until : ended.reached;
    if (!(from <= reached && reached <= until)) {
      return fmu_.refuse("a step from " + shorter(from) + " to " + shorter(until) + " ended at " + shorter(ended.reached));
    }
    pending() = event_mode_ && ended.event ? 1 : 0;
    if (reached == from && pending() == 0) return fmu_.refuse(stuck(from, until));
    now() = reached;
    if (reached < until || pending() != 0 || reached >= std::min(next_event(), clocks_.due())) hot().steady.stopped(reached);
    return std::all_of(rates_.begin(), rates_.end(), [this](int rate) { return look_at(port(rate)); });
  }

  // -- derivatives of outputs: read at the end of every step, as soon as somebody has asked for them ----------------

  bool wants(int number) {
    if (std::find(rates_.begin(), rates_.end(), number) != rates_.end()) return true;
    rates_.push_back(number);
    prepare();
    return mode() != Stepping || now() <= start_ || look_at(port(number));
  }
  bool look_at(const Port& rate) {
    if (!fmu_.output_derivative(rate, rate.order, column_.data())) return false;
    std::transform(column_.begin(), column_.begin() + rate.cells, own(rate), real);
    return true;
  }

  // -- events ------------------------------------------------------------------------------------

  // Whether something is to be done in event mode that is not a matter of time.
  bool waits() { return event_mode_ && (pending() != 0 || any(Port::Heard)); }
  bool happens() { return waits() || std::min(next_event(), clocks_.due()) <= now(); }
  double due_at() {
    if (mode() == Initialization || waits() || any(Port::Sent)) return now();
    return std::min(next_event(), clocks_.due());
  }

  void sent() {
    for (const std::int32_t number : all(Port::Sent)) own(port(number))->i = 0;
  }

  bool leave_initialization() {
    if (!fmu_.steps() || !fmu_.leave_initialization()) return false;
    mode() = event_mode_ ? Event : Stepping;
    pending() = event_mode_ ? 1 : 0;
    return !event_mode_ || clocks_.begin();
  }

  bool enter_event_mode() {
    if (mode() == Event) return true;
    if (!fmu_.enter_event_mode()) return false;
    mode() = Event;
    forget_rates();
    return true;
  }

  // Rounds until nothing is left to do at this time.
  bool settle() {
    for (int rounds = 0; rounds < most_rounds; ++rounds) {
      if (!happens()) return true;
      if (!round()) return false;
    }
    return fmu_.refuse("event iteration at t = " + shorter(now()) + " did not end within " + std::to_string(most_rounds) + " rounds");
  }

  // One round: what ticks is told, clocked values are exchanged, discrete states renewed.
  bool round() {
    *hot().clock = now();
    if (!enter_event_mode()) return false;
    for (const std::int32_t number : all(Port::Heard)) {
      if (own(port(number))->i != 0 && !fmu_.tick(port(number).reference)) return false;
    }
    if (!clocks_.tick(now())) return false;
    if (!exchange() || !clocks_.ticked(now())) return false;
    for (const std::int32_t number : all(Port::Heard)) own(port(number))->i = 0;
    Updated updated;
    if (!fmu_.update(updated)) return false;
    if (updated.terminate) return fmu_.refuse("the FMU asked to end the simulation at t = " + shorter(now()));
    pending() = updated.again ? 1 : 0;
    next_event() = fmu_.next_event(now(), updated.next);
    return clocks_.look(now());
  }

  // Hands over inputs whose clock ticks, and looks at the outputs of those that do. Whether an output clock ticks may
  // depend on what the input clocks bring: it is asked after that.
  bool exchange() {
    ticking_.clear();
    for (const std::int32_t number : all(Port::Heard)) {
      if (own(port(number))->i != 0) ticking_.push_back(port(number).reference);
    }
    clocks_.append_ticking(ticking_);
    if (!hand_over(0)) return false;
    const std::size_t first_sent = ticking_.size();
    for (const std::int32_t number : all(Port::Sent)) {
      bool ticks = false;
      if (!fmu_.ticking(port(number).reference, &ticks)) return false;
      if (!ticks) continue;
      own(port(number))->i = 1;
      ticking_.push_back(port(number).reference);
    }
    if (!hand_over(first_sent)) return false;
    for (const std::int32_t number : all(Port::Seen)) {
      if (tick_now(port(number).clocks, 0) && !fmu_.get(port(number), own(port(number)))) return false;
    }
    return true;
  }
  // The inputs that wait for a clock that ticks, from the `first` of them on.
  bool hand_over(std::size_t first) {
    for (const std::int32_t number : all(Port::Clocked)) {
      const Port& input = port(number);
      if (own(input)[0].i != 0 && tick_now(input.clocks, first) && !fmu_.set(input, own(input) + 2)) return false;
    }
    return true;
  }
  bool tick_now(const std::vector<std::uint32_t>& clocks, std::size_t first) const {
    const auto begin = ticking_.begin() + static_cast<std::ptrdiff_t>(first);
    return std::find_first_of(begin, ticking_.end(), clocks.begin(), clocks.end()) != ticking_.end();
  }

  // -- words -------------------------------------------------------------------------------------

  static std::string stuck(double from, double until) {
    return "the FMU refused the step from " + shorter(from) + " to " + shorter(until) +
           " and did not move at all. Try a smaller step (--step, or pace=…), or let units stop early "
           "(coupling = \"negotiated\")";
  }
  std::string shattered(double t, double to) {
    return "the step from " + shorter(t) + " to " + shorter(to) + " fell into more than " + std::to_string(most_rounds) +
           " pieces: the FMU stops again and again, last at " + shorter(now()) + ". Take a smaller step (--step)";
  }

  // The status tells the host whether the FMU itself failed, so that its log may say more.
  int refused() {
    refuse(fmu_.why());
    return fmu_.said() ? failed_status : 1;
  }
  int refuse(const std::string& why) {
    message_ = "FmuError: " + why;
    return 1;
  }

  F fmu_;
  States<F, Memory> states_;
  Clocks<F> clocks_;
  bool event_mode_;
  double start_;
  Slopes<F> slopes_;
  std::vector<int> rates_;  // the derivatives that somebody has asked for
  double own_clock_ = 0.0;
  std::vector<typename F::Real> reals_;
  int moving_ = 0;  // how many inputs are more than a constant
  std::vector<std::uint32_t> ticking_;
  std::vector<double> column_;
  std::vector<Cell> moved_;
  bool misled_ = false;  // an input could not be set within a step
  std::string message_;
};

}  // namespace

upbeat_unit make_cosimulation(const FmuTables& tables) {
  if (tables.version == 2) return entered<CoSimulation<Fmi2>>(tables, tables.event_mode);
  return entered<CoSimulation<Fmi3>>(tables, tables.event_mode);
}

}  // namespace upbeat::fmi
