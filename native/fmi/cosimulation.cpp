// See cosimulation.hpp.
#include "fmi/cosimulation.hpp"

#include <algorithm>

#include "fmi/entered.hpp"
#include "fmi/event_mode.hpp"
#include "fmi/fmi2.hpp"
#include "fmi/fmi3.hpp"
#include "fmi/memory.hpp"
#include "fmi/moving.hpp"
#include "fmi/states.hpp"
#include "fmi/steady.hpp"
#include "text.hpp"

namespace upbeat::fmi {

namespace {

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
class CoSimulation final : private Hot<F>, private Memory {
 public:
  explicit CoSimulation(const FmuTables& tables)
      : Memory(tables),
        fmu_(tables),
        states_(fmu_, static_cast<Memory&>(*this)),
        events_(fmu_, static_cast<Memory&>(*this), tables, tables.clock ? tables.clock : &own_clock_),
        moving_(fmu_, static_cast<Memory&>(*this), widest_of(tables)),
        start_(tables.start),
        slopes_(tables) {
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

  const char* message() const { return message_.c_str(); }

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

  // The status tells the host whether the FMU itself failed, so that its log may say more.
  int refused() {
    refuse(fmu_.why());
    return fmu_.status();
  }
  int refuse(const std::string& why) {
    message_ = "FmuError: " + why;
    return 1;
  }

  F fmu_;
  States<F, Memory> states_;
  EventMode<F> events_;
  MovingInputs<F> moving_;
  double start_;
  Slopes<F> slopes_;
  std::vector<int> rates_;  // the derivatives that somebody has asked for
  double own_clock_ = 0.0;
  std::vector<typename F::Real> reals_;
  std::vector<double> column_;
  std::string message_;
};

}  // namespace

upbeat_unit make_cosimulation(const FmuTables& tables) {
  const bool second = tables.version == 2;
  upbeat_unit unit = second ? entered<CoSimulation<Fmi2>>(tables, tables.event_mode)
                            : entered<CoSimulation<Fmi3>>(tables, tables.event_mode);
  unit.jump = second ? Calls<CoSimulation<Fmi2>>::jump : Calls<CoSimulation<Fmi3>>::jump;  // ends initialization mode
  return unit;
}

}  // namespace upbeat::fmi
