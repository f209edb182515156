// The state of a unit given by equations: kept, set back, and as bytes (what SolvedUnit.to_bytes writes in Python).
#include <cmath>
#include <utility>

#include "ode.hpp"
#include "packing.hpp"
#include "text.hpp"

namespace upbeat {

int Ode::save(int slot) {
  const auto index = static_cast<std::size_t>(slot);
  if (index >= slots_.size()) slots_.resize(index + 1);
  slots_[index] = state_;
  return 0;
}

int Ode::restore(int slot) {
  const auto index = static_cast<std::size_t>(slot);
  if (index >= slots_.size() || slots_[index].empty()) return refuse("nothing was saved here");
  state_ = slots_[index];
  refresh();
  return 0;
}

int Ode::pack(int slot, void* to, std::uint64_t* size) {
  const auto index = static_cast<std::size_t>(slot);
  if (index >= slots_.size() || slots_[index].empty()) return refuse("nothing was saved here");
  return pack_doubles(slots_[index], to, size);
}

int Ode::unpack(int slot, const void* from, std::uint64_t size) {
  const auto foreign = [this](const std::string& why) {
    message_ = "not a state of this unit: " + why;
    return 1;
  };
  if (size != 8 * state_.size()) {
    return foreign("expected " + std::to_string(8 * state_.size()) + " bytes, not " + std::to_string(size));
  }
  std::vector<double> state(state_.size());
  Reader reader(from, size);
  for (double& value : state) value = double_of(reader.word());
  for (const Input& input : inputs_) {  // a wrong count would be followed beyond the end
    const double count = state[input.state + 1];
    const double max_rows = input.port.kind == Kind::Real ? static_cast<double>(rows) : 1.0;
    if (!(count >= 1.0 && count <= max_rows && count == std::floor(count))) {
      return foreign("an input with " + shortest(count) + " coefficients");
    }
  }
  const auto index = static_cast<std::size_t>(slot);
  if (index >= slots_.size()) slots_.resize(index + 1);
  slots_[index] = std::move(state);
  return 0;
}

}  // namespace upbeat
