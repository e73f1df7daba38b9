// Every verb against what it is defined to give, written out naively: counts from nothing to several segments, every
// root, in place and not, ordinary and symmetric memory.
#include "check.h"

// What rank `rank` contributes at `i`; small numbers, so that sums are exact.
static int32_t value(int rank, size_t i) { return (int32_t)((i * 7 + (size_t)rank * 13) % 1000) - 300; }

static int32_t sum(int below, size_t i) {
  int32_t result = 0;
  for (int rank = 0; rank < below; ++rank) result += value(rank, i);
  return result;
}

static void fill(int32_t* buffer, size_t count, int rank) {
  for (size_t i = 0; i < count; ++i) buffer[i] = value(rank, i);
}

static const int32_t untouched = -77777;

static void blank(int32_t* buffer, size_t count) {
  for (size_t i = 0; i < count; ++i) buffer[i] = untouched;
}

static void check_vectors(const struct job* job, size_t count, int32_t* in, int32_t* out) {
  tutti_comm comm = job->comm;
  fill(in, count, job->rank);
  blank(out, count);
  OK(tutti_all_reduce(comm, in, out, count, TUTTI_INT32, TUTTI_SUM, NULL));
  for (size_t i = 0; i < count; ++i) CHECK(out[i] == sum(job->size, i) && in[i] == value(job->rank, i));
  OK(tutti_all_reduce(comm, in, in, count, TUTTI_INT32, TUTTI_SUM, NULL));
  for (size_t i = 0; i < count; ++i) CHECK(in[i] == sum(job->size, i));

  fill(in, count, job->rank);
  blank(out, count);
  OK(tutti_scan(comm, in, out, count, TUTTI_INT32, TUTTI_SUM, NULL));
  for (size_t i = 0; i < count; ++i) CHECK(out[i] == sum(job->rank + 1, i));
  blank(out, count);
  OK(tutti_exclusive_scan(comm, in, out, count, TUTTI_INT32, TUTTI_SUM, NULL));
  for (size_t i = 0; i < count; ++i) CHECK(out[i] == (job->rank == 0 ? untouched : sum(job->rank, i)));

  for (int root = 0; root < job->size; ++root) {
    const int here = job->rank == root;
    blank(out, count);
    OK(tutti_reduce(comm, in, here ? out : NULL, count, TUTTI_INT32, TUTTI_SUM, root, NULL));
    for (size_t i = 0; i < count; ++i) CHECK(out[i] == (here ? sum(job->size, i) : untouched));

    blank(out, count);
    OK(tutti_broadcast(comm, here ? in : NULL, out, count, TUTTI_INT32, root, NULL));
    for (size_t i = 0; i < count; ++i) CHECK(out[i] == value(root, i));
    fill(out, count, job->rank);
    OK(tutti_broadcast(comm, out, out, count, TUTTI_INT32, root, NULL));
    for (size_t i = 0; i < count; ++i) CHECK(out[i] == value(root, i));
  }
}

// Rank r's chunk for rank s is value(r, s * count + i).
static void check_chunks(const struct job* job, size_t count, int32_t* in, int32_t* out) {
  tutti_comm comm = job->comm;
  const size_t size = (size_t)job->size, mine = (size_t)job->rank * count, all = size * count;
  fill(in, all, job->rank);
  blank(out, all);
  OK(tutti_all_gather(comm, in, out, count, TUTTI_INT32, NULL));
  for (size_t i = 0; i < all; ++i) CHECK(out[i] == value((int)(i / count), i % count));
  blank(out, all);
  fill(out + mine, count, job->rank);
  OK(tutti_all_gather(comm, out + mine, out, count, TUTTI_INT32, NULL));
  for (size_t i = 0; i < all; ++i) CHECK(out[i] == value((int)(i / count), i % count));

  blank(out, all);
  OK(tutti_reduce_scatter(comm, in, out, count, TUTTI_INT32, TUTTI_SUM, NULL));
  for (size_t i = 0; i < count; ++i) CHECK(out[i] == sum(job->size, mine + i));

  blank(out, all);
  OK(tutti_all_to_all(comm, in, out, count, TUTTI_INT32, NULL));
  for (size_t i = 0; i < all; ++i) CHECK(out[i] == value((int)(i / count), mine + i % count));
  OK(tutti_all_to_all(comm, in, in, count, TUTTI_INT32, NULL));
  CHECK(memcmp(in, out, all * sizeof *in) == 0);
  fill(in, all, job->rank);

  for (int root = 0; root < job->size; ++root) {
    const int here = job->rank == root;
    blank(out, all);
    OK(tutti_gather(comm, in, here ? out : NULL, count, TUTTI_INT32, root, NULL));
    for (size_t i = 0; i < all; ++i) CHECK(out[i] == (here ? value((int)(i / count), i % count) : untouched));
    blank(out, all);
    OK(tutti_scatter(comm, here ? in : NULL, out, count, TUTTI_INT32, root, NULL));
    for (size_t i = 0; i < count; ++i) CHECK(out[i] == value(root, mine + i));
  }
  OK(tutti_reduce_scatter(comm, in, in + mine, count, TUTTI_INT32, TUTTI_SUM, NULL));
  for (size_t i = 0; i < count; ++i) CHECK(in[mine + i] == sum(job->size, mine + i));
}

// All built-in operators on bytes, where they can be told apart; wrap-around is part of the definition.
static void check_operators(const struct job* job) {
  uint8_t in[5], out[5];
  for (tutti_op op = TUTTI_SUM; op <= TUTTI_LXOR; ++op) {
    for (size_t i = 0; i < 5; ++i) in[i] = (uint8_t)value(job->rank, i);
    OK(tutti_all_reduce(job->comm, in, out, 5, TUTTI_UINT8, op, NULL));
    for (size_t i = 0; i < 5; ++i) {
      uint8_t expected = (uint8_t)value(0, i);
      for (int rank = 1; rank < job->size; ++rank) {
        const uint8_t v = (uint8_t)value(rank, i);
        if (op == TUTTI_SUM || op == TUTTI_AVERAGE) expected = (uint8_t)(expected + v);
        if (op == TUTTI_PRODUCT) expected = (uint8_t)(expected * v);
        if (op == TUTTI_MINIMUM) expected = v < expected ? v : expected;
        if (op == TUTTI_MAXIMUM) expected = v > expected ? v : expected;
        if (op == TUTTI_BAND) expected = expected & v;
        if (op == TUTTI_BOR) expected = expected | v;
        if (op == TUTTI_BXOR) expected = expected ^ v;
        if (op == TUTTI_LAND) expected = expected && v;
        if (op == TUTTI_LOR) expected = expected || v;
        if (op == TUTTI_LXOR) expected = !expected != !v;
      }
      if (op == TUTTI_AVERAGE) expected = (uint8_t)(expected / job->size);
      CHECK(out[i] == expected);
    }
  }
}

// Logical operators on numbers: any but zero is true, whatever its sign, and a NaN, too.
static void check_logical(const struct job* job) {
  if (job->size == 1) return;  // what only one rank contributes to stays as it is
  const double nan = strtod("nan", NULL);
  for (tutti_op op = TUTTI_LAND; op <= TUTTI_LXOR; ++op) {
    // All ranks are true; all but the last; only the last; none.
    const int last = job->rank == job->size - 1;
    double x[4] = {job->rank == 0 ? nan : -0.5 * job->rank, last ? -0.0 : 3, last ? 1e-300 : 0, -0.0};
    int64_t y[4] = {-1 - job->rank, last ? 0 : INT64_MIN, last ? 1 << 20 : 0, 0};
    OK(tutti_all_reduce(job->comm, x, x, 4, TUTTI_FLOAT64, op, NULL));
    OK(tutti_all_reduce(job->comm, y, y, 4, TUTTI_INT64, op, NULL));
    const int trues[4] = {job->size, job->size - 1, 1, 0};
    for (int i = 0; i < 4; ++i) {
      const int expected = op == TUTTI_LAND ? trues[i] == job->size : op == TUTTI_LOR ? trues[i] > 0 : trues[i] % 2;
      CHECK(x[i] == expected && y[i] == expected);
    }
  }
}

// A sum of ones in every type is the size of the group.
static void check_types(const struct job* job) {
  static const size_t sizes[] = {1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8, 8, 16, 1};
  for (tutti_type type = TUTTI_INT8; type <= TUTTI_BOOLEAN; ++type) {
    unsigned char one[16] = {0}, all[16] = {0}, out[16] = {0};
    const size_t bytes = tutti_type_size(type);
    CHECK(bytes == sizes[type]);
    const float f = 1, fs = (float)job->size;
    const double d = 1, ds = job->size;
    if (type == TUTTI_FLOAT32 || type == TUTTI_COMPLEX64) {
      memcpy(one, &f, sizeof f);
      memcpy(all, &fs, sizeof fs);
    } else if (type == TUTTI_FLOAT64 || type == TUTTI_COMPLEX128) {
      memcpy(one, &d, sizeof d);
      memcpy(all, &ds, sizeof ds);
    } else if (type == TUTTI_FLOAT16 || type == TUTTI_BFLOAT16) {
      // A whole number below 8: its exponent, and behind it what follows its first bit.
      const int bits = type == TUTTI_FLOAT16 ? 10 : 7, bias = type == TUTTI_FLOAT16 ? 15 : 127;
      const int exponent = job->size >= 4 ? 2 : job->size >= 2 ? 1 : 0;
      CHECK(job->size < 8);
      const uint16_t h = (uint16_t)(bias << bits);
      const uint16_t hs = (uint16_t)((bias + exponent) << bits | (job->size - (1 << exponent)) << (bits - exponent));
      memcpy(one, &h, sizeof h);
      memcpy(all, &hs, sizeof hs);
    } else {
      one[0] = 1;
      all[0] = type == TUTTI_BOOLEAN ? 1 : (unsigned char)job->size;
    }
    OK(tutti_all_reduce(job->comm, one, out, 1, type, TUTTI_SUM, NULL));
    CHECK(memcmp(out, all, bytes) == 0);
  }
  CHECK(tutti_type_size(99) == 0 && tutti_type_size(TUTTI_BYTES(0)) == 0);
  CHECK(tutti_type_size(TUTTI_BYTES(((size_t)1 << 40) + 8)) == 0 && tutti_type_size(TUTTI_TYPE(24, 8)) == 24);
  CHECK(tutti_type_size(TUTTI_BYTES((size_t)1 << 40)) == 0 && tutti_type_size(TUTTI_TYPE_OF(struct job)) > 8);
}

static void check_symmetric(const struct job* job) {
  enum { kCount = 5000 };
  void* address = NULL;
  OK(tutti_alloc(job->comm, kCount * sizeof(int32_t), &address));
  int32_t* memory = address;
  CHECK(memory != NULL && (uintptr_t)memory % 64 == 0 && memory[kCount - 1] == 0);
  fill(memory, kCount, job->rank);
  OK(tutti_all_reduce(job->comm, memory, memory, kCount, TUTTI_INT32, TUTTI_SUM, NULL));
  for (size_t i = 0; i < kCount; ++i) CHECK(memory[i] == sum(job->size, i));
  const char* algorithm = NULL;
  OK(tutti_last_algorithm(job->comm, &algorithm));
  CHECK(algorithm[0] != '\0');
  tutti_verb_counters counted;
  OK(tutti_counters(job->comm, TUTTI_ALL_REDUCE, &counted));
  CHECK(counted.calls > 0 && counted.bytes >= kCount * sizeof(int32_t));
  const tutti_verb_counters before = counted;
  OK(tutti_all_reduce(job->comm, memory, memory, kCount, TUTTI_INT32, TUTTI_MAXIMUM, NULL));
  OK(tutti_counters(job->comm, TUTTI_ALL_REDUCE, &counted));
  CHECK(counted.calls == before.calls + 1 && counted.bytes == before.bytes + kCount * sizeof(int32_t));
  CHECK(counted.waited_ns >= before.waited_ns);
  FAILS(tutti_counters(job->comm, TUTTI_ALL_REDUCE, NULL), TUTTI_INVALID_ARGUMENT, "counters");
  FAILS(tutti_counters(job->comm, (tutti_verb)99, &counted), TUTTI_INVALID_ARGUMENT, "no verb 99");
  int tuned = -1;
  OK(tutti_tuned(job->comm, &tuned));
  CHECK(tuned == 0 || tuned == 1);  // who runs this may have tuned
  OK(tutti_barrier(job->comm, NULL));  // nobody reads it any more
  OK(tutti_free(job->comm, memory));
  FAILS(tutti_free(job->comm, memory), TUTTI_INVALID_ARGUMENT, "given back already");
  OK(tutti_free(job->comm, NULL));
  // What is kept outlives its communicator.
  tutti_comm twin;
  tutti_memory owner = NULL;
  OK(tutti_comm_duplicate(job->comm, &twin));
  OK(tutti_alloc(twin, sizeof(int32_t), &address));
  OK(tutti_memory_keep(twin, address, &owner));
  FAILS(tutti_free(twin, address), TUTTI_INVALID_ARGUMENT, "no such memory");
  FAILS(tutti_memory_keep(twin, address, &owner), TUTTI_INVALID_ARGUMENT, "no such memory");
  CHECK(owner == NULL);
  OK(tutti_alloc(twin, sizeof(int32_t), &address));
  OK(tutti_memory_keep(twin, address, &owner));
  *(int32_t*)address = 1;
  OK(tutti_all_reduce(twin, address, address, 1, TUTTI_INT32, TUTTI_SUM, NULL));
  OK(tutti_comm_free(&twin));
  CHECK(*(int32_t*)address == job->size);
  OK(tutti_memory_free(&owner));
  CHECK(owner == NULL);
  OK(tutti_memory_free(&owner));
}

int main(void) {
  static const size_t counts[] = {0, 1, 2, 7, 64, 1000, 100003};
  struct job job = meet();
  for (size_t c = 0; c < sizeof counts / sizeof *counts; ++c) {
    const size_t count = counts[c], all = count * (size_t)job.size;
    int32_t *in = room(all * sizeof *in), *out = room(all * sizeof *out);
    check_vectors(&job, count, in, out);
    if (count != 0) check_chunks(&job, count, in, out);
    free(in);
    free(out);
  }
  check_operators(&job);
  check_logical(&job);
  check_types(&job);
  check_symmetric(&job);
  CHECK(strcmp(tutti_version(), "") != 0);
  return leave(&job);
}
