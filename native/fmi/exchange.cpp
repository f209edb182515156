// An FMU for model exchange as a unit: one of our solvers integrates it and locates its events.
//
// It stays in initialization mode until the first jump (`due` asks for one at the start) or until time begins to pass. A
// root of an indicator, a wish of the FMU after a completed step and the time of the next event end a step: with `early`
// the unit returns there and asks for a jump, otherwise it goes through the event itself and on. An input that changes
// in event mode asks for another round, and one that may change only there leads to it. What crosses because an input
// has jumped in continuous time is an event at the start of the next step.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "trajectories.hpp"
#include "fmi/fmi2.hpp"
#include "fmi/fmi3.hpp"
#include "fmi/memory.hpp"
#include "fmi/unit.hpp"
#include "fmi/units.hpp"
#include "text.hpp"

namespace upbeat::fmi {

namespace {

// Whether a port is a clock, or a variable that clocks guard.
bool guarded(const PortTables& port) { return !port.tunable && (port.event || !port.clocks.empty()); }
bool is_input(const PortTables& port) { return port.input && !guarded(port); }

std::vector<upbeat::PortTables> real_inputs(const ExchangeTables& tables) {
  std::vector<upbeat::PortTables> found;
  for (const PortTables& port : tables.ports) {
    if (is_input(port) && port.kind() == Kind::Real) found.push_back({port.cells, Kind::Real, port.port});
  }
  return found;
}

// The part of the tables that clocks are about.
FmuTables guarded_part(const FmuTables& tables) {
  FmuTables part;
  part.start = tables.start;
  part.clocks = tables.clocks;
  part.event_mode = true;
  for (const PortTables& port : tables.ports) {
    if (guarded(port)) part.ports.push_back(port);
  }
  return part;
}

// What a unit remembers besides what the FMU does.
//
// As bytes, everything little-endian. A word has eight bytes: a double, or an integer where it is said and for the
// cells of integers and booleans; a text is a chunk (its length in bytes as a word, then UTF-8).
//
//   time · mode (integer: 0 initialization, 1 event, 2 continuous) · whether an event waits (integer: 0, 1)
//   rounds of event iteration so far (integer)
//   next event time · the step that the solver will try next (0: none is known)
//   the continuous states · the event indicators as they were last seen
//   of each real input: origin · number of coefficients · all that there may be, unused ones zero
//   of each other input: its cells
//   of an FMU with clocks: what memory.hpp says of them
//
// The FMU's own bytes follow, as a chunk.
class ExchangeMemory {
 public:
  enum Mode : std::int64_t { Initial = 0, Event = 1, Continuous = 2 };

  explicit ExchangeMemory(const ExchangeTables& tables)
      : now(tables.start),
        x(tables.states),
        z(tables.indicators),
        trajectories(real_inputs(tables), tables.input_start, tables.start),
        values(tables.input_start),
        guards(guarded_part(tables)),
        clocks_(!guarded_part(tables).ports.empty() || !tables.clocks.empty()),
        texts_(tables.texts) {
    for (const std::int64_t start : tables.held_start) held.push_back(integer(start));
    for (const PortTables& port : tables.ports) {
      if (!is_input(port) || port.kind() == Kind::Real) continue;
      held_kinds_.insert(held_kinds_.end(), static_cast<std::size_t>(port.cells), port.kind());
    }
    row_.resize(size());
  }
  ExchangeMemory(const ExchangeMemory&) = delete;
  ExchangeMemory& operator=(const ExchangeMemory&) = delete;

  double now = 0.0;
  Mode mode = Initial;
  bool pending = true;
  std::int64_t count = 0;  // rounds of event iteration so far
  double next = std::numeric_limits<double>::infinity();
  double h = 0.0;
  std::vector<double> x;
  std::vector<double> z;  // of the watch, as far as they are to be kept
  InputTrajectories trajectories;
  std::vector<double> values;  // of the real inputs
  std::vector<Cell> held;      // of the others
  Memory guards;               // of clocks, and of what they guard

  // The pool that texts are numbers of.
  void use(Strings& strings) {
    for (std::size_t i = 0; i < held.size(); ++i) {
      if (held_kinds_[i] != Kind::String) continue;
      if (strings_) {
        fmi::translate(&held[i], 1, strings_, strings);
      } else {
        held[i].i = strings.intern(texts_.at(static_cast<std::size_t>(held[i].i)));
      }
    }
    guards.use(strings);
    strings_ = &strings;
  }
  const Strings* strings() const { return strings_; }
  void translate(Cell* cells, const Strings* from, Strings& to) const {
    for (std::size_t i = 0; i < held.size(); ++i) {
      if (held_kinds_[i] == Kind::String) fmi::translate(cells + first_held() + i, 1, from, to);
    }
    guards.translate(cells + first_held() + held.size(), from, to);
  }

  // All of that in a row, and back.
  const std::vector<Cell>& cells() {
    row_[0].r = now;
    row_[1].i = mode;
    row_[2].i = pending ? 1 : 0;
    row_[3].i = count;
    row_[4].r = next;
    row_[5].r = h;
    auto to = row_.begin() + first_state;
    const std::vector<double>* const all[] = {&x, &z, &trajectories.state()};
    for (const std::vector<double>* numbers : all) to = std::transform(numbers->begin(), numbers->end(), to, real);
    to = std::copy(held.begin(), held.end(), to);
    std::copy(guards.cells().begin(), guards.cells().end(), to);
    return row_;
  }
  void restore(const std::vector<Cell>& cells) {
    now = cells[0].r;
    mode = static_cast<Mode>(cells[1].i);
    pending = cells[2].i != 0;
    count = cells[3].i;
    next = cells[4].r;
    h = cells[5].r;
    const Cell* from = cells.data() + first_state;
    for (auto* const numbers : {&x, &z}) {
      for (double& number : *numbers) number = (from++)->r;
    }
    std::vector<double> kept(trajectories.state().size());
    for (double& number : kept) number = (from++)->r;
    trajectories.restore(kept.data(), now, values.data());
    std::copy_n(from, held.size(), held.begin());
    from += held.size();
    guards.restore(std::vector<Cell>(from, from + guards.cells().size()));
  }

  void write(const std::vector<Cell>& cells, Bytes& to) const {
    const std::size_t first = first_held();
    append_cells(to, Kind::Real, cells.data(), first, strings_);
    for (std::size_t i = 0; i < held.size(); ++i) append_cells(to, held_kinds_[i], &cells[first + i], 1, strings_);
    const auto rest = cells.begin() + static_cast<std::ptrdiff_t>(first + held.size());
    if (clocks_) guards.write(std::vector<Cell>(rest, cells.end()), to);
  }
  // Why these bytes are no state of this unit, or an empty text.
  std::string read(Reader& from, std::vector<Cell>& cells) const {
    cells.assign(size(), integer(0));
    const std::size_t first = first_held();
    take_cells(from, Kind::Real, cells.data(), first, strings_);
    for (std::size_t i = 0; i < held.size(); ++i) take_cells(from, held_kinds_[i], &cells[first + i], 1, strings_);
    if (!from.sound()) return "they end too early";
    if (cells[1].i < Initial || cells[1].i > Continuous || cells[2].i < 0 || cells[2].i > 1) {
      return "there is no mode " + std::to_string(cells[1].i);
    }
    std::vector<double> kept;
    const std::size_t trajectory = first_state + x.size() + z.size();
    for (std::size_t i = 0; i < trajectories.state().size(); ++i) kept.push_back(cells[trajectory + i].r);
    for (const double count : trajectories.impossible(kept.data())) return "an input with " + shortest(count) + " coefficients";
    std::vector<Cell> ticks = guards.cells();
    const std::string problem = clocks_ ? guards.read(from, ticks) : "";
    std::copy(ticks.begin(), ticks.end(), cells.begin() + static_cast<std::ptrdiff_t>(first + held.size()));
    return problem;
  }

 private:
  static constexpr std::size_t first_state = 6;

  std::size_t first_held() const { return first_state + x.size() + z.size() + trajectories.state().size(); }
  std::size_t size() const { return first_held() + held.size() + guards.cells().size(); }

  bool clocks_;
  std::vector<std::string> texts_;  // at the start
  std::vector<Kind> held_kinds_;
  Strings* strings_ = nullptr;
  std::vector<Cell> row_;
};

// One port. Of outputs only the variable counts. Real inputs have a trajectory, all others hold their cells.
struct Input : Variable {
  bool discrete = false;
  bool real = true;
  bool guarded = false;    // by a clock, or a clock itself
  std::size_t number = 0;  // of its trajectory, if it is real
  std::size_t first = 0;   // of its cells among those of all real inputs, or of all others
};

template <class F>
class ExchangeInputs {
 public:
  ExchangeInputs(F& fmu, ExchangeMemory& memory, const ExchangeTables& tables)
      : fmu_(fmu), memory_(memory), before_(widest_of(tables)), cells_(widest_of(tables)) {
    std::size_t real_cells = 0;
    std::size_t other_cells = 0;
    for (const PortTables& port : tables.ports) {
      const auto number = static_cast<std::size_t>(port.port);
      if (number >= ports_.size()) ports_.resize(number + 1);
      Input& mine = ports_[number];
      static_cast<Variable&>(mine) = port;
      mine.guarded = fmi::guarded(port);
      if (!is_input(port)) continue;
      mine.real = port.kind() == Kind::Real;
      mine.discrete = port.discrete || !mine.real;
      std::size_t& cell = mine.real ? real_cells : other_cells;
      mine.first = cell;
      cell += static_cast<std::size_t>(port.cells);
      if (!mine.real) continue;
      mine.number = reals_.size();
      reals_.push_back(number);
    }
  }

  // The engine asks for ports of the model only, whose numbers it has checked.
  const Input& port(int number) const { return ports_[static_cast<std::size_t>(number)]; }

  // Keeps what an input does from now on; whether it has another value now. A discrete one takes the first
  // coefficient alone.
  bool change(const Input& given, const Cell* coefficients, int count) {
    if (!given.real) return change_cells(given, coefficients);
    const double* const value = memory_.values.data() + given.first;
    std::copy_n(value, given.cells, before_.begin());
    memory_.trajectories.set(given.number, memory_.now, coefficients, given.discrete ? 1 : count, memory_.values.data());
    return !std::equal(value, value + given.cells, before_.begin());
  }

  // Gives the FMU the values at `t` of all that move.
  bool follow(double t) {
    if (!memory_.trajectories.moving()) return true;
    memory_.trajectories.follow(t, memory_.values.data());
    for (const std::size_t number : reals_) {
      const Input& input = ports_[number];
      if (!memory_.trajectories.moves(input.number)) continue;
      const double* const from = memory_.values.data() + input.first;
      std::transform(from, from + input.cells, cells_.data(), real);
      if (!fmu_.set(input, cells_.data())) return false;
    }
    return true;
  }

 private:
  bool change_cells(const Input& given, const Cell* cells) {
    Cell* const mine = memory_.held.data() + given.first;
    const bool same = std::equal(cells, cells + given.cells, mine, [](Cell a, Cell b) { return a.i == b.i; });
    std::copy_n(cells, given.cells, mine);
    return !same;
  }

  F& fmu_;
  ExchangeMemory& memory_;
  std::vector<Input> ports_;        // by number
  std::vector<std::size_t> reals_;  // the numbers of the real inputs
  std::vector<double> before_;
  std::vector<Cell> cells_;
};

// The event indicators as ports that others read, in the order that ExchangeTables says.
//
// FMI has no derivatives of indicators over time. They are differences: of what the indicators would be a little later,
// where the states are continued by their own derivatives and the inputs by their trajectories. Later, not sooner: an
// FMU need not go back behind the last completed step.
class ShownIndicators {
 public:
  explicit ShownIndicators(const ExchangeTables& tables)
      : first_(tables.shown), ahead_(ahead * tables.grid), x_(tables.states), f_(tables.states), later_(tables.states) {
    for (std::vector<double>& each : z_) each.resize(tables.indicators);
  }

  bool has(int port) const { return first_ >= 0 && port >= first_; }

  // The unit is not what it was at the last look.
  void forget() { current_ = followed_ = false; }

  // How often an indicator that a port shows is differentiated.
  std::size_t order(int port) const { return static_cast<std::size_t>(port - first_) / (2 * z_[0].size()); }

  // The FMU gives all indicators at once, so it is asked once for all of them, as long as nothing moves.
  template <class F>
  bool look(F& fmu) {
    current_ = current_ || fmu.get_indicators(z_[0].data(), z_[0].size());
    return current_;
  }

  // What the indicators will be at two times after `t`, which is now; the system is where it was afterwards. If it cannot
  // be there (`discarded`), they stay what they are.
  template <class F>
  bool look_ahead(F& fmu, System& at, double t, const double* x) {
    if (followed_) return true;
    if (!later(at, t, x)) {
      if (!fmu.discarded()) return false;
      z_[1] = z_[2] = z_[0];
    }
    if (!at.place(t, x)) return false;
    current_ = followed_ = true;
    return true;
  }

  // An indicator, or the reverse of one; or a derivative of it.
  double get(int port) const {
    const std::size_t place = static_cast<std::size_t>(port - first_) % (2 * z_[0].size());
    const double now = z_[0][place / 2];
    const double near = z_[1][place / 2] - now;
    const double far = z_[2][place / 2] - now;
    const std::size_t times = order(port);
    const double found = times == 0   ? now
                         : times == 1 ? (4.0 * near - far) / (2.0 * ahead_)
                                      : (far - 2.0 * near) / (ahead_ * ahead_);
    return place % 2 == 0 ? found : -found;
  }

 private:
  // So far ahead, as a part of the usual step: what rounding leaves of a second difference is 1e-10 of the indicator
  // over a step, and what is left out 1e-3 of how much the curvature changes.
  static constexpr double ahead = 1e-3;

  static bool finite(const std::vector<double>& values) {
    return std::all_of(values.begin(), values.end(), [](double value) { return std::isfinite(value); });
  }

  bool later(System& at, double t, const double* x) {
    if (!at.derivatives_at(t, x, f_.data())) return false;
    for (std::size_t i = 0; i < x_.size(); ++i) x_[i] = x[i] + ahead_ * f_[i];
    if (!finite(x_) || !at.derivatives_at(t + ahead_, x_.data(), later_.data()) || !finite(later_)) return false;
    for (int k = 1; k <= 2; ++k) {
      const double s = k * ahead_;
      for (std::size_t i = 0; i < x_.size(); ++i) x_[i] = x[i] + s * (f_[i] + 0.5 * k * (later_[i] - f_[i]));
      if (!at.indicators_at(t + s, x_.data(), z_[k].data())) return false;
    }
    return true;
  }

  std::int32_t first_;
  double ahead_;
  std::vector<double> x_;
  std::vector<double> f_;
  std::vector<double> later_;
  std::vector<double> z_[3];  // now, a little later, and twice as much later
  bool current_ = false;      // whether the first is
  bool followed_ = false;     // whether all are
};

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr int most_rounds = 1000;  // of event iteration at one instant, and events within a millionth of a step

// Thrown through the solver when the FMU has refused something it was asked for; `Caller::why` says what.
struct Refused {};

template <class F>
class Exchange final : public Face, private System, private Dynamics, private Watch {
 public:
  Exchange(const ExchangeTables& tables, std::shared_ptr<F> fmu)
      : Watch(tables.indicators, tables.states),
        held_(std::move(fmu)),
        fmu_(*held_),
        own_(tables),
        states_(fmu_, own_),
        solver_(tables.solver, tables.states),
        other_(tables.other),
        adaptive_(tables.other || tables.solver.method == Method::Adaptive),
        ticking_(fmu_, own_.guards, tables),
        completes_(tables.completes),
        final_(!tables.saves),
        nominals_(tables.states),
        inputs_(fmu_, own_, tables),
        slopes_(tables),
        shown_(tables),
        counted_(tables.counted),
        clock_(tables.clock ? tables.clock : &own_clock_) {
    fmu_.reserve(widest_of(tables));
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
    if (!shown_.has(number) && port(number).guarded) {
      const Port& asked = own_.guards.port(number);
      const Cell* const seen = own_.guards.own(asked);
      if (asked.role == Port::Sent) {
        to[0].i = to[1].i = seen->i;  // the value, and whether it is there
      } else {
        std::copy_n(seen, asked.cells, to);
      }
      return 0;
    }
    if (!shown_.has(number)) return fmu_.get(port(number), to) ? 0 : refused();
    if (!shown_.look(fmu_)) return refused();
    if (shown_.order(number) > 0 && !fmu_.over()) {
      // Only in continuous time can be tried what would be. As long as something waits to be handled, it is not kept.
      if (own_.pending || ticking_.heard()) {
        to->r = 0.0;
        return 0;
      }
      if (!settle() || !shown_.look(fmu_) || !shown_.look_ahead(fmu_, *this, own_.now, own_.x.data())) return refused();
    }
    to->r = shown_.get(number);
    return 0;
  }

  int set(int number, const Cell* coefficients, int count) {
    shown_.forget();
    if (fmu_.over()) return 0;
    const Input& given = port(number);
    if (given.guarded) {  // a clock ticks in the next round; what one guards waits for it
      const Port& mine = own_.guards.port(number);
      if (mine.role == Port::Heard) {
        own_.guards.own(mine)->i = 1;
      } else {
        own_.guards.keep(mine, coefficients, 1);
      }
      return 0;
    }
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

  const SolverStatistics& statistics() const { return solver_.statistics(); }

  int due(double* time) {
    *time = due();
    return 0;
  }

  int jump(int* again) {
    ticking_.sent();
    if (fmu_.over() || (!own_.pending && !ticking_.heard())) return 0;
    shown_.forget();
    if (!round()) return refused();
    *again = due() <= own_.now ? 1 : 0;
    return 0;
  }

  int slope(int output, int input, Cell* to) {
    return slopes_.find(fmu_, port(output), port(input), to) ? 0 : refused();
  }

  int save(int slot) {
    std::copy_n(Watch::values(), own_.z.size(), own_.z.begin());
    if (other_) other_->forget();  // its past cannot be saved: go on as one that is set back would
    return states_.save(slot) ? 0 : refused();
  }
  int restore(int slot) {
    shown_.forget();
    if (!states_.restore(slot)) return refused();
    fmu_.go_on();
    if (other_) other_->forget();
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

  // -- what those ask who know that it is an FMU ---------------------------------------------------

  void use(Strings& strings) override {
    fmu_.use(strings);
    states_.use(strings);
    own_.use(strings);
  }
  double time() const override { return own_.now; }
  System* system() override { return this; }
  const std::vector<double>* states() const override { return &own_.x; }
  bool put(const std::vector<double>& x) override {
    if (!continuous()) return true;
    shown_.forget();
    if (other_) other_->forget();
    own_.x = x;
    return place(own_.now, own_.x.data());
  }
  bool look(std::vector<double>& to) override {
    to.resize(own_.z.size());
    return to.empty() || fmu_.get_indicators(to.data(), to.size());
  }
  std::vector<double> inputs_at(double t) override {
    std::vector<double> values = own_.values;
    own_.trajectories.follow(t, values.data());
    return values;
  }
  const std::vector<double>* trajectories() const override { return &own_.trajectories.state(); }
  bool moving() const override { return own_.trajectories.moving(); }
  bool continuous() const override { return own_.mode == ExchangeMemory::Continuous; }

  int refused() override {
    refused_ = refused_ || !fmu_.over();
    message_ = "FmuError: " + fmu_.why();
    return fmu_.status();
  }

 private:
  const Input& port(int number) const { return inputs_.port(number); }

  // -- what the solver asks ------------------------------------------------------------------------

  // Brings the FMU to a time and a state, with what the inputs are there.
  bool place(double t, const double* x) override {
    shown_.forget();
    *clock_ = t;
    if (!fmu_.set_time(t)) return false;
    if (!own_.x.empty() && !fmu_.set_states(x, own_.x.size())) return false;
    return inputs_.follow(t);
  }

  bool derivatives_at(double t, const double* x, double* to) override {
    if (place(t, x) && fmu_.get_derivatives(to, own_.x.size())) return true;
    if (!adaptive_ || !fmu_.discarded()) return false;
    // A solver that chooses its steps takes it as: not so far.
    std::fill_n(to, own_.x.size(), std::numeric_limits<double>::quiet_NaN());
    return true;
  }
  bool indicators_at(double t, const double* x, double* to) override {
    return place(t, x) && fmu_.get_indicators(to, own_.z.size());
  }
  bool accepted_at(double t, const double* x, bool* stop) override {
    bool event = false;
    bool end = false;
    if (completes_ && (!place(t, x) || !fmu_.completed(final_, &event, &end))) return false;
    if (end) fmu_.end(t);
    *stop = event || end;
    return true;
  }

  void derivatives(double t, const double* x, double* out) override {
    if (!derivatives_at(t, x, out)) throw Refused();
  }
  void indicators(double t, const double* x, double* to) override {
    if (!indicators_at(t, x, to)) throw Refused();
  }
  bool accepted(double t, const double* x) override {
    bool stop = false;
    if (!accepted_at(t, x, &stop)) throw Refused();
    return stop;
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
      const double until = smaller(to, next());
      if (until > own_.now) {
        if (!integrate(until)) return unsolved(other_ ? "" : solver_.message());
        if (!place(own_.now, own_.x.data())) return refused();
        if (fmu_.over()) continue;
      }
      own_.pending = own_.pending || own_.now >= next();
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

  // As far as `until`, or an event.
  bool integrate(double until) {
    if (!other_) {
      if (!solver_.advance(*this, own_.now, until, own_.x.data(), own_.h, this)) return false;
      own_.now = Watch::time();
      own_.pending = Watch::stopped();
      return true;
    }
    std::copy_n(Watch::values(), own_.z.size(), own_.z.begin());
    if (!other_->advance(own_.now, until, own_.x, own_.z, &own_.now, &own_.pending)) return false;
    std::copy(own_.z.begin(), own_.z.end(), Watch::values());
    return true;
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

  // Of an event that the FMU, or one of its clocks, has planned.
  double next() const { return smaller(own_.next, ticking_.due()); }
  // Now, if something waits to be handled or to be seen by others.
  double due() const {
    if (fmu_.over()) return infinity;
    return own_.pending || ticking_.heard() || ticking_.sending() ? own_.now : next();
  }

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
      if (!ticking_.begin()) return false;
    } else if (own_.mode == ExchangeMemory::Continuous && !enter_event_mode()) {
      return false;
    }
    if (!ticking_.tick(own_.now)) return false;
    Updated updated;
    if (!fmu_.update(updated)) return false;
    if (updated.terminate) {
      fmu_.end(own_.now);
      own_.pending = false;
      return true;
    }
    scaled_ = scaled_ && !updated.nominals_changed;
    own_.next = fmu_.next_event(own_.now, updated.next);
    if (!ticking_.look(own_.now)) return false;
    own_.pending = updated.again || next() <= own_.now;
    return true;
  }

  // Goes through what is due now, and on to continuous time.
  bool settle() {
    for (int rounds = 0; own_.pending || (ticking_.heard() && !fmu_.over()); ++rounds) {
      ticking_.sent();
      if (rounds == most_rounds) {
        return fmu_.refuse("event iteration at t = " + shorter(own_.now) + " did not come to an end in 1,000 rounds");
      }
      if (!round()) return false;
    }
    if (own_.mode == ExchangeMemory::Continuous || fmu_.over()) return true;
    if (!fmu_.enter_continuous_time_mode()) return false;
    own_.mode = ExchangeMemory::Continuous;
    ticking_.sent();
    touched_ = false;
    if (other_) other_->forget();
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
    other_ ? other_->scale(nominals_) : solver_.scale(nominals_.data());
    return true;
  }

  int unsolved(const std::string& why) {
    message_ = "SolverError: " + why;
    return 1;
  }

  std::shared_ptr<F> held_;
  F& fmu_;
  ExchangeMemory own_;
  States<F, ExchangeMemory> states_;
  Solver solver_;
  std::shared_ptr<OtherSolver> other_;
  bool adaptive_;  // its solver chooses its steps
  Ticking<F> ticking_;
  bool completes_;
  bool final_;             // whether no state before a completed step can come back
  bool scaled_ = false;    // whether the solver knows how large the states usually are
  bool touched_ = false;   // whether inputs may have jumped since the indicators were looked at
  bool refused_ = false;
  std::vector<double> nominals_;
  ExchangeInputs<F> inputs_;
  Slopes<F> slopes_;
  ShownIndicators shown_;
  std::int32_t counted_;  // the port that counts the rounds of event iteration
  double own_clock_ = 0.0;
  double* clock_;  // where others look for the time of the instance
  std::string message_;
};

template <class F>
Entered made(const ExchangeTables& tables, std::shared_ptr<F> fmu) {
  if (!fmu) fmu = std::make_shared<F>(tables);
  Entered unit = entered(std::make_unique<Exchange<F>>(tables, std::move(fmu)), tables, true);
  if (tables.states > 0 && !tables.other) Calls<Exchange<F>>::add_statistics(unit.table);
  return unit;
}

}  // namespace

std::string problem_in(const ExchangeTables& tables) {
  std::string problem = problem_in(static_cast<const FmuTables&>(tables));
  if (!problem.empty()) return problem;
  std::size_t real = 0;
  std::size_t others = 0;
  for (const PortTables& port : tables.ports) {
    if (is_input(port)) (port.kind() == Kind::Real ? real : others) += static_cast<std::size_t>(port.cells);
  }
  if (real != tables.input_start.size() || others != tables.held_start.size()) return "start values do not fit the inputs";
  std::size_t texts = 0;
  for (const PortTables& port : tables.ports) {
    if (is_input(port) && port.kind() == Kind::String) texts += static_cast<std::size_t>(port.cells);
  }
  if (texts != tables.texts.size()) return "texts do not fit the inputs";
  return tables.other ? "" : problem_in(tables.solver);
}

Entered make_exchange(const ExchangeTables& tables, const AnyFmu& fmu) {
  if (tables.version == 2) return made(tables, std::get<std::shared_ptr<Fmi2>>(fmu));
  const auto* const third = std::get_if<std::shared_ptr<Fmi3>>(&fmu);
  return made(tables, third ? *third : nullptr);
}

}  // namespace upbeat::fmi
