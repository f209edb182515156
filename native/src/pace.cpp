// Paces by name.
#include "pace.hpp"

namespace upbeat {

std::unique_ptr<Pace> make_pace(const std::string& name, const std::vector<double>& parameters,
                                const std::vector<std::int32_t>& blocks) {
  if (name == "fixed" && parameters.size() == 1 && parameters[0] > 0.0 && !blocks.empty()) {
    return std::make_unique<Fixed>(parameters[0], blocks[0]);
  }
  return nullptr;
}

}  // namespace upbeat
