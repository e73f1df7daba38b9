// A thread that drives work of all communicators of a rank that sleep in one place: the async calls that nobody waits
// for, or parts of calls.
//
// A communicator that has work *wants* the thread, and takes that back while a caller of its own drives the work: most
// callers wait soon, and waking the thread for them would take a core from somebody and the work out of their hands.
// So the thread of async calls lets a moment pass before it begins.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "runtime/alarm.h"
#include "transport/transport.h"

namespace tutti::runtime {

// The work of one communicator. All of it is called by the thread.
class Driven {
 public:
  enum class Progress : std::uint8_t { idle, stuck, moved };

  virtual ~Driven() = default;
  // Takes the work as far as it goes. Where somebody else is at it, it is stuck.
  virtual Progress drive() = 0;
  // The same, after it was stuck for a while: also looks whether waiting is in vain, which may take system calls.
  virtual Progress drive_or_fail() = 0;
};

class ProgressThread {
 public:
  // How it goes about its work.
  struct Manner {
    const char* name;                 // of the thread
    std::chrono::microseconds grace;  // before it begins
    int spins;                        // looks that find nothing to do, before it sleeps
  };
  // Behind callers who may wait for their calls themselves, and compute meanwhile, quite likely on this very core.
  static constexpr Manner kBehindCallers{"for async calls", std::chrono::microseconds(30), 20};
  // Beside a caller, on a core of its own.
  static constexpr Manner kBesideCallers{"for parts of calls", std::chrono::microseconds(0), 2000};

  // A communicator's place at the thread, for as long as it lives.
  class Place {
   public:
    Place(std::shared_ptr<ProgressThread> thread, Driven& driven, transport::Transport& transport);
    // Returns when the thread is out of it.
    ~Place();
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

    void want();
    void take_back();
    bool is_this_thread() const { return std::this_thread::get_id() == thread_->thread_.get_id(); }

   private:
    friend class ProgressThread;

    std::shared_ptr<ProgressThread> thread_;
    Driven* driven_;
    transport::Transport* transport_;
    // Guarded by the thread's mutex:
    bool wanted_ = false;
    std::uint64_t wishes_ = 0;  // how often it was wanted
  };

  // Throws Error(system).
  explicit ProgressThread(const Manner& manner);
  ~ProgressThread();
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;

 private:
  // What the thread works on in a round: it sees to nothing else, and nobody leaves meanwhile.
  struct Busy {
    Place* place = nullptr;
    std::uint64_t wishes = 0;
  };

  const Manner manner_;

  void run();
  // Whether anybody is left who wants it.
  bool begin_round();
  void end_round();
  Driven::Progress drive_all(Driven::Progress (Driven::*how)());
  void round();
  void sleep();

  std::mutex mutex_;
  std::condition_variable round_ended_;
  std::list<Place*> places_;
  std::vector<Busy> busy_;  // written by the thread, under the mutex
  std::uint64_t rounds_ = 0;
  bool in_round_ = false;
  bool dozing_ = false;  // it waits for the alarm
  bool called_ = false;  // the alarm is set
  bool stop_ = false;
  int spins_ = 0;  // the thread's own: looks that found nothing to do
  Alarm alarm_;
  std::thread thread_;
};

// The threads of a rank, one for each place where its transports sleep: mostly one. Any thread may ask.
class ProgressThreads {
 public:
  explicit ProgressThreads(const ProgressThread::Manner& manner = ProgressThread::kBehindCallers) : manner_(manner) {}

  std::shared_ptr<ProgressThread> of(const transport::Transport& transport);

 private:
  const ProgressThread::Manner manner_;
  std::mutex mutex_;
  std::map<const void*, std::weak_ptr<ProgressThread>> threads_;  // by Transport::sleeping_place()
};

}  // namespace tutti::runtime
