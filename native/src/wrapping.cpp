// See wrapping.hpp.
#include "wrapping.hpp"

namespace upbeat {

Wrapping::Wrapping(std::unique_ptr<Pace> inside, std::size_t own) : Pace(inside->reasons()), inside_(std::move(inside)) {
  state_.assign(own, 0.0);
}

const std::vector<double>& Wrapping::state() const {
  const std::vector<double>& inner = inside_->state();
  whole_.assign(state_.begin(), state_.end());
  whole_.insert(whole_.end(), inner.begin(), inner.end());
  return whole_;
}

bool Wrapping::stand(const std::vector<double>& state) {
  if (state.size() < state_.size() || !fits(state.data())) return false;
  const auto inner = state.begin() + static_cast<std::ptrdiff_t>(state_.size());
  if (!inside_->stand(std::vector<double>(inner, state.end()))) return false;
  std::copy(state.begin(), inner, state_.begin());
  return true;
}

}  // namespace upbeat
