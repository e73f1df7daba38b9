// Types and operators of the caller's: argmax over structs, an operator whose order matters, their life.
#include "check.h"

struct best {
  float value;
  int owner;
  char name[4];
};

static void better(void* result, const void* left, const void* right, size_t count, void* context) {
  const struct best *a = left, *b = right;
  struct best* out = result;
  *(volatile int*)context = 1;
  for (size_t i = 0; i < count; ++i) out[i] = b[i].value > a[i].value ? b[i] : a[i];
}

static struct best entry_of(int rank, size_t i) {
  struct best best = {(float)((i * 31 + (size_t)rank * 17) % 101), rank, "xyz"};
  best.name[0] = (char)('a' + rank);
  return best;
}

static struct best expected_best(int size, size_t i) {
  struct best best = entry_of(0, i);
  for (int rank = 1; rank < size; ++rank) {
    const struct best other = entry_of(rank, i);
    if (other.value > best.value) best = other;
  }
  return best;
}

static void check_argmax(const struct job* job) {
  enum { kCount = 3001 };
  static struct best in[kCount], out[kCount];
  int called = 0;
  tutti_op argmax = TUTTI_OP_NONE;
  OK(tutti_op_create(better, &called, TUTTI_TYPE_OF(struct best), 1, "argmax", &argmax));
  for (size_t i = 0; i < kCount; ++i) in[i] = entry_of(job->rank, i);
  OK(tutti_all_reduce(job->comm, in, out, kCount, TUTTI_TYPE_OF(struct best), argmax, NULL));
  for (size_t i = 0; i < kCount; ++i) {
    const struct best expected = expected_best(job->size, i);
    CHECK(memcmp(&out[i], &expected, sizeof expected) == 0);
  }
  CHECK(called || job->size == 1);

  // A call under way keeps its operator; a later one is refused it.
  tutti_work work = NULL;
  memset(out, 0, sizeof out);
  OK(tutti_all_reduce(job->comm, in, out, kCount, TUTTI_TYPE_OF(struct best), argmax, &work));
  const tutti_op copy = argmax;
  OK(tutti_op_free(&argmax));
  CHECK(argmax == TUTTI_OP_NONE);
  OK(tutti_wait(&work));
  for (size_t i = 0; i < kCount; ++i) CHECK(out[i].owner == expected_best(job->size, i).owner);
  FAILS(tutti_all_reduce(job->comm, in, out, 1, TUTTI_TYPE_OF(struct best), copy, NULL), TUTTI_INVALID_ARGUMENT,
        "tutti_op_free was called");
  FAILS(tutti_all_reduce(job->comm, in, out, 1, TUTTI_TYPE_OF(struct best), argmax, NULL), TUTTI_INVALID_ARGUMENT,
        "all_reduce: the operator is TUTTI_OP_NONE");
  FAILS(tutti_all_reduce(job->comm, in, out, 1, TUTTI_TYPE_OF(struct best), TUTTI_SUM, NULL), TUTTI_UNSUPPORTED,
        "an element of 12 bytes has no operator sum");
  // Without an operator, such elements go everywhere that others go.
  struct best gathered[8];
  CHECK(job->size <= 8);
  OK(tutti_all_gather(job->comm, &in[5], gathered, 1, TUTTI_TYPE_OF(struct best), NULL));
  for (int rank = 0; rank < job->size; ++rank) CHECK(gathered[rank].owner == rank);
}

// f(x) = a x + b; putting one behind the other is associative, and its order matters.
struct line {
  int64_t a, b;
};

static void compose(void* result, const void* left, const void* right, size_t count, void* context) {
  (void)context;
  for (size_t i = 0; i < count; ++i) {
    const struct line first = ((const struct line*)left)[i], then = ((const struct line*)right)[i];
    const struct line both = {then.a * first.a, then.a * first.b + then.b};
    ((struct line*)result)[i] = both;
  }
}

static void check_order(const struct job* job) {
  enum { kCount = 500 };
  static struct line in[kCount], out[kCount];
  tutti_op in_order;
  OK(tutti_op_create(compose, NULL, TUTTI_TYPE_OF(struct line), 0, NULL, &in_order));
  for (size_t i = 0; i < kCount; ++i) in[i] = (struct line){job->rank + 2, (int64_t)i - job->rank};
  OK(tutti_all_reduce(job->comm, in, out, kCount, TUTTI_TYPE_OF(struct line), in_order, NULL));
  for (size_t i = 0; i < kCount; ++i) {
    int64_t x = 3;
    for (int rank = 0; rank < job->size; ++rank) x = (rank + 2) * x + (int64_t)i - rank;
    CHECK(out[i].a * 3 + out[i].b == x);
  }
  OK(tutti_scan(job->comm, in, out, kCount, TUTTI_TYPE_OF(struct line), in_order, NULL));
  for (size_t i = 0; i < kCount; ++i) {
    int64_t x = 3;
    for (int rank = 0; rank <= job->rank; ++rank) x = (rank + 2) * x + (int64_t)i - rank;
    CHECK(out[i].a * 3 + out[i].b == x);
  }
  OK(tutti_op_free(&in_order));
}

struct exact {
  long double value;
  int owner;
};

// As the compiler assumes, which may use instructions that insist on it.
static void larger(void* result, const void* left, const void* right, size_t count, void* context) {
  const void* const places[] = {result, left, right};
  for (int i = 0; i < 3; ++i) {
    if ((uintptr_t)places[i] % TUTTI_ALIGNMENT_OF(struct exact) != 0) *(volatile int*)context = 1;
  }
  const struct exact *a = left, *b = right;
  struct exact* out = result;
  for (size_t i = 0; i < count; ++i) out[i] = b[i].value > a[i].value ? b[i] : a[i];
}

static void check_alignment(const struct job* job) {
  enum { kMost = 50 };
  struct exact in[kMost], out[kMost];
  int misaligned = 0;
  tutti_op op = TUTTI_OP_NONE;
  OK(tutti_op_create(larger, &misaligned, TUTTI_TYPE_OF(struct exact), 1, NULL, &op));
  memset(in, 0, sizeof in);
  for (int i = 0; i < kMost; ++i) {
    in[i].owner = job->rank;
    in[i].value = (job->rank + i) % job->size;
  }
  for (size_t count = 1; count <= kMost; count += count < 5 ? 1 : 9) {
    OK(tutti_all_reduce(job->comm, in, out, count, TUTTI_TYPE_OF(struct exact), op, NULL));
    for (size_t i = 0; i < count; ++i) {
      CHECK(out[i].value == job->size - 1);
      CHECK(((size_t)out[i].owner + i) % (size_t)job->size == (size_t)job->size - 1);
    }
    OK(tutti_scan(job->comm, in, out, count, TUTTI_TYPE_OF(struct exact), op, NULL));
  }
  CHECK(!misaligned);
  CHECK(tutti_type_size(TUTTI_TYPE_OF(struct exact)) == sizeof(struct exact));
  FAILS(tutti_all_reduce(job->comm, (char*)in + 1, out, 1, TUTTI_TYPE_OF(struct exact), op, NULL),
        TUTTI_INVALID_ARGUMENT, "is not aligned to");
  OK(tutti_op_free(&op));
}

// As large as elements of an operator of one's own may be.
struct page {
  struct line line;
  unsigned char rest[(1 << 20) - sizeof(struct line)];
};
struct too_large {
  struct page page;
  int64_t more;
};

static void compose_pages(void* result, const void* left, const void* right, size_t count, void* context) {
  for (size_t i = 0; i < count; ++i) {
    const struct page *a = (const struct page*)left + i, *b = (const struct page*)right + i;
    struct page* out = (struct page*)result + i;
    compose(&out->line, &a->line, &b->line, 1, context);
    memmove(out->rest, b->rest, sizeof out->rest);
  }
}

static void check_page(const struct page* page, int last) {
  int64_t x = 3;
  for (int rank = 0; rank <= last; ++rank) x = (rank + 2) * x + 5 - rank;
  CHECK(page->line.a * 3 + page->line.b == x);
  for (size_t i = 0; i < sizeof page->rest; ++i) CHECK(page->rest[i] == (unsigned char)(last + i * 7));
}

static void check_large(const struct job* job) {
  static struct page in, out;
  static struct too_large larger_in, larger_out;
  tutti_op op = TUTTI_OP_NONE;
  OK(tutti_op_create(compose_pages, NULL, TUTTI_TYPE_OF(struct page), 0, NULL, &op));
  in.line = (struct line){job->rank + 2, 5 - job->rank};
  for (size_t i = 0; i < sizeof in.rest; ++i) in.rest[i] = (unsigned char)((size_t)job->rank + i * 7);
  OK(tutti_all_reduce(job->comm, &in, &out, 1, TUTTI_TYPE_OF(struct page), op, NULL));
  check_page(&out, job->size - 1);
  OK(tutti_scan(job->comm, &in, &out, 1, TUTTI_TYPE_OF(struct page), op, NULL));
  check_page(&out, job->rank);
  OK(tutti_op_free(&op));
  OK(tutti_op_create(compose_pages, NULL, TUTTI_TYPE_OF(struct too_large), 0, NULL, &op));
  FAILS(tutti_all_reduce(job->comm, &larger_in, &larger_out, 1, TUTTI_TYPE_OF(struct too_large), op, NULL),
        TUTTI_UNSUPPORTED, "elements of at most 1048576 bytes, not 1048584");
  OK(tutti_op_free(&op));
}

static void check_premul(const struct job* job) {
  double x[3] = {1, 2, 3};
  tutti_op weighted;
  OK(tutti_op_premul_sum(job->rank + 0.5, &weighted));
  OK(tutti_all_reduce(job->comm, x, x, 3, TUTTI_FLOAT64, weighted, NULL));
  for (int i = 0; i < 3; ++i) CHECK(x[i] == (i + 1) * job->size * job->size / 2.0);
  OK(tutti_op_free(&weighted));
}

// As MPI_MINLOC and MPI_MAXLOC have them: ties go to the lower index.
static void check_locations(const struct job* job) {
  struct float_int {
    float value;
    int32_t index;
  } a[3] = {{(float)job->rank, job->rank}, {7, 10 - job->rank}, {(float)(job->rank % 2), job->rank}};
  struct double_int {
    double value;
    int32_t index;
  } b = {-job->rank, job->rank};
  struct long_int {
    int64_t value;
    int32_t index;
  } c = {INT64_MAX - job->rank, job->rank};
  struct short_int {
    int16_t value;
    int32_t index;
  } d = {(int16_t)-job->rank, job->rank};
  const tutti_type float_int = TUTTI_VALUE_INDEX(TUTTI_FLOAT32, TUTTI_INT32);
  const tutti_type double_int = TUTTI_VALUE_INDEX(TUTTI_FLOAT64, TUTTI_INT32);
  const tutti_type long_int = TUTTI_VALUE_INDEX(TUTTI_INT64, TUTTI_INT32);
  const tutti_type short_int = TUTTI_VALUE_INDEX(TUTTI_INT16, TUTTI_INT32);
  CHECK(tutti_type_size(float_int) == sizeof a[0] && tutti_type_size(double_int) == sizeof b);
  CHECK(tutti_type_size(long_int) == sizeof c && tutti_type_size(short_int) == sizeof d);
  const int last = job->size - 1;
  OK(tutti_all_reduce(job->comm, a, a, 3, float_int, TUTTI_MAXLOC, NULL));
  CHECK(a[0].value == (float)last && a[0].index == last);
  CHECK(a[1].value == 7 && a[1].index == 10 - last);
  CHECK(a[2].value == (float)(last > 0) && a[2].index == (last > 0));
  OK(tutti_all_reduce(job->comm, &b, &b, 1, double_int, TUTTI_MINLOC, NULL));
  CHECK(b.value == -last && b.index == last);
  OK(tutti_all_reduce(job->comm, &c, &c, 1, long_int, TUTTI_MINLOC, NULL));
  CHECK(c.value == INT64_MAX - last && c.index == last);
  OK(tutti_all_reduce(job->comm, &d, &d, 1, short_int, TUTTI_MAXLOC, NULL));
  CHECK(d.value == 0 && d.index == 0);
  tutti_op op = TUTTI_MINLOC;
  OK(tutti_op_free(&op));
  CHECK(op == TUTTI_MINLOC);
  FAILS(tutti_all_reduce(job->comm, a, a, 3, TUTTI_FLOAT32, TUTTI_MINLOC, NULL), TUTTI_INVALID_ARGUMENT,
        "TUTTI_MINLOC reduces elements of TUTTI_VALUE_INDEX");
  FAILS(tutti_all_reduce(job->comm, a, a, 3, float_int, TUTTI_SUM, NULL), TUTTI_UNSUPPORTED, "has no operator sum");
  FAILS(tutti_all_reduce(job->comm, a, a, 3, TUTTI_VALUE_INDEX(TUTTI_FLOAT16, TUTTI_INT32), TUTTI_MINLOC, NULL),
        TUTTI_UNSUPPORTED, "float16 has no minloc");
  FAILS(tutti_all_reduce(job->comm, a, a, 3, TUTTI_VALUE_INDEX(TUTTI_FLOAT32, TUTTI_INT8), TUTTI_MINLOC, NULL),
        TUTTI_UNSUPPORTED, "an int32 or int64, not int8");
  CHECK(tutti_type_size(TUTTI_VALUE_INDEX(99, TUTTI_INT32)) == 0);
}

// Without any rank, in the order of the arguments.
static void check_reduce_local(void) {
  const float a[3] = {1, 2, 3};
  float b[3] = {10, -20, 30}, c[3];
  OK(tutti_reduce_local(a, b, c, 3, TUTTI_FLOAT32, TUTTI_AVERAGE));
  CHECK(c[0] == 5.5f && c[1] == -9 && c[2] == 16.5f);
  OK(tutti_reduce_local(a, b, b, 3, TUTTI_FLOAT32, TUTTI_MAXIMUM));
  CHECK(b[0] == 10 && b[1] == 2 && b[2] == 30);
  const struct line first = {2, 3}, then = {5, 7};
  struct line both;
  tutti_op in_order;
  OK(tutti_op_create(compose, NULL, TUTTI_TYPE_OF(struct line), 0, NULL, &in_order));
  OK(tutti_reduce_local(&first, &then, &both, 1, TUTTI_TYPE_OF(struct line), in_order));
  CHECK(both.a == 10 && both.b == 22);
  OK(tutti_op_free(&in_order));
  FAILS(tutti_reduce_local(a, b, b + 1, 2, TUTTI_FLOAT32, TUTTI_SUM), TUTTI_INVALID_ARGUMENT, "reduce_local: ");
  FAILS(tutti_reduce_local(a, NULL, b, 2, TUTTI_FLOAT32, TUTTI_SUM), TUTTI_INVALID_ARGUMENT, "null");
  FAILS(tutti_reduce_local(a, b, b, 2, TUTTI_FLOAT32, TUTTI_BAND), TUTTI_UNSUPPORTED,
        "reduce_local: float32 has no operator band");
}

static const char kFirst[] = "__device__ Element combine(const Element& a, const Element&) { return a; }";

// Ranks that differ about whether the order matters, about the name, or about the source for devices are told so.
static void check_difference(int commutative, const char* name, const char* source) {
  struct job job = meet();
  struct line in = {1, 2}, out;
  tutti_op op;
  const int first = job.rank == 0;
  OK(tutti_op_create(compose, NULL, TUTTI_TYPE_OF(struct line), first ? commutative : 0, first ? name : "after", &op));
  if (first && source != NULL) OK(tutti_op_set_device_source(op, source));
  const tutti_code code = tutti_all_reduce(job.comm, &in, &out, 1, TUTTI_TYPE_OF(struct line), op, NULL);
  CHECK(code == (job.size > 1 ? TUTTI_MISMATCH : TUTTI_OK));
  OK(tutti_op_free(&op));
  OK(tutti_comm_free(&job.comm));
}

static void check_errors(void) {
  tutti_op op = TUTTI_SUM;
  OK(tutti_op_free(&op));
  CHECK(op == TUTTI_SUM);
  FAILS(tutti_op_create(NULL, NULL, TUTTI_INT32, 1, NULL, &op), TUTTI_INVALID_ARGUMENT, "combine is NULL");
  CHECK(op == TUTTI_OP_NONE);
  OK(tutti_op_free(&op));
  FAILS(tutti_op_create(better, NULL, TUTTI_BYTES(0), 1, NULL, &op), TUTTI_INVALID_ARGUMENT, "1 byte to 1 GB, not 0");
  FAILS(tutti_op_create(better, NULL, 15, 1, NULL, &op), TUTTI_INVALID_ARGUMENT, "no element type 15");
  FAILS(tutti_op_create(better, NULL, TUTTI_INT32, 1, NULL, NULL), TUTTI_INVALID_ARGUMENT, "op is NULL");
  FAILS(tutti_op_premul_sum(1, NULL), TUTTI_INVALID_ARGUMENT, "op is NULL");
  FAILS(tutti_op_set_device_source(TUTTI_SUM, kFirst), TUTTI_INVALID_ARGUMENT, "not one of tutti_op_create");
  FAILS(tutti_op_set_device_source(TUTTI_MINLOC, kFirst), TUTTI_INVALID_ARGUMENT, "not one of tutti_op_create");
  OK(tutti_op_premul_sum(1, &op));
  FAILS(tutti_op_set_device_source(op, kFirst), TUTTI_INVALID_ARGUMENT, "not one of tutti_op_create");
  FAILS(tutti_op_set_device_source(op, NULL), TUTTI_INVALID_ARGUMENT, "source is NULL");
  OK(tutti_op_free(&op));
  FAILS(tutti_op_set_device_source(op, kFirst), TUTTI_INVALID_ARGUMENT, "TUTTI_OP_NONE");
  op = 11;  // premul_sum needs its factor
  FAILS(tutti_op_free(&op), TUTTI_INVALID_ARGUMENT, "there is no operator 11");
}

int main(void) {
  struct job job = meet();
  check_argmax(&job);
  check_order(&job);
  check_alignment(&job);
  check_large(&job);
  check_premul(&job);
  check_locations(&job);
  check_reduce_local();
  check_difference(1, "after", NULL);
  check_difference(0, "before", NULL);
  check_difference(0, "after", kFirst);
  check_errors();
  return leave(&job);
}
