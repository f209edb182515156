// A unit in another process as the engine sees it: every call is a question on a shared page, and an answer.
//
// If the other process dies or gives no answer in time, a unit that may be restarted is: another process
// takes over the last state that was kept, and hears again all it was told since.
#pragma once

#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "conversation.hpp"
#include "wire.hpp"

namespace upbeat {

// What only the host can do, also when no call waits.
struct RemoteHooks : ConversationHooks {
  // Starts another process in its place, for the reason given; no shared page if that failed, which it then says.
  std::function<Link(std::string& why)> renewed;
  // The process was asked to end: sees to it. What went wrong with that, if anything did.
  std::function<void(const std::string& why)> ended;
};

struct RemoteTerms {
  double deadline = std::numeric_limits<double>::infinity();  // for each call, in seconds
  std::int32_t restarts = 0;
  std::int64_t keep_every = 100;  // steps between two states that are kept for a restart
};

class RemoteUnit {
 public:
  // Which of the calls that a unit may lack there are.
  struct Offered {
    bool rollback = false, pack = false, due = false, slope = false;
  };

  RemoteUnit(Link link, Offered calls, std::vector<RemotePort> ports, RemoteTerms terms, RemoteHooks hooks);
  ~RemoteUnit();
  RemoteUnit(const RemoteUnit&) = delete;
  RemoteUnit& operator=(const RemoteUnit&) = delete;

  // The pool in which strings get their numbers.
  void use(Strings& strings) { strings_ = &strings; }

  int get(int port, Cell* to);
  int set(int port, const Cell* coefficients, int count);
  int advance(double t, double to, int early, double* reached);
  int jump(int* again);
  int due(double* time);
  int slope(int output, int input, Cell* to);
  int save(int slot);
  int restore(int slot);
  int pack(int slot, void* to, std::uint64_t* size);
  int unpack(int slot, const void* from, std::uint64_t size);
  const char* message() const { return message_.c_str(); }

  const Offered& calls() const { return calls_; }
  const std::vector<RemotePort>& ports() const { return ports_; }

  // The unit as the engine enters it; the table owns it.
  static upbeat_unit table(std::unique_ptr<RemoteUnit> unit);

 private:
  // Something it was told since the last state that was kept, and what came of it.
  struct PastCall {
    Question question;
    Bytes payload;
    std::int32_t a;
    double y;
  };
  struct Kept {
    Bytes state;
    bool fresh = false;  // whether `state` is what the slot holds
  };

  int call(const Question& question);
  bool asked(const Question& question);
  int remember(const Question& question);
  void keep();
  bool revived();
  bool caught_up();
  bool granted(const Question& question);
  bool took_over(std::int32_t slot, const Bytes& state);
  int fail(std::string message);
  int nonsense(const std::string& what);

  Conversation talk_;
  Offered calls_;
  std::vector<RemotePort> ports_;
  RemoteTerms terms_;
  RemoteHooks hooks_;
  Strings* strings_ = nullptr;
  Bytes outgoing_;        // texts on their way
  int packed_slot_ = -1;  // whose bytes were asked for last
  Bytes packed_;
  std::string message_;
  // For restarts only:
  std::int64_t steps_ = 0;  // since the last state was kept
  Bytes state_;
  std::map<std::int32_t, Kept> slots_;
  std::vector<PastCall> past_calls_;
};

}  // namespace upbeat
