/* Tutti for C, and for everything that calls C: every verb, type, variant and group of the library.
 *
 *   tutti_comm comm;
 *   if (tutti_init(NULL, &comm) != TUTTI_OK) { fprintf(stderr, "%s\n", tutti_error_message()); return 1; }
 *   if (tutti_all_reduce(comm, x, x, n, TUTTI_FLOAT32, TUTTI_SUM, NULL) != TUTTI_OK) ...
 *   tutti_comm_free(&comm);
 *
 * Every function returns TUTTI_OK or the code of an error, whose words and culprit the calling thread can then ask for.
 * A call that cannot be carried out as written fails before anything moves; one that fails later aborts its
 * communicator.
 *
 * The last argument of a verb is a place for a handle: NULL makes the call blocking; otherwise the call returns at
 * once, and the handle is to be given to tutti_wait once, even after tutti_test said that the call has ended. The
 * buffers are the library's until then; counts, displacements and the like are read before the call returns. A call
 * that fails at once leaves NULL as its handle, so that waiting for it does no harm.
 *
 * `count` is always elements: of the vector, or, for verbs on chunks, of each rank's chunk. In place means that the
 * parts which input and output share are the same memory: the same address for verbs on vectors and all_to_all, and the
 * own chunk of the longer buffer for all_gather, gather, reduce_scatter and scatter; other overlap is refused. Buffers
 * and arrays that a verb does not use on this rank are not looked at, and may be NULL.
 *
 * Threads: one thread at a time per communicator, its handles included; but tutti_abort may be called at any time, and
 * while one thread waits for a handle, another may start calls with handles. Different communicators are independent.
 * Operators and everything that takes no communicator may be used by any thread at any time. A child that a rank forks
 * is refused by every call on the rank's communicators and handles; freeing them there leaves the rank as it is.
 *
 * A program that ends without tutti_comm_free has left its group without a word: ranks that still wait for it fail with
 * TUTTI_PEER_LOST.
 */
#ifndef TUTTI_TUTTI_H
#define TUTTI_TUTTI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#ifdef __GNUC__
#pragma GCC visibility push(default)
#endif

#define TUTTI_VERSION_MAJOR 0
#define TUTTI_VERSION_MINOR 1
#define TUTTI_VERSION_PATCH 0

/* ---- Errors */

typedef enum tutti_code {
  TUTTI_OK = 0,
  TUTTI_INVALID_ARGUMENT, /* a call that cannot be carried out as written */
  TUTTI_UNSUPPORTED,      /* the type lacks the operator, or the platform the feature */
  TUTTI_TIMEOUT,          /* a peer did not answer within the deadline */
  TUTTI_PEER_LOST,        /* a peer's process ended */
  TUTTI_PEER_FAILED,      /* a peer gave up after an error of its own */
  TUTTI_MISMATCH,         /* ranks called different operations */
  TUTTI_ABORTED,          /* the communicator failed earlier */
  TUTTI_SYSTEM            /* the operating system refused a request */
} tutti_code;

/* Of the last call of this thread that failed: its words (never NULL, valid until the next call of this thread fails),
 * and the rank that caused it or -1. */
const char* tutti_error_message(void);
int tutti_error_rank(void);
/* "ok", "invalid_argument" and so on; "unknown" where there is no such code. */
const char* tutti_code_name(tutti_code code);
/* "0.1.0", of the library that is loaded. */
const char* tutti_version(void);

/* ---- Element types */

typedef uint64_t tutti_type;
enum {
  TUTTI_INT8,
  TUTTI_INT16,
  TUTTI_INT32,
  TUTTI_INT64,
  TUTTI_UINT8,
  TUTTI_UINT16,
  TUTTI_UINT32,
  TUTTI_UINT64,
  TUTTI_FLOAT16,
  TUTTI_BFLOAT16,
  TUTTI_FLOAT32,
  TUTTI_FLOAT64,
  TUTTI_COMPLEX64,
  TUTTI_COMPLEX128,
  TUTTI_BOOLEAN
};
/* An element of the caller's own, which moves as bytes: TUTTI_TYPE_OF(struct best). 1 byte to 1 GB, aligned as the type
 * is: buffers of it must be, and what an operator of the caller's is given is. TUTTI_BYTES has no alignment. */
#define TUTTI_TYPE(bytes, alignment) \
  ((tutti_type)((uint64_t)(bytes) >> 39 ? 0 : (bytes)) << 24 | ((tutti_type)(alignment)&0xffff) << 8 | 0xff)
#define TUTTI_BYTES(bytes) TUTTI_TYPE(bytes, 1)
#define TUTTI_TYPE_OF(type) TUTTI_TYPE(sizeof(type), TUTTI_ALIGNMENT_OF(type))
#if defined(__cplusplus)
#define TUTTI_ALIGNMENT_OF(type) alignof(type)
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
#define TUTTI_ALIGNMENT_OF(type) _Alignof(type)
#else
#define TUTTI_ALIGNMENT_OF(type) \
  offsetof(                      \
      struct {                   \
        char before;             \
        type value;              \
      },                         \
      value)
#endif
/* A value and where it is: an element like struct { float value; int32_t index; } is TUTTI_VALUE_INDEX(TUTTI_FLOAT32,
 * TUTTI_INT32). It moves as bytes, and is reduced by TUTTI_MINLOC and TUTTI_MAXLOC. Values are integers, float32 or
 * float64; indices int32 or int64. */
#define TUTTI_VALUE_INDEX(value, index) ((tutti_type)(index) << 16 | (tutti_type)(value) << 8 | 0xfe)
/* Bytes of an element; 0 where there is no such type. */
size_t tutti_type_size(tutti_type type);

/* ---- Operators */

typedef uint64_t tutti_op;
enum {
  TUTTI_SUM,
  TUTTI_PRODUCT,
  TUTTI_MINIMUM,
  TUTTI_MAXIMUM,
  TUTTI_AVERAGE, /* the sum, divided by the number of ranks before the last rounding */
  TUTTI_BAND,
  TUTTI_BOR,
  TUTTI_BXOR,
  TUTTI_LAND, /* logical, on numbers: every one but zero is true, the result is 1 or 0 of the type; */
  TUTTI_LOR,  /* what only one rank contributes to stays as it is */
  TUTTI_LXOR,
  TUTTI_MINLOC = 256, /* the smallest value and the lowest index that has it; a NaN wins, so that it is not lost */
  TUTTI_MAXLOC        /* the largest; both only for TUTTI_VALUE_INDEX */
};
#define TUTTI_OP_NONE (~(tutti_op)0)
/* result[i] = left[i] op right[i] for i < count; `left` stems from lower ranks. result may be left or right. */
typedef void (*tutti_combine)(void* result, const void* left, const void* right, size_t count, void* context);
/* An operator of the caller's, for elements of `type`: associative, and, where `commutative` is 0, applied in the order
 * of the ranks. `combine` may be called on any thread, from different calls at once, and must touch nothing that the
 * caller changes meanwhile; it must not throw, nor leave by longjmp. It and `context` are needed until tutti_op_free
 * and until the calls that were given the operator have ended. `name` (or NULL) is for people, and is compared between
 * ranks. An element has at most 1 MB; one larger than 32 KB / ranks is slower, because all operands are moved to all
 * ranks that have a result. */
tutti_code tutti_op_create(tutti_combine combine, void* context, tutti_type type, int commutative, const char* name,
                           tutti_op* op);
/* The same in CUDA C++, for buffers on a device that all ranks share, which go through host memory without. `source`,
 * which is copied, defines `__device__ Element combine(const Element& left, const Element& right)`, where Element is
 * the operator's type (16-bit floats: their bits as unsigned short); of elements of the caller's own it defines
 * Element, too. It is compared between ranks. Calls that the operator was given before do without it. */
tutti_code tutti_op_set_device_source(tutti_op op, const char* source);
/* Each rank's input times its factor, rounded, then summed. */
tutti_code tutti_op_premul_sum(double factor, tutti_op* op);
/* Sets *op to TUTTI_OP_NONE, which no verb takes. Calls under way go on. Built-in operators are left alone. */
tutti_code tutti_op_free(tutti_op* op);

/* output[i] = left[i] op right[i] for i < count, without any rank: the same bits as an all_reduce between two ranks, of
 * which the first has left (an average divides by two). output may be left or right; other overlap is refused. */
tutti_code tutti_reduce_local(const void* left, const void* right, void* output, size_t count, tutti_type type,
                              tutti_op op);

/* ---- Communicators */

typedef struct tutti_comm_s* tutti_comm;
typedef struct tutti_work_s* tutti_work;

typedef enum tutti_transport {
  TUTTI_TRANSPORT_AUTO,
  TUTTI_TRANSPORT_SHM,
  TUTTI_TRANSPORT_TCP,
  TUTTI_TRANSPORT_UCX
} tutti_transport;
typedef enum tutti_check { TUTTI_CHECK_QUICK, TUTTI_CHECK_FULL } tutti_check;

/* Filled in by tutti_options_default, then changed where wanted; what they mean is said in communicator.h and init.h.
 * Strings may be NULL. Later versions may add members at the end, and still take this struct. */
typedef struct tutti_options {
  size_t size;           /* of this struct, as the caller knows it */
  int deterministic;     /* 1: the same bits whatever the size, the algorithm or the transport */
  int64_t timeout_ms;    /* a call fails when nothing has moved for so long */
  const char* algorithm; /* run this one wherever a verb has it */
  tutti_check check;
  tutti_transport transport;
  /* Where no launcher says them; rank and world_size are -1 otherwise. */
  int rank, world_size;
  const char* rendezvous; /* "host:port", "[v6]:port" or "unix:@name" */
  const char* job;
  const char* token_file;
  const char* network_interface;
} tutti_options;

/* `size` is sizeof(tutti_options). */
tutti_code tutti_options_default(tutti_options* options, size_t size);
/* Meets the ranks that were launched together with this one; options may be NULL. */
tutti_code tutti_init(const tutti_options* options, tutti_comm* comm);

/* A place where ranks leave a few words for each other before they are linked, and which the program has already: the
 * key-value store of another library. Keys and values are text. Functions return NULL, or the words of what went wrong,
 * which are needed until the next call; they must not throw. */
typedef struct tutti_store {
  size_t size; /* sizeof(tutti_store) */
  void* context;
  /* When it returns, others can get the value. */
  const char* (*set)(void* context, const char* key, const char* value, int64_t timeout_ms);
  /* Waits until somebody has set the key, then writes the value, which ends with a zero, to `value`. */
  const char* (*get)(void* context, const char* key, char* value, size_t room, int64_t timeout_ms);
  /* Takes the key out again. */
  const char* (*remove)(void* context, const char* key);
} tutti_store;
/* The group of options->world_size ranks that pass the same options->job and stores with the same content, whoever
 * started them: launcher and variables say nothing about rank, size, job and place here. Rank 0 leaves its address and,
 * where there is no token file, a token in the store, and takes them out again before any rank returns: the same job
 * may then meet again. options->rendezvous is a host:port that all hosts reach, to find the right network by (default:
 * MASTER_ADDR and MASTER_PORT, else the name of this host); the ranks need not meet there. */
tutti_code tutti_init_with_store(const tutti_options* options, const tutti_store* store, tutti_comm* comm);

/* Leaves the group and sets *comm to NULL, which is also fine to begin with. Calls under way go on: their handles are
 * waited for as before, and with the last of them the group is left and symmetric memory goes. (Where they shall not go
 * on: tutti_abort first.) Copies of the handle are refused afterwards (TUTTI_INVALID_ARGUMENT); to tell them, every
 * communicator leaves a few bytes behind until the process ends. */
tutti_code tutti_comm_free(tutti_comm* comm);
/* By any thread, while others are in calls of this communicator: these fail soon with TUTTI_ABORTED, and so do later
 * ones. The other ranks hear of it when a call of this rank has failed, or when it leaves. */
tutti_code tutti_abort(tutti_comm comm);
tutti_code tutti_rank(tutti_comm comm, int* rank);
tutti_code tutti_size(tutti_comm comm, int* size);
/* Of the calls that follow, until it is set again. */
tutti_code tutti_set_timeout(tutti_comm comm, int64_t timeout_ms);
tutti_code tutti_get_timeout(tutti_comm comm, int64_t* timeout_ms);
/* The stream of a GPU (cudaStream_t) that the calls which follow are ordered with, where their buffers lie there: they
 * come after what it holds, and what comes into it after an async call waits until that has ended. NULL: none. */
tutti_code tutti_set_stream(tutti_comm comm, void* stream);
/* The same, but nothing that comes into the stream later waits for async calls: their output is there when their
 * handles have been waited for. */
tutti_code tutti_follow_stream(tutti_comm comm, void* stream);
tutti_code tutti_get_stream(tutti_comm comm, void** stream);
/* The algorithm that the last blocking collective of this rank ran; valid until the next call. */
tutti_code tutti_last_algorithm(tutti_comm comm, const char** name);
/* 1 where algorithms are chosen by costs that `tutti tune` has measured, 0 where by built-in ones; all ranks alike. */
tutti_code tutti_tuned(tutti_comm comm, int* tuned);

typedef enum tutti_verb {
  TUTTI_ALL_REDUCE,
  TUTTI_BROADCAST,
  TUTTI_SEND_RECV, /* a send, or a receive */
  TUTTI_REDUCE,
  TUTTI_SCATTER,
  TUTTI_GATHER,
  TUTTI_ALL_GATHER,
  TUTTI_REDUCE_SCATTER,
  TUTTI_ALL_TO_ALL,
  TUTTI_SCAN,
  TUTTI_EXCLUSIVE_SCAN,
  TUTTI_BARRIER
} tutti_verb;
typedef struct tutti_verb_counters {
  uint64_t calls;     /* blocking ones when they begin, async ones when they are submitted */
  uint64_t bytes;     /* of the vector, or of all chunks that this rank knows of; of a receive what it has room for */
  uint64_t waited_ns; /* while the program was held up for longer than a brief spin; after tutti_take_mark() all of
                       * a blocking call, and of a wait */
  uint64_t under_way_ns; /* after tutti_take_mark(), else 0: from its beginning or submission to its end, each call */
} tutti_verb_counters;
/* What this rank has called so far, by any thread; what the library does of its own accord is not counted. */
tutti_code tutti_counters(tutti_comm comm, tutti_verb verb, tutti_verb_counters* counters);

/* A trace of what the ranks do, by time: calls, their steps, waits, buckets and steps of training, and spans of the
 * program's own. TUTTI_TRACE in the environment and `tutti run --trace` record a whole program; these two a part of it.
 * Both are collective, while no call is under way. Of each rank the last `events` are kept, 0: 65536. When the trace
 * stops, all ranks' parts have become `file`. */
tutti_code tutti_trace_start(tutti_comm comm, const char* file, size_t events);
tutti_code tutti_trace_stop(tutti_comm comm);
/* The file that is recorded for, "" where nothing is; valid until the next call. */
tutti_code tutti_trace_where(tutti_comm comm, const char** file);
/* A part of the program with a name, in the trace of the rank whose thread this is. Spans of a thread nest, 64 deep;
 * each end ends the last one that began. Where nothing is recorded they cost next to nothing. */
tutti_code tutti_span_begin(const char* name);
tutti_code tutti_span_end(void);
/* For a thread that async calls hold up elsewhere than in a call of Tutti's, as who waits for a future of its language:
 * from when, and, by any thread, until when. `trace` is 0 where nothing is recorded, and the end does nothing then. */
typedef struct {
  uint64_t trace, since;
  uint32_t thread;
} tutti_trace_wait;
tutti_code tutti_trace_wait_begin(tutti_trace_wait* wait);
tutti_code tutti_trace_wait_end(const tutti_trace_wait* wait);

/* The sentence of a step: what was called between two marks of a communicator, what of that was exposed, and where the
 * time went, as a table or as JSON.
 *
 *   tutti_mark begin, end;
 *   tutti_take_mark(comm, &begin);
 *   ... ten steps ...
 *   tutti_take_mark(comm, &end);
 *   char text[4096];
 *   tutti_report(&begin, &end, 10, TUTTI_REPORT_TEXT, text, sizeof text, NULL);
 */
enum { TUTTI_VERBS = TUTTI_BARRIER + 1 };
typedef struct tutti_mark {
  int64_t at_ns;    /* of a clock of this machine */
  uint64_t busy_ns; /* while at least one call was under way */
  int64_t ranks;
  tutti_verb_counters verbs[TUTTI_VERBS];
} tutti_mark;
typedef enum tutti_report_format { TUTTI_REPORT_TEXT, TUTTI_REPORT_JSON } tutti_report_format;
/* From the first mark on calls are timed, which takes two readings of the clock and a lock for each. */
tutti_code tutti_take_mark(tutti_comm comm, tutti_mark* mark);
/* Writes as much as there is room for, closed by a zero; *length, unless NULL, is that of the whole text. */
tutti_code tutti_report(const tutti_mark* from, const tutti_mark* to, int64_t steps, tutti_report_format format,
                        char* text, size_t room, size_t* length);

/* One group per color, ranked by (key, rank); a negative color joins none, and *child is NULL then. */
tutti_code tutti_comm_split(tutti_comm comm, int color, int key, tutti_comm* child);
/* The group of these ranks, in this order; every rank of comm passes the same list. *child is NULL outside it. */
tutti_code tutti_comm_subgroup(tutti_comm comm, const int* ranks, int count, tutti_comm* child);
tutti_code tutti_comm_duplicate(tutti_comm comm, tutti_comm* child);
/* As tutti_comm_subgroup, but only the ranks of the list call, each with the same list and tag. Tags (0 .. 2^31 - 2)
 * keep apart groups that are being made at the same time, and have nothing to do with those of messages. */
tutti_code tutti_comm_create_group(tutti_comm comm, const int* ranks, int count, int tag, tutti_comm* child);
/* A group of this rank alone, without a word to any other; also where comm has failed. */
tutti_code tutti_comm_self(tutti_comm comm, tutti_comm* child);
/* Fills in as many as tutti_size says: the ranks that those of comm had in the communicator which it was made of.
 * TUTTI_INVALID_ARGUMENT where it was made of none. */
tutti_code tutti_parent_ranks(tutti_comm comm, int* ranks);

/* Symmetric memory, zeroed, aligned to 64 bytes: collective, the same bytes on every rank. */
tutti_code tutti_alloc(tutti_comm comm, size_t bytes, void** memory);
/* Memory of a GPU, zeroed: collective likewise, on all ranks or on none. `device` counts as the CUDA driver does. */
tutti_code tutti_alloc_device(tutti_comm comm, size_t bytes, int device, void** memory);
/* Not collective. NULL is fine; what tutti_alloc did not give for this communicator is refused. */
tutti_code tutti_free(tutti_comm comm, void* memory);
/* Memory of tutti_alloc that is to outlive its communicator: it is no longer tutti_free's, but stays until
 * tutti_memory_free, which any thread may call at any time, and which sets *owner to NULL. NULL is fine. */
typedef struct tutti_memory_s* tutti_memory;
tutti_code tutti_memory_keep(tutti_comm comm, void* memory, tutti_memory* owner);
tutti_code tutti_memory_free(tutti_memory* owner);

/* ---- Handles of calls under way */

/* Waits, frees the handle and sets *work to NULL; returns what the call failed with. NULL handles are done. A copy of a
 * handle that was freed must not be used again. */
tutti_code tutti_wait(tutti_work* work);
/* As tutti_wait, unless the time passes first: TUTTI_TIMEOUT then, and the call goes on with its handle. (Where the
 * call itself failed with TUTTI_TIMEOUT, *work is NULL.) */
tutti_code tutti_wait_for(tutti_work* work, int64_t timeout_ms);
/* Waits for all, frees them and sets them to NULL; returns the first error after all have ended. */
tutti_code tutti_wait_all(tutti_work* works, size_t count);
/* Several handles, of one communicator or of several; NULL handles are passed over. */
#define TUTTI_NONE (~(size_t)0) /* a place that there is not */
#define TUTTI_FOREVER INT64_MAX /* as timeout_ms: no limit but those of the calls */
/* As tutti_wait for the first of them that ends, whose place goes to *index; TUTTI_NONE where all are NULL, and when
 * the time passes first, which is TUTTI_TIMEOUT. */
tutti_code tutti_wait_any(tutti_work* works, size_t count, int64_t timeout_ms, size_t* index);
/* As tutti_wait for all that have ended, which are waited for until there is one: their places go to indices, which has
 * room for `count`, and their number to *ended. Returns the first error among them. */
tutti_code tutti_wait_some(tutti_work* works, size_t count, int64_t timeout_ms, size_t* indices, size_t* ended);
/* As tutti_wait_any without waiting: TUTTI_NONE where none has ended. Takes all of them further. */
tutti_code tutti_test_any(tutti_work* works, size_t count, size_t* index);
/* *done = 1 when the call has ended, well or not, which tutti_wait then says; takes it further otherwise. Fails only
 * where done is NULL. */
tutti_code tutti_test(tutti_work work, int* done);

/* Has `ended` called once, when the call ends, well or not: by whichever thread takes it to its end, or here where it
 * has ended. It must be quick and must not call into the communicator, but may wake whoever does; the handle is still
 * to be given to tutti_wait. It replaces the one that was asked for before. */
tutti_code tutti_on_end(tutti_work work, void (*ended)(void* context), void* context);

/* ---- Verbs on vectors of `count` elements */

/* output[i] = op over all ranks of input[i], on every rank. */
tutti_code tutti_all_reduce(tutti_comm comm, const void* input, void* output, size_t count, tutti_type type,
                            tutti_op op, tutti_work* work);
/* The same at the root; elsewhere output is left alone. */
tutti_code tutti_reduce(tutti_comm comm, const void* input, void* output, size_t count, tutti_type type, tutti_op op,
                        int root, tutti_work* work);
/* Every rank's output becomes root's input, which only the root looks at; usually both are the same address. */
tutti_code tutti_broadcast(tutti_comm comm, const void* input, void* output, size_t count, tutti_type type, int root,
                           tutti_work* work);
/* output[i] = op over ranks 0 .. this one of input[i]. */
tutti_code tutti_scan(tutti_comm comm, const void* input, void* output, size_t count, tutti_type type, tutti_op op,
                      tutti_work* work);
/* output[i] = op over the ranks before this one of input[i]; rank 0's output is left alone. */
tutti_code tutti_exclusive_scan(tutti_comm comm, const void* input, void* output, size_t count, tutti_type type,
                                tutti_op op, tutti_work* work);

/* ---- Verbs on chunks of `count` elements, one per rank */

/* output = the inputs of all ranks, one behind the other. */
tutti_code tutti_all_gather(tutti_comm comm, const void* input, void* output, size_t count, tutti_type type,
                            tutti_work* work);
/* The same at the root; elsewhere output is left alone. */
tutti_code tutti_gather(tutti_comm comm, const void* input, void* output, size_t count, tutti_type type, int root,
                        tutti_work* work);
/* output = this rank's chunk of root's input. */
tutti_code tutti_scatter(tutti_comm comm, const void* input, void* output, size_t count, tutti_type type, int root,
                         tutti_work* work);
/* output[i] = op over all ranks of this rank's chunk of their inputs. */
tutti_code tutti_reduce_scatter(tutti_comm comm, const void* input, void* output, size_t count, tutti_type type,
                                tutti_op op, tutti_work* work);
/* Chunk r of output = this rank's chunk of rank r's input. */
tutti_code tutti_all_to_all(tutti_comm comm, const void* input, void* output, size_t count, tutti_type type,
                            tutti_work* work);

/* ---- The same with chunks of different lengths: arrays of one count per rank, in elements, and of displacements, or
 * NULL where the chunks lie one behind the other. Buffers must reach as far as the chunks do. */

/* Every rank passes the counts of all; `count` is this rank's. */
tutti_code tutti_all_gather_v(tutti_comm comm, const void* input, size_t count, void* output, const size_t* counts,
                              const size_t* displacements, tutti_type type, tutti_work* work);
/* Only the root's output, counts and displacements are looked at. */
tutti_code tutti_gather_v(tutti_comm comm, const void* input, size_t count, void* output, const size_t* counts,
                          const size_t* displacements, tutti_type type, int root, tutti_work* work);
/* Only the root's input, counts and displacements are looked at. */
tutti_code tutti_scatter_v(tutti_comm comm, const void* input, const size_t* counts, const size_t* displacements,
                           void* output, size_t count, tutti_type type, int root, tutti_work* work);
/* Every rank passes the same counts; output has the elements that this rank's says. */
tutti_code tutti_reduce_scatter_v(tutti_comm comm, const void* input, const size_t* counts, const size_t* displacements,
                                  void* output, tutti_type type, tutti_op op, tutti_work* work);
/* What rank a sends to rank b must be as long as what b expects from a. */
tutti_code tutti_all_to_all_v(tutti_comm comm, const void* input, const size_t* input_counts,
                              const size_t* input_displacements, void* output, const size_t* output_counts,
                              const size_t* output_displacements, tutti_type type, tutti_work* work);

/* No rank returns before all have called. */
tutti_code tutti_barrier(tutti_comm comm, tutti_work* work);

/* ---- Messages. A receive takes the first message from `source` with its tag, in the order they were sent; count and
 * type must agree. Tags are 0 .. 2^31 - 1; receives may leave source, tag or both open. A blocking send may last until
 * it is received: ranks that both send first and receive later need handles, tutti_send_recv or tutti_batch. */

#define TUTTI_ANY_SOURCE (-1)
#define TUTTI_ANY_TAG (-1)

typedef struct tutti_received {
  int source;
  int tag;
  size_t count; /* elements */
} tutti_received;

tutti_code tutti_send(tutti_comm comm, const void* buffer, size_t count, tutti_type type, int peer, int tag,
                      tutti_work* work);
/* `received` may be NULL; the tutti_wait that ends an async receive fills it in, so it must last until then. */
tutti_code tutti_recv(tutti_comm comm, void* buffer, size_t count, tutti_type type, int source, int tag,
                      tutti_received* received, tutti_work* work);
/* As tutti_recv, and takes shorter messages, too: received->count says how much has come, and the rest of the buffer is
 * left alone. A longer one is TUTTI_MISMATCH, which names both counts. */
tutti_code tutti_recv_up_to(tutti_comm comm, void* buffer, size_t count, tutti_type type, int source, int tag,
                            tutti_received* received, tutti_work* work);
/* Both at once: never deadlocks, whatever the others do first. */
tutti_code tutti_send_recv(tutti_comm comm, const void* sent, size_t sent_count, int destination, void* buffer,
                           size_t count, int source, tutti_type type, int tag, tutti_received* received);
/* Waits for a message that such a receive would take, and leaves it there. */
tutti_code tutti_probe(tutti_comm comm, int source, int tag, tutti_type type, tutti_received* received);
/* The same without waiting: *found = 0 where no such message has come yet. Takes messages further, so that asking again
 * and again finds what was sent. `received` may be NULL. */
tutti_code tutti_iprobe(tutti_comm comm, int source, int tag, tutti_type type, int* found, tutti_received* received);

/* Messages that start together, in this order. One of the two addresses is set, even where count is 0. */
typedef struct tutti_message {
  const void* sent; /* set: a send to `peer` */
  void* buffer;     /* set: a receive from `peer` */
  size_t count;
  tutti_type type;
  int peer;
  int tag;
  int up_to;                /* a receive: 1 where shorter messages fit, too */
  tutti_received* received; /* a receive: as in tutti_recv; or NULL */
} tutti_message;
/* Blocking where works is NULL; otherwise `works` has room for `count` handles. */
tutti_code tutti_batch(tutti_comm comm, const tutti_message* messages, size_t count, tutti_work* works);

/* ---- Several tensors in one operation: the first `tensors` of `buffers`, of counts[i] elements each, in place. */
tutti_code tutti_all_reduce_coalesced(tutti_comm comm, void* const* buffers, const size_t* counts, size_t tensors,
                                      tutti_type type, tutti_op op);

/* ---- Sums of floats that travel in few bits, a quarter or an eighth of the bytes; train/quantised.h says how. */

typedef enum tutti_quantised_type {
  TUTTI_QUANTISED_INT8,
  TUTTI_QUANTISED_INT4,
  TUTTI_QUANTISED_E4M3,
  TUTTI_QUANTISED_E5M2,
  TUTTI_QUANTISED_E3M0
} tutti_quantised_type;
/* Filled in by tutti_quantise_default, then changed where wanted. */
typedef struct tutti_quantise {
  size_t size; /* of this struct */
  tutti_quantised_type type;
  int stochastic; /* 1: rounds up or down by chance, so that the mean is the value */
  size_t block;   /* values that share a scale: a power of two, 32 .. 4096 */
  uint64_t seed;
  int pass_not_finite; /* 1: a block with a NaN or infinity is NaN on all ranks, instead of an error on all */
} tutti_quantise;
/* `size` is sizeof(tutti_quantise). */
tutti_code tutti_quantise_default(tutti_quantise* settings, size_t size);
/* Collective, and every rank's settings must be alike; settings may be NULL. Keeps the memory that calls need. */
typedef struct tutti_quantised_s* tutti_quantised;
tutti_code tutti_quantised_create(tutti_comm comm, const tutti_quantise* settings, tutti_quantised* quantised);
/* The sum or average over all ranks of values[i], in place: the same bits on every rank. Blocking; float32, bfloat16 or
 * float16. `residual`, `count` floats that are zero at first, keeps what was lost for the next call; or NULL. Where a
 * value is not finite the call fails on all ranks, and the communicator is as good as before. */
tutti_code tutti_quantised_all_reduce(tutti_quantised quantised, void* values, size_t count, tutti_type type,
                                      tutti_op op, float* residual);
/* Not collective; also after tutti_comm_free. Sets *quantised to NULL. NULL is fine. */
tutti_code tutti_quantised_free(tutti_quantised* quantised);

/* ---- In how few bytes gradients of a model had better travel here; train/advise.h says how that is found out. */

typedef struct tutti_parameter {
  const char* name;     /* for errors; no two alike */
  const int64_t* shape; /* `dimensions` extents */
  size_t dimensions;
  tutti_type type; /* TUTTI_FLOAT32, TUTTI_BFLOAT16 or TUTTI_FLOAT16 */
} tutti_parameter;
/* Filled in by tutti_advise_default, then changed where wanted. */
typedef struct tutti_advise_settings {
  size_t size;                  /* of this struct */
  int stage;                    /* of ZeRO; 0, as it is: data parallel */
  int measure;                  /* 1: links are measured now; 0: never; -1, as it is: where `tutti tune` has not */
  double computing_us;          /* forward and backward of a step on one rank; below 0, as it is: not known */
  double worth;                 /* the share of a step that a change must save: 0.1 */
  size_t bucket_bytes;          /* of gradients that travel together; 0: what costs least */
  const int64_t* local_updates; /* steps from one exchange to the next, for each a line: 50 */
  size_t local_updates_count;
  int64_t compress_from_step; /* of training: 1-bit Adam wants plain steps before it, and no clipping; */
  int clips;                  /* where it could not be taken it is told, and not recommended */
} tutti_advise_settings;
/* `size` is sizeof(tutti_advise_settings). */
tutti_code tutti_advise_default(tutti_advise_settings* settings, size_t size);
/* Collective, of the same model on every rank; all ranks get the same advice. settings may be NULL. */
typedef struct tutti_advice_s* tutti_advice;
tutti_code tutti_advise(tutti_comm comm, const tutti_parameter* parameters, size_t count,
                        const tutti_advise_settings* settings, tutti_advice* advice);
/* As a table or as JSON; as tutti_report. */
tutti_code tutti_advice_told(tutti_advice advice, tutti_report_format format, char* text, size_t room, size_t* length);
/* What is recommended, by the name in the table: "none", "int8", "local 50". Valid until tutti_advice_free. */
tutti_code tutti_advice_best(tutti_advice advice, const char** name);
/* Not collective; also after tutti_comm_free. Sets *advice to NULL. NULL is fine. */
tutti_code tutti_advice_free(tutti_advice* advice);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
