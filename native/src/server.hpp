// The other end of a shared page: carries out what is asked of one unit, in the unit's own process.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "remote.hpp"

namespace upbeat {

class Server {
 public:
  // Takes over the unit: its `destroy` is called at the end. `why` says why the last call of it has failed.
  Server(std::shared_ptr<SharedPage> page, std::uint64_t room, upbeat_unit unit, std::vector<RemotePort> ports, Strings& strings,
         std::function<std::string()> why);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  RemoteUnit::Offered calls() const;

  // Until something is asked, however long that takes; false if there is no client left.
  bool wait(const std::atomic<bool>& abandoned);
  // Carries it out; false if it was the end.
  bool answer();

 private:
  int carried_out();
  int get();
  int set();
  int slope();
  int pack();
  Cell* cells_for(std::uint64_t count);

  std::shared_ptr<SharedPage> memory_;
  SharedPage& page_;
  std::uint64_t room_;
  upbeat_unit unit_;
  std::vector<RemotePort> ports_;
  Strings& strings_;
  std::function<std::string()> why_;
  struct {
    std::int32_t command, a, b;
    double x, y;
    std::uint64_t size;
    std::uint32_t serial;
  } asked_{};
  SharedPage::Answer said_{};
  Bytes inbox_;  // a payload that came in pieces
  const unsigned char* given_ = nullptr;
  Bytes outbox_;  // a payload that goes in pieces
  std::vector<Cell> cells_;
};

}  // namespace upbeat
