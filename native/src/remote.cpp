// See remote.hpp.
#include "remote.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "calls.hpp"

namespace upbeat {

namespace {

// The engine's slots begin after the one that restarts use.
constexpr std::int32_t for_restarts = 0;
constexpr std::int32_t first_slot = 1;

}  // namespace

RemoteUnit::RemoteUnit(Link link, Offered calls, std::vector<RemotePort> ports, RemoteTerms terms, RemoteHooks hooks)
    : talk_(std::move(link), terms.deadline, hooks),
      calls_(calls),
      ports_(std::move(ports)),
      terms_(terms),
      hooks_(std::move(hooks)) {}

RemoteUnit::~RemoteUnit() {
  std::string why;
  if (!talk_.over()) {
    talk_.hurry(2.0);
    if (!talk_.ask({Command::End})) why = talk_.why();
  }
  hooks_.ended(why);
}

int RemoteUnit::fail(std::string message) {
  message_ = std::move(message);
  return 1;
}

// Asks. Without an answer, the reason is in `message_`.
bool RemoteUnit::asked(const Question& question) {
  if (talk_.ask(question)) return true;
  if (talk_.given_up()) terms_.restarts = 0;
  message_ = talk_.why();
  return false;
}

int RemoteUnit::call(const Question& question) {
  if (talk_.over()) return 1;
  while (!asked(question)) {
    if (!revived()) return 1;
  }
  const int status = talk_.answer().status;
  if (status != 0) message_ = talk_.words();
  return status;
}

// An answer that is none is the end: what the unit will do next is unknown.
int RemoteUnit::nonsense(const std::string& what) {
  talk_.end("its process gave " + what);
  return fail(talk_.why());
}

// ---------------------------------------------------------------- the calls of unit.h

int RemoteUnit::get(int number, Cell* to) {
  const RemotePort& port = ports_[static_cast<std::size_t>(number)];
  Question question{Command::Get};
  question.a = number;
  if (const int status = call(question)) return status;
  const std::uint64_t size = talk_.answer().size;
  if (port.plain()) {
    if (size != sizeof(Cell) * port.filled()) return nonsense("a value of another size");
    std::memcpy(to, talk_.payload(), size);
    if (port.kind == Kind::Boolean) {
      for (std::int32_t i = 0; i < port.cells; ++i) to[i].i = to[i].i != 0;
    }
    if (port.event) to[port.cells].i = to[port.cells].i != 0;
    return 0;
  }
  Reader reader(talk_.payload(), size);
  if (port.event) to[port.cells].i = reader.word() != 0;
  if (port.event && to[port.cells].i == 0) return reader.finished() ? 0 : nonsense("an event of another size");
  return read_texts(reader, port.cells, *strings_, to) ? 0 : nonsense("bytes that are no texts");
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
  *reached = talk_.answer().y;
  remember(question);
  if (terms_.restarts > 0 && ++steps_ >= terms_.keep_every) keep();
  return 0;
}

int RemoteUnit::jump(int* again) {
  const Question question{Command::Jump};
  if (const int status = call(question)) return status;
  *again = talk_.answer().a != 0;
  return remember(question);
}

int RemoteUnit::due(double* time) {
  if (const int status = call({Command::Due})) return status;
  *time = talk_.answer().y;
  return 0;
}

int RemoteUnit::slope(int output, int input, Cell* to) {
  Question question{Command::Slope};
  question.a = output;
  question.b = input;
  if (const int status = call(question)) return status;
  const auto cells = [this](int port) { return static_cast<std::uint64_t>(ports_[static_cast<std::size_t>(port)].cells); };
  if (talk_.answer().size != sizeof(Cell) * cells(output) * cells(input)) return nonsense("slopes of another number");
  std::memcpy(to, talk_.payload(), talk_.answer().size);
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

// After the size the bytes are asked for: they travel once.
int RemoteUnit::pack(int slot, void* to, std::uint64_t* size) {
  if (packed_slot_ != slot) {
    Question question{Command::Pack};
    question.a = slot + first_slot;
    packed_slot_ = -1;
    if (const int status = call(question)) return status;
    packed_.assign(talk_.payload(), talk_.payload() + talk_.answer().size);
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
  PastCall past{question, Bytes(from, from + question.size), talk_.answer().a, talk_.answer().y};
  past.question.from = nullptr;
  past_calls_.push_back(std::move(past));
  return 0;
}

// The present state, and those that were saved: what was told before need not be told again. If the unit
// cannot give them just now, it is asked again later.
void RemoteUnit::keep() {
  const SharedPage::Answer& page = talk_.answer();
  const auto answered = [&](Command command, std::int32_t slot) {
    Question question{command};
    question.a = slot;
    return asked(question) && page.status == 0;
  };
  steps_ = 0;
  if (!answered(Command::Save, for_restarts) || !answered(Command::Pack, for_restarts)) {
    if (talk_.over()) revived();
    return;
  }
  Bytes state(talk_.payload(), talk_.payload() + page.size);
  std::map<std::int32_t, Bytes> fresh;
  for (const auto& [slot, kept] : slots_) {
    if (kept.fresh) continue;
    if (!answered(Command::Pack, slot)) {
      if (talk_.over()) revived();
      return;
    }
    fresh[slot].assign(talk_.payload(), talk_.payload() + page.size);
  }
  state_ = std::move(state);
  for (auto& [slot, bytes] : fresh) slots_[slot] = {std::move(bytes), true};
  past_calls_.clear();
}

// After a loss, with the reason in `message_`: whether there is a unit again that stands where the old one did.
bool RemoteUnit::revived() {
  while (talk_.over() && terms_.restarts > 0) {
    --terms_.restarts;
    Link link = hooks_.renewed(message_);
    if (!link.page) return false;
    talk_.restart(std::move(link));
    if (!caught_up() && !talk_.over()) {
      talk_.end("its process was restarted, but did not come to the same state: " + message_);
      message_ = talk_.why();
      return false;
    }
  }
  return !talk_.over();
}

// Asks, and takes the words of a refusal over.
bool RemoteUnit::granted(const Question& question) {
  if (!asked(question)) return false;
  if (talk_.answer().status == 0) return true;
  message_ = talk_.words();
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
  for (const PastCall& past : past_calls_) {
    Question question = past.question;
    question.from = past.payload.data();
    if (!granted(question)) return false;
    if (talk_.answer().a != past.a || bits_of(talk_.answer().y) != bits_of(past.y)) {
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
  if (offered.rollback) Call::add_rollback(table);
  if (offered.pack) Call::packs(table);
  if (offered.due) table.due = Call::due;
  if (offered.slope) table.slope = Call::slope;
  table.message = Call::message;
  return table;
}

}  // namespace upbeat
