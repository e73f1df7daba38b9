// Handles: many calls at once, waiting, testing, waiting for a time, handles of a communicator that goes.
#include "check.h"

enum { kCalls = 24, kCount = 4000 };

static void check_many(const struct job* job) {
  static int64_t x[kCalls][kCount];
  static int64_t gathered[16];
  tutti_work works[kCalls + 2];
  for (int call = 0; call < kCalls; ++call) {
    for (size_t i = 0; i < kCount; ++i) x[call][i] = (int64_t)i + call + job->rank;
    OK(tutti_all_reduce(job->comm, x[call], x[call], kCount, TUTTI_INT64, TUTTI_SUM, &works[call]));
    CHECK(works[call] != NULL);
  }
  const int64_t mine = job->rank + 100;
  CHECK(job->size <= 16);
  OK(tutti_all_gather(job->comm, &mine, gathered, 1, TUTTI_INT64, &works[kCalls]));
  OK(tutti_barrier(job->comm, &works[kCalls + 1]));
  OK(tutti_wait_all(works, kCalls + 2));
  const int64_t n = job->size;
  for (int call = 0; call < kCalls; ++call) {
    CHECK(works[call] == NULL);
    for (int64_t i = 0; i < kCount; ++i) CHECK(x[call][i] == n * (i + call) + n * (n - 1) / 2);
  }
  for (int rank = 0; rank < job->size; ++rank) CHECK(gathered[rank] == rank + 100);
  OK(tutti_wait_all(works, kCalls + 2));  // NULL handles are done
  OK(tutti_wait_all(NULL, 0));
  FAILS(tutti_wait_all(NULL, 1), TUTTI_INVALID_ARGUMENT, "works is NULL");
}

// tutti_test takes a call further, so that asking again and again ends.
static void check_test(const struct job* job) {
  float x = 1;
  int done = 0;
  tutti_work work;
  OK(tutti_all_reduce(job->comm, &x, &x, 1, TUTTI_FLOAT32, TUTTI_SUM, &work));
  while (!done) OK(tutti_test(work, &done));
  CHECK(x == (float)job->size);
  CHECK(work != NULL);
  OK(tutti_wait(&work));
  CHECK(work == NULL);
  done = 0;
  OK(tutti_test(NULL, &done));
  CHECK(done == 1);
  FAILS(tutti_test(NULL, NULL), TUTTI_INVALID_ARGUMENT, "done is NULL");
  FAILS(tutti_wait(NULL), TUTTI_INVALID_ARGUMENT, "work is NULL");
}

// The last rank holds the others up until they have told it that their time has passed.
static void check_wait_for(const struct job* job) {
  if (job->size == 1) return;
  const int last = job->size - 1;
  int32_t x = 1, told = 0;
  tutti_work work = NULL;
  if (job->rank == last) {
    for (int rank = 0; rank < last; ++rank) OK(tutti_recv(job->comm, &told, 1, TUTTI_INT32, rank, 0, NULL, NULL));
    OK(tutti_all_reduce(job->comm, &x, &x, 1, TUTTI_INT32, TUTTI_SUM, &work));
  } else {
    OK(tutti_all_reduce(job->comm, &x, &x, 1, TUTTI_INT32, TUTTI_SUM, &work));
    FAILS(tutti_wait_for(&work, 20), TUTTI_TIMEOUT, "still under way");
    CHECK(work != NULL);
    OK(tutti_send(job->comm, &told, 1, TUTTI_INT32, last, 0, NULL));
  }
  OK(tutti_wait_for(&work, 60000));
  CHECK(work == NULL && x == job->size);
}

// A communicator that goes first fails its calls; their handles are still there to say so.
static void check_orphan(void) {
  struct job job = meet();
  int64_t timeout_ms = 0;
  OK(tutti_get_timeout(job.comm, &timeout_ms));
  CHECK(timeout_ms > 0);
  OK(tutti_set_timeout(job.comm, 1234));
  OK(tutti_get_timeout(job.comm, &timeout_ms));
  CHECK(timeout_ms == 1234);
  int32_t x = 0;
  if (job.rank == 0 && job.size > 1) {
    int done = 0;
    tutti_work work;
    OK(tutti_recv(job.comm, &x, 1, TUTTI_INT32, 1, 0, NULL, &work));  // which nobody sends
    OK(tutti_comm_free(&job.comm));
    OK(tutti_test(work, &done));
    CHECK(done == 1);
    FAILS(tutti_wait(&work), TUTTI_ABORTED, "destroyed before this call ended");
    CHECK(work == NULL);
  } else if (job.size > 1) {
    CHECK(tutti_barrier(job.comm, NULL) != TUTTI_OK);  // rank 0 left instead
  }
  OK(tutti_comm_free(&job.comm));
}

int main(void) {
  struct job job = meet();
  check_many(&job);
  check_test(&job);
  check_wait_for(&job);
  check_orphan();
  return leave(&job);
}
