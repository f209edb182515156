// Paces by name.
#include "pace.hpp"

#include "error_control.hpp"
#include "lookahead.hpp"
#include "monitored.hpp"
#include "revised.hpp"

namespace upbeat {

std::unique_ptr<Pace> make_pace(const std::string& name, const std::vector<double>& parameters,
                                const std::vector<std::int32_t>& blocks, const std::vector<std::string>& texts) {
  if (blocks.empty()) return nullptr;
  if (name == "fixed" && parameters.size() == 1 && parameters[0] > 0.0) {
    return std::make_unique<Fixed>(parameters[0], blocks[0]);
  }
  if (name == "event_driven" && parameters.size() == 1 && parameters[0] > 0.0) {
    return std::make_unique<EventDriven>(parameters[0], blocks[0]);
  }
  if (name == "error_control") return make_error_control(parameters, texts, blocks[0]);
  if (name == "look_ahead") return make_look_ahead(parameters, texts, blocks[0]);
  if (name == "monitored") return make_monitored(parameters, texts, blocks);
  if (name == "revised") return make_revised(parameters, texts, blocks);
  return nullptr;
}

}  // namespace upbeat
