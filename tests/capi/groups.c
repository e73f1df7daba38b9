// Groups made of groups: split, subgroup, duplicate, create_group, self, and that their calls do not meet each other's.
#include "check.h"

static int64_t sum_of(tutti_comm comm, int64_t mine) {
  int64_t sum = 0;
  OK(tutti_all_reduce(comm, &mine, &sum, 1, TUTTI_INT64, TUTTI_SUM, NULL));
  return sum;
}

static void check_split(const struct job* job) {
  tutti_comm child;
  int rank, size;
  // Odd and even, in falling order.
  OK(tutti_comm_split(job->comm, job->rank % 2, -job->rank, &child));
  CHECK(child != NULL);
  OK(tutti_rank(child, &rank));
  OK(tutti_size(child, &size));
  CHECK(size == (job->size + 1 - job->rank % 2) / 2);
  CHECK(rank == size - 1 - job->rank / 2);
  int64_t expected = 0;
  for (int other = job->rank % 2; other < job->size; other += 2) expected += other;
  CHECK(sum_of(child, job->rank) == expected);
  CHECK(sum_of(job->comm, 1) == job->size);
  OK(tutti_comm_free(&child));

  // Rank 0 joins none.
  OK(tutti_comm_split(job->comm, job->rank == 0 ? -1 : 7, 0, &child));
  CHECK((child == NULL) == (job->rank == 0));
  if (child != NULL) CHECK(sum_of(child, 1) == job->size - 1);
  OK(tutti_comm_free(&child));
}

static void check_subgroup(const struct job* job) {
  const int last = job->size - 1;
  const int ranks[] = {last, 0};
  const int count = last == 0 ? 1 : 2;
  tutti_comm child;
  OK(tutti_comm_subgroup(job->comm, ranks, count, &child));
  CHECK((child != NULL) == (job->rank == 0 || job->rank == last));
  if (child != NULL) {
    int rank;
    OK(tutti_rank(child, &rank));
    CHECK(rank == (job->rank == last ? 0 : 1));
    CHECK(sum_of(child, job->rank + 1) == (last == 0 ? 1 : job->size + 1));
  }
  OK(tutti_comm_free(&child));
  FAILS(tutti_comm_subgroup(job->comm, NULL, 2, &child), TUTTI_INVALID_ARGUMENT, "ranks is NULL");
  FAILS(tutti_comm_subgroup(job->comm, ranks, -1, &child), TUTTI_INVALID_ARGUMENT, "count is -1");
  CHECK(child == NULL);
}

// The same ranks twice, with calls under way in both, begun in different orders.
static void check_duplicate(const struct job* job) {
  tutti_comm twin;
  OK(tutti_comm_duplicate(job->comm, &twin));
  int64_t a = job->rank, b = 2 * job->rank;
  tutti_work works[2];
  for (int i = 0; i < 2; ++i) {
    const int first = (job->rank + i) % 2 == 0;
    OK(tutti_all_reduce(first ? job->comm : twin, first ? &a : &b, first ? &a : &b, 1, TUTTI_INT64, TUTTI_SUM,
                        &works[i]));
  }
  OK(tutti_wait_all(works, 2));
  CHECK(a == (int64_t)job->size * (job->size - 1) / 2 && b == 2 * a);
  OK(tutti_comm_free(&twin));
}

// Only the last rank and the first make a group; the others meanwhile wait for a message that is sent afterwards.
static void check_create_group(const struct job* job) {
  const int last = job->size - 1;
  const int ranks[] = {last, 0};
  tutti_comm child = NULL;
  int word = 0;
  if (job->rank == 0 || job->rank == last) {
    OK(tutti_comm_create_group(job->comm, ranks, last == 0 ? 1 : 2, 17, &child));
    int rank, parents[2];
    OK(tutti_rank(child, &rank));
    CHECK(rank == (job->rank == last ? 0 : 1));
    OK(tutti_parent_ranks(child, parents));
    CHECK(parents[0] == last && (last == 0 || parents[1] == 0));
    CHECK(sum_of(child, job->rank + 1) == (last == 0 ? 1 : job->size + 1));
    word = 1;
    for (int other = 1; job->rank == 0 && other < last; ++other)
      OK(tutti_send(job->comm, &word, 1, TUTTI_INT32, other, 0, NULL));
    OK(tutti_comm_free(&child));
  } else {
    OK(tutti_recv(job->comm, &word, 1, TUTTI_INT32, 0, 0, NULL, NULL));
  }
  CHECK(word == 1);
  const int other[] = {job->rank == 0 ? 1 : 0};
  if (job->size > 1)
    FAILS(tutti_comm_create_group(job->comm, other, 1, 0, &child), TUTTI_INVALID_ARGUMENT, "is not in the list");
  FAILS(tutti_comm_create_group(job->comm, NULL, 1, 0, &child), TUTTI_INVALID_ARGUMENT, "ranks is NULL");
  FAILS(tutti_comm_create_group(job->comm, &job->rank, 1, -1, &child), TUTTI_INVALID_ARGUMENT, "not -1");
  CHECK(child == NULL);
}

// One rank after the other, so that nobody else calls at the same time.
static void check_self(const struct job* job) {
  for (int turn = 0; turn < job->size; ++turn) {
    if (turn == job->rank) {
      tutti_comm alone;
      int size, parent;
      OK(tutti_comm_self(job->comm, &alone));
      OK(tutti_size(alone, &size));
      OK(tutti_parent_ranks(alone, &parent));
      CHECK(size == 1 && parent == job->rank);
      CHECK(sum_of(alone, 5) == 5);
      OK(tutti_comm_free(&alone));
    }
    OK(tutti_barrier(job->comm, NULL));
  }
  int ranks[8];
  FAILS(tutti_parent_ranks(job->comm, ranks), TUTTI_INVALID_ARGUMENT, "was not made of another one");
  FAILS(tutti_comm_self(NULL, NULL), TUTTI_INVALID_ARGUMENT, "child is NULL");
}

int main(void) {
  struct job job = meet();
  check_split(&job);
  check_subgroup(&job);
  check_duplicate(&job);
  check_create_group(&job);
  check_self(&job);
  return leave(&job);
}
