// Checks for C programs that run as ranks: what fails is told, and ends the rank.
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tutti/tutti.h"

#define CHECK(condition)                                                            \
  do {                                                                              \
    if (!(condition)) {                                                             \
      fprintf(stderr, "%s:%d: check failed: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                                      \
    }                                                                               \
  } while (0)

// The call ends well.
#define OK(call)                                                                                       \
  do {                                                                                                 \
    const tutti_code code_of_call = (call);                                                            \
    if (code_of_call != TUTTI_OK) {                                                                    \
      fprintf(stderr, "%s:%d: %s: %s: %s\n", __FILE__, __LINE__, #call, tutti_code_name(code_of_call), \
              tutti_error_message());                                                                  \
      exit(1);                                                                                         \
    }                                                                                                  \
  } while (0)

// The call fails with this code, and words that contain these.
#define FAILS(call, code, words)                                                                     \
  do {                                                                                               \
    const tutti_code code_of_call = (call);                                                          \
    if (code_of_call != (code) || strstr(tutti_error_message(), (words)) == NULL) {                  \
      fprintf(stderr, "%s:%d: %s: expected %s with '%s', got %s: %s\n", __FILE__, __LINE__, #call,   \
              tutti_code_name(code), (words), tutti_code_name(code_of_call), tutti_error_message()); \
      exit(1);                                                                                       \
    }                                                                                                \
  } while (0)

// The group of this job, and where this rank stands in it.
struct job {
  tutti_comm comm;
  int rank, size;
};

static inline struct job meet(void) {
  struct job job;
  OK(tutti_init(NULL, &job.comm));
  OK(tutti_rank(job.comm, &job.rank));
  OK(tutti_size(job.comm, &job.size));
  return job;
}

// A rank that comes here has passed.
static inline int leave(struct job* job) {
  OK(tutti_barrier(job->comm, NULL));
  OK(tutti_comm_free(&job->comm));
  CHECK(job->comm == NULL);
  printf("rank %d of %d ok\n", job->rank, job->size);
  return 0;
}

static inline void* room(size_t bytes) {
  void* memory = malloc(bytes == 0 ? 1 : bytes);
  CHECK(memory != NULL);
  return memory;
}
