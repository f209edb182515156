// See ode.hpp. An input that is held is written into both work arrays once, when it is set; only
// polynomials are evaluated again at every stage.
#include "ode.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "trajectories.hpp"
#include "packing.hpp"
#include "text.hpp"

namespace upbeat {

namespace {

// Where in `ports` each port number lies; -1 for a number that is not among them.
std::vector<std::int32_t> places(const std::vector<PortTables>& ports) {
  std::vector<std::int32_t> found;
  for (std::size_t i = 0; i < ports.size(); ++i) {
    const auto number = static_cast<std::size_t>(ports[i].port);
    if (number >= found.size()) found.resize(number + 1, -1);
    found[number] = static_cast<std::int32_t>(i);
  }
  return found;
}

}  // namespace

Ode::Evaluator::Evaluator(const std::shared_ptr<const KernelTables>& kernel, Compiled compiled)
    : kernel_(kernel), compiled_(compiled), work_(kernel ? kernel->workspace() : std::vector<double>()) {}

void Ode::Evaluator::operator()(double* out) {
  if (compiled_) {
    compiled_(work_.data(), out);
    return;
  }
  run(*kernel_, work_.data());
  const std::int32_t* const results = kernel_->results.data();
  const std::size_t count = kernel_->results.size();
  for (std::size_t i = 0; i < count; ++i) out[i] = work_[static_cast<std::size_t>(results[i])];
}

Ode::Ode(const OdeTables& tables, double start)
    : input_at_(places(tables.inputs)),
      output_at_(places(tables.outputs)),
      n_(tables.states.size()),
      adaptive_(tables.solver.method == Method::Adaptive),
      derivatives_(tables.derivatives, tables.compiled_derivatives),
      compute_(tables.compute, tables.compiled_compute),
      width_(static_cast<std::size_t>(tables.compute->inputs)),
      constants_(1 + n_ + cells_in(tables.inputs)),
      chooser_(tables.chooser),
      values_(cells_in(tables.outputs)) {
  for (const std::vector<double>* part : {&tables.states, &tables.input_start, &tables.parameters}) {
    made_.insert(made_.end(), part->begin(), part->end());
  }
  solvers_.emplace_back(tables.solver, n_);
  for (const SolverTables& other : tables.others) solvers_.emplace_back(other, n_);
  state_.push_back(start);
  state_.insert(state_.end(), tables.states.begin(), tables.states.end());
  if (adaptive_) state_.push_back(0.0);
  std::size_t cell = 0;
  for (const PortTables& port : tables.inputs) {
    inputs_.push_back({port, state_.size(), cell});
    state_.push_back(start);
    state_.push_back(1.0);
    const auto cells = static_cast<std::size_t>(port.cells);
    for (std::size_t i = 0; i < cells; ++i) state_.push_back(tables.input_start[cell + i]);
    state_.resize(state_.size() + (rows - 1) * cells);
    cell += cells;
  }
  for (std::size_t i = 0; i < tables.parameters.size(); ++i) {
    compute_.in()[constants_ + i] = tables.parameters[i];
    if (n_ > 0) derivatives_.in()[constants_ + i] = tables.parameters[i];
  }
  cell = 0;
  for (const PortTables& port : tables.outputs) {
    outputs_.push_back({port, cell});
    plain_ = plain_ && port.kind == Kind::Real;
    cell += static_cast<std::size_t>(port.cells);
  }
  cell = 0;
  for (const PortTables& port : tables.tunable) {
    tunable_.push_back({port, cell});
    cell += static_cast<std::size_t>(port.cells);
  }
  for (const SlopeTables& slope : tables.slopes) {
    const std::size_t results = slope.kernel->results.size();
    slopes_.push_back({slope.output, slope.input, {slope.kernel, slope.compiled}, std::vector<double>(results)});
  }
  Ode::refresh();
}

const double* Ode::begin(double start, const double* given) {
  if (given) std::copy_n(given, made_.size(), made_.begin());
  const double* values = made_.data();
  state_[0] = start;
  std::copy_n(values, n_, state_.begin() + 1);
  values += n_;
  if (adaptive_) state_[1 + n_] = 0.0;
  for (const Input& input : inputs_) {
    double* const trajectory = state_.data() + input.state;
    const auto cells = static_cast<std::size_t>(input.port.cells);
    trajectory[0] = start;
    trajectory[1] = 1.0;
    std::copy_n(values, cells, trajectory + 2);
    std::fill_n(trajectory + 2 + cells, (rows - 1) * cells, 0.0);
    values += cells;
  }
  const std::size_t parameters = width_ - constants_;
  std::copy_n(values, parameters, compute_.in() + constants_);
  if (n_ > 0) std::copy_n(values, parameters, derivatives_.in() + constants_);
  for (Solver& solver : solvers_) solver.forget_statistics();
  return values;
}

int Ode::reset(double start, const double* values) {
  begin(start, values);
  Ode::refresh();
  return 0;
}

// Write a held input where the kernels read it.
void Ode::settle(const Input& input) {
  const double* const trajectory = state_.data() + input.state;
  if (trajectory[1] != 1.0) {
    moving_ = true;
    return;
  }
  double* const compute = compute_.in() + 1 + n_ + input.cell;
  for (std::int32_t i = 0; i < input.port.cells; ++i) compute[i] = trajectory[2 + i];
  if (n_ == 0) return;
  double* const derivatives = derivatives_.in() + 1 + n_ + input.cell;
  for (std::int32_t i = 0; i < input.port.cells; ++i) derivatives[i] = trajectory[2 + i];
}

void Ode::refresh() {
  moving_ = false;
  for (const Input& input : inputs_) settle(input);
  current_ = false;
}

// Evaluate the inputs that are polynomials.
void Ode::follow(double t, double* in) {
  for (const Input& input : inputs_) {
    const double* const trajectory = state_.data() + input.state;
    if (trajectory[1] != 1.0) follow_polynomials(trajectory, input.port.cells, t, in + 1 + n_ + input.cell);
  }
}

void Ode::derivatives(double t, const double* x, double* out) {
  double* const in = derivatives_.in();
  in[0] = t;
  for (std::size_t j = 0; j < n_; ++j) in[1 + j] = x[j];
  if (moving_) follow(t, in);
  derivatives_(out);
}

// What the kernel of the outputs takes, at the unit's own time.
double* Ode::arguments() {
  double* const in = compute_.in();
  for (std::size_t j = 0; j <= n_; ++j) in[j] = state_[j];
  if (moving_) follow(state_[0], in);
  return in;
}

bool Ode::evaluate() {
  arguments();
  compute_(values_.data());
  current_ = true;
  return plain_ || convertible();
}

// Whether every output that is not real can be made one; the first that cannot is the reason.
bool Ode::convertible() {
  current_ = false;
  for (const Output& output : outputs_) {
    if (output.port.kind == Kind::Real) continue;
    for (std::int32_t i = 0; i < output.port.cells; ++i) {
      const double value = values_[output.cell + static_cast<std::size_t>(i)];
      if (std::string problem = misfit(value, output.port.kind); !problem.empty()) {
        refuse(std::move(problem));
        return false;
      }
    }
  }
  current_ = true;
  return true;
}

int Ode::get(int port, Cell* to) {
  if (!current_ && !evaluate()) return 1;
  const Output* const found = find(outputs_, output_at_, port);
  if (!found) return refuse("there is no output number " + std::to_string(port));
  const Output& output = *found;
  const double* const from = values_.data() + output.cell;
  if (plain_) {
    for (std::int32_t i = 0; i < output.port.cells; ++i) to[i].r = from[i];
    return 0;
  }
  for (std::int32_t i = 0; i < output.port.cells; ++i) to[i] = from_double(from[i], output.port.kind);
  return 0;
}

int Ode::set(int port, const Cell* coefficients, int count) {
  const Input* const found = find(inputs_, input_at_, port);
  if (!found) return tune(port, coefficients, count);
  const Input& input = *found;
  const bool is_real = input.port.kind == Kind::Real;
  if (count < 1 || count > (is_real ? UPBEAT_MAX_DEGREE + 1 : 1)) {
    return refuse("an input takes polynomials of degree 0 to " + std::to_string(is_real ? UPBEAT_MAX_DEGREE : 0) +
                  ", not " + std::to_string(count) + " coefficients");
  }
  double* const trajectory = state_.data() + input.state;
  const bool was_moving = trajectory[1] != 1.0;
  const std::int32_t total = count * input.port.cells;
  trajectory[0] = state_[0];
  trajectory[1] = count;
  for (std::int32_t i = 0; i < total; ++i) trajectory[2 + i] = to_double(coefficients[i], input.port.kind);
  const std::int32_t all = static_cast<std::int32_t>(rows) * input.port.cells;
  for (std::int32_t i = total; was_moving && i < all; ++i) trajectory[2 + i] = 0.0;
  if (was_moving && count == 1) {
    refresh();
  } else {
    settle(input);
    current_ = false;
  }
  return 0;
}

// A parameter has another value from now on, where the kernels read it.
int Ode::tune(int port, const Cell* cells, int count) {
  for (const Output& parameter : tunable_) {
    if (parameter.port.port != port) continue;
    if (count != 1) return refuse("a parameter has one value, not " + std::to_string(count) + " coefficients");
    for (std::int32_t i = 0; i < parameter.port.cells; ++i) {
      const std::size_t place = constants_ + parameter.cell + static_cast<std::size_t>(i);
      compute_.in()[place] = to_double(cells[i], parameter.port.kind);
      if (n_ > 0) derivatives_.in()[place] = compute_.in()[place];
    }
    current_ = false;
    return 0;
  }
  return refuse("there is no input number " + std::to_string(port));
}

void Ode::place(double t, const double* x) {
  state_[0] = t;
  if (x) std::copy_n(x, n_, state_.begin() + 1);
  refresh();
}

int Ode::slope(int output, int input, Cell* to) {
  for (Slope& slope : slopes_) {
    if (slope.output != output || slope.input != input) continue;
    std::copy_n(arguments(), width_, slope.evaluator.in());
    slope.evaluator(slope.values.data());
    for (std::size_t i = 0; i < slope.values.size(); ++i) to[i].r = slope.values[i];
    return 0;
  }
  return refuse("the slope of output number " + std::to_string(output) + " by input number " + std::to_string(input) +
                " was not asked for when the unit was made");
}

Solver* Ode::solver() {
  if (chooser_ < 0) return solvers_.data();
  const double wanted = state_[inputs_[static_cast<std::size_t>(chooser_)].state + 2];
  if (wanted >= 0.0 && wanted < static_cast<double>(solvers_.size())) return &solvers_[static_cast<std::size_t>(wanted)];
  char text[96];
  std::snprintf(text, sizeof text, "there is no solver %.0f: it has %zu, counted from 0", wanted, solvers_.size());
  refuse(text);
  return nullptr;
}

int Ode::advance(double t, double to, bool, double*) {
  if (to < t) {
    char text[96];
    std::snprintf(text, sizeof text, "cannot advance backwards, from %.9g to %.9g", t, to);
    return refuse(text);
  }
  double none = 0.0;
  double& h = adaptive_ ? state_[1 + n_] : none;
  if (n_ > 0 && to > t) {
    Solver* const chosen = solver();
    if (!chosen) return 1;
    if (!chosen->advance(*this, t, to, state_.data() + 1, h)) return refuse(chosen->message());
  }
  state_[0] = to;
  current_ = false;
  return 0;
}

int Ode::refuse(std::string message) {
  message_ = "SolverError: " + std::move(message);
  return 1;
}

upbeat_unit Ode::make(const OdeTables& tables, double start) {
  upbeat_unit table = table_of(new Ode(tables, start));
  if (!tables.states.empty()) Calls<Ode>::add_statistics(table);
  return table;
}

}  // namespace upbeat
