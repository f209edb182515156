// The state of a discrete-event unit: kept, set back, and as bytes (what DiscreteUnit.to_bytes writes in Python).
#include <algorithm>

#include "discrete.hpp"
#include "packing.hpp"
#include "text.hpp"

namespace upbeat {

void Discrete::state(std::vector<double>& to) const {
  to.assign(arguments_.data(), arguments_.data() + inputs_at_);
  to.insert(to.end(), trajectories_.state().begin(), trajectories_.state().end());
  to.insert(to.end(), arguments_.data() + events_at_, arguments_.data() + parameters_at_);
}

int Discrete::save(int slot) {
  const auto index = static_cast<std::size_t>(slot);
  if (index >= slots_.size()) slots_.resize(index + 1);
  state(slots_[index]);
  return 0;
}

int Discrete::restore(int slot) {
  const auto index = static_cast<std::size_t>(slot);
  if (index >= slots_.size() || slots_[index].empty()) return refuse("nothing was saved here");
  const double* const state = slots_[index].data();
  std::copy(state, state + inputs_at_, arguments_.begin());
  trajectories_.restore(state + inputs_at_, time(), inputs());
  const double* const events = state + inputs_at_ + trajectories_.state().size();
  const std::size_t count = parameters_at_ - events_at_;
  std::copy(events, events + count, arguments_.data() + events_at_);
  told_ = std::any_of(arguments_.data() + flags_at_, arguments_.data() + parameters_at_, [](double f) { return f != 0.0; });
  knows_due_ = knows_emissions_ = knows_outputs_ = false;
  return select() ? 0 : 1;
}

int Discrete::pack(int slot, void* to, std::uint64_t* size) {
  const auto index = static_cast<std::size_t>(slot);
  if (index >= slots_.size() || slots_[index].empty()) return refuse("nothing was saved here");
  return pack_doubles(slots_[index], to, size);
}

int Discrete::unpack(int slot, const void* from, std::uint64_t size) {
  const auto foreign = [this](const std::string& why) {
    message_ = "not a state of this unit: " + why;
    return 1;
  };
  std::vector<double> found;
  state(found);  // for its length
  if (size != 8 * found.size()) {
    return foreign("expected " + std::to_string(8 * found.size()) + " bytes, not " + std::to_string(size));
  }
  Reader reader(from, size);
  for (double& value : found) value = double_of(reader.word());
  const std::string problem = mode_ < 0 ? "" : no_mode(found[1 + static_cast<std::size_t>(mode_)]);
  if (!problem.empty()) return foreign(problem);
  const std::vector<double> wrong = trajectories_.impossible(found.data() + inputs_at_);
  if (!wrong.empty()) return foreign("an input with " + shortest(wrong[0]) + " coefficients");
  const auto index = static_cast<std::size_t>(slot);
  if (index >= slots_.size()) slots_.resize(index + 1);
  slots_[index] = std::move(found);
  return 0;
}

}  // namespace upbeat
