// Sockets of the system: where endpoints are, listening, and who is at the other end.
#pragma once

#include <string>

#include "base/deadline.h"
#include "base/file_descriptor.h"
#include "rendezvous/addresses.h"
#include "rendezvous/network.h"

namespace tutti::rendezvous {

// Where the endpoint is: a UNIX socket's own address, or what the name of its host stands for.
Resolved resolve(const Endpoint& endpoint, const Deadline& deadline);
SocketAddress unix_address(const std::string& name);
// As a numeric endpoint.
Endpoint endpoint_of(const SocketAddress& address);

// Binds and listens; returns the real endpoint, with the port that port 0 became. Throws Error with the remedy.
struct Listener {
  FileDescriptor socket;
  Endpoint endpoint;
};
Listener listen_at(const Endpoint& endpoint, const Deadline& deadline = {});

// The numeric address (without port) on which this process listens for its peers: that of `interface` (a name or an
// address), or else the one from which packets to the lobby leave; loopback where the lobby is a UNIX socket.
std::string own_address(const std::string& interface, const Endpoint& lobby, const Deadline& deadline);

// Whether the process at the other end of a UNIX socket runs as this user, and its process id.
bool is_same_user(int socket, int* pid);

// A TCP socket that is connected to itself.
bool is_own_echo(int socket);

void set_no_delay(int socket);
// For control connections, where somebody else judges silence, this one: what is sent goes before the data of other
// connections, what was lost is sent again at least once a second where the system knows how, and the system gives the
// connection up only long after `silence` (0 = when it likes).
void set_control(int socket, Time silence);

// Whether another user sits at this UNIX socket, or somebody who does not listen there as a lobby would.
bool is_squatted(const Endpoint& endpoint);

// Raises this process's limit so that `more` descriptors can be opened beside those that are, of which `less` will be
// closed. try_: false if it cannot be raised so far; allow_: throws Error(system) that names the limit and the remedy.
bool try_descriptors(std::size_t more, std::size_t less);
void allow_descriptors(std::size_t more, std::size_t less = 0);
std::string descriptors_in_words();

}  // namespace tutti::rendezvous
