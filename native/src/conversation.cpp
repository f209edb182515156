// See conversation.hpp.
#include "conversation.hpp"

#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

namespace upbeat {

namespace {

using Clock = std::chrono::steady_clock;

// A wait that took so much longer than asked for was no wait: the whole machine, or this process, stood still.
constexpr std::chrono::milliseconds standstill{500};
constexpr std::chrono::milliseconds between_looks{50};

// How many units of this process wait in others.
std::atomic<unsigned> waiting{0};

// In microseconds.
std::uint32_t worth_looking(unsigned cores) {
  const unsigned units = waiting.load(std::memory_order_relaxed);
  return 1 + units > cores ? 0 : 100 * (1 + units);
}

}  // namespace

Conversation::Conversation(Link link, double deadline, ConversationHooks hooks)
    : link_(std::move(link)), deadline_(deadline), hooks_(std::move(hooks)) {
  ++waiting;
}

Conversation::~Conversation() { --waiting; }

void Conversation::end() {
  over_ = true;
  hooks_.lost(true);
}

void Conversation::begin_anew(Link link) {
  link_ = std::move(link);
  over_ = false;
  records_ = 0;
}

void Conversation::hurry(double deadline) { deadline_ = std::min(deadline_, deadline); }

bool Conversation::alive() const {
  if (link_.process <= 0) return true;  // a thread of this very process
  siginfo_t info{};
  // Without taking notice of its end: that is left to whoever started it.
  if (waitid(P_PID, static_cast<id_t>(link_.process), &info, WEXITED | WNOHANG | WNOWAIT) != 0) return errno == EINTR;
  return info.si_pid == 0;
}

// Hands over what is on the slate, and waits for the answer. False: there is none, and never will be.
bool Conversation::exchanged() {
  Slate& slate = *link_.slate;
  const std::uint32_t looking = worth_looking(cores_);
  slate.looking.store(looking, std::memory_order_relaxed);
  hand_over(slate, Side::Server);
  const Clock::time_point began = Clock::now();
  Clock::time_point deadline = began + std::chrono::duration_cast<Clock::duration>(
                                           std::chrono::duration<double>(std::min(deadline_, 1e9)));
  Clock::time_point last = began, looked = began;
  const bool answered = await_turn(slate, Side::Client, Patience::look(cores_ > 1 ? std::max(looking, 30u) : 0), [&] {
    const Clock::time_point now = Clock::now();
    if (now - last > standstill) deadline += now - last;
    last = now;
    if (now >= deadline || !alive()) return false;
    if (now - looked < between_looks) return true;
    looked = now;
    given_up_ = !hooks_.going_on();
    return !given_up_;
  });
  if (!answered) {
    over_ = true;
    why_ = hooks_.lost(alive());
    return false;
  }
  if (slate.records.load(std::memory_order_relaxed) != records_) {
    records_ = slate.records.load(std::memory_order_relaxed);
    hooks_.records();
  }
  return true;
}

bool Conversation::ask(const Question& question) {
  Slate& slate = *link_.slate;
  const auto* from = static_cast<const unsigned char*>(question.from);
  if (question.size > link_.room) {
    for (std::uint64_t done = 0; done < question.size; done += link_.room) {
      const std::uint64_t piece = std::min(link_.room, question.size - done);
      slate.command = static_cast<std::int32_t>(Command::Feed);
      slate.size = piece;
      std::memcpy(slate.payload(), from + done, piece);
      if (!exchanged()) return false;
    }
  } else if (question.size > 0) {
    std::memcpy(slate.payload(), from, question.size);
  }
  slate.command = static_cast<std::int32_t>(question.command);
  slate.a = question.a;
  slate.b = question.b;
  slate.x = question.x;
  slate.y = question.y;
  slate.size = question.size;
  if (!exchanged()) return false;
  payload_ = slate.payload();
  if (slate.size <= link_.room) return true;
  const Slate::Answer answer = slate.answer();
  spill_.resize(slate.size);
  for (std::uint64_t done = 0; done < spill_.size(); done += link_.room) {
    slate.command = static_cast<std::int32_t>(Command::Fetch);
    slate.size = done;
    if (!exchanged()) return false;
    std::memcpy(spill_.data() + done, slate.payload(), std::min<std::uint64_t>(link_.room, spill_.size() - done));
  }
  slate.put(answer);
  payload_ = spill_.data();
  return true;
}

}  // namespace upbeat
