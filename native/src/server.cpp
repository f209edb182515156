// See server.hpp.
#include "server.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "exception.hpp"

namespace upbeat {

namespace {

constexpr std::uint32_t most_looking = 20'000;  // microseconds, whatever is written where the client says it

}  // namespace

Server::Server(std::shared_ptr<SharedPage> page, std::uint64_t room, upbeat_unit unit, std::vector<RemotePort> ports, Strings& strings,
               std::function<std::string()> why)
    : memory_(std::move(page)), page_(*memory_), room_(room), unit_(unit), ports_(std::move(ports)), strings_(strings), why_(std::move(why)) {}

Server::~Server() {
  if (unit_.destroy) unit_.destroy(unit_.self);
}

RemoteUnit::Offered Server::calls() const {
  return {unit_.save != nullptr, unit_.pack != nullptr, unit_.due != nullptr, unit_.slope != nullptr};
}

bool Server::wait(const std::atomic<bool>& abandoned) {
  const std::uint32_t looking = std::min(page_.looking.load(std::memory_order_relaxed), most_looking);
  return await_turn(page_, Side::Server, Patience::look(looking), [&] { return !abandoned.load(std::memory_order_relaxed); });
}

// The question is read before the unit is called and the answer written after it: a unit that writes where it should
// not changes neither.
bool Server::answer() {
  asked_ = {page_.command, page_.a, page_.b, page_.x, page_.y, page_.size, page_.serial};
  const auto command = static_cast<Command>(asked_.command);
  said_ = {};
  if (command == Command::Feed) {
    inbox_.insert(inbox_.end(), page_.payload(), page_.payload() + asked_.size);
  } else if (command == Command::Fetch) {
    const std::uint64_t piece = std::min<std::uint64_t>(room_, outbox_.size() - asked_.size);
    std::memcpy(page_.payload(), outbox_.data() + asked_.size, piece);
  } else if (command == Command::End) {
    if (unit_.destroy) unit_.destroy(unit_.self);  // before the answer: it may have something to say
    unit_ = {};
  } else {
    given_ = asked_.size > room_ ? inbox_.data() : page_.payload();
    outbox_.clear();
    std::string raised;
    try {
      said_.status = carried_out();
    } catch (...) {
      said_.status = 1;
      raised = current_exception();
    }
    inbox_.clear();
    if (said_.status != 0) {
      page_.status = said_.status;  // `why_` looks at it
      const std::string text = raised.empty() ? why_() : "it raised a C++ exception (" + raised + ")";
      outbox_.assign(text.begin(), text.end());
      said_.size = outbox_.size();
    }
    if (!outbox_.empty() && outbox_.size() <= room_) std::memcpy(page_.payload(), outbox_.data(), outbox_.size());
  }
  page_.status = said_.status;
  page_.a = said_.a;
  page_.y = said_.y;
  page_.size = said_.size;
  page_.serial = ~asked_.serial;
  hand_over(page_, Side::Client);
  return command != Command::End;
}

int Server::carried_out() {
  switch (static_cast<Command>(asked_.command)) {
    case Command::Get: return get();
    case Command::Set: return set();
    case Command::Slope: return slope();
    case Command::Pack: return pack();
    case Command::Unpack: return unit_.unpack(unit_.self, asked_.a, given_, asked_.size);
    case Command::Advance: {
      said_.y = asked_.y;
      return unit_.advance(unit_.self, asked_.x, asked_.y, asked_.a, &said_.y);
    }
    case Command::Jump: return unit_.jump ? unit_.jump(unit_.self, &said_.a) : 0;
    case Command::Due: {
      said_.y = std::numeric_limits<double>::infinity();
      return unit_.due(unit_.self, &said_.y);
    }
    case Command::Save: return unit_.save(unit_.self, asked_.a);
    case Command::Restore: return unit_.restore(unit_.self, asked_.a);
    default: return 1;
  }
}

// Where a unit may put so many cells: on the shared page itself, if they fit.
Cell* Server::cells_for(std::uint64_t count) {
  said_.size = sizeof(Cell) * count;
  if (said_.size <= room_) return reinterpret_cast<Cell*>(page_.payload());
  outbox_.resize(said_.size);
  return reinterpret_cast<Cell*>(outbox_.data());
}

int Server::get() {
  const RemotePort& port = ports_[static_cast<std::size_t>(asked_.a)];
  if (port.plain()) return unit_.get(unit_.self, asked_.a, cells_for(port.filled()));
  cells_.resize(port.filled());
  if (const int status = unit_.get(unit_.self, asked_.a, cells_.data())) return status;
  const bool present = !port.event || cells_.back().i != 0;
  if (port.event) append_word(outbox_, present ? 1 : 0);
  if (present) write_texts(cells_.data(), port.cells, strings_, outbox_);
  said_.size = outbox_.size();
  return 0;
}

int Server::set() {
  const RemotePort& port = ports_[static_cast<std::size_t>(asked_.a)];
  if (port.plain()) return unit_.set(unit_.self, asked_.a, reinterpret_cast<const Cell*>(given_), asked_.b);
  cells_.resize(port.filled());
  Reader reader(given_, asked_.size);
  if (!read_texts(reader, port.cells, strings_, cells_.data())) return 1;
  return unit_.set(unit_.self, asked_.a, cells_.data(), asked_.b);
}

int Server::slope() {
  const std::uint64_t rows = static_cast<std::uint64_t>(ports_[static_cast<std::size_t>(asked_.a)].cells);
  const std::uint64_t columns = static_cast<std::uint64_t>(ports_[static_cast<std::size_t>(asked_.b)].cells);
  return unit_.slope(unit_.self, asked_.a, asked_.b, cells_for(rows * columns));
}

int Server::pack() {
  std::uint64_t size = 0;
  if (const int status = unit_.pack(unit_.self, asked_.a, nullptr, &size)) return status;
  do {
    outbox_.resize(size);
    if (const int status = unit_.pack(unit_.self, asked_.a, outbox_.data(), &size)) return status;
  } while (size > outbox_.size());
  outbox_.resize(size);
  said_.size = size;
  return 0;
}

}  // namespace upbeat
