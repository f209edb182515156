// A pace around another one: the twin of upbeat.master.paces.wrapping.
#pragma once

#include "pace.hpp"

namespace upbeat {

// What it does not see to itself, the pace inside does. State: [its own numbers; those of the pace inside]. Both give
// their reasons out of one table.
class Wrapping : public Pace {
 public:
  bool retries() const override { return inside_->retries(); }
  void begin(double t, double limit) override { inside_->begin(t, limit); }
  Proposal propose(double t, double limit, const Cell* cells) override { return inside_->propose(t, limit, cells); }
  void tell(Cell* cells) const override { inside_->tell(cells); }
  bool review(double t, double reached, const Cell* cells, Proposal& step) override {
    return inside_->review(t, reached, cells, step);
  }
  void note(double t, const Fired* fired, std::size_t count, const Cell* cells) override {
    inside_->note(t, fired, count, cells);
  }
  void anew(double t, bool fired, const Cell* cells) override { inside_->anew(t, fired, cells); }
  std::int32_t sees() const override { return inside_->sees(); }

  const std::vector<double>& state() const final;
  bool stand(const std::vector<double>& state) final;

 protected:
  // `own`: how many numbers of the state are its own.
  Wrapping(std::unique_ptr<Pace> inside, std::size_t own);

  // Whether these may be the numbers of its own.
  virtual bool fits(const double* own) const = 0;

 private:
  std::unique_ptr<Pace> inside_;
  mutable std::vector<double> whole_;
};

}  // namespace upbeat
