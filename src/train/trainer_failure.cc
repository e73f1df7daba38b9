// What becomes of a step that one rank cannot take: all ranks throw that rank's words.
#include <utility>

#include "train/agreement.h"
#include "train/trainer.h"
#include "train/words.h"

namespace tutti::train {

void Trainer::fail(const std::string& words) {
  abort_all();
  for (BucketRun& run : runs_) run.work = {};
  for (auto& exchange : exchanges_) exchange.reset();
  comm_.close();
  if (returning_) returning_->close();
  if (beside_) beside_->close();
  if (units_) units_->leave();
  const std::scoped_lock lock(parting_mutex_);
  parted_ = true;
  try {
    all_or_none(parting_, [&] { refuse_call(words); });
  } catch (const Error& error) {
    if (error.code() == ErrorCode::invalid_argument) throw;
  }
  // Another rank is gone, too.
  refuse_call("rank " + std::to_string(rank_) + ": " + words);
}

// What ends a step of this replica's part of the model ends it for ranks with other parts, who wait to hear its norm.
void Trainer::leave_beside() {
  if (!beside_) return;
  beside_->abort();
  beside_->close();
}

void Trainer::explain(const Error& error) {
  switch (error.code()) {
    case ErrorCode::peer_lost:
    case ErrorCode::peer_failed:
    case ErrorCode::mismatch: leave_beside(); break;
    default: leave_beside(); return;  // this rank's own, or nobody's
  }
  const std::scoped_lock lock(parting_mutex_);
  if (std::exchange(parted_, true)) return;
  try {
    all_or_none(parting_, [] {});
  } catch (const Error& said) {
    if (said.code() == ErrorCode::invalid_argument) throw;
    // A rank that died says nothing, and the first error has named it.
  }
}

}  // namespace tutti::train
