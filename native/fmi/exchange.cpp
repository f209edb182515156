// See exchange.hpp.
#include "fmi/exchange.hpp"

#include <algorithm>

#include "fmi/entered.hpp"
#include "fmi/exchange_inputs.hpp"
#include "fmi/exchange_memory.hpp"
#include "fmi/fmi2.hpp"
#include "fmi/fmi3.hpp"
#include "fmi/shown.hpp"
#include "fmi/states.hpp"
#include "text.hpp"

namespace upbeat::fmi {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr int most_rounds = 1000;  // of event iteration at one instant, and events within a millionth of a step

// Thrown through the solver when the FMU has refused something it was asked for; `Caller::why` says what.
struct Refused {};

template <class F>
class Exchange final : private Dynamics, private Watch {
 public:
  explicit Exchange(const ExchangeTables& tables)
      : Watch(tables.indicators, tables.states),
        fmu_(tables),
        own_(tables),
        states_(fmu_, own_),
        solver_(tables.solver, tables.states),
        adaptive_(tables.solver.method == Method::Adaptive),
        completes_(tables.completes),
        final_(!tables.saves),
        nominals_(tables.states),
        inputs_(fmu_, own_, tables),
        slopes_(tables),
        shown_(fmu_, tables),
        counted_(tables.counted),
        clock_(tables.clock ? tables.clock : &own_clock_) {
    *clock_ = tables.start;
  }

  ~Exchange() {
    if (!fmu_.failed() && !fmu_.fatal() && !refused_ && own_.mode != ExchangeMemory::Initial) fmu_.terminate();
    states_.drop_all();
    if (!fmu_.fatal()) fmu_.free();
  }

  int get(int number, Cell* to) {
    if (number == counted_) {
      to->i = own_.count;
      return 0;
    }
    const bool got = shown_.has(number) ? shown_.get(number, to) : fmu_.get(port(number), to);
    return got ? 0 : refused();
  }

  int set(int number, const Cell* coefficients, int count) {
    shown_.forget();
    if (fmu_.over()) return 0;
    const Input& given = port(number);
    if (given.tunable) {  // may change in event mode only
      if (own_.mode == ExchangeMemory::Continuous && !enter_event_mode()) return refused();
      own_.pending = true;
      return fmu_.set(given, coefficients) ? 0 : refused();
    }
    const bool changed = inputs_.change(given, coefficients, count);
    if (own_.mode == ExchangeMemory::Continuous && !given.discrete) {
      touched_ = true;
    } else if (own_.mode != ExchangeMemory::Initial) {
      if (!changed) return 0;
      if (own_.mode == ExchangeMemory::Continuous && !enter_event_mode()) return refused();
      own_.pending = true;
    }
    return fmu_.set(given, coefficients) ? 0 : refused();
  }

  int advance(double t, double to, int early, double* reached) {
    if (!(to >= t)) return unsolved("cannot advance backwards, from " + shorter(t) + " to " + shorter(to));
    if (to == t) return 0;
    if (fmu_.over() && !fmu_.refuse_to_go_on()) return refused();
    own_.now = t;
    shown_.forget();
    try {
      return through(t, to, early != 0, reached);
    } catch (const Refused&) {
      return refused();
    }
  }

  const Effort& effort() const { return solver_.effort(); }

  int due(double* time) {
    *time = fmu_.over() ? infinity : own_.pending ? own_.now : own_.next;
    return 0;
  }

  int jump(int* again) {
    if (!own_.pending || fmu_.over()) return 0;
    shown_.forget();
    if (!round()) return refused();
    *again = own_.pending ? 1 : 0;
    return 0;
  }

  int slope(int output, int input, Cell* to) {
    return slopes_.find(fmu_, port(output), port(input), to) ? 0 : refused();
  }

  int save(int slot) {
    std::copy_n(Watch::values(), own_.z.size(), own_.z.begin());
    return states_.save(slot) ? 0 : refused();
  }
  int restore(int slot) {
    shown_.forget();
    if (!states_.restore(slot)) return refused();
    fmu_.go_on();
    std::copy(own_.z.begin(), own_.z.end(), Watch::values());
    touched_ = true;  // it may have been: looking once more changes nothing
    scaled_ = false;
    return own_.mode != ExchangeMemory::Continuous || own_.x.empty() || scale() ? 0 : refused();
  }
  int pack(int slot, void* to, std::uint64_t* size) { return states_.pack(slot, to, size) ? 0 : refused(); }
  int unpack(int slot, const void* from, std::uint64_t size) {
    if (states_.unpack(slot, from, size)) return 0;
    message_ = fmu_.why();
    return 1;
  }

  const char* message() const { return message_.c_str(); }

 private:
  const Input& port(int number) const { return inputs_.port(number); }

  // -- what the solver asks ------------------------------------------------------------------------

  // Brings the FMU to a time and a state, with what the inputs are there.
  bool place(double t, const double* x) {
    *clock_ = t;
    if (!fmu_.set_time(t)) return false;
    if (!own_.x.empty() && !fmu_.set_states(x, own_.x.size())) return false;
    return inputs_.follow(t);
  }

  void derivatives(double t, const double* x, double* out) override {
    if (place(t, x) && fmu_.get_derivatives(out, own_.x.size())) return;
    if (!adaptive_ || !fmu_.discarded()) throw Refused();
    // A solver that chooses its steps takes it as: not so far.
    std::fill_n(out, own_.x.size(), std::numeric_limits<double>::quiet_NaN());
  }

  void indicators(double t, const double* x, double* to) override {
    if (!place(t, x) || !fmu_.get_indicators(to, own_.z.size())) throw Refused();
  }

  bool accepted(double t, const double* x) override {
    if (!completes_) return false;
    bool event = false;
    bool end = false;
    if (!place(t, x) || !fmu_.completed(final_, &event, &end)) throw Refused();
    if (end) fmu_.end(t);
    return event || end;
  }

  // -- time --------------------------------------------------------------------------------------

  int through(double t, double to, bool early, double* reached) {
    if (!settle()) return refused();
    if (touched_ && !meet_inputs()) return refused();
    const double crowd = 1e-6 * (to - t);
    double since = t;
    for (int events = 0;;) {
      if (fmu_.over()) {  // it stays where it is, whatever the time
        own_.now = to;
        own_.pending = false;
        *reached = to;
        return 0;
      }
      const double until = smaller(to, own_.next);
      if (until > own_.now) {
        if (!solver_.advance(*this, own_.now, until, own_.x.data(), own_.h, this)) return unsolved(solver_.message());
        own_.now = Watch::time();
        own_.pending = Watch::stopped();
        if (!place(own_.now, own_.x.data())) return refused();
        if (fmu_.over()) continue;
      }
      own_.pending = own_.pending || own_.now >= own_.next;
      if (own_.now >= to || (early && own_.pending)) {
        *reached = own_.now;
        return 0;
      }
      if (own_.now - since > crowd) {
        events = 0;
        since = own_.now;
      }
      if (++events > most_rounds) {
        return unsolved("1,000 events in a row hardly let time go on at t = " + shorter(own_.now) +
                        "; a model that switches faster and faster needs a rule by which it comes to rest");
      }
      if (!settle()) return refused();
    }
  }

  // Inputs may have jumped: what has crossed by that is an event now.
  bool meet_inputs() {
    touched_ = false;
    if (own_.z.empty()) return true;
    double* const before = Watch::values();
    if (!fmu_.get_indicators(own_.z.data(), own_.z.size())) return false;
    for (std::size_t i = 0; i < own_.z.size(); ++i) {
      own_.pending = own_.pending || (before[i] > 0.0) != (own_.z[i] > 0.0);
      before[i] = own_.z[i];
    }
    return settle();
  }

  // -- events ------------------------------------------------------------------------------------

  bool enter_event_mode() {
    if (!fmu_.enter_event_mode()) return false;
    own_.mode = ExchangeMemory::Event;
    return true;
  }

  // One round of event iteration.
  bool round() {
    *clock_ = own_.now;
    ++own_.count;
    if (own_.mode == ExchangeMemory::Initial) {
      if (!fmu_.leave_initialization()) return false;
      own_.mode = ExchangeMemory::Event;
    } else if (own_.mode == ExchangeMemory::Continuous && !enter_event_mode()) {
      return false;
    }
    Updated updated;
    if (!fmu_.update(updated)) return false;
    if (updated.terminate) {
      fmu_.end(own_.now);
      own_.pending = false;
      return true;
    }
    scaled_ = scaled_ && !updated.nominals_changed;
    own_.next = fmu_.next_event(own_.now, updated.next);
    own_.pending = updated.again || own_.next <= own_.now;
    return true;
  }

  // Goes through what is due now, and on to continuous time.
  bool settle() {
    for (int rounds = 0; own_.pending; ++rounds) {
      if (rounds == most_rounds) {
        return fmu_.refuse("event iteration at t = " + shorter(own_.now) + " did not come to an end in 1,000 rounds");
      }
      if (!round()) return false;
    }
    if (own_.mode == ExchangeMemory::Continuous || fmu_.over()) return true;
    if (!fmu_.enter_continuous_time_mode()) return false;
    own_.mode = ExchangeMemory::Continuous;
    touched_ = false;
    // Another motion begins; with one long step a ball would leave the ground and be below it again.
    own_.h = 0.0;
    if (!own_.x.empty()) {
      if (!fmu_.get_states(own_.x.data(), own_.x.size())) return false;
      if (!scaled_ && !scale()) return false;
    }
    return own_.z.empty() || fmu_.get_indicators(Watch::values(), own_.z.size());
  }

  bool scale() {
    scaled_ = true;
    if (!adaptive_) return true;
    if (!fmu_.get_nominals(nominals_.data(), nominals_.size())) return false;
    for (double& nominal : nominals_) {
      if (!(0.0 < nominal && nominal < infinity)) nominal = 1.0;
    }
    solver_.scale(nominals_.data());
    return true;
  }

  int refused() {
    refused_ = refused_ || !fmu_.over();
    message_ = "FmuError: " + fmu_.why();
    return fmu_.status();
  }
  int unsolved(const std::string& why) {
    message_ = "SolverError: " + why;
    return 1;
  }

  F fmu_;
  ExchangeMemory own_;
  States<F, ExchangeMemory> states_;
  Solver solver_;
  bool adaptive_;
  bool completes_;
  bool final_;             // whether no state before a completed step can come back
  bool scaled_ = false;    // whether the solver knows how large the states usually are
  bool touched_ = false;   // whether inputs may have jumped since the indicators were looked at
  bool refused_ = false;
  std::vector<double> nominals_;
  ExchangeInputs<F> inputs_;
  Slopes<F> slopes_;
  ShownIndicators<F> shown_;
  std::int32_t counted_;  // the port that counts the rounds of event iteration
  double own_clock_ = 0.0;
  double* clock_;  // where others look for the time of the instance
  std::string message_;
};

}  // namespace

upbeat_unit make_exchange(const ExchangeTables& tables) {
  const bool second = tables.version == 2;
  upbeat_unit table = second ? entered<Exchange<Fmi2>>(tables, true) : entered<Exchange<Fmi3>>(tables, true);
  if (tables.states == 0) return table;
  second ? Calls<Exchange<Fmi2>>::works(table) : Calls<Exchange<Fmi3>>::works(table);
  return table;
}

}  // namespace upbeat::fmi
