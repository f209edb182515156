// What the inputs of a unit do over time: a polynomial for each, from the instant it was handed over.
// The twin of upbeat.units.inputs.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "cell.hpp"
#include "ode.hpp"

namespace upbeat {

// How many cells these ports have together.
inline std::size_t cells_in(const std::vector<PortTables>& ports) {
  std::size_t cells = 0;
  for (const PortTables& port : ports) cells += static_cast<std::size_t>(port.cells);
  return cells;
}

// The values at `time` of the polynomials of an input, one for each of its cells, by Horner's rule. A trajectory is laid
// out as in `InputTrajectories::state`.
inline void follow_polynomials(const double* trajectory, std::int32_t cells, double time, double* values) {
  const auto count = static_cast<std::int32_t>(trajectory[1]);
  const double tau = time - trajectory[0];
  for (std::int32_t i = 0; i < cells; ++i) {
    const double* coefficient = trajectory + 2 + (count - 1) * cells + i;
    double value = *coefficient;
    for (std::int32_t k = 1; k < count; ++k) {
      coefficient -= cells;
      value = value * tau + *coefficient;
    }
    values[i] = value;
  }
}

class InputTrajectories {
 public:
  static constexpr std::size_t rows = UPBEAT_MAX_DEGREE + 1;

  // `start` has the start value of every cell.
  InputTrajectories(const std::vector<PortTables>& ports, const std::vector<double>& start, double time) {
    std::size_t cell = 0;
    for (const PortTables& port : ports) {
      const auto cells = static_cast<std::size_t>(port.cells);
      inputs_.push_back({port, state_.size(), cell});
      state_.push_back(time);
      state_.push_back(1.0);
      for (std::size_t i = 0; i < cells; ++i) state_.push_back(start[cell + i]);
      state_.resize(state_.size() + (rows - 1) * cells);
      cell += cells;
    }
  }

  // All inputs constant from `time` on, at these values.
  void begin(const double* start, double time) {
    std::fill(state_.begin(), state_.end(), 0.0);
    for (const Input& input : inputs_) {
      state_[input.state] = time;
      state_[input.state + 1] = 1.0;
      std::copy_n(start + input.cell, input.port.cells, state_.begin() + static_cast<std::ptrdiff_t>(input.state) + 2);
    }
    moving_ = 0;
  }

  // The most coefficients that this input takes.
  int max_rows(std::size_t input) const { return inputs_[input].port.kind == Kind::Real ? static_cast<int>(rows) : 1; }

  // From `time` on the input is the sum of coefficient k times (t - time)^k; its cells in `values`, those of
  // all inputs, become those at `time`.
  void set(std::size_t input, double time, const Cell* coefficients, int count, double* values) {
    const Input& set = inputs_[input];
    double* const trajectory = state_.data() + set.state;
    const bool was_moving = trajectory[1] != 1.0;
    const std::int32_t total = count * set.port.cells;
    trajectory[0] = time;
    trajectory[1] = count;
    for (std::int32_t i = 0; i < total; ++i) trajectory[2 + i] = to_double(coefficients[i], set.port.kind);
    const std::int32_t all = static_cast<std::int32_t>(rows) * set.port.cells;
    for (std::int32_t i = total; was_moving && i < all; ++i) trajectory[2 + i] = 0.0;
    moving_ += static_cast<int>(count != 1) - static_cast<int>(was_moving);
    evaluate(set, time, values);
  }

  // Whether any input is more than a constant, and whether this one is.
  bool moving() const { return moving_ > 0; }
  bool moves(std::size_t input) const { return state_[inputs_[input].state + 1] != 1.0; }

  // The inputs that change with time, at `time`.
  void follow(double time, double* values) const {
    for (const Input& input : inputs_) {
      if (state_[input.state + 1] != 1.0) evaluate(input, time, values);
    }
  }

  // For each input: origin, number of coefficients, all of them coefficient by coefficient (unused: zero).
  const std::vector<double>& state() const { return state_; }

  void restore(const double* state, double time, double* values) {
    std::copy(state, state + state_.size(), state_.begin());
    moving_ = 0;
    for (const Input& input : inputs_) {
      moving_ += static_cast<int>(state_[input.state + 1] != 1.0);
      evaluate(input, time, values);
    }
  }

  // The numbers of coefficients in a state from elsewhere that are impossible: following them would lead
  // beyond the end.
  std::vector<double> impossible(const double* state) const {
    std::vector<double> found;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const double count = state[inputs_[i].state + 1];
      if (!(count >= 1.0 && count <= max_rows(i) && count == std::floor(count))) found.push_back(count);
    }
    return found;
  }

 private:
  struct Input {
    PortTables port;
    std::size_t state;  // where its trajectory begins
    std::size_t cell;   // of its first cell among all input cells
  };

  void evaluate(const Input& input, double time, double* values) const {
    follow_polynomials(state_.data() + input.state, input.port.cells, time, values + input.cell);
  }

  std::vector<Input> inputs_;
  std::vector<double> state_;
  int moving_ = 0;
};

}  // namespace upbeat
