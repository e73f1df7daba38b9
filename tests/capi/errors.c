// What goes wrong has a code, words and, where there is one, a culprit; nothing of it harms the communicator.
#include <pthread.h>

#include "check.h"

static void check_arguments(const struct job* job) {
  tutti_comm comm = job->comm;
  int32_t in[64] = {0}, out[64];
  int rank = -1;
  char words[64];
  snprintf(words, sizeof words, "reduce: root %d is not a rank of this group of %d", job->size, job->size);
  FAILS(tutti_reduce(comm, in, out, 4, TUTTI_INT32, TUTTI_SUM, job->size, NULL), TUTTI_INVALID_ARGUMENT, words);
  CHECK(tutti_error_rank() == -1);
  FAILS(tutti_broadcast(comm, in, in, 4, TUTTI_INT32, -1, NULL), TUTTI_INVALID_ARGUMENT, "broadcast: root -1");
  FAILS(tutti_all_reduce(comm, in, in + 1, 4, TUTTI_INT32, TUTTI_SUM, NULL), TUTTI_INVALID_ARGUMENT,
        "all_reduce: input and output overlap");
  FAILS(tutti_all_reduce(comm, NULL, out, 4, TUTTI_INT32, TUTTI_SUM, NULL), TUTTI_INVALID_ARGUMENT,
        "all_reduce: input is null but 4 elements are asked for");
  FAILS(tutti_all_reduce(comm, (char*)in + 1, out, 4, TUTTI_INT32, TUTTI_SUM, NULL), TUTTI_INVALID_ARGUMENT,
        "not aligned to 4 bytes");
  FAILS(tutti_all_reduce(comm, in, out, 4, 15, TUTTI_SUM, NULL), TUTTI_INVALID_ARGUMENT,
        "all_reduce: there is no element type 15");
  FAILS(tutti_all_reduce(comm, in, out, 4, TUTTI_INT32, 99, NULL), TUTTI_INVALID_ARGUMENT,
        "all_reduce: there is no operator 99");
  FAILS(tutti_all_reduce(comm, in, out, 4, TUTTI_FLOAT32, TUTTI_BXOR, NULL), TUTTI_UNSUPPORTED,
        "float32 has no operator bxor");
  FAILS(tutti_all_gather(comm, in, out, 4, TUTTI_BYTES((size_t)1 << 32 | 4), NULL), TUTTI_INVALID_ARGUMENT,
        "all_gather: an element has 1 byte to 1 GB, not 4294967300");
  if (job->size > 1)
    FAILS(tutti_all_to_all(comm, in, out, ~(size_t)0 / 2 + 1, TUTTI_INT32, NULL), TUTTI_INVALID_ARGUMENT,
          "all_to_all: 9223372036854775808 elements per rank are more than memory can hold");
  FAILS(tutti_send(comm, in, 4, TUTTI_INT32, job->size, 0, NULL), TUTTI_INVALID_ARGUMENT, "is not a rank of");
  FAILS(tutti_send(comm, in, 4, TUTTI_INT32, 0, -3, NULL), TUTTI_INVALID_ARGUMENT, "tag -3 is negative");
  FAILS(tutti_rank(comm, NULL), TUTTI_INVALID_ARGUMENT, "tutti_rank: rank is NULL");
  FAILS(tutti_alloc(comm, 8, NULL), TUTTI_INVALID_ARGUMENT, "tutti_alloc: memory is NULL");
  FAILS(tutti_free(comm, in), TUTTI_INVALID_ARGUMENT, "tutti_alloc gave no such memory");
  FAILS(tutti_comm_split(comm, 0, 0, NULL), TUTTI_INVALID_ARGUMENT, "tutti_comm_split: child is NULL");
  FAILS(tutti_probe(comm, 0, 0, TUTTI_INT32, NULL), TUTTI_INVALID_ARGUMENT, "tutti_probe: received is NULL");
  FAILS(tutti_batch(comm, NULL, 1, NULL), TUTTI_INVALID_ARGUMENT, "messages is NULL");
  FAILS(tutti_all_reduce_coalesced(comm, NULL, NULL, 1, TUTTI_INT32, TUTTI_SUM), TUTTI_INVALID_ARGUMENT,
        "all_reduce_coalesced: buffers is NULL");
  tutti_work work = (tutti_work)(void*)in;
  FAILS(tutti_all_reduce(comm, in, in + 1, 4, TUTTI_INT32, TUTTI_SUM, &work), TUTTI_INVALID_ARGUMENT, "overlap");
  CHECK(work == NULL);  // so that waiting for it does no harm
  OK(tutti_rank(comm, &rank));
  CHECK(rank == job->rank);
  CHECK(strstr(tutti_error_message(), "overlap") != NULL);  // of the last call that failed, whatever went well since
}

static void check_handles(void) {
  tutti_comm none = NULL;
  int size = -1;
  FAILS(tutti_size(none, &size), TUTTI_INVALID_ARGUMENT, "the communicator is NULL");
  FAILS(tutti_barrier(none, NULL), TUTTI_INVALID_ARGUMENT, "the communicator is NULL");
  OK(tutti_comm_free(&none));
  FAILS(tutti_comm_free(NULL), TUTTI_INVALID_ARGUMENT, "tutti_comm_free: comm is NULL");
  FAILS(tutti_init(NULL, NULL), TUTTI_INVALID_ARGUMENT, "tutti_init: comm is NULL");

  struct job job = meet();
  tutti_comm copy = job.comm;
  OK(tutti_barrier(job.comm, NULL));
  OK(tutti_comm_free(&job.comm));
  FAILS(tutti_size(copy, &size), TUTTI_INVALID_ARGUMENT, "this communicator is no more");
  FAILS(tutti_barrier(copy, NULL), TUTTI_INVALID_ARGUMENT, "this communicator is no more");
  FAILS(tutti_comm_free(&copy), TUTTI_INVALID_ARGUMENT, "this communicator is no more");
  CHECK(size == -1);
}

static void check_options(void) {
  tutti_comm comm = NULL;
  tutti_options options;
  memset(&options, 255, sizeof options);
  OK(tutti_options_default(&options, sizeof options));
  CHECK(options.size == sizeof options && options.deterministic == 1 && options.timeout_ms == 60000);
  CHECK(options.rank == -1 && options.world_size == -1 && options.algorithm == NULL && options.job == NULL);
  options.algorithm = "no_such_algorithm";
  FAILS(tutti_init(&options, &comm), TUTTI_INVALID_ARGUMENT, "no_such_algorithm");
  CHECK(comm == NULL);
  OK(tutti_options_default(&options, sizeof options));
  options.transport = (tutti_transport)9;
  FAILS(tutti_init(&options, &comm), TUTTI_INVALID_ARGUMENT, "there is no transport 9");
  options.size = 0;
  FAILS(tutti_init(&options, &comm), TUTTI_INVALID_ARGUMENT, "options.size is 0");
  FAILS(tutti_options_default(&options, 4), TUTTI_INVALID_ARGUMENT, "size is 4");
  FAILS(tutti_options_default(NULL, 8), TUTTI_INVALID_ARGUMENT, "options is NULL");

  // A caller that knows less: what it does not know is not read.
  OK(tutti_options_default(&options, sizeof options));
  options.timeout_ms = 4321;
  options.transport = (tutti_transport)9;
  options.size = offsetof(tutti_options, algorithm);
  OK(tutti_init(&options, &comm));
  int64_t timeout_ms = 0;
  OK(tutti_get_timeout(comm, &timeout_ms));
  CHECK(timeout_ms == 4321 || getenv("TUTTI_TIMEOUT_MS") != NULL);
  OK(tutti_barrier(comm, NULL));
  OK(tutti_comm_free(&comm));

  // A caller that knows more: fine for as long as it asks for nothing more.
  struct {
    tutti_options known;
    size_t later;
  } newer;
  OK(tutti_options_default(&newer.known, sizeof newer));
  CHECK(newer.known.size == sizeof newer && newer.later == 0);
  newer.later = 1;
  FAILS(tutti_init(&newer.known, &comm), TUTTI_INVALID_ARGUMENT, "does not know; it is older than the program");
  newer.later = 0;
  OK(tutti_init(&newer.known, &comm));
  OK(tutti_barrier(comm, NULL));
  OK(tutti_comm_free(&comm));
}

static void check_names(void) {
  CHECK(strcmp(tutti_code_name(TUTTI_OK), "ok") == 0);
  CHECK(strcmp(tutti_code_name(TUTTI_PEER_LOST), "peer_lost") == 0);
  CHECK(strcmp(tutti_code_name(TUTTI_SYSTEM), "system") == 0);
  CHECK(strcmp(tutti_code_name((tutti_code)(TUTTI_SYSTEM + 1)), "unknown") == 0);
  char version[32];
  snprintf(version, sizeof version, "%d.%d.%d", TUTTI_VERSION_MAJOR, TUTTI_VERSION_MINOR, TUTTI_VERSION_PATCH);
  CHECK(strcmp(version, tutti_version()) == 0);
}

static void* fail_elsewhere(void* nothing) {
  int size;
  CHECK(strcmp(tutti_error_message(), "") == 0);
  FAILS(tutti_size(NULL, &size), TUTTI_INVALID_ARGUMENT, "the communicator is NULL");
  return nothing;
}

// Every thread has its own last error.
static void check_threads(void) {
  pthread_t thread;
  FAILS(tutti_wait(NULL), TUTTI_INVALID_ARGUMENT, "tutti_wait: work is NULL");
  CHECK(pthread_create(&thread, NULL, fail_elsewhere, NULL) == 0 && pthread_join(thread, NULL) == 0);
  CHECK(strstr(tutti_error_message(), "tutti_wait: work is NULL") != NULL);
}

// Ranks that call different verbs are told so, and the communicator is lost: with its first cause, and for good.
static void check_mismatch(void) {
  struct job job = meet();
  if (job.size > 1) {
    int32_t x[8] = {0}, y[8];
    const tutti_code code = job.rank == 0 ? tutti_all_reduce(job.comm, x, y, 8, TUTTI_INT32, TUTTI_SUM, NULL)
                                          : tutti_all_reduce(job.comm, x, y, 7, TUTTI_INT32, TUTTI_SUM, NULL);
    CHECK(code == TUTTI_MISMATCH);
    CHECK(strstr(tutti_error_message(), "all_reduce") != NULL);
    FAILS(tutti_barrier(job.comm, NULL), TUTTI_ABORTED, "");
  }
  OK(tutti_comm_free(&job.comm));
}

int main(void) {
  CHECK(strcmp(tutti_error_message(), "") == 0 && tutti_error_rank() == -1);
  struct job job = meet();
  check_arguments(&job);
  check_handles();
  check_options();
  check_names();
  check_threads();
  check_mismatch();
  return leave(&job);
}
