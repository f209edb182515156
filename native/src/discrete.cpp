// See discrete.hpp. What has been computed is kept until something changes that its code reads; code that
// reads nothing is run once, when the unit is made.
#include "discrete.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "calls.hpp"
#include "text.hpp"

namespace upbeat {

Discrete::Piece::Piece(const PieceTables& tables, const Discrete& unit)
    : kernel_(tables.kernel),
      compiled_(tables.compiled),
      all_(tables.from),
      work_(tables.kernel->workspace()),
      results_(tables.kernel->results.size()) {
  for (const std::int32_t from : all_) {
    const auto place = static_cast<std::size_t>(from);
    if (place >= unit.parameters_at_) continue;
    from_.push_back(from);
    reads_ |= place == 0 ? Time : place < unit.inputs_at_ ? Variables : place < unit.events_at_ ? Inputs : Events;
  }
  begin(unit.arguments_.data());
}

void Discrete::Piece::begin(const double* arguments) {
  for (std::size_t i = 0; i < all_.size(); ++i) work_[i] = arguments[all_[i]];
  run();
}

inline void Discrete::Piece::run() {
  if (compiled_) {
    compiled_(work_.data(), results_.data());
    return;
  }
  if (!kernel_->code.empty()) upbeat::run(*kernel_, work_.data());
  const std::int32_t* const places = kernel_->results.data();
  const std::size_t count = results_.size();
  for (std::size_t i = 0; i < count; ++i) results_[i] = work_[static_cast<std::size_t>(places[i])];
}

inline const double* Discrete::Piece::operator()(const double* arguments) {
  const std::size_t count = from_.size();
  if (count == 0) return results_.data();  // always the same
  for (std::size_t i = 0; i < count; ++i) work_[i] = arguments[from_[i]];
  run();
  return results_.data();
}

Discrete::Discrete(const DiscreteTables& tables, double start)
    : kinds_(tables.kinds),
      mode_(tables.mode),
      inputs_at_(1 + tables.kinds.size()),
      events_at_(inputs_at_ + cells_in(tables.inputs)),
      flags_at_(events_at_ + cells_in(tables.heard)),
      parameters_at_(flags_at_ + tables.heard.size()),
      arguments_([&] {
        std::vector<double> arguments{start};
        arguments.insert(arguments.end(), tables.start.begin(), tables.start.end());
        arguments.insert(arguments.end(), tables.input_start.begin(), tables.input_start.end());
        arguments.resize(parameters_at_);
        arguments.insert(arguments.end(), tables.parameters.begin(), tables.parameters.end());
        return arguments;
      }()),
      trajectories_(tables.inputs, tables.input_start, start),
      compute_(tables.compute, *this),
      emissions_(tables.sent.size()) {
  for (const std::vector<double>* part : {&tables.start, &tables.input_start, &tables.parameters}) {
    made_.insert(made_.end(), part->begin(), part->end());
  }
  add_ports(tables.inputs, Port::Input);
  add_ports(tables.heard, Port::Heard);
  add_ports(tables.outputs, Port::Output);
  add_ports(tables.sent, Port::Sent);
  modes_.reserve(tables.modes.size());
  for (const ModeTables& mode : tables.modes) {
    modes_.push_back({Piece(mode.due, *this),
                      Piece(mode.emissions, *this),
                      {},
                      {Piece(mode.internal.piece, *this), mode.internal.to},
                      {Piece(mode.external.piece, *this), mode.external.to}});
    std::size_t first = 0;
    for (const std::int32_t output : mode.emitted) {
      modes_.back().emitted.push_back({output, first});
      first += 1 + static_cast<std::size_t>(tables.sent[static_cast<std::size_t>(output)].cells);
    }
  }
  select();
}

int Discrete::reset(double start, const double* given_values) {
  if (given_values) std::copy_n(given_values, made_.size(), made_.begin());
  const double* const values = made_.data();
  const std::size_t variables = kinds_.size();
  const std::size_t given = events_at_ - 1;  // of variables and inputs
  arguments_[0] = start;
  std::copy_n(values, given, arguments_.begin() + 1);
  std::fill(arguments_.begin() + static_cast<std::ptrdiff_t>(events_at_), arguments_.begin() + static_cast<std::ptrdiff_t>(parameters_at_), 0.0);
  std::copy_n(values + given, arguments_.size() - parameters_at_, arguments_.begin() + static_cast<std::ptrdiff_t>(parameters_at_));
  trajectories_.begin(values + variables, start);
  compute_.begin(arguments_.data());
  for (Mode& mode : modes_) {
    for (Piece* piece : {&mode.due, &mode.emissions, &mode.internal.piece, &mode.external.piece}) piece->begin(arguments_.data());
  }
  told_ = knows_due_ = knows_emissions_ = knows_outputs_ = false;
  active_ = nullptr;
  return select() ? 0 : 1;
}

void Discrete::add_ports(const std::vector<PortTables>& ports, Port::Role role) {
  std::size_t cell = 0;
  std::int32_t index = 0;
  for (const PortTables& port : ports) {
    const auto number = static_cast<std::size_t>(port.port);
    if (number >= ports_.size()) ports_.resize(number + 1);
    ports_[number] = {role, index++, cell, port.cells, port.kind};
    if (role == Port::Output) outputs_.push_back(ports_[number]);
    if (role == Port::Sent) sent_.push_back(ports_[number]);
    cell += static_cast<std::size_t>(port.cells);
  }
}

void Discrete::changed(unsigned sources) {
  if (active_->due.reads(sources)) knows_due_ = false;
  if (active_->emissions.reads(sources)) knows_emissions_ = false;
  if (compute_.reads(sources)) knows_outputs_ = false;
}

// Why there is no such mode, or an empty text.
std::string Discrete::no_mode(double mode) const {
  if (mode >= 0.0 && mode < static_cast<double>(modes_.size())) return "";
  char text[400];  // a double may have 309 digits
  std::snprintf(text, sizeof text, "there is no mode %.0f, only 0 to %zu", mode, modes_.size() - 1);
  return text;
}

// Make the mode that holds the active one.
bool Discrete::select() {
  const double mode = mode_ < 0 ? 0.0 : arguments_[1 + static_cast<std::size_t>(mode_)];
  if (const std::string problem = no_mode(mode); !problem.empty()) {
    refuse(problem);
    return false;
  }
  Mode* const found = &modes_[static_cast<std::size_t>(mode)];
  if (found == active_) return true;
  active_ = found;
  knows_due_ = knows_emissions_ = false;
  return true;
}

bool Discrete::fits(double value, Kind kind) {
  if (kind == Kind::Real) return true;
  std::string problem = misfit(value, kind);
  if (problem.empty()) return true;
  refuse(std::move(problem));
  return false;
}

bool Discrete::know_due() {
  if (knows_due_) return true;
  due_ = *active_->due(arguments_.data());
  if (due_ != due_) {
    refuse("the time of the next event is nan");
    return false;
  }
  return knows_due_ = true;
}

bool Discrete::know_emissions() {
  if (knows_emissions_) return true;
  const double* const results = active_->emissions(arguments_.data());
  std::fill(emissions_.begin(), emissions_.end(), nullptr);
  for (const Emission& emission : active_->emitted) {
    const double* const present = results + emission.first;
    if (!fits(*present, Kind::Boolean)) return false;
    if (*present == 0.0) continue;
    const Port& port = sent_[static_cast<std::size_t>(emission.output)];
    for (std::int32_t i = 0; i < port.cells; ++i) {
      if (!fits(present[1 + i], port.kind)) return false;
    }
    emissions_[static_cast<std::size_t>(emission.output)] = present + 1;
  }
  return knows_emissions_ = true;
}

bool Discrete::know_outputs() {
  if (knows_outputs_) return true;
  shown_ = compute_(arguments_.data());
  for (const Port& port : outputs_) {
    if (port.kind == Kind::Real) continue;
    for (std::int32_t i = 0; i < port.cells; ++i) {
      if (!fits(shown_[port.cell + static_cast<std::size_t>(i)], port.kind)) return false;
    }
  }
  return knows_outputs_ = true;
}

int Discrete::get(int number, Cell* to) {
  const auto at = static_cast<std::size_t>(number);
  const Port port = at < ports_.size() ? ports_[at] : Port{};
  const double* from = nullptr;
  if (port.role == Port::Sent) {
    if (!know_due()) return 1;
    if (due_ <= time()) {
      if (!know_emissions()) return 1;
      from = emissions_[static_cast<std::size_t>(port.index)];
    }
    to[port.cells].i = from != nullptr;
  } else if (port.role == Port::Output) {
    if (!know_outputs()) return 1;
    from = shown_ + port.cell;
  } else {
    return refuse("there is no output number " + std::to_string(number));
  }
  for (std::int32_t i = 0; i < port.cells; ++i) to[i] = from ? from_double(from[i], port.kind) : integer(0);
  return 0;
}

int Discrete::set(int number, const Cell* coefficients, int count) {
  const auto at = static_cast<std::size_t>(number);
  const Port port = at < ports_.size() ? ports_[at] : Port{};
  if (port.role == Port::Heard) {
    if (count != 1) return refuse("an event has one value, not " + std::to_string(count) + " coefficients");
    double* const to = arguments_.data() + events_at_ + port.cell;
    for (std::int32_t i = 0; i < port.cells; ++i) to[i] = to_double(coefficients[i], port.kind);
    arguments_[flags_at_ + static_cast<std::size_t>(port.index)] = 1.0;
    told_ = true;
    changed(Events);
    return 0;
  }
  if (port.role != Port::Input) return refuse("there is no input number " + std::to_string(number));
  const auto input = static_cast<std::size_t>(port.index);
  if (count < 1 || count > trajectories_.max_rows(input)) {
    return refuse("an input takes polynomials of degree 0 to " + std::to_string(trajectories_.max_rows(input) - 1) + ", not " +
                  std::to_string(count) + " coefficients");
  }
  trajectories_.set(input, time(), coefficients, count, inputs());
  changed(Inputs);
  return 0;
}

int Discrete::advance(double t, double to, bool, double*) {
  if (to < t) {
    char text[96];
    std::snprintf(text, sizeof text, "cannot advance backwards, from %.9g to %.9g", t, to);
    return refuse(text);
  }
  arguments_[0] = to;
  if (trajectories_.moving()) trajectories_.follow(to, inputs());
  changed(trajectories_.moving() ? Time | Inputs : Time);
  return 0;
}

int Discrete::jump(int* again) {
  if (!told_) {
    if (!know_due()) return 1;
    if (due_ > time()) return 0;
  }
  Assigning& code = told_ ? active_->external : active_->internal;
  const double* const values = code.piece(arguments_.data());
  const std::size_t count = code.to.size();
  for (std::size_t i = 0; i < count; ++i) {
    const auto place = static_cast<std::size_t>(code.to[i]);
    double value = values[i];
    if (kinds_[place] != Kind::Real) {
      if (!fits(value, kinds_[place])) return 1;
      value = to_double(from_double(value, kinds_[place]), kinds_[place]);
    }
    arguments_[1 + place] = value;
  }
  if (told_) {
    std::fill(arguments_.data() + events_at_, arguments_.data() + parameters_at_, 0.0);
    told_ = false;
    changed(Variables | Events);
  } else {
    changed(Variables);
  }
  if (!select() || !know_due()) return 1;
  *again = due_ <= time();
  return 0;
}

int Discrete::due(double* time) {
  if (!know_due()) return 1;
  *time = due_;
  return 0;
}

int Discrete::refuse(std::string message) {
  message_ = "DiscreteError: " + std::move(message);
  return 1;
}

upbeat_unit Discrete::make(const DiscreteTables& tables, double start) {
  upbeat_unit table = Calls<Discrete>::table(new Discrete(tables, start));
  Calls<Discrete>::add_rollback(table);
  Calls<Discrete>::packs(table);
  Calls<Discrete>::has_events(table);
  table.message = Calls<Discrete>::message;
  table.reset = Calls<Discrete>::reset;
  return table;
}

}  // namespace upbeat
