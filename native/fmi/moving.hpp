// Inputs of a co-simulation unit that move within a step, and how the FMU hears of it: in FMI 2 by derivatives before
// the step, in FMI 3 by values whenever the FMU calls back within it.
#pragma once

#include "fmi/course.hpp"
#include "fmi/intermediate.hpp"
#include "fmi/memory.hpp"

namespace upbeat::fmi {

template <class F>
class MovingInputs final : private Follower {
 public:
  MovingInputs(F& fmu, Memory& memory, std::size_t widest) : fmu_(fmu), memory_(memory), column_(widest), cells_(widest) {}

  // Whether any input is more than a constant.
  bool any() const { return count_ > 0; }

  // The input does this from now on.
  bool keep(const Port& input, const Cell* coefficients, int count) {
    if (!fmu_.set(input, coefficients)) return false;
    count_ += static_cast<int>(count > 1) - static_cast<int>(course(input).count() > 1);
    memory_.keep(input, coefficients, count > 1 ? count : 0);  // a constant is nothing to follow
    return true;
  }

  // The memory is another one now.
  void count_again() {
    count_ = 0;
    for (const std::int32_t number : inputs()) count_ += static_cast<int>(course(memory_.port(number)).count() > 1);
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
  Course course(const Port& input) const { return {memory_.own(input)}; }

  // The values of inputs whose courses began earlier, and the derivatives of all.
  bool tell(double t) {
    static constexpr int orders[] = {1, 2, 3, 4, 5};
    static_assert(UPBEAT_MAX_DEGREE == 5, "one order for each coefficient but the first");
    for (const std::int32_t number : inputs()) {
      const Port& input = memory_.port(number);
      const Course its = course(input);
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
      if (course(input).count() < 2 || misled_) continue;
      course(input).value(time, input.cells, column_.data());
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

}  // namespace upbeat::fmi
