// Questions to another process and its answers, one at a time, over the shared page that both see.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "packing.hpp"
#include "shared_page.hpp"

namespace upbeat {

// The other process: the memory shared with it, how much of that is for payloads, and its number (0: it is none).
struct Link {
  std::shared_ptr<SharedPage> page;
  std::uint64_t room = 0;
  int process = 0;
};

struct Question {
  Command command;
  std::int32_t a = 0, b = 0;
  double x = 0.0, y = 0.0;
  const void* from = nullptr;
  std::uint64_t size = 0;
};

// What only the host can do while one waits. Each may be called with or without Python's lock held, from the thread
// that asked.
struct ConversationHooks {
  // The process gave no answer in time (`hung`), or is gone: makes sure of that, and says what happened.
  std::function<std::string(bool hung)> lost;
  // There are new log records.
  std::function<void()> records;
  // Whether to go on waiting; false if the user has lost patience.
  std::function<bool()> going_on;
};

class Conversation {
 public:
  // `deadline` is for each answer, in seconds.
  Conversation(Link link, double deadline, ConversationHooks hooks);
  ~Conversation();
  Conversation(const Conversation&) = delete;
  Conversation& operator=(const Conversation&) = delete;

  // Whether there is an answer: then its payload is at `payload`, so many bytes as it says. Otherwise it is over, and
  // `why` says what happened.
  bool ask(const Question& question);
  const SharedPage::Answer& answer() const { return answer_; }
  const unsigned char* payload() const { return payload_; }
  // The payload as words for people, whatever bytes these are.
  std::string words() const;

  bool over() const { return over_; }
  bool given_up() const { return given_up_; }  // over because the user has lost patience
  const std::string& why() const { return why_; }

  // The process is not to be trusted any more: its process is ended. Gives false.
  bool end(const std::string& why);
  // With another process.
  void restart(Link link);
  void hurry(double deadline);

 private:
  bool exchanged();
  bool gathered();
  bool alive() const;

  Link link_;
  double deadline_;
  ConversationHooks hooks_;
  unsigned cores_ = usable_cores();
  bool over_ = false;
  bool given_up_ = false;
  std::uint32_t records_ = 0;
  std::uint32_t serial_ = 0;
  SharedPage::Answer answer_{};
  Bytes spill_;                             // an answer that came in pieces
  const unsigned char* payload_ = nullptr;  // and where the payload of the last one is
  std::string why_;
};

}  // namespace upbeat
