// What a process has of UCX once for all its groups: a worker, an endpoint to every other process that it has talked
// to, and the streams of its groups on them. Any thread.
//
// Processes get to know each other over a link of the control plane (link.h), which asks for the job's token: nobody
// else learns the key without which messages are dropped. Links are read by the control plane's thread, which also has
// UCX go on while no other thread does: what others wait for does not lie here while this rank computes.
//
// All is guarded by one lock, which nobody holds while it sleeps. Payload passes through memory of the fabric at both
// ends: what UCX has begun to read or write cannot be called back, and buffers are their caller's again when a call
// fails.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "base/links.h"
#include "transport/fabric.h"
#include "transport/ucx/bell.h"
#include "transport/ucx/peer.h"
#include "transport/ucx/worker.h"

namespace tutti::transport {

class UcxFabric final : public Fabric, public std::enable_shared_from_this<UcxFabric>, private UcxWorker::Listener {
 public:
  static constexpr std::size_t kSlotBytes = 256 << 10;
  // Larger messages stay with their sender until they are fetched.
  static constexpr std::size_t kEagerBytes = (64 << 10) + kLabelBytes;

  // Throws Error.
  UcxFabric(const FabricJob& job, std::shared_ptr<Links> links, std::function<void()> elsewhere);
  // The control plane says goodbye, where this is what kept it; then the worker ends, when what was sent has arrived,
  // or after a while.
  ~UcxFabric() override;
  UcxFabric(const UcxFabric&) = delete;
  UcxFabric& operator=(const UcxFabric&) = delete;

  std::unique_ptr<StreamTransport> make_transport(StreamGroup group, std::unique_ptr<Control> control,
                                                  StreamOptions options) override;

  WorkerBell& bell() { return bell_; }
  // As StreamTransport has it.
  void arm();
  // A group has failed: at the end nobody waits for what was sent.
  void hurry() { hurries_.store(true); }

  UcxStream& open(int rank, std::uint64_t group, int channel);
  // The group's transport goes: its messages may land nowhere any more.
  void close(std::uint64_t group, std::span<const int> ranks);
  const Breakage& breakage(int rank) const { return peers_[static_cast<std::size_t>(rank)]->breakage; }
  std::chrono::nanoseconds quiet_for(int rank);
  // All that the other end has sent of the stream has come, given that it left the group then.
  bool is_drained(const UcxStream& stream, std::uint64_t left_at);

  // As Sender has them.
  bool send(UcxStream& stream, std::span<const Piece> pieces, std::size_t bytes, std::uint64_t fingerprint);
  bool flush(UcxStream& stream);
  bool has_credit(UcxStream& stream);

  // As Receiver has them.
  Arrival hear(UcxStream& stream, std::uint64_t fingerprint);
  bool ready(UcxStream& stream);
  Arrival receive(UcxStream& stream, std::span<const Piece> pieces, std::size_t bytes, std::uint64_t fingerprint);
  Arrival label(UcxStream& stream, Label& label, std::uint64_t fingerprint);
  Arrival receive_labelled(UcxStream& stream, Piece payload);

 private:
  // Takes the lock; rings once it is free again, if something has happened meanwhile.
  class Turn {
   public:
    explicit Turn(UcxFabric& fabric) : fabric_(fabric) { fabric_.mutex_.lock(); }
    ~Turn() {
      const bool happened = std::exchange(fabric_.happened_, false);
      fabric_.mutex_.unlock();
      if (happened) fabric_.bell_.ring();
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    UcxFabric& fabric_;
  };

  bool arrive(const UcxHeader& header, void* data, std::size_t bytes, bool rendezvous) override;
  void end(Parcel& parcel, bool good) override;
  void flushed(UcxPeer& peer, bool good) override;
  void broken(UcxPeer& peer, int number) override;

  // Before somebody sleeps: whether the worker's descriptor will tell of all that happens.
  bool settle();

  // The lock is held by whoever calls what follows.
  static constexpr int kMostRounds = 16;  // of UCX at a time: whoever holds the lock has others wait

  UcxPeer& peer(int rank) { return *peers_[static_cast<std::size_t>(rank)]; }
  UcxStreams& streams_of(UcxPeer& peer, std::uint64_t group);
  // Has UCX go on for a moment; all that it has to say is said meanwhile. Whether there was something.
  bool progress();
  bool may_send(const UcxStream& stream, bool large) const;
  void start_flush(UcxPeer& peer);
  UcxHeader header_of(UcxStream& stream, UcxHeader::Kind kind) const;
  // To the endpoint, as soon as there is one.
  void give(UcxPeer& to, Parcel& parcel);
  // The next message of the stream, where it has come; of a large one only its header, until it has landed.
  const UcxStream::Arrived* front(UcxStream& stream);
  // Where its payload is, or nullptr.
  const std::byte* payload(UcxStream& stream);
  void fetch_next(UcxStream& stream);
  void finish(UcxStream& stream);
  void tell_taken(UcxStream& stream);
  void drop(UcxStreams& streams);

  // Links, in fabric_links.cc: on the control plane's thread.
  void link(Links::Made made);
  void leave(std::uint64_t group, std::span<const Links::Member> members);
  void read_links();
  // Has UCX go on while no other thread does, and asks to be called again when there is more.
  void attend();
  void attend_in(std::chrono::nanoseconds time);
  // Whether attend() is called as soon as there is something: not before UCX has gone on once more.
  bool watch_worker();
  void read(UcxPeer& peer);
  void take(UcxPeer& peer, const UcxLink::Message& message);
  void greet(UcxPeer& peer, const UcxLink::Message& hello);
  void hear_bye(UcxPeer& peer, const UcxLink::Message& bye);
  void confirm(UcxPeer& peer);
  // Waits until the others have all that was sent to them.
  void await_arrival();
  // Whether UCX could be brought to an end.
  bool close_endpoints();
  bool is_done_with(UcxPeer& peer);

  const FabricJob job_;
  std::mutex mutex_;
  bool happened_ = false;
  std::vector<std::unique_ptr<UcxPeer>> peers_;  // by rank of the job
  std::unique_ptr<Parcels> parcels_ = std::make_unique<Parcels>();
  std::vector<UcxStream*> to_fetch_;
  UcxWorker worker_;
  WorkerBell bell_;
  const std::vector<std::byte> address_;  // the worker's, for others
  FileDescriptor link_poll_;              // links, and what has to be attended to
  FileDescriptor timer_;
  std::uint64_t driven_ = 0, seen_driven_ = 0;  // how often somebody had UCX go on, and as attend() saw it last
  std::atomic<bool> hurries_{false};
  std::shared_ptr<Links> links_;
};

}  // namespace tutti::transport
