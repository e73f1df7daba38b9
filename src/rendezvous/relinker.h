// Control links that are made after the meeting, because ranks through which others were joined are gone.
//
// A rank listens as long as it lives: one that refuses for long has ended, unheard by anybody who is still there, and
// one that does not answer for long is silent. A pure state machine; the watch passes on the events, and keeps the
// gate for those who dial this rank.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "rendezvous/link_options.h"
#include "rendezvous/network.h"

namespace tutti::rendezvous {

class Relinker {
 public:
  struct Made {
    int rank = 0;
    ConnectionId connection = 0;
    std::span<const std::byte> rest;  // what came behind the handshake
  };

  Relinker(Network& network, int rank, LinkOptions options)
      : network_(network), rank_(rank), options_(std::move(options)) {}

  // Dials them; whoever is being dialled already still is.
  void seek(const std::vector<int>& ranks, Time now);
  // Dials no longer those of whom `over` says so, nor those that will not have this rank.
  void drop(const std::function<bool(int rank)>& over);
  // It is being dialled, and nobody listens there.
  bool is_refused_by(int rank) const;
  // Those that have refused for too long.
  std::vector<int> ended(Time now) const;
  // Those that did not answer for `silence`, and a little more.
  std::vector<int> silent(Time silence, Time now) const;
  void close();

  // Whether the connection is one of its own.
  bool holds(ConnectionId connection) { return find(connection) != sought_.end(); }
  void connected(ConnectionId connection, Time now);
  // A link, where it stands now.
  std::optional<Made> received(ConnectionId connection, std::span<const std::byte> bytes, Time now);
  void closed(ConnectionId connection, End end, std::string_view words, Time now);
  void tick(Time now);
  Time next_tick() const;

 private:
  struct Sought {
    Dialer dialer;
    Time since{};
  };
  using Entry = std::map<int, Sought>::iterator;
  Entry find(ConnectionId connection);

  Network& network_;
  const int rank_;
  const LinkOptions options_;
  std::map<int, Sought> sought_;  // by rank
};

}  // namespace tutti::rendezvous
