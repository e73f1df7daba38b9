// Groups made of groups: split, subgroup, duplicate, and that their calls do not meet each other's.
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

int main(void) {
  struct job job = meet();
  check_split(&job);
  check_subgroup(&job);
  check_duplicate(&job);
  return leave(&job);
}
