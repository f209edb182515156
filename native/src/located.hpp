// Events inside a step: where along a solution some function changes its sign first. The twin of
// upbeat.units.solving.located, bit for bit.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

namespace upbeat {

// As in Python: max(a, b) is "b if a < b else a", min(a, b) "b if b < a else a".
inline double larger(double a, double b) { return a < b ? b : a; }
inline double smaller(double a, double b) { return b < a ? b : a; }

// The distance to the next double, from the bits: std::nextafter would cost more than a short step.
inline double ulp(double value) {
  std::uint64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  const std::uint64_t exponent = (bits >> 52) & 0x7ff;
  if (exponent == 0x7ff) {
    return std::fabs(value);  // infinite, or no number
  }
  bits = exponent > 52 ? (exponent - 52) << 52 : std::uint64_t{1} << (exponent > 0 ? exponent - 1 : 0);
  std::memcpy(&value, &bits, sizeof bits);
  return value;
}

// The solution within a step, by a polynomial of degree 4 or 3 in each component.
struct Dense {
  double start = 0.0;
  double length = 1.0;
  std::vector<double> rows;  // five of them, one number per component

  void at(double t, double* x) const;
};

// Looks at every accepted step of a solver and ends it at the first crossing: where one of its functions goes
// from positive to not positive, or back.
class Watch {
 public:
  Watch(std::size_t indicators, std::size_t states);

  // The values at the start of the next step, with which its end will be compared. After a step they are
  // those at its end, so that they are given again only where they have changed in between.
  double* values() { return low_.data(); }
  // Where the last step ended, whether anything crossed there and whether that ended the advance.
  double time() const { return time_; }
  bool stopped() const { return stopped_; }
  bool crossed(std::size_t indicator) const { return crossing_ && crossed_[indicator] != 0; }

  // After an accepted step that arrived at `x`: true to stop, with the state at `time` in `x`. `dense` gives
  // the solution within the step; it is asked only if something has crossed.
  template <class Solution>
  bool step(double start, double end, double* x, Solution&& dense) {
    time_ = end;
    crossing_ = false;
    if (!low_.empty()) {
      indicators(end, x, high_.data());
      crossing_ = crossings(high_);
      if (crossing_) locate(start, end, x, dense());
      std::swap(low_, high_);
    }
    const bool wanted = accepted(time_, x);
    return stopped_ = crossing_ || wanted;
  }

 protected:
  ~Watch() = default;

 private:
  virtual void indicators(double t, const double* x, double* to) = 0;
  // A step has ended here; true to stop.
  virtual bool accepted(double t, const double* x) = 0;

  bool crossings(const std::vector<double>& now);
  double first_root(double weight) const;
  void locate(double low, double high, double* x, const Dense& dense);

  std::vector<double> low_;
  std::vector<double> high_;
  std::vector<double> middle_;
  std::vector<double> state_;
  std::vector<char> crossed_;
  std::vector<char> found_;
  double time_ = std::numeric_limits<double>::quiet_NaN();
  bool crossing_ = false;
  bool stopped_ = false;
};

}  // namespace upbeat
