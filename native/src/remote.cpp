// See remote.hpp.
#include "remote.hpp"
#include "calls.hpp"

#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <memory>

namespace upbeat {

namespace {

using Clock = std::chrono::steady_clock;

// The engine's slots begin after the one that restarts use.
constexpr std::int32_t for_restarts = 0;
constexpr std::int32_t first_slot = 1;

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

RemoteUnit::RemoteUnit(Link link, Offered calls, std::vector<RemotePort> ports, RemoteTerms terms, RemoteHooks hooks)
    : link_(link), calls_(calls), ports_(std::move(ports)), terms_(terms), hooks_(std::move(hooks)) {
  ++waiting;
}

RemoteUnit::~RemoteUnit() {
  --waiting;
  if (!gone_) {
    terms_.deadline = std::min(terms_.deadline, 2.0);
    terms_.restarts = 0;
    asked({Command::End});
  }
  hooks_.ended();
}

int RemoteUnit::fail(std::string message) {
  message_ = std::move(message);
  return 1;
}

// ---------------------------------------------------------------- one question, one answer

bool RemoteUnit::alive() const {
  if (link_.process <= 0) return true;  // a thread of this very process
  siginfo_t info{};
  // Without taking notice of its end: that is left to whoever started it.
  if (waitid(P_PID, static_cast<id_t>(link_.process), &info, WEXITED | WNOHANG | WNOWAIT) != 0) return errno == EINTR;
  return info.si_pid == 0;
}

// Hands over what is on the slate, and waits for the answer. False: there is none, and never will be.
bool RemoteUnit::exchanged() {
  Slate& slate = *link_.slate;
  const std::uint32_t looking = worth_looking(cores_);
  slate.looking.store(looking, std::memory_order_relaxed);
  hand_over(slate, Side::Server);
  const Clock::time_point began = Clock::now();
  Clock::time_point deadline = began + std::chrono::duration_cast<Clock::duration>(
                                           std::chrono::duration<double>(std::min(terms_.deadline, 1e9)));
  Clock::time_point last = began, looked = began;
  bool given_up = false;
  const bool answered = await_turn(slate, Side::Client, Patience::look(cores_ > 1 ? std::max(looking, 30u) : 0), [&] {
    const Clock::time_point now = Clock::now();
    if (now - last > standstill) deadline += now - last;
    last = now;
    if (now >= deadline || !alive()) return false;
    if (now - looked < between_looks) return true;
    looked = now;
    given_up = !hooks_.going_on();
    return !given_up;
  });
  if (!answered) {
    gone_ = true;
    if (given_up) terms_.restarts = 0;
    message_ = hooks_.lost(alive());
    return false;
  }
  if (slate.records.load(std::memory_order_relaxed) != records_) {
    records_ = slate.records.load(std::memory_order_relaxed);
    hooks_.records();
  }
  return true;
}

// The answer is on the slate then, its payload at `answer_`.
bool RemoteUnit::asked(const Question& question) {
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
  answer_ = slate.payload();
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
  answer_ = spill_.data();
  return true;
}

int RemoteUnit::call(const Question& question) {
  if (gone_) return 1;
  while (!asked(question)) {
    if (!revived()) return 1;
  }
  const Slate& slate = *link_.slate;
  if (slate.status != 0) message_.assign(reinterpret_cast<const char*>(answer_), slate.size);
  return slate.status;
}

// ---------------------------------------------------------------- the calls of unit.h

int RemoteUnit::get(int number, Cell* to) {
  const RemotePort& port = ports_[static_cast<std::size_t>(number)];
  Question question{Command::Get};
  question.a = number;
  if (const int status = call(question)) return status;
  const std::uint64_t size = link_.slate->size;
  if (port.plain()) {
    if (size != sizeof(Cell) * port.filled()) return fail("its process gave an answer of another size");
    std::memcpy(to, answer_, size);
    return 0;
  }
  Reader reader(answer_, size);
  if (port.event) to[port.cells].i = static_cast<std::int64_t>(reader.word());
  if (port.event && to[port.cells].i == 0) return 0;
  return read_texts(reader, port.cells, *strings_, to) ? 0 : fail("its process gave no texts");
}

int RemoteUnit::set(int number, const Cell* coefficients, int count) {
  const RemotePort& port = ports_[static_cast<std::size_t>(number)];
  Question question{Command::Set};
  question.a = number;
  question.b = count;
  if (port.plain()) {
    question.from = coefficients;
    question.size = sizeof(Cell) * static_cast<std::uint64_t>(port.cells) * static_cast<std::uint64_t>(count);
  } else {
    outgoing_.clear();
    write_texts(coefficients, port.cells, *strings_, outgoing_);
    question.from = outgoing_.data();
    question.size = outgoing_.size();
  }
  const int status = call(question);
  return status ? status : remember(question);
}

int RemoteUnit::advance(double t, double to, int early, double* reached) {
  Question question{Command::Advance};
  question.a = early;
  question.x = t;
  question.y = to;
  if (const int status = call(question)) return status;
  *reached = link_.slate->y;
  remember(question);
  if (terms_.restarts > 0 && ++steps_ >= terms_.keep_every) keep();
  return 0;
}

int RemoteUnit::jump(int* again) {
  const Question question{Command::Jump};
  if (const int status = call(question)) return status;
  *again = link_.slate->a;
  return remember(question);
}

int RemoteUnit::due(double* time) {
  if (const int status = call({Command::Due})) return status;
  *time = link_.slate->y;
  return 0;
}

int RemoteUnit::slope(int output, int input, Cell* to) {
  Question question{Command::Slope};
  question.a = output;
  question.b = input;
  if (const int status = call(question)) return status;
  const auto cells = [this](int port) { return static_cast<std::uint64_t>(ports_[static_cast<std::size_t>(port)].cells); };
  if (link_.slate->size != sizeof(Cell) * cells(output) * cells(input)) return fail("its process gave an answer of another size");
  std::memcpy(to, answer_, link_.slate->size);
  return 0;
}

int RemoteUnit::save(int slot) {
  Question question{Command::Save};
  question.a = slot + first_slot;
  if (const int status = call(question)) return status;
  packed_slot_ = -1;
  if (terms_.restarts > 0) slots_[question.a].fresh = false;
  return remember(question);
}

int RemoteUnit::restore(int slot) {
  Question question{Command::Restore};
  question.a = slot + first_slot;
  const int status = call(question);
  return status ? status : remember(question);
}

// Whoever asks for the size will want the bytes next: they travel once.
int RemoteUnit::pack(int slot, void* to, std::uint64_t* size) {
  if (packed_slot_ != slot) {
    Question question{Command::Pack};
    question.a = slot + first_slot;
    packed_slot_ = -1;
    if (const int status = call(question)) return status;
    packed_.assign(answer_, answer_ + link_.slate->size);
    packed_slot_ = slot;
  }
  const std::uint64_t room = *size;
  *size = packed_.size();
  if (room < *size) return 0;
  if (*size > 0) std::memcpy(to, packed_.data(), packed_.size());
  packed_slot_ = -1;
  return 0;
}

int RemoteUnit::unpack(int slot, const void* from, std::uint64_t size) {
  Question question{Command::Unpack};
  question.a = slot + first_slot;
  question.from = from;
  question.size = size;
  packed_slot_ = -1;
  if (const int status = call(question)) return status;
  if (terms_.restarts > 0) slots_[question.a].fresh = false;
  return remember(question);
}

// ---------------------------------------------------------------- another process in its place

int RemoteUnit::remember(const Question& question) {
  if (terms_.restarts <= 0) return 0;
  const auto* const from = static_cast<const unsigned char*>(question.from);
  Told told{question, Bytes(from, from + question.size), link_.slate->a, link_.slate->y};
  told.question.from = nullptr;
  told_.push_back(std::move(told));
  return 0;
}

// The present state, and those that were saved: what was told before need not be told again. If the unit
// cannot give them just now, it is asked again later.
void RemoteUnit::keep() {
  Slate& slate = *link_.slate;
  const auto answered = [&](Command command, std::int32_t slot) {
    Question question{command};
    question.a = slot;
    return asked(question) && slate.status == 0;
  };
  steps_ = 0;
  if (!answered(Command::Save, for_restarts) || !answered(Command::Pack, for_restarts)) {
    if (gone_) revived();
    return;
  }
  Bytes state(answer_, answer_ + slate.size);
  std::map<std::int32_t, Bytes> fresh;
  for (const auto& [slot, kept] : slots_) {
    if (kept.fresh) continue;
    if (!answered(Command::Pack, slot)) {
      if (gone_) revived();
      return;
    }
    fresh[slot].assign(answer_, answer_ + slate.size);
  }
  state_ = std::move(state);
  for (auto& [slot, bytes] : fresh) slots_[slot] = {std::move(bytes), true};
  told_.clear();
}

// After a loss, with the reason in `message_`: whether there is a unit again that stands where the old one did.
bool RemoteUnit::revived() {
  while (gone_ && terms_.restarts > 0) {
    --terms_.restarts;
    const Link link = hooks_.renewed(message_);
    if (!link.slate) return false;
    link_ = link;
    gone_ = false;
    records_ = 0;
    if (!caught_up() && !gone_) {
      gone_ = true;
      message_ = "its process was started anew, but did not come to the same state: " + message_;
      hooks_.lost(true);
      return false;
    }
  }
  return !gone_;
}

// Asks, and takes the words of a refusal over.
bool RemoteUnit::granted(const Question& question) {
  if (!asked(question)) return false;
  if (link_.slate->status == 0) return true;
  message_.assign(reinterpret_cast<const char*>(answer_), link_.slate->size);
  return false;
}

bool RemoteUnit::took_over(std::int32_t slot, const Bytes& state) {
  Question question{Command::Unpack};
  question.a = slot;
  question.from = state.data();
  question.size = state.size();
  return granted(question);
}

bool RemoteUnit::caught_up() {
  if (!state_.empty()) {
    Question restore{Command::Restore};
    restore.a = for_restarts;
    if (!took_over(for_restarts, state_) || !granted(restore)) return false;
  }
  for (const auto& [slot, kept] : slots_) {
    if (!kept.state.empty() && !took_over(slot, kept.state)) return false;
  }
  for (const Told& told : told_) {
    Question question = told.question;
    question.from = told.payload.data();
    if (!granted(question)) return false;
    if (link_.slate->a != told.a || bits_of(link_.slate->y) != bits_of(told.y)) {
      message_ = "it does not repeat itself";
      return false;
    }
  }
  return true;
}

upbeat_unit RemoteUnit::table(std::unique_ptr<RemoteUnit> unit) {
  using Call = Calls<RemoteUnit>;
  const Offered offered = unit->calls_;
  upbeat_unit table = Call::table(unit.release());
  table.jump = Call::jump;
  if (offered.rollback) Call::goes_back(table);
  if (offered.pack) Call::packs(table);
  if (offered.due) table.due = Call::due;
  if (offered.slope) table.slope = Call::slope;
  table.message = Call::message;
  return table;
}

}  // namespace upbeat
