// What FMI 2 and 3 have in common: the tables of an instance, and what a status means.
//
// `Fmi2` and `Fmi3` wrap the functions of one instance behind the same members, so that a unit on top is
// written once, as a template, and its calls go to the FMU directly:
//
//   instantiate(birth)  choose_categories(names)   its life begins
//   enter_configuration()  exit_configuration()  setup(experiment)  enter_initialization(experiment)
//   leave_initialization()  terminate()  free()
//   get(variable, cells)  set(variable, cells)     values, converted; one call for a scalar as for an array
//   attempt(t, length, no_prior, ended)            co-simulation: the step itself, which gives a status,
//   plain(status, ended)  conclude(status, t, ended)   … whether that is all, and what it means otherwise
//   real(variable)                                 one of type Float64 for quick calls
//   give_slopes(reference, count, slopes)          derivatives of an input, FMI 2
//   enter_event_mode()  update(updated)  enter_step_mode()  enter_continuous_time_mode()
//   ticking(reference, &active)  tick(reference)  interval(reference, &seconds, &qualifier)  shift(reference, &seconds)
//   save(&state)  restore(state)  drop(&state)  size(state, &bytes)  serialise(…)  deserialise(…)
//   directional(unknowns, knowns, seed, to)  adjoint(unknowns, knowns, seed, to)  output_derivative(variable, order, to)
//   states(&count)  indicators(&count)             how many there are, if the FMU can tell
//   set_time  set_states  get_states  get_derivatives  get_indicators  get_nominals  completed   model exchange
//
// Each gives false if the FMU did not do it; `why()` says so then.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "arithmetic.hpp"
#include "cell.hpp"
#include "error.hpp"
#include "text.hpp"

// Kept out of the functions that are called all the time, which would save many registers for it.
#if defined(__GNUC__)
#define UPBEAT_APART __attribute__((noinline))
#else
#define UPBEAT_APART
#endif

namespace upbeat::fmi {

// What calls of a unit return when the FMU itself failed, and not something around it.
constexpr int failed_status = 2;

// In what the library of an FMU failed for good: null as long as it has not. After that no function may be called for any of
// its instances, so all of them look here before every call, on whatever thread. A call under way cannot be stopped.
using Doom = std::atomic<const char*>;

// Numbered as in upbeat.units.fmi.description.Type.
enum class Type : std::int32_t {
  Float32,
  Float64,
  Int8,
  UInt8,
  Int16,
  UInt16,
  Int32,
  UInt32,
  Int64,
  UInt64,
  Boolean,
  String,
  Binary,
  Enumeration,
  Clock
};

struct Variable {
  Type type = Type::Float64;
  std::uint32_t reference = 0;
  std::int32_t cells = 1;
  std::string name;
  bool tunable = false;  // a parameter that may be set while the FMU runs; the FMU alone remembers it

  Kind kind() const {
    if (type == Type::Float32 || type == Type::Float64) return Kind::Real;
    if (type == Type::String || type == Type::Binary) return Kind::String;
    return type == Type::Boolean || type == Type::Clock ? Kind::Boolean : Kind::Integer;
  }
};

struct PortTables : Variable {
  std::int32_t port = 0;  // the number under which the engine knows it
  bool input = false;
  bool event = false;     // a clock
  bool followed = false;  // the FMU can use its polynomial
  bool discrete = false;  // an input that waits for event mode
  std::vector<std::uint32_t> clocks;  // of a clocked variable
  std::int32_t order = 0;             // which time derivative of the variable it is
};

// A clock that the unit ticks by itself.
struct ClockTables {
  enum class Interval : std::int32_t { Given, Asked, Changing, Countdown };
  std::uint32_t reference = 0;
  std::string name;
  Interval interval = Interval::Given;
  double length = 0.0;  // of the interval, and the shift, both in 1/resolution seconds
  double shift = 0.0;
  double resolution = 1.0;
};

// How to call one instance, or to make one.
struct InstanceTables {
  std::int32_t version = 2;
  void* pointer = nullptr;  // null: it is still to be instantiated
  std::unordered_map<std::string, std::uintptr_t> addresses;
  std::intptr_t environment = 0;  // what its log messages carry
  Doom* doom = nullptr;           // of its library, may be null
  double* clock = nullptr;        // where others look for the time of the instance, may be null
  std::unordered_map<std::string, std::string> declared;  // what promises a function, for messages about missing ones

  std::uintptr_t address(const std::string& function) const {
    const auto found = addresses.find(function);
    return found == addresses.end() ? 0 : found->second;
  }
  template <class Function>
  Function* find(const char* function) const {
    return reinterpret_cast<Function*>(address(function));
  }
};

// What it is told of the run.
struct Experiment {
  double start = 0.0;
  bool has_stop = false;
  double stop = 0.0;
  bool has_tolerance = false;
  double tolerance = 0.0;
};

// A given start value.
struct Given {
  Variable variable;
  std::vector<Cell> cells;
};

// A unit; see upbeat.units.fmi.tables.
struct FmuTables : InstanceTables {
  double start = 0.0;
  std::vector<PortTables> ports;
  std::vector<ClockTables> clocks;
  bool event_mode = false;
  bool saves = false;
  bool serialises = false;
  bool steady = false;  // all steps must be equally long
  double grid = 0.0;    // the usual length of steps, 0 if there is none
  bool adjoint = false;       // its derivatives by inputs come row by row
  std::int32_t counted = -1;  // the number of the port that counts the events inside
  bool resets = false;        // it can begin again with other numbers for what was `given`,
  std::vector<Given> given;   // … which are numbers, all of them,
  Experiment experiment;      // … and is told the same of the run
};

// What an instance is told when it is made. The last four are for co-simulation with FMI 3.
struct Birth {
  std::string name, token, resources;
  bool exchange = false;
  bool visible = false;
  bool logging = false;
  bool event_mode = false;
  bool early_return = false;
  bool intermediate = false;  // it may call back within its steps,
  std::vector<std::uint32_t> required;  // … when these variables may be set
};


// Several variables, as functions that take them together want them; they lie elsewhere.
struct Variables {
  const std::uint32_t* references = nullptr;
  std::size_t count = 0;
  std::size_t cells = 0;  // of all of them

  Variables(const std::uint32_t* which, std::size_t many, std::size_t width) : references(which), count(many), cells(width) {}
  explicit Variables(const Variable& one) : Variables(&one.reference, 1, static_cast<std::size_t>(one.cells)) {}
};

// The most cells of a port, at least one.
inline std::size_t widest_of(const FmuTables& tables) {
  std::size_t widest = 1;
  for (const PortTables& port : tables.ports) widest = std::max(widest, static_cast<std::size_t>(port.cells));
  return widest;
}

// How a step ended; `reached` comes in as its end.
struct Stepped {
  double reached = 0.0;
  bool event = false;
  bool terminate = false;
  bool early = false;
};

// What a round of event iteration left.
struct Updated {
  bool again = false;
  bool terminate = false;
  bool nominals_changed = false;
  bool states_changed = false;
  double next = std::numeric_limits<double>::infinity();
};

// Judges what the functions of an FMU return: both versions have the same statuses.
class Caller {
 public:
  explicit Caller(const InstanceTables& tables)
      : doom_(tables.doom ? tables.doom : &own_doom_), environment_(tables.environment), declared_(tables.declared) {}
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  enum Status : int { Ok = 0, Warning = 1, Discard = 2, Error = 3, Fatal = 4, Pending = 5 };

  // `body` calls a function of the FMU and gives its status. Nothing else comes of it: an exception is a failure for
  // good, and how the processor computes is set back.
  template <class Body>
  int guarded(const char* call, Body body) {
    const int status = caught(call, body);
    if (arithmetic() != usual_) settle(call);
    return status;
  }
  // The same for those that are called most. What matters to long double only is set back with the next step.
  template <class Body>
  int quick(const char* call, Body body) {
    const int status = caught(call, body);
    if (arithmetic_of_doubles() != static_cast<std::uint32_t>(usual_)) settle(call);
    return status;
  }

  const std::string& why() const { return why_; }

  // The pool in which texts get their numbers.
  void use(Strings& strings) { strings_ = &strings; }
  // … for one call.
  template <class Call>
  bool with(Strings& strings, Call call) {
    Strings* const before = std::exchange(strings_, &strings);
    const bool done = call();
    strings_ = before;
    return done;
  }

  // The time at which the FMU says, in an update at `now`, that its next event will be. Some leave the time of one
  // that is over: none, with one warning.
  double next_event(double now, double named) { return named >= now ? named : past(now, named); }

  // Something the FMU cannot be asked, or did not answer as it should.
  bool refuse(std::string why) {
    why_ = std::move(why);
    said_ = discarded_ = lost_ = false;
    return false;
  }
  // The same where the FMU may have said more about it in its log.
  bool refuse_as_fmu(std::string why) {
    refuse(std::move(why));
    said_ = true;
    return false;
  }
  // Not even asked: the library has failed for good.
  bool lost(const char* call);

  // The FMU asks to end the simulation: from then on it stays where it is, and the next step is refused.
  void end(double t) { ended_ = t; }
  void go_on() { ended_ = std::numeric_limits<double>::quiet_NaN(); }
  // It has been reset: what went wrong before is over, too.
  void begin_again() {
    go_on();
    failed_ = said_ = discarded_ = false;
  }
  bool over() const { return ended_ == ended_; }
  bool refuse_to_go_on() {
    refuse("the FMU asked to end the simulation at t = " + shorter(ended_));
    return false;
  }

  // Whether the last failure was a status of the FMU, which may have said more in its log.
  bool said() const { return said_; }
  // Whether the FMU could have done it with other values.
  bool discarded() const { return discarded_; }

  // What a call of the unit returns after a failure.
  int status() const { return said_ ? failed_status : lost_ ? lost_status : over() ? ended_status : 1; }

  // An error came up: the instance may only be freed. After a fatal one, of any instance of the library, not even that.
  bool failed() const { return failed_; }
  // After it was freed, too, nothing may be called.
  bool fatal() const { return doom_->load(std::memory_order_acquire) != nullptr; }

 protected:
  // Calls a function of the FMU, if it is there and may be called.
  template <class... Wanted, class... Given>
  bool ask(const char* call, int (*function)(Wanted...), Given... given) {
    if (!function) return missing(call);
    if (fatal()) return lost(call);
    return done(guarded(call, [&] { return function(given...); }), call);
  }
  // The same for a question that an FMU need not answer.
  template <class... Wanted, class... Given>
  bool answers(const char* call, int (*function)(Wanted...), Given... given) {
    if (!function) return false;
    if (fatal()) return lost(call);
    const int status = guarded(call, [&] { return function(given...); });
    return status == Fatal || fatal() ? done(status, call) : status <= Warning;
  }
  bool done(int status, const char* call) { return status == Ok || judged(status, call); }
  void gone() {
    freed_.store("", std::memory_order_release);
    doom_ = &freed_;
  }
  // Texts on their way: as a cell, and as FMI wants them, which refuses what it cannot be told.
  Cell cell_of(const std::string& text) { return integer(strings_->intern(sound_text(text))); }
  bool text_of(const Variable& to, Cell cell, const std::string** text);
  bool bytes_of(const Variable& to, Cell cell, std::string* bytes);
  static std::string digits_of(const unsigned char* bytes, std::size_t size);
  bool missing(const char* call);
  // A number that the type of a variable does not hold.
  bool beyond(const Variable& variable, const std::string& value, const std::string& minimum, const std::string& maximum);
  template <class T>
  bool beyond(const Variable& variable, Cell cell) {
    if constexpr (!std::numeric_limits<T>::is_integer) return beyond(variable, shortest(cell.r), "", "3.4e38");
    const auto largest = static_cast<std::uint64_t>(std::numeric_limits<T>::max());
    const auto maximum = std::min<std::uint64_t>(largest, std::numeric_limits<std::int64_t>::max());
    return beyond(variable, std::to_string(cell.i), std::to_string(std::numeric_limits<T>::min()), std::to_string(maximum));
  }

 private:
  UPBEAT_APART bool judged(int status, const char* call);
  template <class Body>
  int caught(const char* call, Body& body) {
    try {
      return body();
    } catch (...) {
      return raised(call);
    }
  }
  UPBEAT_APART int raised(const char* call);
  UPBEAT_APART void settle(const char* call);
  void warn(const std::string& text);
  double past(double now, double named);

  std::uint64_t usual_ = arithmetic();
  Doom* doom_;
  Doom own_doom_{nullptr};
  Doom freed_{nullptr};
  std::intptr_t environment_;
  std::unordered_map<std::string, std::string> declared_;
  Strings* strings_ = nullptr;
  std::vector<std::string> warned_;  // the calls that gave a warning
  bool told_ = false;  // of an event that is past
  bool settled_ = false;
  std::string raised_;  // what the FMU has raised
  double ended_ = std::numeric_limits<double>::quiet_NaN();
  std::string why_;
  bool said_ = false;
  bool discarded_ = false;
  bool lost_ = false;
  bool failed_ = false;
};

// Cells as numbers of another type, and back. False: the number of the first cell that does not fit.
template <class T>
bool narrow(const Cell* from, std::int32_t cells, T* to, std::int32_t* misfit) {
  for (std::int32_t i = 0; i < cells; ++i) {
    if constexpr (std::numeric_limits<T>::is_integer) {
      const std::int64_t value = from[i].i;
      bool fits = true;
      if constexpr (!std::numeric_limits<T>::is_signed) fits = value >= 0;
      if constexpr (sizeof(T) < 8) {
        fits = fits && value >= static_cast<std::int64_t>(std::numeric_limits<T>::min()) &&
               value <= static_cast<std::int64_t>(std::numeric_limits<T>::max());
      }
      if (!fits) {
        *misfit = i;
        return false;
      }
      to[i] = static_cast<T>(value);
    } else {
      to[i] = static_cast<T>(from[i].r);
      if (std::isinf(to[i]) && !std::isinf(from[i].r)) {
        *misfit = i;
        return false;
      }
    }
  }
  return true;
}

template <class T>
bool widen(const T* from, std::int32_t cells, Cell* to, std::int32_t* misfit) {
  for (std::int32_t i = 0; i < cells; ++i) {
    if constexpr (std::numeric_limits<T>::is_integer) {
      if constexpr (sizeof(T) == 8 && !std::numeric_limits<T>::is_signed) {
        if (from[i] > static_cast<T>(std::numeric_limits<std::int64_t>::max())) {
          *misfit = i;
          return false;
        }
      }
      to[i].i = static_cast<std::int64_t>(from[i]);
    } else {
      to[i].r = static_cast<double>(from[i]);
    }
  }
  return true;
}

}  // namespace upbeat::fmi
