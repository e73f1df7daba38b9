// Messages: a ring, borders in a batch, tags out of order, room to spare, looking without waiting, and a master whose
// workers answer in any order.
#include "check.h"

enum { kCount = 1000, kUpTo = 10 };

static void check_ring(const struct job* job) {
  static int32_t out[kCount], in[kCount];
  const int right = (job->rank + 1) % job->size, left = (job->rank + job->size - 1) % job->size;
  tutti_received received = {-5, -5, 0};
  for (int i = 0; i < kCount; ++i) out[i] = job->rank * kCount + i;
  OK(tutti_send_recv(job->comm, out, kCount, right, in, kCount, left, TUTTI_INT32, 3, &received));
  for (int i = 0; i < kCount; ++i) CHECK(in[i] == left * kCount + i);
  CHECK(received.source == left && received.tag == 3 && received.count == kCount);
}

static void check_batch(const struct job* job) {
  const int right = (job->rank + 1) % job->size, left = (job->rank + job->size - 1) % job->size;
  double mine = job->rank, from_left = -1, from_right = -1;
  tutti_received received[3];
  const tutti_message messages[] = {{NULL, &from_left, 1, TUTTI_FLOAT64, left, 1, 0, &received[0]},
                                    {NULL, &from_right, 1, TUTTI_FLOAT64, TUTTI_ANY_SOURCE, 2, 0, &received[1]},
                                    {&mine, NULL, 1, TUTTI_FLOAT64, right, 1, 0, &received[2]},
                                    {&mine, NULL, 1, TUTTI_FLOAT64, left, 2, 0, NULL}};
  tutti_work works[4];
  for (int async = 0; async < 2; ++async) {
    from_left = from_right = -1;
    for (int i = 0; i < 3; ++i) received[i] = (tutti_received){-5, -5, 0};
    OK(tutti_batch(job->comm, messages, 4, async ? works : NULL));
    if (async) OK(tutti_wait_all(works, 4));
    CHECK(from_left == left && from_right == right);
    CHECK(received[0].source == left && received[0].tag == 1 && received[0].count == 1);
    CHECK(received[1].source == right && received[1].tag == 2 && received[1].count == 1);
    CHECK(received[2].source == -5);  // a send has received nothing
  }

  const tutti_message both = {&mine, &from_left, 1, TUTTI_FLOAT64, left, 1, 0, NULL}, neither = {0};
  FAILS(tutti_batch(job->comm, &both, 1, works), TUTTI_INVALID_ARGUMENT, "message 0 has both sent and buffer");
  CHECK(works[0] == NULL);
  FAILS(tutti_batch(job->comm, &neither, 1, NULL), TUTTI_INVALID_ARGUMENT, "message 0 has neither sent nor buffer");
  OK(tutti_batch(job->comm, NULL, 0, NULL));
}

// Room for more than comes: blocking, with a handle, in a batch; what does not fit is told with both counts. Its tags
// are its own: a neighbour may be here while this rank still listens to anybody in check_batch.
static void check_up_to(const struct job* job) {
  const int right = (job->rank + 1) % job->size, left = (job->rank + job->size - 1) % job->size;
  static int32_t out[kCount], in[3][kCount];
  for (int i = 0; i < kCount; ++i) out[i] = job->rank * kCount + i;
  for (size_t count = 0; count < kCount; count += 111) {
    tutti_received received[3];
    tutti_work sends[3], work;
    memset(in, -1, sizeof in);
    for (int i = 0; i < 3; ++i) OK(tutti_send(job->comm, out, count, TUTTI_INT32, right, kUpTo + i, &sends[i]));
    OK(tutti_recv_up_to(job->comm, in[0], kCount, TUTTI_INT32, left, kUpTo, &received[0], NULL));
    OK(tutti_recv_up_to(job->comm, in[1], kCount, TUTTI_INT32, TUTTI_ANY_SOURCE, kUpTo + 1, &received[1], &work));
    OK(tutti_wait(&work));
    const tutti_message message = {NULL, in[2], kCount, TUTTI_INT32, left, TUTTI_ANY_TAG, 1, &received[2]};
    OK(tutti_batch(job->comm, &message, 1, NULL));
    OK(tutti_wait_all(sends, 3));
    for (int i = 0; i < 3; ++i) {
      CHECK(received[i].source == left && received[i].tag == kUpTo + i && received[i].count == count);
      for (size_t k = 0; k < kCount; ++k) CHECK(in[i][k] == (k < count ? left * kCount + (int32_t)k : -1));
    }
  }
  tutti_comm alone;
  OK(tutti_comm_split(job->comm, job->rank, 0, &alone));
  OK(tutti_send(alone, out, 9, TUTTI_INT32, 0, 0, NULL));
  FAILS(tutti_recv_up_to(alone, in[0], 8, TUTTI_INT32, 0, 0, NULL, NULL), TUTTI_MISMATCH, "of up to 8 int32");
  CHECK(strstr(tutti_error_message(), "of 9 int32") != NULL);
  OK(tutti_comm_free(&alone));
}

// Asking without waiting finds what was sent, sooner or later, and leaves it there.
static void check_iprobe(const struct job* job) {
  const int right = (job->rank + 1) % job->size, left = (job->rank + job->size - 1) % job->size;
  int32_t out[2] = {job->rank, 5}, in[2];
  int found = 1;
  tutti_work work;
  tutti_received received = {-5, -5, 0};
  OK(tutti_iprobe(job->comm, TUTTI_ANY_SOURCE, 77, TUTTI_INT32, &found, &received));
  CHECK(found == 0 && received.source == -5);
  OK(tutti_send(job->comm, out, 2, TUTTI_INT32, right, 8, &work));
  for (found = 0; !found;) OK(tutti_iprobe(job->comm, TUTTI_ANY_SOURCE, 8, TUTTI_INT32, &found, &received));
  CHECK(received.source == left && received.tag == 8 && received.count == 2);
  OK(tutti_iprobe(job->comm, left, 8, TUTTI_INT32, &found, NULL));
  CHECK(found == 1);
  OK(tutti_recv(job->comm, in, 2, TUTTI_INT32, left, 8, NULL, NULL));
  CHECK(in[0] == left && in[1] == 5);
  OK(tutti_wait(&work));
  FAILS(tutti_iprobe(job->comm, 0, 0, TUTTI_INT32, NULL, NULL), TUTTI_INVALID_ARGUMENT, "found is NULL");
}

// Sent as 1, 2, 3, received as 3, 1, 2: tags pick, and messages of one tag keep their order.
static void check_tags(const struct job* job) {
  if (job->size == 1) return;
  int32_t x[3] = {10, 20, 30};
  tutti_work works[3];
  if (job->rank == 0) {
    for (int i = 0; i < 3; ++i) OK(tutti_send(job->comm, &x[i], 1, TUTTI_INT32, 1, i == 0 ? 5 : i + 4, &works[i]));
    OK(tutti_wait_all(works, 3));
  } else if (job->rank == 1) {
    tutti_received received[3];
    static const int tags[] = {6, 5, TUTTI_ANY_TAG};
    for (int i = 0; i < 3; ++i) OK(tutti_recv(job->comm, &x[i], 1, TUTTI_INT32, 0, tags[i], &received[i], &works[i]));
    OK(tutti_wait_all(works, 3));
    CHECK(x[0] == 30 && x[1] == 10 && x[2] == 20);
    CHECK(received[0].tag == 6 && received[2].tag == 5 && received[2].source == 0 && received[2].count == 1);
  }
}

enum { kTask = 1, kEnd = 2, kAnswer = 3, kTasks = 40 };

// Answers to task t: t numbers, so that the master must ask how many there are before it makes room.
static void work_for_master(const struct job* job) {
  for (;;) {
    int32_t task = 0, answer[kTasks];
    tutti_received received;
    OK(tutti_recv(job->comm, &task, 1, TUTTI_INT32, 0, TUTTI_ANY_TAG, &received, NULL));
    if (received.tag == kEnd) return;
    CHECK(received.tag == kTask);
    for (int32_t i = 0; i < task; ++i) answer[i] = task * i;
    OK(tutti_send(job->comm, answer, (size_t)task, TUTTI_INT32, 0, kAnswer, NULL));
  }
}

static void be_master(const struct job* job) {
  int32_t next = 1, ended = 0;
  char seen[kTasks] = {0};
  for (int worker = 1; worker < job->size && next < kTasks; ++worker, ++next)
    OK(tutti_send(job->comm, &next, 1, TUTTI_INT32, worker, kTask, NULL));
  for (int answers = 1; answers < kTasks; ++answers) {
    tutti_received found, taken;
    OK(tutti_probe(job->comm, TUTTI_ANY_SOURCE, kAnswer, TUTTI_INT32, &found));
    CHECK(found.count >= 1 && found.count < kTasks && !seen[found.count] && found.tag == kAnswer);
    int32_t* answer = room(found.count * sizeof *answer);
    OK(tutti_recv(job->comm, answer, found.count, TUTTI_INT32, found.source, kAnswer, &taken, NULL));
    CHECK(taken.source == found.source && taken.count == found.count);
    for (size_t i = 0; i < found.count; ++i) CHECK(answer[i] == (int32_t)(found.count * i));
    seen[found.count] = 1;
    free(answer);
    OK(tutti_send(job->comm, &next, 1, TUTTI_INT32, found.source, next < kTasks ? kTask : kEnd, NULL));
    if (next < kTasks) {
      ++next;
    } else {
      ++ended;
    }
  }
  CHECK(ended == job->size - 1);
}

int main(void) {
  struct job job = meet();
  check_ring(&job);
  check_batch(&job);
  check_tags(&job);
  check_up_to(&job);
  check_iprobe(&job);
  if (job.size > 1) job.rank == 0 ? be_master(&job) : work_for_master(&job);
  return leave(&job);
}
