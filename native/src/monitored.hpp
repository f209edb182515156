// Steps that are proven to be stable one after the other: the twin of Monitored in upbeat.master.paces.monitored.
#pragma once

#include "wrapping.hpp"

namespace upbeat {

// What `Monitored.native` gives: the policies, which are steps in ascending order with the block of each and the rank
// of that block among all; by node and policy, where it leads (-1: not allowed) and which one is taken instead; and
// what the policies are called.
struct MonitoredSettings {
  std::vector<double> steps;
  std::vector<std::int32_t> blocks;
  std::vector<std::int32_t> ranks;
  std::vector<std::int32_t> leads;
  std::vector<std::int32_t> grants;
  std::int32_t start;
  std::vector<std::string> labels;
};

// State: [node, the policy under way (-1: none of them), where it ends, whether the step before should have been shorter;
// the state of the pace inside].
class Monitored final : public Wrapping {
 public:
  Monitored(MonitoredSettings settings, std::unique_ptr<Pace> inside);

  void begin(double t, double limit) override;
  Proposal propose(double t, double limit, const Cell* cells) override;
  bool review(double t, double reached, const Cell* cells, Proposal& step) override;
  void note(double t, const Fired* fired, std::size_t count, const Cell* cells) override;

 protected:
  bool fits(const double* own) const override;

 private:
  std::int32_t count(double length) const;
  std::int32_t meant(double length, std::int32_t block) const;
  std::int32_t nearest(std::int32_t asked, std::int32_t below) const;
  void make(Proposal& step, double t, double limit, std::int32_t asked, std::int32_t taken);
  std::int32_t replaced(std::size_t asked, std::size_t taken);
  std::int32_t rounded(std::size_t taken);
  const std::int32_t* row(const std::vector<std::int32_t>& table) const;

  // The policies of one block: there may be a thousand, and one is looked for at every step.
  struct Group {
    std::int32_t block;
    std::vector<double> steps;
    std::vector<std::int32_t> places;
  };

  MonitoredSettings is_;
  std::int32_t size_;  // how many policies there are
  std::vector<Group> groups_;
  // The numbers of reasons: by the policy taken; by the one asked for, if it was ever replaced, and the one taken.
  std::vector<std::int32_t> rounded_;
  std::vector<std::vector<std::int32_t>> replaced_;
};

// Null if the parameters are not those of a Monitored.
std::unique_ptr<Pace> make_monitored(const std::vector<double>& parameters, const std::vector<std::string>& texts,
                                     const std::vector<std::int32_t>& blocks);

}  // namespace upbeat
