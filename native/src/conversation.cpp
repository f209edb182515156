// See conversation.hpp.
#include "conversation.hpp"

#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <new>
#include <utility>

#include "text.hpp"

namespace upbeat {

namespace {

using Clock = std::chrono::steady_clock;

// A wait that took so much longer than asked for was no wait: the whole machine, or this process, stood still.
constexpr std::chrono::milliseconds standstill{500};
constexpr std::chrono::milliseconds between_looks{50};

// More than any state or text: a process that announces more has lost its mind.
constexpr std::uint64_t most_bytes = std::uint64_t{1} << 33;
constexpr std::uint64_t most_words = 1 << 16;

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

bool Conversation::end(const std::string& why) {
  over_ = true;
  hooks_.lost(true);
  why_ = why + "; its process was ended";
  return false;
}

std::string Conversation::words() const {
  const auto size = static_cast<std::size_t>(std::min(answer_.size, most_words));
  return sound_text({reinterpret_cast<const char*>(payload_), size});
}

void Conversation::restart(Link link) {
  link_ = std::move(link);
  over_ = false;
  records_ = 0;
}

void Conversation::hurry(double deadline) { deadline_ = std::min(deadline_, deadline); }

bool Conversation::alive() const {
  if (link_.process <= 0) return true;  // a thread of this very process
  siginfo_t info{};
  // Without taking notice of its end: that is left to its parent.
  if (waitid(P_PID, static_cast<id_t>(link_.process), &info, WEXITED | WNOHANG | WNOWAIT) != 0) return errno == EINTR;
  return info.si_pid == 0;
}

// Hands over what is on the shared page, and waits for the answer. False: there is none, and never will be.
bool Conversation::exchanged() {
  SharedPage& page = *link_.page;
  page.serial = ++serial_;
  const std::uint32_t looking = worth_looking(cores_);
  page.looking.store(looking, std::memory_order_relaxed);
  hand_over(page, Side::Server);
  const Clock::time_point began = Clock::now();
  Clock::time_point deadline = began + std::chrono::duration_cast<Clock::duration>(
                                           std::chrono::duration<double>(std::min(deadline_, 1e9)));
  Clock::time_point last = began, looked = began;
  const bool answered = await_turn(page, Side::Client, Patience::look(cores_ > 1 ? std::max(looking, 30u) : 0), [&] {
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
  answer_ = page.answer();
  if (answer_.serial != ~serial_) return end("its process wrote over the memory that it shares with the run");
  if (page.records.load(std::memory_order_relaxed) != records_) {
    records_ = page.records.load(std::memory_order_relaxed);
    hooks_.records();
  }
  return true;
}

bool Conversation::ask(const Question& question) {
  SharedPage& page = *link_.page;
  const auto* from = static_cast<const unsigned char*>(question.from);
  if (question.size > link_.room) {
    for (std::uint64_t done = 0; done < question.size; done += link_.room) {
      const std::uint64_t piece = std::min(link_.room, question.size - done);
      page.command = static_cast<std::int32_t>(Command::Feed);
      page.size = piece;
      std::memcpy(page.payload(), from + done, piece);
      if (!exchanged()) return false;
    }
  } else if (question.size > 0) {
    std::memcpy(page.payload(), from, question.size);
  }
  page.command = static_cast<std::int32_t>(question.command);
  page.a = question.a;
  page.b = question.b;
  page.x = question.x;
  page.y = question.y;
  page.size = question.size;
  if (!exchanged()) return false;
  payload_ = page.payload();
  return answer_.size <= link_.room || gathered();
}

// The payload of an answer that comes in pieces. There is memory for what has come, and not for what is announced.
bool Conversation::gathered() {
  SharedPage& page = *link_.page;
  const SharedPage::Answer answer = answer_;
  if (answer.size > most_bytes) return end("its process announced an answer of " + std::to_string(answer.size) + " bytes");
  spill_.clear();
  while (spill_.size() < answer.size) {
    page.command = static_cast<std::int32_t>(Command::Fetch);
    page.size = spill_.size();
    if (!exchanged()) return false;
    const std::uint64_t piece = std::min<std::uint64_t>(link_.room, answer.size - spill_.size());
    try {
      spill_.insert(spill_.end(), page.payload(), page.payload() + piece);
    } catch (const std::bad_alloc&) {
      return end("there is no memory for its answer of " + std::to_string(answer.size) + " bytes");
    }
  }
  answer_ = answer;
  payload_ = spill_.data();
  return true;
}

}  // namespace upbeat
