// Steps as long as a tolerance allows: the twin of ErrorControl in upbeat.master.paces.error_control, bit for bit.
#pragma once

#include "pace.hpp"

namespace upbeat {

// What `ErrorControl.native` gives, in its order.
struct ErrorControlSettings {
  std::int32_t errors;  // the first of the cells with the errors of the watched ports
  std::int32_t count;   // how many these are
  double power;         // the errors grow with this power of the step
  bool shared;          // an error counts per length of the step
  bool repeat;          // a step with too large an error is sent back
  double tolerance;
  double first, least, most;  // 0: not given
  double safety;
  double integral, proportional;  // the gains
  double small, large;            // the limits of a change
};

// State: [step to try next, error of the last step (0: none), its port, whether the next step may not be
// longer, length of the run (0: not begun), least, most].
class ErrorControl final : public Pace {
 public:
  // `ports`: the names of the watched ones.
  ErrorControl(const ErrorControlSettings& settings, std::vector<std::string> ports, std::int32_t block);

  bool retries() const override { return is_.repeat; }
  void begin(double t, double limit) override;
  bool stand(const std::vector<double>& state) override;
  Proposal propose(double t, double limit, const Cell* cells) override;
  bool review(double t, double reached, const Cell* cells, Proposal& step) override;
  void note(double t, const Fired* fired, std::size_t count, const Cell* cells) override;
  std::int32_t sees() const override { return is_.errors + is_.count - 1; }

 private:
  void start(double t, double limit);
  double worst(const Cell* cells, std::size_t& port) const;
  double factor(double error, double before) const;
  std::int32_t reason_to_go();

  ErrorControlSettings is_;
  std::vector<std::string> ports_;
  std::int32_t block_;
};

// Null if the parameters are not those of an ErrorControl.
std::unique_ptr<Pace> make_error_control(const std::vector<double>& parameters, const std::vector<std::string>& ports,
                                         std::int32_t block);

}  // namespace upbeat
