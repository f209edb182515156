// Steps that go back to events: the twin of Revised in upbeat.master.paces.revised, bit for bit.
#pragma once

#include "prediction.hpp"
#include "wrapping.hpp"

namespace upbeat {

// What `Revised.native` gives, in its order.
struct RevisedSettings {
  double usual;      // the usual step of the pace inside; 0: there is none
  double tolerance;  // 0: each step has its own
  double after;
  double most;
  std::int32_t first;   // the first of the cells of the conditions, sample_width for each
  std::int32_t jumped;  // the cell that says whether an event has changed what they depend on
  std::vector<std::size_t> counts;   // how many conditions each event has
  std::vector<std::int32_t> orders;  // of each condition: how many derivatives are known
};

// State: [whether this is the start (1) or an event has just happened (2), how often the step has been sent back, a time
// before the event, one behind it, attempts one after the other that went too far (negative: not far enough), the
// tolerance, when something has changed last, how often in a row right after another; samples of all conditions at the start, before and behind the event; the state of the pace inside].
class Revised final : public Wrapping {
 public:
  // `names`: those of the events.
  Revised(RevisedSettings settings, std::vector<std::string> names, std::unique_ptr<Pace> inside);

  bool retries() const override { return true; }
  void begin(double t, double limit) override;
  Proposal propose(double t, double limit, const Cell* cells) override;
  bool review(double t, double reached, const Cell* cells, Proposal& step) override;
  void note(double t, const Fired* fired, std::size_t count, const Cell* cells) override;
  void anew(double t, bool fired, const Cell* cells) override;
  std::int32_t sees() const override;

 protected:
  bool fits(const double* own) const override;

 private:
  struct Estimate {
    double at;
    std::size_t event;
    bool before;  // this is before its fall: an event that has happened must be seen above zero first
    bool tiny;    // so soon after the start that nobody can see it
    double end;   // where a step should end that has gone past it, though it is over again at its end
  };

  double* start() { return state_.data() + head; }
  double* low() { return start() + size_; }
  double* high() { return low() + size_; }
  void look(double* sample, const Cell* cells) const;
  void take_over(double* to, const double* from) const;
  bool due() const;
  bool rates_known(std::size_t first, std::size_t count) const;
  bool sure();
  Estimate estimate(double t, const double* from, const double* to, double span);
  bool near();
  bool again(double reached, const Estimate& found, bool sure, bool near, double& until) const;
  double behind(std::size_t count, double wait) const;
  double largest(const double* sample, std::size_t first, std::size_t count) const;

  static constexpr std::size_t head = 8;

  RevisedSettings is_;
  std::vector<std::string> names_;
  std::size_t size_;  // of a sample of all conditions
  std::vector<double> now_;
  std::vector<Curve> curves_;
};

// Null if the parameters are not those of a Revised.
std::unique_ptr<Pace> make_revised(const std::vector<double>& parameters, const std::vector<std::string>& texts,
                                   const std::vector<std::int32_t>& blocks);

}  // namespace upbeat
