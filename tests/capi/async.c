// Handles: many calls at once, waiting, testing, waiting for a time or for any, handles of a communicator that goes.
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

// A communicator that goes first leaves its calls under way, in memory of its own, too; whose end is known by waiting.
static void check_orphan(const struct job* job) {
  tutti_comm twin;
  int64_t timeout_ms = 0;
  OK(tutti_comm_duplicate(job->comm, &twin));
  OK(tutti_get_timeout(twin, &timeout_ms));
  CHECK(timeout_ms > 0);
  OK(tutti_set_timeout(twin, 12345));
  OK(tutti_get_timeout(twin, &timeout_ms));
  CHECK(timeout_ms == 12345);
  const int right = (job->rank + 1) % job->size, left = (job->rank + job->size - 1) % job->size;
  int32_t token = 0;
  void* memory = NULL;
  tutti_work works[3];
  tutti_received received = {-5, -5, 0};
  OK(tutti_alloc(twin, kCount * sizeof(int32_t), &memory));
  int32_t* x = memory;
  OK(tutti_recv(twin, x, 1, TUTTI_INT32, left, 7, &received, &works[0]));
  for (size_t i = 1; i < kCount; ++i) x[i] = 1;
  OK(tutti_all_reduce(twin, x + 1, x + 1, kCount - 1, TUTTI_INT32, TUTTI_SUM, &works[1]));
  const int32_t mine = job->rank;
  OK(tutti_send(twin, &mine, 1, TUTTI_INT32, right, 7, &works[2]));
  OK(tutti_comm_free(&twin));
  CHECK(twin == NULL);
  OK(tutti_send_recv(job->comm, &mine, 1, left, &token, 1, right, TUTTI_INT32, 1, NULL));  // the twin is free on both
  CHECK(token == right);
  for (int i = 2; i > 0; --i) OK(tutti_wait(&works[i]));
  for (size_t i = 1; i < kCount; ++i) CHECK(x[i] == job->size);
  int done = 0;
  while (!done) OK(tutti_test(works[0], &done));
  CHECK(x[0] == left);  // still there
  OK(tutti_wait(&works[0]));
  CHECK(works[0] == NULL && received.source == left && received.tag == 7);
}

// A receive that is under way for certain when its communicator goes: its message is sent only then.
static void check_left_behind(const struct job* job) {
  const int last = job->size - 1;
  int32_t told = 1, got = 0;
  tutti_comm twin;
  tutti_work work = NULL;
  OK(tutti_comm_duplicate(job->comm, &twin));
  if (job->rank == last && last > 0) OK(tutti_recv(twin, &got, 1, TUTTI_INT32, 0, 3, NULL, &work));
  if (job->rank == 0 && last > 0) {
    OK(tutti_recv(job->comm, &told, 1, TUTTI_INT32, last, 9, NULL, NULL));
    told = 77;
    OK(tutti_send(twin, &told, 1, TUTTI_INT32, last, 3, NULL));
  }
  OK(tutti_comm_free(&twin));
  if (work == NULL) return;
  OK(tutti_send(job->comm, &told, 1, TUTTI_INT32, 0, 9, NULL));
  OK(tutti_wait(&work));
  CHECK(got == 77);
}

// The first of several, of two communicators: each is told when it may end.
static void check_any(const struct job* job) {
  enum { kMany = 4 };
  static const int order[kMany] = {2, 0, 3, 1};
  tutti_comm twin;
  OK(tutti_comm_duplicate(job->comm, &twin));
  int32_t value[kMany] = {0}, sent = 0;
  tutti_received received[kMany];
  tutti_work works[kMany] = {NULL, NULL, NULL, NULL};
  size_t index = 5, ended = 5, indices[kMany];
  OK(tutti_wait_any(works, kMany, TUTTI_FOREVER, &index));
  CHECK(index == TUTTI_NONE);
  OK(tutti_wait_some(works, kMany, TUTTI_FOREVER, indices, &ended));
  CHECK(ended == 0);
  for (int i = 0; i < kMany; ++i) {
    tutti_comm comm = i % 2 == 0 ? job->comm : twin;
    OK(tutti_recv(comm, &value[i], 1, TUTTI_INT32, job->rank, i, &received[i], &works[i]));
  }
  FAILS(tutti_wait_any(works, kMany, 0, &index), TUTTI_TIMEOUT, "none of the calls");
  FAILS(tutti_wait_some(works, kMany, 10, indices, &ended), TUTTI_TIMEOUT, "none of the calls");
  OK(tutti_test_any(works, kMany, &index));
  CHECK(index == TUTTI_NONE && ended == 0);
  for (int i = 0; i < kMany; ++i) {
    sent = order[i] + 50;
    OK(tutti_send(order[i] % 2 == 0 ? job->comm : twin, &sent, 1, TUTTI_INT32, job->rank, order[i], NULL));
    if (i < 2) {
      OK(tutti_wait_any(works, kMany, TUTTI_FOREVER, &index));
    } else if (i == 2) {
      OK(tutti_wait_some(works, kMany, 60000, indices, &ended));
      CHECK(ended == 1);
      index = indices[0];
    } else {
      for (index = TUTTI_NONE; index == TUTTI_NONE;) OK(tutti_test_any(works, kMany, &index));
    }
    CHECK(index == (size_t)order[i] && works[index] == NULL);
    CHECK(value[index] == sent && received[index].tag == order[i] && received[index].source == job->rank);
  }
  // What failed is returned with its place.
  OK(tutti_recv(job->comm, &value[0], 1, TUTTI_INT32, job->rank, 0, NULL, &works[0]));
  tutti_comm alone;
  OK(tutti_comm_split(job->comm, job->rank, 0, &alone));
  OK(tutti_recv(alone, &value[1], 1, TUTTI_INT32, 0, 1, NULL, &works[1]));
  OK(tutti_abort(alone));
  FAILS(tutti_wait_any(works, kMany, TUTTI_FOREVER, &index), TUTTI_ABORTED, "aborted the communicator");
  CHECK(index == 1 && works[1] == NULL && works[0] != NULL);
  OK(tutti_send(job->comm, &sent, 1, TUTTI_INT32, job->rank, 0, NULL));
  OK(tutti_wait(&works[0]));
  OK(tutti_comm_free(&alone));
  OK(tutti_comm_free(&twin));
  FAILS(tutti_wait_any(NULL, 1, 0, &index), TUTTI_INVALID_ARGUMENT, "works is NULL");
  FAILS(tutti_wait_any(works, 1, 0, NULL), TUTTI_INVALID_ARGUMENT, "index is NULL");
}

int main(void) {
  struct job job = meet();
  check_many(&job);
  check_test(&job);
  check_wait_for(&job);
  check_orphan(&job);
  check_left_behind(&job);
  check_any(&job);
  return leave(&job);
}
