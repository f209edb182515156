// Steps that end where an event is expected: the twin of LookAhead in upbeat.master.paces.lookahead, bit for bit.
#pragma once

#include "pace.hpp"
#include "prediction.hpp"

namespace upbeat {

// What `LookAhead.native` gives, in its order.
struct LookAheadSettings {
  enum Method : std::int32_t { Published = 0, Secant = 1, Best = 2, Approach = 3 };

  double step;
  Method method;
  double forecast, safety, least, after;
  std::int32_t first;   // the first of the cells of the conditions, sample_width for each
  std::int32_t jumped;  // the cell that says whether an event has changed what they depend on
  std::int32_t told;    // the first of the cells of predictions, two for each event
  std::vector<std::size_t> counts;   // how many conditions each event has
  std::vector<std::int32_t> orders;  // of each condition: how many derivatives are known
};

// State: [how many samples there are, whether this is the start (1) or an event has just happened (2), their times
// (newest first), when something has changed last, how often in a row right after another; then of each condition
// its samples; then of each event when it was first predicted, and for when (minus infinity: it is not)].
class LookAhead final : public Pace {
 public:
  // `names`: those of the events.
  LookAhead(LookAheadSettings settings, std::vector<std::string> names, std::int32_t block);

  void begin(double, double) override;
  bool stand(const std::vector<double>& state) override;
  Proposal propose(double t, double limit, const Cell* cells) override;
  bool review(double, double, const Cell*, Proposal&) override { return true; }
  void tell(Cell* cells) const override;
  void note(double t, const Fired* fired, std::size_t count, const Cell* cells) override;
  void anew(double t, bool fired, const Cell* cells) override;
  std::int32_t sees() const override;

 private:
  Landing expected(double t, double span, std::size_t& event);
  void predict(double t, double usual);
  double publicly(std::size_t first, std::size_t count, double t) const;
  double before(std::size_t first, std::size_t count, double t, double span);
  Landing closely(std::size_t first, std::size_t count, double t, double span);
  double least(double t) const;  // late in a run, less than this cannot be told apart
  double tiny(double t) const;   // nothing is landed on that comes sooner
  Curve curve(std::size_t condition, double span) const;
  const double* samples(std::size_t condition) const;
  void look(bool moved, const Cell* cells);
  std::size_t predictions() const { return state_.size() - 2 * names_.size(); }

  LookAheadSettings is_;
  std::vector<std::string> names_;
  std::int32_t block_;
  std::vector<Curve> curves_;
  std::vector<double> waits_;  // for each event
};

// Null if the parameters are not those of a LookAhead.
std::unique_ptr<Pace> make_look_ahead(const std::vector<double>& parameters, const std::vector<std::string>& texts,
                                      std::int32_t block);

}  // namespace upbeat
