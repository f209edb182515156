// An FMU for co-simulation as a unit.
//
// It stays in initialization mode until the first jump, which a run asks for when values have been exchanged, or until
// time begins to pass. An FMU that asks for the end of the simulation shows its last values until the next step, which
// is refused.
//
// Inputs: a value is handed to the FMU as soon as it is set. Those that a clock guards wait until it ticks. A discrete one
// of an FMU with event mode that changes is an event of its own: the FMU enters event mode for it, and the unit is due
// at once. So is a tunable parameter, which the FMU alone remembers.
//
// Derivatives of outputs: FMI lets them be asked for after a step only, neither while the FMU is initialized nor in event
// mode. Those that were asked for are read at the end of every step and kept; until the first one, and after an
// event until the next one, they are unknown: NaN.
#include <algorithm>
#include <cmath>
#include <limits>
#include <new>
#include <string>
#include <vector>

#include "fmi/callbacks.hpp"
#include "fmi/fmi2.hpp"
#include "fmi/fmi3.hpp"
#include "fmi/memory.hpp"
#include "fmi/unit.hpp"
#include "fmi/units.hpp"
#include "text.hpp"

namespace upbeat::fmi {

constexpr double rounded = 0x1p-50;  // by how much a difference of times may be off, as a part of them

double nominal(double t, double to, double grid) {
  constexpr double small = 0x1p-20;
  const double length = to - t;
  const double slack = rounded * std::max(std::fabs(t), std::fabs(to));
  if (!(slack < small * std::min(grid, length))) return length;
  if (std::fabs(length - grid) <= slack) return grid;
  const double ratio = length / grid;
  const double count = std::nearbyint(ratio > 1.0 ? ratio : 1.0 / ratio);  // ties to even, as in Python
  const double found = ratio > 1.0 ? count * grid : grid / count;
  return std::fabs(length - found) <= slack ? found : length;
}

namespace {

// Watches that all steps are as long as the first, for FMUs that take only steps of one length.
//
// A shorter one may be the last of a run, so that it is an error only once another follows. Where the FMU itself stops,
// at an event of its own or because it returns early, the lengths around are its own doing.
class SteadySteps {
 public:
  // Steps with a length strictly between these need not be looked at; all of them if any length will do.
  double above = 0.0;
  double below = std::numeric_limits<double>::infinity();

  explicit SteadySteps(bool needed = false) : needed_(needed) { look_at_all(); }

  // A step is to be tried, which ends at an event of the FMU itself if it is its `own`. Empty, or what is wrong.
  std::string begin(double now, double until, bool own) {
    if (!needed_) return {};
    if (now >= odd_until_) return sentence(odd_from_, odd_until_);
    odd_from_ = odd_until_ = nan_;
    look_at_all();
    if (own || now == stopped_) return {};
    const double length = until - now;
    if (std::isnan(first_)) first_ = length;
    const double slack = 1e-9 * first_ + 1e-15 * std::max(std::fabs(now), std::fabs(until));
    if (length > first_ + slack) return sentence(now, until);
    if (length < first_ - slack) {  // which is well if it is the last one
      odd_from_ = now;
      odd_until_ = until;
    } else {
      above = first_ - 1e-9 * first_;
      below = first_ + 1e-9 * first_;
    }
    return {};
  }

  // The FMU ended a step by itself.
  void stopped(double at) {
    stopped_ = at;
    odd_from_ = odd_until_ = nan_;
    look_at_all();
  }

 private:
  static constexpr double nan_ = std::numeric_limits<double>::quiet_NaN();

  void look_at_all() {
    if (needed_) above = std::numeric_limits<double>::infinity();
  }
  std::string sentence(double now, double until) const {
    const std::string first = shorter(first_);
    return "the FMU takes only steps of one length (canHandleVariableCommunicationStepSize is false): the first was " +
           first + " long, the one from " + shorter(now) + " to " + shorter(until) + " is " + shorter(until - now) +
           ". Take a fixed step (--step " + first + ", pace=" + first +
           ") without what ends steps elsewhere (events of other units, error control, a negotiated coupling), or "
           "export the FMU with variable steps";
  }

  bool needed_;
  double first_ = nan_;
  double odd_from_ = nan_, odd_until_ = nan_;
  double stopped_ = nan_;
};

// What an input does from the time on at which it was set:
// [number of coefficients, origin, coefficients, each of all cells], somewhere in the cells of a unit.
struct Trajectory {
  const Cell* at;

  std::int64_t count() const { return at[0].i; }
  double origin() const { return at[1].r; }

  // The value at `t` of a trajectory with coefficients, by Horner's rule.
  void value(double t, std::int32_t width, double* to) const {
    const double tau = t - origin();
    for (std::int32_t i = 0; i < width; ++i) {
      const Cell* coefficient = at + 2 + (count() - 1) * width + i;
      double now = coefficient->r;
      for (std::int64_t k = 1; k < count(); ++k) {
        coefficient -= width;
        now = now * tau + coefficient->r;
      }
      to[i] = now;
    }
  }

  // The derivative of a single real input at `t`, by Horner's rule.
  double derivative(int order, double t) const {
    const double tau = t - origin();
    double value = 0.0;
    for (auto k = static_cast<int>(count()) - 1; k >= order; --k) {
      double factor = 1.0;  // k! / (k - order)!
      for (int i = 0; i < order; ++i) factor *= k - i;
      value = value * tau + factor * at[2 + k].r;
    }
    return value;
  }
};

// Inputs that move within a step, and how the FMU hears of it: in FMI 2 by derivatives before the step, in FMI 3 by values
// whenever the FMU calls back within it.
template <class F>
class MovingInputs final : private Follower {
 public:
  MovingInputs(F& fmu, Memory& memory, std::size_t widest) : fmu_(fmu), memory_(memory), column_(widest), cells_(widest) {}

  // Whether any input is more than a constant.
  bool any() const { return count_ > 0; }

  // The input does this from now on.
  bool keep(const Port& input, const Cell* coefficients, int count) {
    if (!fmu_.set(input, coefficients)) return false;
    count_ += static_cast<int>(count > 1) - static_cast<int>(trajectory(input).count() > 1);
    memory_.keep(input, coefficients, count > 1 ? count : 0);  // a constant is nothing to follow
    return true;
  }

  // The memory is another one now.
  void count_again() {
    count_ = 0;
    for (const std::int32_t number : inputs()) count_ += static_cast<int>(trajectory(memory_.port(number)).count() > 1);
  }

  // A step from `t` on, which `attempt` tries.
  template <class Attempt>
  bool within(double t, Attempt attempt) {
    if (count_ == 0) return attempt();
    if (F::version == 2) return tell(t) && attempt();
    const Follower::Within here(this);
    misled_ = false;
    return attempt() && !misled_;
  }

 private:
  const std::vector<std::int32_t>& inputs() const { return memory_.all(Port::Followed); }
  Trajectory trajectory(const Port& input) const { return {memory_.own(input)}; }

  // The values of inputs whose trajectories began earlier, and the derivatives of all.
  bool tell(double t) {
    static constexpr int orders[] = {1, 2, 3, 4, 5};
    static_assert(UPBEAT_MAX_DEGREE == 5, "one order for each coefficient but the first");
    for (const std::int32_t number : inputs()) {
      const Port& input = memory_.port(number);
      const Trajectory its = trajectory(input);
      if (its.count() < 2) continue;
      Cell value;
      its.value(t, 1, &value.r);
      if (t != its.origin() && !fmu_.set(input, &value)) return false;
      double slopes[UPBEAT_MAX_DEGREE];
      const auto count = static_cast<int>(its.count());
      for (int k = 1; k < count; ++k) slopes[k - 1] = its.derivative(k, t);
      if (!fmu_.give_slopes(input, orders, static_cast<std::size_t>(count - 1), slopes)) return false;
    }
    return true;
  }

  void look_in(double time) override {
    for (const std::int32_t number : inputs()) {
      const Port& input = memory_.port(number);
      if (trajectory(input).count() < 2 || misled_) continue;
      trajectory(input).value(time, input.cells, column_.data());
      for (std::size_t i = 0; i < column_.size(); ++i) cells_[i].r = column_[i];
      misled_ = !fmu_.set(input, cells_.data());
    }
  }

  F& fmu_;
  Memory& memory_;
  int count_ = 0;        // of those that are more than a constant
  bool misled_ = false;  // one could not be set within a step
  std::vector<double> column_;
  std::vector<Cell> cells_;
};

// Event mode: what leads into it, what a round of it does, and when the next is due.
template <class F>
class EventMode {
 public:
  // `clock` is where others look for the time.
  EventMode(F& fmu, Memory& memory, const FmuTables& tables, double* clock)
      : fmu_(fmu),
        memory_(memory),
        ticking_(fmu, memory, tables),
        exists_(tables.event_mode),
        clock_(clock) {}

  bool exists() const { return exists_; }

  // Of the events that the FMU, or one of its clocks, has planned.
  double next() { return std::min(memory_.next_event(), ticking_.due()); }
  double due() {
    if (fmu_.over()) return std::numeric_limits<double>::infinity();
    if (memory_.mode() == Memory::Initialization || waits() || ticking_.sending()) return memory_.now();
    return next();
  }
  bool happens() { return !fmu_.over() && (waits() || next() <= memory_.now()); }

  bool leave_initialization() {
    if (!fmu_.steps() || !fmu_.leave_initialization()) return false;
    memory_.mode() = exists_ ? Memory::Event : Memory::Stepping;
    memory_.pending() = exists_ ? 1 : 0;
    return !exists_ || ticking_.begin();
  }

  // A discrete input that changes is an event of its own.
  bool hear(const Port& given, const Cell* value) {
    Cell* const mine = memory_.own(given);
    const bool known = mine[0].i != 0 && std::equal(value, value + given.cells, mine + 1, [&](Cell a, Cell b) {
                         return given.kind() == Kind::Real ? a.r == b.r : a.i == b.i;
                       });
    if (memory_.mode() != Memory::Initialization) {
      if (known) return true;
      if (!enter()) return false;
      memory_.pending() = 1;
    }
    std::copy_n(value, given.cells, mine + 1);
    mine[0].i = 1;
    return fmu_.set(given, value);
  }

  // So is a parameter that is set.
  bool tune(const Port& given, const Cell* value) {
    if (exists_ && memory_.mode() != Memory::Initialization) {
      if (!enter()) return false;
      memory_.pending() = 1;
    }
    return fmu_.set(given, value);
  }

  // Into step mode, with everything done that is to be done at this time.
  bool leave() {
    if (exists_ && !settle()) return false;
    if (memory_.mode() == Memory::Event && !fmu_.over()) {
      if (!fmu_.enter_step_mode()) return false;
      memory_.mode() = Memory::Stepping;
    }
    sent();
    return true;
  }

  // Rounds until nothing is left to do at this time.
  bool settle() {
    for (int rounds = 0; rounds < most_rounds; ++rounds) {
      if (!happens()) return true;
      if (!round()) return false;
    }
    return fmu_.refuse("event iteration at t = " + shorter(memory_.now()) + " did not end within " +
                       std::to_string(most_rounds) + " rounds");
  }

  // One round: what ticks is told, clocked values are exchanged, discrete states renewed.
  bool round() {
    *clock_ = memory_.now();
    memory_.count() += 1;
    if (!enter()) return false;
    if (!ticking_.tick(memory_.now())) return false;
    Updated updated;
    if (!fmu_.update(updated)) return false;
    if (updated.terminate) fmu_.end(memory_.now());
    memory_.pending() = updated.again ? 1 : 0;
    memory_.next_event() = fmu_.next_event(memory_.now(), updated.next);
    return ticking_.look(memory_.now());
  }

  // What ticked has been seen by others.
  void sent() { ticking_.sent(); }

 private:
  static constexpr int most_rounds = 1000;  // of event iteration at one instant

  // Whether something is to be done that is not a matter of time.
  bool waits() { return exists_ && (memory_.pending() != 0 || ticking_.heard()); }

  bool enter() {
    if (memory_.mode() == Memory::Event) return true;
    if (!fmu_.enter_event_mode()) return false;
    memory_.mode() = Memory::Event;
    memory_.forget_rates();
    return true;
  }

  F& fmu_;
  Memory& memory_;
  Ticking<F> ticking_;
  bool exists_;
  double* clock_;
};

constexpr int most_pieces = 1000;  // that a step falls into
constexpr double near_enough = 1e-9;  // a step that ends this near to where it should, by its length, has got there

// What the innermost loop touches, together and first.
template <class F>
struct Hot {
  void* instance = nullptr;
  const typename F::Real* reals = nullptr;  // by port; without functions where a port is something else
  double* now = nullptr;
  double* clock = nullptr;  // where others look for the time
  bool ready = false;       // the next step is nothing but a step
  bool no_prior = true;     // no state is kept
  double grid = 0.0;        // the usual length of steps
  SteadySteps steady;
};

template <class F>
class CoSimulation final : public Face, private Hot<F>, private Memory {
 public:
  CoSimulation(const FmuTables& tables, std::shared_ptr<F> fmu)
      : Memory(tables),
        held_(std::move(fmu)),
        fmu_(*held_),
        states_(fmu_, static_cast<Memory&>(*this)),
        events_(fmu_, static_cast<Memory&>(*this), tables, tables.clock ? tables.clock : &own_clock_),
        moving_(fmu_, static_cast<Memory&>(*this), widest_of(tables)),
        start_(tables.start),
        slopes_(tables) {
    fmu_.reserve(widest_of(tables));
    hot().instance = fmu_.instance();
    hot().steady = SteadySteps(tables.steady);
    hot().now = &now();
    hot().clock = tables.clock ? tables.clock : &own_clock_;
    *hot().clock = tables.start;
    hot().grid = tables.grid;
    look_up_reals();
    column_.resize(widest_of(tables));
  }

  ~CoSimulation() {
    if (left_) return;
    if (!fmu_.failed() && !fmu_.fatal() && mode() != Initialization) fmu_.terminate();
    states_.drop_all();
    if (!fmu_.fatal()) fmu_.free();
  }

  int get(int number, Cell* to) {
    const typename F::Real& real = hot().reals[number];
    if (real.get_ && !fmu_.fatal()) {
      const int status = fmu_.get(real, hot().instance, &to->r);
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
    if (real.set_ && !fmu_.fatal()) {
      const int status = fmu_.set(real, hot().instance, &coefficients->r);
      return status == 0 ? 0 : was_set(status);
    }
    return set_other(number, coefficients, count);
  }
  UPBEAT_APART int set_other(int number, const Cell* coefficients, int count) {
    const Port& given = port(number);
    if (fmu_.over()) return 0;
    if (given.tunable) return events_.tune(given, coefficients) ? 0 : refused();
    if (given.role == Port::Plain) return fmu_.set(given, coefficients) ? 0 : refused();
    return take(given, coefficients, count) ? 0 : refused();
  }

  int advance(double t, double to, int early, double* reached) {
    // First the usual case, a step that simply gets there.
    const double length = to - t;
    if (hot().ready && length > hot().steady.above && length < hot().steady.below && !fmu_.fatal()) {
      Stepped ended;
      ended.reached = to;
      *hot().clock = t;
      const int status = fmu_.attempt(t, nominal(t, to, hot().grid), hot().no_prior, ended);
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
    if (fmu_.over() && !fmu_.refuse_to_go_on()) return refused();
    for (int pieces = 0; pieces < most_pieces; ++pieces) {
      if (!make_ready()) return refused();
      if (fmu_.over()) now() = to;
      if (now() >= to) break;
      if (!step(std::min(to, events_.next()))) return refused();
      if (now() >= to || (early && now() > t)) break;
      if (pieces == most_pieces - 1) return refuse(shattered(t, to));
    }
    *reached = now();
    return 0;
  }

  int due(double* time) {
    *time = events_.due();
    return 0;
  }

  // One round of event mode, if there is something to do; what ticked is sent by the next jump. The first one ends
  // initialization mode, without event mode as well.
  int jump(int* again) {
    *again = 0;
    if (mode() == Initialization) {
      if (!events_.leave_initialization() || !events_.settle()) return refused();
      if (!events_.exists()) return 0;
    } else if (!events_.exists() || fmu_.over()) {
      return 0;
    } else {
      events_.sent();
      if (events_.happens() && !events_.round()) return refused();
    }
    *again = events_.due() <= now();
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
    if (fmu_.over()) {
      fmu_.go_on();
      look_up_reals();
    }
    moving_.count_again();
    prepare();
    return 0;
  }
  int pack(int slot, void* to, std::uint64_t* size) { return states_.pack(slot, to, size) ? 0 : refused(); }
  int unpack(int slot, const void* from, std::uint64_t size) {
    hot().no_prior = false;
    if (states_.unpack(slot, from, size)) return 0;
    message_ = fmu_.why();
    return 1;
  }

  // The FMU is reset and initialized as it was at first, and the unit made again around it, in its place.
  int reset(double start, const double* values) {
    states_.drop_all();
    if (!fmu_.reset()) return refused();
    FmuTables& tables = *again_;
    for (Given& one : tables.given) {
      for (Cell& cell : one.cells) {
        if (values) cell = from_double(*values++, one.variable.kind());
      }
    }
    tables.start = tables.experiment.start = start;
    if (!fmu_.setup(tables.experiment)) return refused();
    for (const Given& one : tables.given) {
      if (!fmu_.set(one.variable, one.cells.data())) return refused();
    }
    if (!fmu_.enter_initialization(tables.experiment)) return refused();
    Strings* const pool = pool_;
    std::shared_ptr<F> fmu = held_;
    std::shared_ptr<FmuTables> again = again_;
    left_ = true;
    CoSimulation* const place = this;
    this->~CoSimulation();
    CoSimulation* const made = new (place) CoSimulation(*again, std::move(fmu));
    made->again_ = std::move(again);
    if (pool) made->use(*pool);
    return 0;
  }
  void can_reset(const FmuTables& tables) { again_ = std::make_shared<FmuTables>(tables); }

  const char* message() const { return message_.c_str(); }

  void use(Strings& strings) override {
    pool_ = &strings;
    fmu_.use(strings);
    states_.use(strings);
    Memory::use(strings);
  }
  double time() const override { return *Hot<F>::now; }
  void take_any_length() override { hot().steady = SteadySteps(); }

  // The status tells the host whether the FMU itself failed, so that its log may say more.
  int refused() override {
    refuse(fmu_.why());
    return fmu_.status();
  }

 private:
  Hot<F>& hot() { return *this; }
  UPBEAT_APART int got(int status) { return fmu_.got(status) ? 0 : refused(); }
  UPBEAT_APART int was_set(int status) { return fmu_.was_set(status) ? 0 : refused(); }

  // -- inputs ------------------------------------------------------------------------------------

  bool take(const Port& given, const Cell* coefficients, int count) {
    switch (given.role) {
      case Port::Heard: own(given)->i = 1; return true;
      case Port::Discrete: return events_.hear(given, coefficients);
      case Port::Clocked: Memory::keep(given, coefficients, 1); return true;
      default:
        if (!moving_.keep(given, coefficients, count)) return false;
        prepare();
        return true;
    }
  }
  // The functions for plain reals; none sets one once the FMU has asked for the end.
  void look_up_reals() {
    reals_.clear();
    for (const Port& port : ports()) {
      const bool plain = port.role == Port::Plain && !port.tunable && port.type == Type::Float64 && port.cells == 1;
      reals_.push_back(plain ? fmu_.real(port) : typename F::Real());
      if (fmu_.over()) reals_.back().set_ = nullptr;
    }
    hot().reals = reals_.data();
  }
  void prepare() { hot().ready = !fmu_.over() && mode() == Stepping && !events_.exists() && !moving_.any() && rates_.empty(); }

  // -- time --------------------------------------------------------------------------------------

  // Into step mode, with everything done that is to be done at this time.
  bool make_ready() {
    if (mode() == Initialization && !events_.leave_initialization()) return false;
    if (!events_.leave()) return false;
    prepare();
    return true;
  }

  bool step(double until) {
    const double from = now();
    const std::string uneven = hot().steady.begin(from, until, until >= events_.next());
    if (!uneven.empty()) return fmu_.refuse(uneven);
    Stepped ended;
    ended.reached = until;
    *hot().clock = from;
    return moving_.within(from, [&] { return attempt(from, until, ended); }) && arrived(from, until, ended);
  }

  bool attempt(double from, double until, Stepped& ended) {
    if (fmu_.fatal()) return fmu_.lost(F::step);
    const double length = nominal(from, until, hot().grid);
    return fmu_.conclude(fmu_.attempt(from, length, hot().no_prior, ended), from, ended);
  }

  bool arrived(double from, double until, const Stepped& ended) {
    const double slack = near_enough * (until - from) + rounded * std::fabs(until);
    if (ended.terminate) {  // it stays where it is, whatever the time
      fmu_.end(ended.reached);
      look_up_reals();
      prepare();
      if (ended.reached <= from + slack) return fmu_.refuse_to_go_on();  // not one step more
      now() = until;
      return true;
    }
    const bool there = std::fabs(until - ended.reached) <= slack;
    const double reached = there ? until : ended.reached;
    if (!(from <= reached && reached <= until)) {
      return fmu_.refuse("a step from " + shorter(from) + " to " + shorter(until) + " ended at " + shorter(ended.reached));
    }
    pending() = events_.exists() && ended.event ? 1 : 0;
    if (reached == from && pending() == 0) return fmu_.refuse_as_fmu(stuck(from, until));
    now() = reached;
    if (reached < until && pending() == 0) count() += 1;  // else a round of event mode counts
    if (reached < until || pending() != 0 || reached >= events_.next()) hot().steady.stopped(reached);
    return std::all_of(rates_.begin(), rates_.end(), [this](int rate) { return look_at(port(rate)); });
  }

  // -- derivatives of outputs: read at the end of every step, as soon as they were asked for ----------------

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

  // -- words -------------------------------------------------------------------------------------

  static std::string stuck(double from, double until) {
    return "the FMU refused the step from " + shorter(from) + " to " + shorter(until) +
           " and did not move at all (try a smaller step: --step, or pace=…; or let units stop early: "
           "coupling = \"negotiated\")";
  }
  std::string shattered(double t, double to) {
    return "the step from " + shorter(t) + " to " + shorter(to) + " fell into more than " + std::to_string(most_pieces) +
           " pieces: the FMU stops again and again, last at " + shorter(now()) + ". Take a smaller step (--step)";
  }

  int refuse(const std::string& why) {
    message_ = "FmuError: " + why;
    return 1;
  }

  std::shared_ptr<F> held_;
  F& fmu_;
  States<F, Memory> states_;
  EventMode<F> events_;
  MovingInputs<F> moving_;
  double start_;
  Slopes<F> slopes_;
  std::vector<int> rates_;  // the derivatives that were asked for
  double own_clock_ = 0.0;
  std::vector<typename F::Real> reals_;
  std::vector<double> column_;
  std::string message_;
  std::shared_ptr<FmuTables> again_;  // what it begins again with, if it can
  Strings* pool_ = nullptr;
  bool left_ = false;  // whether the FMU belongs to another unit by now
};

template <class F>
Entered made(const FmuTables& tables, std::shared_ptr<F> fmu) {
  if (!fmu) fmu = std::make_shared<F>(tables);
  auto unit_made = std::make_unique<CoSimulation<F>>(tables, std::move(fmu));
  if (tables.resets) unit_made->can_reset(tables);
  Entered unit = entered(std::move(unit_made), tables, tables.event_mode);
  unit.table.jump = Calls<CoSimulation<F>>::jump;  // ends initialization mode
  if (tables.resets) unit.table.reset = Calls<CoSimulation<F>>::reset;
  return unit;
}

}  // namespace

Entered make_cosimulation(const FmuTables& tables, const AnyFmu& fmu) {
  if (tables.version == 2) return made(tables, std::get<std::shared_ptr<Fmi2>>(fmu));
  const auto* const third = std::get_if<std::shared_ptr<Fmi3>>(&fmu);
  return made(tables, third ? *third : nullptr);
}

}  // namespace upbeat::fmi
