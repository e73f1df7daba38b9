// The v-verbs: chunks of different lengths, some of them empty, one behind the other and with gaps.
#include "check.h"

enum { kMostRanks = 8, kRoom = 4096 };
static const double untouched = -1234.5;

static size_t count_of(int rank) { return rank == 1 ? 0 : (size_t)rank * 17 + 5; }
static double value(int from, int to, size_t i) { return from * 1000000.0 + to * 10000.0 + (double)i; }

struct parts {
  size_t counts[kMostRanks], displacements[kMostRanks];
};

// In falling order with gaps of three where `scattered`, so that no displacement is the one that is assumed.
static struct parts parts_of(const struct job* job, int scattered) {
  struct parts parts = {{0}, {0}};
  size_t at = 0;
  for (int i = 0; i < job->size; ++i) {
    const int rank = scattered ? job->size - 1 - i : i;
    parts.counts[rank] = count_of(rank);
    parts.displacements[rank] = at;
    at += count_of(rank) + (scattered ? 3 : 0);
  }
  CHECK(at <= kRoom);
  return parts;
}

static void blank(double* buffer) {
  for (size_t i = 0; i < kRoom; ++i) buffer[i] = untouched;
}

// Chunk r of `buffer` is what r sent to `to`, and nothing beside the chunks was written.
static void check_gathered(const struct job* job, const struct parts* parts, const double* buffer, int to) {
  size_t written = 0, all = 0;
  for (size_t i = 0; i < kRoom; ++i) written += buffer[i] != untouched;
  for (int rank = 0; rank < job->size; ++rank) {
    all += parts->counts[rank];
    for (size_t i = 0; i < parts->counts[rank]; ++i)
      CHECK(buffer[parts->displacements[rank] + i] == value(rank, to, i));
  }
  CHECK(written == all);
}

static void check_verbs(const struct job* job, int scattered) {
  static double in[kRoom], out[kRoom];
  tutti_comm comm = job->comm;
  const struct parts parts = parts_of(job, scattered);
  const size_t* displacements = scattered ? parts.displacements : NULL;
  const size_t mine = count_of(job->rank);

  for (size_t i = 0; i < mine; ++i) in[i] = value(job->rank, 0, i);
  blank(out);
  OK(tutti_all_gather_v(comm, in, mine, out, parts.counts, displacements, TUTTI_FLOAT64, NULL));
  check_gathered(job, &parts, out, 0);

  for (int root = 0; root < job->size; ++root) {
    const int here = job->rank == root;
    // Elsewhere the arrays are not looked at: these addresses may not be read.
    const size_t* nowhere = (const size_t*)(uintptr_t)8;
    for (size_t i = 0; i < mine; ++i) in[i] = value(job->rank, root, i);
    blank(out);
    OK(tutti_gather_v(comm, in, mine, here ? out : NULL, here ? parts.counts : nowhere, here ? displacements : nowhere,
                      TUTTI_FLOAT64, root, NULL));
    if (here) check_gathered(job, &parts, out, root);

    for (int rank = 0; rank < job->size; ++rank)
      for (size_t i = 0; i < parts.counts[rank]; ++i) in[parts.displacements[rank] + i] = value(root, rank, i);
    blank(out);
    OK(tutti_scatter_v(comm, here ? in : NULL, here ? parts.counts : nowhere, here ? displacements : nowhere, out, mine,
                       TUTTI_FLOAT64, root, NULL));
    for (size_t i = 0; i < mine; ++i) CHECK(out[i] == value(root, job->rank, i));
    CHECK(out[mine] == untouched);
  }

  for (int rank = 0; rank < job->size; ++rank)
    for (size_t i = 0; i < parts.counts[rank]; ++i) in[parts.displacements[rank] + i] = value(job->rank, rank, i);
  blank(out);
  OK(tutti_reduce_scatter_v(comm, in, parts.counts, displacements, out, TUTTI_FLOAT64, TUTTI_SUM, NULL));
  for (size_t i = 0; i < mine; ++i) {
    double expected = 0;
    for (int rank = 0; rank < job->size; ++rank) expected += value(rank, job->rank, i);
    CHECK(out[i] == expected);
  }
  CHECK(out[mine] == untouched);
}

// Rank a sends a + 2 b + 1 elements to rank b.
static void check_all_to_all(const struct job* job) {
  static double in[kRoom], out[kRoom];
  struct parts sent = {{0}, {0}}, received = {{0}, {0}};
  size_t in_at = 2, out_at = 0;
  for (int rank = 0; rank < job->size; ++rank) {
    sent.counts[rank] = (size_t)(job->rank + 2 * rank + 1);
    sent.displacements[rank] = in_at;
    for (size_t i = 0; i < sent.counts[rank]; ++i) in[in_at + i] = value(job->rank, rank, i);
    in_at += sent.counts[rank] + 1;
    received.counts[rank] = (size_t)(rank + 2 * job->rank + 1);
    received.displacements[rank] = out_at;
    out_at += received.counts[rank];
  }
  blank(out);
  tutti_work work = NULL;
  OK(tutti_all_to_all_v(job->comm, in, sent.counts, sent.displacements, out, received.counts, NULL, TUTTI_FLOAT64,
                        &work));
  memset(sent.counts, 255, sizeof sent.counts);  // they were read before the call returned
  const struct parts expected = received;
  memset(received.counts, 255, sizeof received.counts);
  OK(tutti_wait(&work));
  check_gathered(job, &expected, out, job->rank);
}

static void check_errors(const struct job* job) {
  double in[64] = {0}, out[64];
  size_t counts[kMostRanks], displacements[kMostRanks];
  tutti_comm comm = job->comm;
  for (int rank = 0; rank < kMostRanks; ++rank) {
    counts[rank] = 2;
    displacements[rank] = 1;
  }
  FAILS(tutti_all_gather_v(comm, in, 2, out, NULL, NULL, TUTTI_FLOAT64, NULL), TUTTI_INVALID_ARGUMENT,
        "the parts of output need");
  FAILS(tutti_all_gather_v(comm, in, 3, out, counts, NULL, TUTTI_FLOAT64, NULL), TUTTI_INVALID_ARGUMENT,
        "all_gather_v: input has 3 elements, but the count of rank");
  if (job->size > 1) {
    FAILS(tutti_all_gather_v(comm, in, 2, out, counts, displacements, TUTTI_FLOAT64, NULL), TUTTI_INVALID_ARGUMENT,
          "ranks 0 and 1 overlap");
    counts[1] = ~(size_t)0 - 1;
    FAILS(tutti_reduce_scatter_v(comm, in, counts, NULL, out, TUTTI_FLOAT64, TUTTI_SUM, NULL), TUTTI_INVALID_ARGUMENT,
          "more than memory can hold");
  }
  FAILS(tutti_scatter_v(comm, in, NULL, NULL, out, 2, TUTTI_FLOAT64, job->rank, NULL), TUTTI_INVALID_ARGUMENT,
        "the parts of input need");
  FAILS(tutti_gather_v(comm, in, 2, out, counts, NULL, 77, 0, NULL), TUTTI_INVALID_ARGUMENT,
        "gather_v: there is no element type 77");
}

int main(void) {
  struct job job = meet();
  CHECK(job.size <= kMostRanks);
  check_verbs(&job, 0);
  check_verbs(&job, 1);
  check_all_to_all(&job);
  check_errors(&job);
  return leave(&job);
}
