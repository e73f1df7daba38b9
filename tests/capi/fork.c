// A child that a rank forked is refused by every function, and ends as a program does without harm to the group.
#define _POSIX_C_SOURCE 200809L

#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define REFUSED(call) FAILS(call, TUTTI_INVALID_ARGUMENT, "let the child join a group of its own")

static void run_child(struct job* job, tutti_work work, float* memory) {
  float x[4] = {0};
  int rank = -1, done = -1;
  void* more = NULL;
  tutti_comm comm = job->comm, child = NULL;
  tutti_received received;
  REFUSED(tutti_all_reduce(comm, x, x, 4, TUTTI_FLOAT32, TUTTI_SUM, NULL));
  REFUSED(tutti_all_reduce(comm, memory, memory, 4, TUTTI_FLOAT32, TUTTI_SUM, NULL));
  REFUSED(tutti_barrier(comm, NULL));
  REFUSED(tutti_send(comm, x, 4, TUTTI_FLOAT32, 0, 0, NULL));
  REFUSED(tutti_probe(comm, 0, 0, TUTTI_FLOAT32, &received));
  REFUSED(tutti_comm_duplicate(comm, &child));
  REFUSED(tutti_alloc(comm, 64, &more));
  REFUSED(tutti_rank(comm, &rank));
  REFUSED(tutti_test(work, &done));
  REFUSED(tutti_wait(&work));
  OK(tutti_free(comm, memory));
  OK(tutti_comm_free(&job->comm));
  exit(0);
}

int main(void) {
  struct job job = meet();
  float x[4] = {1, 1, 1, 1}, got = 0, sent = 7;
  const int right = (job.rank + 1) % job.size, left = (job.rank + job.size - 1) % job.size;
  void* memory = NULL;
  tutti_work work = NULL;
  OK(tutti_alloc(job.comm, sizeof x, &memory));
  memcpy(memory, x, sizeof x);
  OK(tutti_recv(job.comm, &got, 1, TUTTI_FLOAT32, left, 3, NULL, &work));
  fflush(NULL);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) run_child(&job, work, memory);
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  OK(tutti_all_reduce(job.comm, x, x, 4, TUTTI_FLOAT32, TUTTI_SUM, NULL));
  OK(tutti_all_reduce(job.comm, memory, memory, 4, TUTTI_FLOAT32, TUTTI_SUM, NULL));
  CHECK(x[0] == (float)job.size && ((float*)memory)[3] == (float)job.size);
  OK(tutti_send(job.comm, &sent, 1, TUTTI_FLOAT32, right, 3, NULL));
  OK(tutti_wait(&work));
  CHECK(got == 7);
  OK(tutti_free(job.comm, memory));
  return leave(&job);
}
