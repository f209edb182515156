// See server.hpp.
#include "server.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace upbeat {

Server::Server(std::shared_ptr<Slate> slate, std::uint64_t room, upbeat_unit unit, std::vector<RemotePort> ports, Strings& strings,
               std::function<std::string()> why)
    : memory_(std::move(slate)), slate_(*memory_), room_(room), unit_(unit), ports_(std::move(ports)), strings_(strings), why_(std::move(why)) {}

Server::~Server() {
  if (unit_.destroy) unit_.destroy(unit_.self);
}

RemoteUnit::Offered Server::calls() const {
  return {unit_.save != nullptr, unit_.pack != nullptr, unit_.due != nullptr, unit_.slope != nullptr};
}

bool Server::wait(const std::atomic<bool>& abandoned) {
  return await_turn(slate_, Side::Server, Patience::look(slate_.looking.load(std::memory_order_relaxed)), [&] { return !abandoned.load(std::memory_order_relaxed); });
}

bool Server::answer() {
  const auto command = static_cast<Command>(slate_.command);
  if (command == Command::Feed) {
    inbox_.insert(inbox_.end(), slate_.payload(), slate_.payload() + slate_.size);
  } else if (command == Command::Fetch) {
    const std::uint64_t piece = std::min<std::uint64_t>(room_, outbox_.size() - slate_.size);
    std::memcpy(slate_.payload(), outbox_.data() + slate_.size, piece);
  } else if (command == Command::End) {
    if (unit_.destroy) unit_.destroy(unit_.self);  // before the answer: it may have something to say
    unit_ = {};
    slate_.status = 0;
    slate_.size = 0;
  } else {
    given_ = slate_.size > room_ ? inbox_.data() : slate_.payload();
    outbox_.clear();
    slate_.status = carried_out();
    inbox_.clear();
    if (slate_.status != 0) {
      const std::string text = why_();
      outbox_.assign(text.begin(), text.end());
      slate_.size = outbox_.size();
    }
    if (!outbox_.empty() && outbox_.size() <= room_) std::memcpy(slate_.payload(), outbox_.data(), outbox_.size());
  }
  hand_over(slate_, Side::Client);
  return command != Command::End;
}

int Server::carried_out() {
  switch (static_cast<Command>(slate_.command)) {
    case Command::Get: return get();
    case Command::Set: return set();
    case Command::Slope: return slope();
    case Command::Pack: return pack();
    case Command::Unpack: {
      const std::uint64_t size = std::exchange(slate_.size, 0);
      return unit_.unpack(unit_.self, slate_.a, given_, size);
    }
    default: break;
  }
  slate_.size = 0;
  switch (static_cast<Command>(slate_.command)) {
    case Command::Advance: {
      double reached = slate_.y;
      const int status = unit_.advance(unit_.self, slate_.x, slate_.y, slate_.a, &reached);
      slate_.y = reached;
      return status;
    }
    case Command::Jump: {
      int again = 0;
      const int status = unit_.jump ? unit_.jump(unit_.self, &again) : 0;
      slate_.a = again;
      return status;
    }
    case Command::Due: {
      double time = std::numeric_limits<double>::infinity();
      const int status = unit_.due(unit_.self, &time);
      slate_.y = time;
      return status;
    }
    case Command::Save: return unit_.save(unit_.self, slate_.a);
    case Command::Restore: return unit_.restore(unit_.self, slate_.a);
    default: return 1;
  }
}

// Where a unit may put so many cells: on the slate itself, if they fit.
Cell* Server::cells_for(std::uint64_t count) {
  slate_.size = sizeof(Cell) * count;
  if (slate_.size <= room_) return reinterpret_cast<Cell*>(slate_.payload());
  outbox_.resize(slate_.size);
  return reinterpret_cast<Cell*>(outbox_.data());
}

int Server::get() {
  const RemotePort& port = ports_[static_cast<std::size_t>(slate_.a)];
  if (port.plain()) return unit_.get(unit_.self, slate_.a, cells_for(port.filled()));
  cells_.resize(port.filled());
  if (const int status = unit_.get(unit_.self, slate_.a, cells_.data())) return status;
  const bool present = !port.event || cells_.back().i != 0;
  if (port.event) append_word(outbox_, present ? 1 : 0);
  if (present) write_texts(cells_.data(), port.cells, strings_, outbox_);
  slate_.size = outbox_.size();
  return 0;
}

int Server::set() {
  const RemotePort& port = ports_[static_cast<std::size_t>(slate_.a)];
  const std::uint64_t size = std::exchange(slate_.size, 0);
  if (port.plain()) return unit_.set(unit_.self, slate_.a, reinterpret_cast<const Cell*>(given_), slate_.b);
  cells_.resize(port.filled());
  Reader reader(given_, size);
  if (!read_texts(reader, port.cells, strings_, cells_.data())) return 1;
  return unit_.set(unit_.self, slate_.a, cells_.data(), slate_.b);
}

int Server::slope() {
  const std::uint64_t rows = static_cast<std::uint64_t>(ports_[static_cast<std::size_t>(slate_.a)].cells);
  const std::uint64_t columns = static_cast<std::uint64_t>(ports_[static_cast<std::size_t>(slate_.b)].cells);
  const std::int32_t output = slate_.a, input = slate_.b;
  return unit_.slope(unit_.self, output, input, cells_for(rows * columns));
}

int Server::pack() {
  std::uint64_t size = 0;
  if (const int status = unit_.pack(unit_.self, slate_.a, nullptr, &size)) return status;
  do {
    outbox_.resize(size);
    if (const int status = unit_.pack(unit_.self, slate_.a, outbox_.data(), &size)) return status;
  } while (size > outbox_.size());
  outbox_.resize(size);
  slate_.size = size;
  return 0;
}

}  // namespace upbeat
