// What a second thread may do: abort, hear that a call has ended, and start calls while another thread waits.
#include <pthread.h>

#include "check.h"

struct counter {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  int count;
};

static void init_counter(struct counter* counter) {
  CHECK(pthread_mutex_init(&counter->mutex, NULL) == 0 && pthread_cond_init(&counter->changed, NULL) == 0);
  counter->count = 0;
}

static void add_one(void* context) {
  struct counter* counter = context;
  pthread_mutex_lock(&counter->mutex);
  ++counter->count;
  pthread_cond_broadcast(&counter->changed);
  pthread_mutex_unlock(&counter->mutex);
}

static void await(struct counter* counter, int count) {
  pthread_mutex_lock(&counter->mutex);
  while (counter->count < count) pthread_cond_wait(&counter->changed, &counter->mutex);
  pthread_mutex_unlock(&counter->mutex);
}

// Nobody waits in the library: its own thread takes the calls to their end, and says so.
static void check_on_end(const struct job* job) {
  enum { kCalls = 20 };
  struct counter ended;
  init_counter(&ended);
  tutti_work works[kCalls];
  int32_t x[kCalls];
  for (int i = 0; i < kCalls; ++i) {
    x[i] = i;
    OK(tutti_all_reduce(job->comm, &x[i], &x[i], 1, TUTTI_INT32, TUTTI_SUM, &works[i]));
    OK(tutti_on_end(works[i], add_one, &ended));
  }
  await(&ended, kCalls);
  OK(tutti_wait_all(works, kCalls));
  for (int i = 0; i < kCalls; ++i) CHECK(x[i] == i * job->size);
  CHECK(ended.count == kCalls);
  // One that has ended already is told at once.
  tutti_work work;
  int done = 0;
  OK(tutti_barrier(job->comm, &work));
  while (!done) OK(tutti_test(work, &done));
  OK(tutti_on_end(work, add_one, &ended));
  CHECK(ended.count == kCalls + 1);
  OK(tutti_wait(&work));
  FAILS(tutti_on_end(NULL, add_one, &ended), TUTTI_INVALID_ARGUMENT, "work is NULL");
}

struct waiter {
  tutti_work work;
  struct counter begun;
};

static void* wait_for_it(void* context) {
  struct waiter* waiter = context;
  add_one(&waiter->begun);
  OK(tutti_wait(&waiter->work));
  return NULL;
}

// A thread waits for a message that comes only after this one has made a hundred calls.
static void check_start_beside_wait(const struct job* job) {
  if (job->size == 1) return;
  const int next = (job->rank + 1) % job->size, before = (job->rank + job->size - 1) % job->size;
  for (int round = 0; round < 20; ++round) {
    struct waiter waiter;
    init_counter(&waiter.begun);
    int32_t received = -1, x[100];
    tutti_work works[100];
    OK(tutti_recv(job->comm, &received, 1, TUTTI_INT32, before, 7, NULL, &waiter.work));
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, wait_for_it, &waiter) == 0);
    await(&waiter.begun, 1);
    struct counter ended;
    init_counter(&ended);
    for (int i = 0; i < 100; ++i) {
      x[i] = 1;
      OK(tutti_all_reduce(job->comm, &x[i], &x[i], 1, TUTTI_INT32, TUTTI_SUM, &works[i]));
      OK(tutti_on_end(works[i], add_one, &ended));
    }
    await(&ended, 100);
    tutti_work sent;
    OK(tutti_send(job->comm, &job->rank, 1, TUTTI_INT32, next, 7, &sent));
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(received == before);
    OK(tutti_wait(&sent));
    OK(tutti_wait_all(works, 100));
    for (int i = 0; i < 100; ++i) CHECK(x[i] == job->size);
  }
}

static void* abort_it(void* context) {
  OK(tutti_abort(context));
  return NULL;
}

// Aborted while this thread waits for what never comes: in a blocking receive, a handle, a collective.
static void check_abort(const struct job* job) {
  if (job->size == 1) return;
  for (int kind = 0; kind < 3; ++kind) {
    tutti_comm comm;
    OK(tutti_comm_duplicate(job->comm, &comm));
    pthread_t thread;
    if (job->rank == 0) {
      CHECK(pthread_create(&thread, NULL, abort_it, comm) == 0);
      int32_t x = 0;
      tutti_work work = NULL;
      if (kind == 0) {
        FAILS(tutti_recv(comm, &x, 1, TUTTI_INT32, 1, 0, NULL, NULL), TUTTI_ABORTED, "aborted the communicator");
      } else if (kind == 1) {
        // The abort may come first.
        if (tutti_recv(comm, &x, 1, TUTTI_INT32, 1, 0, NULL, &work) == TUTTI_OK) {
          FAILS(tutti_wait(&work), TUTTI_ABORTED, "aborted the communicator");
        }
      } else {
        FAILS(tutti_barrier(comm, NULL), TUTTI_ABORTED, "aborted the communicator");
      }
      CHECK(pthread_join(thread, NULL) == 0);
      FAILS(tutti_barrier(comm, NULL), TUTTI_ABORTED, "aborted the communicator");
    }
    OK(tutti_barrier(job->comm, NULL));  // the others make no call of comm before that
    OK(tutti_comm_free(&comm));
  }
}

// Calls under way that nobody waits for end with the abort, and each says so once.
static void check_abort_is_told(const struct job* job) {
  if (job->size == 1) return;
  enum { kCalls = 10 };
  tutti_comm comm;
  OK(tutti_comm_duplicate(job->comm, &comm));
  if (job->rank == 0) {
    struct counter ended;
    init_counter(&ended);
    tutti_work works[kCalls + 1];
    int32_t x[kCalls + 1] = {0};
    for (int i = 0; i < kCalls; ++i) {
      OK(tutti_recv(comm, &x[i], 1, TUTTI_INT32, 1, i, NULL, &works[i]));
      OK(tutti_on_end(works[i], add_one, &ended));
    }
    OK(tutti_all_reduce(comm, &x[kCalls], &x[kCalls], 1, TUTTI_INT32, TUTTI_SUM, &works[kCalls]));
    OK(tutti_on_end(works[kCalls], add_one, &ended));
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, abort_it, comm) == 0);
    await(&ended, kCalls + 1);
    CHECK(pthread_join(thread, NULL) == 0);
    for (int i = 0; i <= kCalls; ++i) FAILS(tutti_wait(&works[i]), TUTTI_ABORTED, "aborted the communicator");
    CHECK(ended.count == kCalls + 1);
  }
  OK(tutti_barrier(job->comm, NULL));
  OK(tutti_comm_free(&comm));
}

int main(void) {
  struct job job = meet();
  check_on_end(&job);
  check_start_beside_wait(&job);
  check_abort(&job);
  check_abort_is_told(&job);
  return leave(&job);
}
