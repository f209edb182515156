// Paces by name.
#include "pace.hpp"

#include "error_control.hpp"
#include "lookahead.hpp"
#include "monitored.hpp"
#include "revised.hpp"

namespace upbeat {

namespace {

// Parameters: the steps, then the place of the block of each.
std::unique_ptr<Pace> make_pattern(const std::vector<double>& p, const std::vector<std::int32_t>& blocks) {
  const std::size_t count = p.size() / 2;
  if (count == 0 || p.size() != 2 * count) return nullptr;
  std::vector<double> steps;
  std::vector<std::int32_t> chosen;
  for (std::size_t k = 0; k < count; ++k) {
    const double place = p[count + k];
    if (!(p[k] > 0.0) || !(place >= 0.0 && place < static_cast<double>(blocks.size()))) return nullptr;
    steps.push_back(p[k]);
    chosen.push_back(blocks[static_cast<std::size_t>(place)]);
  }
  return std::make_unique<Pattern>(std::move(steps), std::move(chosen));
}

}  // namespace

std::unique_ptr<Pace> make_pace(const std::string& name, const std::vector<double>& parameters,
                                const std::vector<std::int32_t>& blocks, const std::vector<std::string>& texts) {
  if (blocks.empty()) return nullptr;
  if (name == "fixed" && parameters.size() == 1 && parameters[0] > 0.0) {
    return std::make_unique<Fixed>(parameters[0], blocks[0]);
  }
  if (name == "event_driven" && parameters.size() == 1 && parameters[0] > 0.0) {
    return std::make_unique<EventDriven>(parameters[0], blocks[0]);
  }
  if (name == "pattern") return make_pattern(parameters, blocks);
  if (name == "error_control") return make_error_control(parameters, texts, blocks[0]);
  if (name == "look_ahead") return make_look_ahead(parameters, texts, blocks[0]);
  if (name == "monitored") return make_monitored(parameters, texts, blocks);
  if (name == "revised") return make_revised(parameters, texts, blocks);
  return nullptr;
}

}  // namespace upbeat
