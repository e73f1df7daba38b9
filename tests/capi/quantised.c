// Sums that travel in few bits: near the sum, the same bits on every rank, the bytes of the formula, and what was lost
// is made up for.
#include <math.h>

#include "check.h"

enum { kCount = 5001 };  // no whole number of chunks or blocks

static float contribution(size_t i, int rank) { return (float)((i * 37 + 11 * (size_t)rank) % 255) / 255.0F - 0.5F; }

static double distance(double a, double b) { return a < b ? b - a : a - b; }

static void fill(float* values, int rank) {
  for (size_t i = 0; i < kCount; ++i) values[i] = contribution(i, rank);
}

// With values below 1/2 a step of a block is at most 1/254, and of a sum `size` times that.
static void check_near(const struct job* job, const float* found) {
  const double step = 1.0 / 254;
  for (size_t i = 0; i < kCount; ++i) {
    float sum = 0;
    for (int rank = 0; rank < job->size; ++rank) sum += contribution(i, rank);
    CHECK(distance((double)found[i], (double)sum) <= 1.01 * job->size * step);
  }
}

static void check_alike(const struct job* job, const float* found) {
  float* all = room(kCount * sizeof(float) * (size_t)job->size);
  OK(tutti_all_gather(job->comm, found, all, kCount, TUTTI_FLOAT32, NULL));
  for (int rank = 0; rank < job->size; ++rank)
    CHECK(memcmp(all + (size_t)rank * kCount, found, kCount * sizeof(float)) == 0);
  free(all);
}

static void check_bytes(const struct job* job, tutti_quantised quantised, float* values) {
  tutti_verb_counters before, after;
  OK(tutti_counters(job->comm, TUTTI_ALL_TO_ALL, &before));
  OK(tutti_quantised_all_reduce(quantised, values, kCount, TUTTI_FLOAT32, TUTTI_SUM, NULL));
  OK(tutti_counters(job->comm, TUTTI_ALL_TO_ALL, &after));
  const size_t chunk = (kCount + (size_t)job->size - 1) / (size_t)job->size;
  CHECK(after.calls - before.calls == 1);
  CHECK(after.bytes - before.bytes == (size_t)job->size * (8 + (chunk + 127) / 128 * 4 + chunk));
}

// The mean of many averages comes close to the average where a residual is kept; one alone does not.
static void check_residual(const struct job* job, tutti_quantised quantised, float* values) {
  enum { kRounds = 64 };
  float* residual = calloc(kCount, sizeof(float));
  double* total = calloc(kCount, sizeof(double));
  CHECK(residual != NULL && total != NULL);
  double worst_once = 0, worst_mean = 0;
  for (int round = 0; round < kRounds; ++round) {
    fill(values, job->rank);
    OK(tutti_quantised_all_reduce(quantised, values, kCount, TUTTI_FLOAT32, TUTTI_AVERAGE, residual));
    for (size_t i = 0; i < kCount; ++i) total[i] += (double)values[i];
  }
  for (size_t i = 0; i < kCount; ++i) {
    double average = 0;
    for (int rank = 0; rank < job->size; ++rank) average += (double)contribution(i, rank) / job->size;
    const double once = distance((double)values[i], average), mean = distance(total[i] / kRounds, average);
    if (once > worst_once) worst_once = once;
    if (mean > worst_mean) worst_mean = mean;
  }
  CHECK(worst_once > 5e-4 && worst_mean < worst_once / 10);
  free(total);
  free(residual);
}

static void check_mistakes(const struct job* job, tutti_quantised quantised, float* values) {
  fill(values, job->rank);
  if (job->rank == job->size - 1) values[40] = INFINITY;
  FAILS(tutti_quantised_all_reduce(quantised, values, kCount, TUTTI_FLOAT32, TUTTI_SUM, NULL), TUTTI_INVALID_ARGUMENT,
        "value 40 is not finite");
  CHECK(tutti_error_rank() == job->size - 1);
  FAILS(tutti_quantised_all_reduce(quantised, values, kCount, TUTTI_FLOAT64, TUTTI_SUM, NULL), TUTTI_INVALID_ARGUMENT,
        "float64 cannot be quantised");
  FAILS(tutti_quantised_all_reduce(quantised, values, kCount, TUTTI_BYTES(4), TUTTI_SUM, NULL), TUTTI_INVALID_ARGUMENT,
        "an element of the caller's own cannot be quantised");
  FAILS(tutti_quantised_all_reduce(quantised, values, kCount, TUTTI_FLOAT32, TUTTI_MAXIMUM, NULL),
        TUTTI_INVALID_ARGUMENT, "can be summed and averaged, not reduced by maximum");
  FAILS(tutti_quantised_all_reduce(quantised, values, kCount, TUTTI_FLOAT32, TUTTI_MAXLOC, NULL),
        TUTTI_INVALID_ARGUMENT, "can only be summed and averaged");
  FAILS(tutti_quantised_all_reduce(quantised, NULL, kCount, TUTTI_FLOAT32, TUTTI_SUM, NULL), TUTTI_INVALID_ARGUMENT,
        "values is NULL");
  FAILS(tutti_quantised_all_reduce(NULL, values, kCount, TUTTI_FLOAT32, TUTTI_SUM, NULL), TUTTI_INVALID_ARGUMENT,
        "quantised is NULL");
}

static void check_settings(const struct job* job) {
  tutti_quantise settings;
  tutti_quantised made;
  FAILS(tutti_quantise_default(&settings, sizeof settings - 1), TUTTI_INVALID_ARGUMENT, "sizeof(tutti_quantise)");
  OK(tutti_quantise_default(&settings, sizeof settings));
  settings.block = 100;
  FAILS(tutti_quantised_create(job->comm, &settings, &made), TUTTI_INVALID_ARGUMENT, "a power of two from 32 to 4096");
  CHECK(made == NULL);
  settings.block = 64;
  settings.type = (tutti_quantised_type)9;
  FAILS(tutti_quantised_create(job->comm, &settings, &made), TUTTI_INVALID_ARGUMENT, "there is no type 9");
  settings.type = job->rank == 0 ? TUTTI_QUANTISED_INT8 : TUTTI_QUANTISED_INT4;
  if (job->size > 1) FAILS(tutti_quantised_create(job->comm, &settings, &made), TUTTI_MISMATCH, "int4 in blocks of 64");
  OK(tutti_quantised_free(&made));
}

int main(void) {
  struct job job = meet();
  tutti_quantised quantised;
  OK(tutti_quantised_create(job.comm, NULL, &quantised));
  float* values = room(kCount * sizeof(float));
  fill(values, job.rank);
  OK(tutti_quantised_all_reduce(quantised, values, kCount, TUTTI_FLOAT32, TUTTI_SUM, NULL));
  check_near(&job, values);
  check_alike(&job, values);
  check_bytes(&job, quantised, values);
  check_residual(&job, quantised, values);
  check_mistakes(&job, quantised, values);
  check_settings(&job);
  const int code = leave(&job);
  FAILS(tutti_quantised_all_reduce(quantised, values, kCount, TUTTI_FLOAT32, TUTTI_SUM, NULL), TUTTI_INVALID_ARGUMENT,
        "it was closed");
  OK(tutti_quantised_free(&quantised));
  CHECK(quantised == NULL);
  free(values);
  return code;
}
