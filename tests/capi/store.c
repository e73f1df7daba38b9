// Meeting through a store of the program's own: here one that is kept by the communicator of the job.
#include "check.h"

struct own_store {
  struct job* job;
  int keeper;  // of the new group, the job's rank that is its rank 0
  int sets, gets, removes;
  int broken;
};

static const char* set(void* context, const char* key, const char* value, int64_t timeout_ms) {
  struct own_store* own = context;
  if (own->broken) return "the shelf is full";
  CHECK(strncmp(key, "tutti.", 6) == 0 && timeout_ms > 0 && strlen(value) < 4096);
  char words[4096] = "";
  strcpy(words, value);
  OK(tutti_broadcast(own->job->comm, words, words, sizeof words, TUTTI_UINT8, own->keeper, NULL));
  ++own->sets;
  return NULL;
}

static const char* get(void* context, const char* key, char* value, size_t room, int64_t timeout_ms) {
  struct own_store* own = context;
  if (own->broken) return "the shelf is empty";
  CHECK(strncmp(key, "tutti.", 6) == 0 && timeout_ms > 0 && room >= 4096);
  OK(tutti_broadcast(own->job->comm, value, value, 4096, TUTTI_UINT8, own->keeper, NULL));
  ++own->gets;
  return NULL;
}

static const char* take_out(void* context, const char* key) {
  struct own_store* own = context;
  CHECK(strncmp(key, "tutti.", 6) == 0);
  ++own->removes;
  return own->broken ? "there is nothing" : NULL;
}

static tutti_store store_of(struct own_store* own) {
  const tutti_store store = {sizeof store, own, set, get, take_out};
  return store;
}

// The same ranks the other way round, twice under one name; variables of the launcher say otherwise, and do not count.
static void check_meeting(struct job* job) {
  for (int time = 0; time < 2; ++time) {
    struct own_store own = {job, job->size - 1, 0, 0, 0, 0};
    const tutti_store store = store_of(&own);
    tutti_options options;
    OK(tutti_options_default(&options, sizeof options));
    options.rank = job->size - 1 - job->rank;
    options.world_size = job->size;
    options.job = "the other way round";
    tutti_comm comm;
    OK(tutti_init_with_store(&options, &store, &comm));
    int rank, size;
    OK(tutti_rank(comm, &rank));
    OK(tutti_size(comm, &size));
    CHECK(rank == options.rank && size == job->size);
    int64_t sum = rank;
    OK(tutti_all_reduce(comm, &sum, &sum, 1, TUTTI_INT64, TUTTI_SUM, NULL));
    CHECK(sum == (int64_t)size * (size - 1) / 2);
    const int first = job->size > 1 && rank == 0;
    CHECK(own.sets == first && own.removes == first && own.gets == (rank != 0));
    OK(tutti_comm_free(&comm));
  }
}

static void check_refusals(struct job* job) {
  struct own_store own = {job, 0, 0, 0, 0, 1};
  tutti_store store = store_of(&own);
  tutti_options options;
  tutti_comm comm;
  OK(tutti_options_default(&options, sizeof options));
  FAILS(tutti_init_with_store(&options, &store, &comm), TUTTI_INVALID_ARGUMENT, "rank -1 of a group of -1");
  options.rank = 2;
  options.world_size = 2;
  FAILS(tutti_init_with_store(&options, &store, &comm), TUTTI_INVALID_ARGUMENT, "rank 2 of a group of 2");
  options.rank = job->rank % 2;
  FAILS(tutti_init_with_store(&options, NULL, &comm), TUTTI_INVALID_ARGUMENT, "store is NULL");
  FAILS(tutti_init_with_store(&options, &store, &comm), TUTTI_SYSTEM,
        options.rank == 0 ? "the store: the shelf is full" : "the store: the shelf is empty");
  CHECK(own.removes == (options.rank == 0));
  store.remove = NULL;
  FAILS(tutti_init_with_store(&options, &store, &comm), TUTTI_INVALID_ARGUMENT, "one of them is NULL");
  store.size = 8;
  FAILS(tutti_init_with_store(&options, &store, &comm), TUTTI_INVALID_ARGUMENT, "store.size is 8");
  CHECK(comm == NULL);
}

int main(void) {
  struct job job = meet();
  check_meeting(&job);
  check_refusals(&job);
  return leave(&job);
}
