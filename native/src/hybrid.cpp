// See hybrid.hpp. The order of floating-point operations is that of upbeat.units.equations.hybrid.
#include "hybrid.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <utility>

#include "trajectories.hpp"
#include "text.hpp"

namespace upbeat {

namespace {

constexpr std::int32_t max_events = 10000;

bool shared(const ReactionTables& one, const ReactionTables& other) {
  return std::any_of(one.writes.begin(), one.writes.end(), [&](const auto& written) {
    return std::any_of(other.writes.begin(), other.writes.end(),
                       [&](const auto& also) { return also.first == written.first; });
  });
}

std::vector<std::vector<std::int32_t>> rivals_in(const std::vector<ReactionTables>& events) {
  std::vector<std::vector<std::int32_t>> found;
  for (auto event = events.begin(); event != events.end(); ++event) {
    if (event->indicator < 0) continue;
    found.emplace_back();
    for (auto other = events.begin(); other != event; ++other) {
      if (other->indicator >= 0 && shared(*event, *other)) found.back().push_back(other->indicator);
    }
  }
  return found;
}

}  // namespace

Hybrid::Hybrid(const HybridTables& tables, double start)
    : Ode(tables.ode, start),
      events_(tables.events),
      changing_(tables.changing),
      rivals_(rivals_in(tables.events)),
      watched_(indicators_in(tables.events)),
      watch_(*this, watched_, n_),
      z_(tables.indicators, tables.compiled_indicators),
      actions_(tables.actions, tables.compiled_actions),
      found_(watched_),
      results_(tables.actions->results.size()),
      changes_at_(state().size()) {
  for (const std::int32_t place : changing_) state_.push_back(tables.ode.parameters[static_cast<std::size_t>(place)]);
  armed_at_ = state_.size();
  state_.insert(state_.end(), watched_, 1.0);
  due_at_ = state_.size();
  state_.insert(state_.end(), watched_, 0.0);
  const auto add = [this](const std::vector<PortTables>& ports, std::vector<Event>& events) {
    std::size_t cell = 0;
    for (const PortTables& port : ports) {
      events.push_back({port, cell, state_.size()});
      const auto cells = static_cast<std::size_t>(port.cells);
      state_.insert(state_.end(), 1 + cells, 0.0);
      cell += cells;
    }
  };
  add(tables.heard, heard_);
  add(tables.sent, sent_);
}

int Hybrid::reset(double start, const double* values) {
  const double* const parameters = begin(start, values);
  for (std::size_t i = 0; i < changing_.size(); ++i) state_[changes_at_ + i] = parameters[static_cast<std::size_t>(changing_[i])];
  std::fill_n(state_.begin() + static_cast<std::ptrdiff_t>(armed_at_), watched_, 1.0);
  std::fill(state_.begin() + static_cast<std::ptrdiff_t>(due_at_), state_.end(), 0.0);
  refresh();
  return 0;
}

// Parameters and variables as the state has them, where the kernels read them.
void Hybrid::refresh() {
  for (std::size_t i = 0; i < changing_.size(); ++i) {
    const std::size_t place = constants_ + static_cast<std::size_t>(changing_[i]);
    compute_.in()[place] = derivatives_.in()[place] = state_[changes_at_ + i];
  }
  fresh_ = false;
  Ode::refresh();
}

void Hybrid::indicators(double t, const double* x, double* to) {
  double* const in = z_.in();
  in[0] = t;
  std::copy_n(x, n_, in + 1);
  std::copy(compute_.in() + 1 + n_, compute_.in() + width_, in + 1 + n_);
  if (moving_) follow(t, in);
  z_(to);
}

bool Hybrid::waits() const {
  const double* const due = state_.data() + due_at_;
  return std::any_of(due, due + watched_, [](double flag) { return flag != 0.0; });
}

// What is due at the unit's own time.
void Hybrid::look() {
  if (fresh_) return;
  fresh_ = true;
  std::copy_n(arguments(), width_, z_.in());
  z_(found_.data());
  for (std::size_t i = 0; i < watched_; ++i) {
    if (found_[i] > 0.0) {
      state_[armed_at_ + i] = 1.0;
    } else if (state_[armed_at_ + i] != 0.0) {
      state_[armed_at_ + i] = 0.0;
      state_[due_at_ + i] = 1.0;
    }
  }
}

int Hybrid::due(double* time) {
  look();
  const bool unsent = std::any_of(sent_.begin(), sent_.end(), [&](const Event& event) { return state_[event.state] != 0.0; });
  *time = waits() || unsent ? state_[0] : std::numeric_limits<double>::infinity();
  return 0;
}

const double* Hybrid::results() {
  std::copy_n(arguments(), width_, actions_.in());
  for (const Event& event : heard_) {
    std::copy_n(state_.data() + event.state + 1, event.port.cells, actions_.in() + width_ + event.cell);
  }
  actions_(results_.data());
  return results_.data();
}

// Whether an event with this indicator (-1: none) is due, and no other that writes the same is before it.
bool Hybrid::happens(std::int32_t indicator) const {
  const auto due = [this](std::int32_t i) { return state_[due_at_ + static_cast<std::size_t>(i)] != 0.0; };
  if (indicator < 0 || !due(indicator)) return false;
  const std::vector<std::int32_t>& rivals = rivals_[static_cast<std::size_t>(indicator)];
  return std::none_of(rivals.begin(), rivals.end(), due);
}

// What is sent joins what waits to be sent.
void Hybrid::collect(const double* results) {
  for (const ReactionTables& event : events_) {
    if (!happens(event.indicator)) continue;
    for (const auto& [port, first] : event.sends) {
      if (results[first] == 0.0) continue;
      const Event& sent = sent_[static_cast<std::size_t>(port)];
      state_[sent.state] = 1.0;
      std::copy_n(results + first + 1, sent.port.cells, state_.data() + sent.state + 1);
    }
  }
}

void Hybrid::clear(const std::vector<Event>& events) {
  for (const Event& event : events) std::fill_n(state_.data() + event.state, 1 + event.port.cells, 0.0);
}

void Hybrid::act() {
  const double* const results = this->results();
  collect(results);
  for (const ReactionTables& event : events_) {
    bool acts = happens(event.indicator);
    for (const std::int32_t port : event.on) {
      acts = acts || state_[heard_[static_cast<std::size_t>(port)].state] != 0.0;
    }
    if (!acts) continue;
    for (const auto& [target, place] : event.writes) {
      const auto at = static_cast<std::size_t>(target);
      const double value = results[place];
      if (at < n_) {
        state_[1 + at] = value;
        continue;
      }
      const auto known = std::lower_bound(changing_.begin(), changing_.end(), static_cast<std::int32_t>(at - n_));
      state_[changes_at_ + static_cast<std::size_t>(known - changing_.begin())] = value;
    }
  }
  for (std::size_t i = 0; i < watched_; ++i) {
    if (state_[due_at_ + i] != 0.0 && !happens(static_cast<std::int32_t>(i))) state_[armed_at_ + i] = 1.0;
  }
  std::fill_n(state_.data() + due_at_, watched_, 0.0);
  clear(heard_);
  refresh();
  look();
}

int Hybrid::get(int port, Cell* to) {
  for (const Event& event : sent_) {
    if (event.port.port != port) continue;
    look();
    // Looked at, not taken: what waits is as it was afterwards.
    const auto first = state_.begin() + static_cast<std::ptrdiff_t>(sent_.front().state);
    waiting_.assign(first, state_.end());
    if (waits()) collect(results());
    const double* const found = state_.data() + event.state;
    std::string problem;
    to[event.port.cells].i = found[0] != 0.0;
    for (std::int32_t i = 0; i < event.port.cells && problem.empty(); ++i) {
      problem = misfit(found[1 + i], event.port.kind);
      to[i] = from_double(found[1 + i], event.port.kind);
    }
    std::copy(waiting_.begin(), waiting_.end(), first);
    return problem.empty() ? 0 : refuse(std::move(problem));
  }
  return Ode::get(port, to);
}

int Hybrid::set(int port, const Cell* coefficients, int count) {
  fresh_ = false;
  for (const Event& event : heard_) {
    if (event.port.port != port) continue;
    if (count != 1) return refuse("an event has one value, not " + std::to_string(count) + " coefficients");
    state_[event.state] = 1.0;
    for (std::int32_t i = 0; i < event.port.cells; ++i) {
      state_[event.state + 1 + static_cast<std::size_t>(i)] = to_double(coefficients[i], event.port.kind);
    }
    return 0;
  }
  if (find(inputs_, input_at_, port)) return Ode::set(port, coefficients, count);
  const int status = tune(port, coefficients, count);
  for (std::size_t i = 0; i < changing_.size(); ++i) {  // those that events change, too, belong to the state
    state_[changes_at_ + i] = compute_.in()[constants_ + static_cast<std::size_t>(changing_[i])];
  }
  return status;
}

int Hybrid::jump(int* again) {
  look();
  act();
  clear(sent_);
  *again = waits();
  return 0;
}

int Hybrid::advance(double t, double to, bool early, double* reached) {
  if (to < t) return Ode::advance(t, to, early, reached);  // which says that this cannot be
  std::int32_t rounds = 0;
  look();
  for (;;) {
    while (waits()) {
      if (++rounds > max_events) return refuse(endless());
      act();
    }
    if (state_[0] >= to) break;
    if (!go(to)) return 1;
    if (waits() && (early || state_[0] >= to)) break;
  }
  *reached = state_[0];
  return 0;
}

// As far as the next event that becomes due, and not beyond `to`. False: see `message`.
bool Hybrid::go(double to) {
  double none = 0.0;
  double& h = adaptive_ ? state_[1 + n_] : none;
  Solver* const chosen = solver();
  if (!chosen) return false;
  while (state_[0] < to) {
    indicators(state_[0], state_.data() + 1, watch_.values());
    if (!chosen->advance(*this, state_[0], to, state_.data() + 1, h, &watch_)) {
      refuse(chosen->message());
      return false;
    }
    const bool stopped = watch_.stopped();
    const double* const z = watch_.values();
    state_[0] = stopped ? watch_.time() : to;
    current_ = false;
    fresh_ = true;
    for (std::size_t i = 0; i < watched_; ++i) {
      if (z[i] > 0.0) state_[armed_at_ + i] = 1.0;
      if (stopped && watch_.crossed(i) && !(z[i] > 0.0)) {
        state_[armed_at_ + i] = 0.0;
        state_[due_at_ + i] = 1.0;
      }
    }
    if (waits()) return true;
  }
  return true;
}

std::string Hybrid::endless() const {
  std::string names;
  for (const ReactionTables& event : events_) {
    if (!happens(event.indicator)) continue;
    names += (names.empty() ? "'" : ", '") + event.name + "'";
  }
  char text[160];
  std::snprintf(text, sizeof text, "more than 10,000 events on the way, the last at t = %.9g: ", state_[0]);
  return text + names +
         ". A chain that does not end, such as a ball that bounces lower and lower, needs an end of its own: rests = true "
         "in that event (slides = true for a relay without hysteresis), or a condition under which it comes to rest";
}

upbeat_unit Hybrid::make(const HybridTables& tables, double start) {
  upbeat_unit table = table_of(new Hybrid(tables, start));
  Calls<Hybrid>::has_events(table);
  Calls<Hybrid>::add_statistics(table);
  return table;
}

}  // namespace upbeat
