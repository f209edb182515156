// Where to look next for an event that lies between two times: the twin of upbeat.master.paces.bracketing, bit for bit.
#pragma once

namespace upbeat {

struct Bracket {
  double low;     // nothing has happened yet
  double high;    // it has happened
  double streak;  // how many attempts one after the other went too far; negative: not far enough
  bool sure;      // whether estimates know how fast conditions fall at `high`
  bool near;      // and they do so as they would right behind the event: none has jumped there
};

// Where the next attempt should end, if the event is estimated to be `at`. False: this one stands.
bool attempt(const Bracket& found, double at, double tolerance, int rounds, int most, double& until);

}  // namespace upbeat
