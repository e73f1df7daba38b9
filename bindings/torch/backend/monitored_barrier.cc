// A barrier that tells who is missing: rank 0 hears from every rank, then lets all of them go.
//
// Made of messages that are waited for with a limit, so that a rank which does not come fails the barrier and not the
// group. Programs look for PyTorch's words, which these are.
#include "backend/backend.h"

namespace tutti::pytorch {
namespace {

// Tags that programs will hardly use; barriers of a group take them in turn, so that a message which comes too late is
// not taken for one of the next barrier.
constexpr int kFirstTag = 0x7fff0000;
constexpr int kTags = 0x8000;

std::string in_ms(Milliseconds limit) { return " in " + std::to_string(limit.count()) + " ms"; }

std::string listed(const std::vector<int>& ranks) {
  std::string text;
  for (const int rank : ranks) text += (text.empty() ? "" : ", ") + std::to_string(rank);
  return text;
}

std::string words_of(const c10::Error& error) { return error.what_without_backtrace(); }

}  // namespace

void Backend::collect_arrivals(int tag, Milliseconds limit, bool wait_all_ranks) {
  const auto began = std::chrono::steady_clock::now();
  std::vector<C10dWork> arrivals;
  for (int rank = 1; rank < getSize(); ++rank) {
    Tensors word{at::zeros({1}, at::kByte)};
    arrivals.push_back(recv(word, rank, tag));
  }
  std::vector<int> came, missing;
  for (int rank = 1; rank < getSize(); ++rank) {
    const auto left = limit - std::chrono::duration_cast<Milliseconds>(std::chrono::steady_clock::now() - began);
    if (left <= Milliseconds(0) && !wait_all_ranks) {
      throw_failure("Rank 0 timed out in monitoredBarrier after " + std::to_string(limit.count()) + " ms.\n" +
                    (came.empty() ? "No ranks successfully processed in monitoredBarrier."
                                  : "Successfully processed ranks: " + listed(came)));
    }
    try {
      arrivals[static_cast<std::size_t>(rank - 1)]->wait(std::max(left, Milliseconds(1)));
      came.push_back(rank);
    } catch (const c10::Error& error) {
      if (!wait_all_ranks) {
        throw_failure("[Rank 0]: Rank " + std::to_string(rank) + " failed to pass monitoredBarrier" + in_ms(limit) +
                      "\n Original exception: \n" + words_of(error));
      }
      missing.push_back(rank);
    }
  }
  if (!missing.empty()) {
    throw_failure(std::string("[Rank 0]: ") + (missing.size() == 1 ? "Rank " : "Ranks ") + listed(missing) +
                  " failed to pass monitoredBarrier" + in_ms(limit));
  }
}

void Backend::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) {
  const int tag = kFirstTag + monitored_barriers_.fetch_add(1) % kTags;
  const bool given = options.timeout != c10d::kUnsetTimeout;
  const Milliseconds limit = given ? options.timeout : group_->timeout();
  Tensors word{at::zeros({1}, at::kByte)};
  if (getRank() != 0) {
    try {
      const C10dWork arrived = send(word, 0, tag);
      const C10dWork released = recv(word, 0, tag);
      arrived->wait(std::max(limit, Milliseconds(1)));
      released->wait(std::max(limit, Milliseconds(1)));
    } catch (const c10::Error& error) {
      group_->note_failure();
      throw_failure("Rank " + std::to_string(getRank()) +
                    " successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank "
                    "0. Please check rank 0 logs for faulty rank.\n Original exception: \n" +
                    words_of(error));
    }
    return;
  }
  try {
    collect_arrivals(tag, limit, wait_all_ranks);
  } catch (...) {
    group_->note_failure();
    throw;
  }
  std::vector<C10dWork> releases;
  for (int rank = 1; rank < getSize(); ++rank) releases.push_back(send(word, rank, tag));
  for (const C10dWork& release : releases) release->wait();
}

}  // namespace tutti::pytorch
