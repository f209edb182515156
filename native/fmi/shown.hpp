// The event indicators of an FMU for model exchange as ports that others read, in the order that ExchangeTables says.
#pragma once

#include <vector>

#include "fmi/exchange.hpp"

namespace upbeat::fmi {

template <class F>
class ShownIndicators {
 public:
  ShownIndicators(F& fmu, const ExchangeTables& tables) : fmu_(fmu), first_(tables.shown), values_(tables.indicators) {}

  bool has(int port) const { return first_ >= 0 && port >= first_; }

  // The unit is not what it was when somebody looked last.
  void forget() { current_ = false; }

  // An indicator, or the reverse of one. The FMU gives all at once, so it is asked once for all of them, as long as
  // nothing moves.
  bool get(int port, Cell* to) {
    const auto place = static_cast<std::size_t>(port - first_);
    if (!current_ && !fmu_.get_indicators(values_.data(), values_.size())) return false;
    current_ = true;
    to->r = place % 2 == 0 ? values_[place / 2] : -values_[place / 2];
    return true;
  }

 private:
  F& fmu_;
  std::int32_t first_;
  std::vector<double> values_;
  bool current_ = false;
};

}  // namespace upbeat::fmi
