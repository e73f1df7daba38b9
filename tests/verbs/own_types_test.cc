// Elements and operators of the caller's: any trivially copyable type moves, any associative operator reduces it, in
// the order of the ranks where it must.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>

#include "check.h"

namespace tutti {
namespace {

using testing::Ranks;
using testing::require;

std::uint32_t scramble(int rank, std::size_t i) {
  std::uint64_t x = (static_cast<std::uint64_t>(rank) + 1) * 0x9e3779b97f4a7c15ull + i * 0xbf58476d1ce4e5b9ull;
  x ^= x >> 31;
  return static_cast<std::uint32_t>(x * 0x94d049bb133111ebull >> 32);
}

// Numbers in a row, summed one by one: elements of many sizes, alignments and no padding.
template <std::size_t Count, std::size_t Alignment>
struct alignas(Alignment) Row {
  static constexpr bool kCommutative = true;
  std::uint32_t numbers[Count];

  static Row make(int rank, std::size_t i) {
    Row row;
    for (std::size_t n = 0; n < Count; ++n) row.numbers[n] = scramble(rank, i * Count + n);
    return row;
  }
  static Row join(const Row& a, const Row& b) {
    if ((reinterpret_cast<std::uintptr_t>(&a) | reinterpret_cast<std::uintptr_t>(&b)) % Alignment != 0)
      throw std::runtime_error("an operand is not aligned");
    Row row;
    for (std::size_t n = 0; n < Count; ++n) row.numbers[n] = a.numbers[n] + b.numbers[n];
    return row;
  }
};

struct Best {
  static constexpr bool kCommutative = true;
  float value;
  int owner;

  static Best make(int rank, std::size_t i) { return {static_cast<float>(scramble(rank, i) % 5), rank}; }
  // Of equal ones the first, so that it does not matter how they are joined.
  static Best join(const Best& a, const Best& b) {
    return b.value > a.value || (b.value == a.value && b.owner < a.owner) ? b : a;
  }
};

// 2 x 2 matrices: a product that minds its order.
struct Matrix {
  static constexpr bool kCommutative = false;
  std::array<std::uint32_t, 4> m;

  static Matrix make(int rank, std::size_t i) {
    return {{scramble(rank, 4 * i), scramble(rank, 4 * i + 1), scramble(rank, 4 * i + 2), scramble(rank, 4 * i + 3)}};
  }
  static Matrix join(const Matrix& a, const Matrix& b) {
    return {{a.m[0] * b.m[0] + a.m[1] * b.m[2], a.m[0] * b.m[1] + a.m[1] * b.m[3], a.m[2] * b.m[0] + a.m[3] * b.m[2],
             a.m[2] * b.m[1] + a.m[3] * b.m[3]}};
  }
};

// Short words, one behind the other: the result spells out the order.
struct Word {
  static constexpr bool kCommutative = false;
  std::uint8_t length;
  std::array<char, 31> letters;

  static Word make(int rank, std::size_t i) {
    Word word{};
    word.length = static_cast<std::uint8_t>(scramble(rank, i) % 4);
    for (std::size_t n = 0; n < word.length; ++n) word.letters[n] = static_cast<char>('A' + rank);
    return word;
  }
  static Word join(const Word& a, const Word& b) {
    Word word = a;
    for (std::size_t n = 0; n < b.length && word.length < word.letters.size(); ++n)
      word.letters[word.length++] = b.letters[n];
    return word;
  }
};

template <class T>
T folded(int ranks, std::size_t i) {
  T result = T::make(0, i);
  for (int rank = 1; rank < ranks; ++rank) result = T::join(result, T::make(rank, i));
  return result;
}

template <class T>
std::vector<T> filled(std::size_t count, const std::function<T(std::size_t)>& of) {
  std::vector<T> elements(count);
  for (std::size_t i = 0; i < count; ++i) elements[i] = of(i);
  return elements;
}

template <class T>
void expect_same(const std::vector<T>& found, const std::vector<T>& expected, const std::string& what) {
  require(found.size() == expected.size(), what + ": the size");
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (std::memcmp(&found[i], &expected[i], sizeof(T)) != 0)
      require(false, what + " of " + std::to_string(sizeof(T)) + " bytes: element " + std::to_string(i) + " of " +
                         std::to_string(found.size()));
  }
}

// Every verb that reduces, in place and out of it.
template <class T>
void reduce_all(Communicator& comm) {
  const int ranks = comm.size(), me = comm.rank();
  const auto p = static_cast<std::size_t>(ranks);
  const Op op = Op::of<T>(&T::join, T::kCommutative, "join");
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{37}, 70'001 / sizeof(T) * 5}) {
    const auto mine = filled<T>(count, [&](std::size_t i) { return T::make(me, i); });
    const auto all = filled<T>(count, [&](std::size_t i) { return folded<T>(ranks, i); });
    std::vector<T> out(count), place = mine;
    comm.all_reduce(mine, out, op);
    expect_same(out, all, "all_reduce");
    comm.all_reduce(place, op);
    expect_same(place, all, "all_reduce in place");
    const int root = static_cast<int>(count) % ranks;
    out.assign(count, T{});
    comm.reduce(mine, out, root, op);
    expect_same(out, me == root ? all : std::vector<T>(count), "reduce");
    comm.scan(mine, out, op);
    expect_same(out, filled<T>(count, [&](std::size_t i) { return folded<T>(me + 1, i); }), "scan");
    place = mine;
    comm.exclusive_scan(place, place, op);
    expect_same(place, me == 0 ? mine : filled<T>(count, [&](std::size_t i) { return folded<T>(me, i); }),
                "exclusive_scan");

    const std::size_t chunk = count / p, own = chunk * static_cast<std::size_t>(me);
    std::vector<T> part(chunk);
    comm.reduce_scatter(std::span(mine).first(chunk * p), part, op);
    expect_same(part, {all.begin() + static_cast<long>(own), all.begin() + static_cast<long>(own + chunk)},
                "reduce_scatter");
    std::vector<std::size_t> counts(p, 0);
    counts[p - 1] = count;  // the last rank has it all
    std::vector<T> last(counts[static_cast<std::size_t>(me)]);
    comm.reduce_scatter_v(mine, Parts{counts}, last, op);
    expect_same(last, me == ranks - 1 ? all : std::vector<T>{}, "reduce_scatter_v");
  }
}

void reduce_all_types(Communicator& comm) {
  reduce_all<Row<3, 4>>(comm);     // 12 bytes
  reduce_all<Row<6, 8>>(comm);     // 24
  reduce_all<Row<12, 4>>(comm);    // 48
  reduce_all<Row<4, 16>>(comm);    // 16, aligned to 16
  reduce_all<Row<8, 32>>(comm);    // 32, aligned to 32: more than a small message is
  reduce_all<Row<32, 128>>(comm);  // 128, aligned to 128: more than anything inside is
  reduce_all<Row<250, 4>>(comm);   // 1000
  reduce_all<Row<5000, 8>>(comm);  // 40,000: more than a message holds
  reduce_all<Best>(comm);
  reduce_all<Matrix>(comm);
  reduce_all<Word>(comm);
}

class OwnTypes : public ::testing::TestWithParam<Ranks> {};

TEST_P(OwnTypes, AreReducedByOwnOperators) {
  for (const int ranks : {1, 2, 3, 5, 8}) {
    testing::expect_all_ok(testing::run_ranks(GetParam(), ranks, reduce_all_types));
  }
}

TEST_P(OwnTypes, AreReducedAlikeByEveryAlgorithm) {
  for (const char* algorithm : {"all_reduce=exchange,reduce_scatter=pairwise", "recursive_doubling",
                                "recursive_halving", "binomial", "staged"}) {
    if (GetParam() == Ranks::tcp && algorithm == std::string("staged")) continue;
    for (const int ranks : {3, 4, 7}) {
      Options options;
      options.algorithm = algorithm;
      testing::expect_all_ok(testing::run_ranks(GetParam(), ranks, reduce_all_types, options));
    }
  }
}

// Where other orders are allowed, operators that mind still get theirs.
TEST_P(OwnTypes, KeepTheOrderOfTheRanksWhateverIsAskedFor) {
  for (const char* algorithm : {"ring", "chain"}) {
    for (const int ranks : {2, 3, 5}) {
      Options options;
      options.algorithm = algorithm;
      options.deterministic = false;
      testing::expect_all_ok(testing::run_ranks(GetParam(), ranks, reduce_all_types, options));
    }
  }
}

TEST_P(OwnTypes, KeepTheOrderInPartsOfDifferentLengths) {
  Options options;
  options.deterministic = false;
  options.algorithm = "reduce_scatter=ring";
  const auto body = [](Communicator& comm) {
    const std::vector<std::size_t> counts{3, 700, 0, 41};
    const std::size_t mine = counts[static_cast<std::size_t>(comm.rank())];
    std::size_t before = 0;
    for (int rank = 0; rank < comm.rank(); ++rank) before += counts[static_cast<std::size_t>(rank)];
    const auto in = filled<Matrix>(744, [&](std::size_t i) { return Matrix::make(comm.rank(), i); });
    std::vector<Matrix> out(mine);
    comm.reduce_scatter_v(in, Parts{counts}, out, Op::of<Matrix>(&Matrix::join, false));
    expect_same(out, filled<Matrix>(mine, [&](std::size_t i) { return folded<Matrix>(comm.size(), before + i); }),
                "reduce_scatter_v");
  };
  testing::expect_all_ok(testing::run_ranks(GetParam(), 4, body, options));
}

TEST_P(OwnTypes, AreReducedInSymmetricMemory) {
  const auto body = [](Communicator& comm) {
    const auto in = comm.allocate<Matrix>(5000), out = comm.allocate<Matrix>(5000);
    for (std::size_t i = 0; i < 5000; ++i) in[i] = Matrix::make(comm.rank(), i);
    comm.all_reduce(in, out, Op::of<Matrix>(&Matrix::join, false));
    require((comm.last_algorithm() == "direct") == (GetParam() != Ranks::tcp), "without copies where there is memory");
    expect_same(std::vector<Matrix>(out.begin(), out.end()),
                filled<Matrix>(5000, [&](std::size_t i) { return folded<Matrix>(comm.size(), i); }), "all_reduce");
  };
  for (const int ranks : {2, 3, 5}) testing::expect_all_ok(testing::run_ranks(GetParam(), ranks, body));
}

// An element of a megabyte: more than a segment, a slot or a socket's buffer.
TEST_P(OwnTypes, MoveWhateverTheirSize) {
  struct Page {
    std::array<std::uint32_t, (1 << 20) / 4> numbers;
  };
  const auto body = [](Communicator& comm) {
    const auto p = static_cast<std::size_t>(comm.size()), me = static_cast<std::size_t>(comm.rank());
    const auto fill = [](Page& page, std::size_t seed) {
      for (std::size_t i = 0; i < page.numbers.size(); ++i) page.numbers[i] = scramble(static_cast<int>(seed), i);
    };
    const auto check = [](const Page& page, std::size_t seed, const char* what) {
      for (std::size_t i = 0; i < page.numbers.size(); ++i)
        if (page.numbers[i] != scramble(static_cast<int>(seed), i)) require(false, what);
    };
    std::vector<Page> one(1), many(p), sent(p);
    fill(one[0], me);
    comm.broadcast(one, 1);
    check(one[0], 1, "broadcast");
    fill(one[0], me);
    comm.all_gather(one, many);
    for (std::size_t r = 0; r < p; ++r) check(many[r], r, "all_gather");
    for (std::size_t r = 0; r < p; ++r) fill(sent[r], 10 * me + r);
    comm.all_to_all(sent, many);
    for (std::size_t r = 0; r < p; ++r) check(many[r], 10 * r + me, "all_to_all");
    if (me == 0) comm.send(sent, 1);
    if (me == 1) {
      comm.recv(many, 0);
      for (std::size_t r = 0; r < p; ++r) check(many[r], r, "recv");
    }
    const Op latest = Op::of<Page>([](const Page&, const Page& b) { return b; }, false);
    fill(one[0], me);
    comm.all_reduce(one, latest);
    check(one[0], p - 1, "all_reduce");
    fill(one[0], me);
    Work work = comm.all_reduce_async(one, latest);
    work.wait();
    check(one[0], p - 1, "all_reduce_async");
    struct TooLarge {
      Page page;
      int more;
    };
    std::vector<TooLarge> large(1);
    const Error error = testing::error_of(
        [&] { comm.all_reduce(large, Op::of<TooLarge>([](const TooLarge& a, const TooLarge&) { return a; })); });
    require(error.code() == ErrorCode::unsupported, error.what());
    require(std::string(error.what())
                    .find("all_reduce: an operator of one's own takes elements of at most 1048576 "
                          "bytes, not 1048580") == 0,
            error.what());
    comm.barrier();
  };
  testing::expect_all_ok(testing::run_ranks(GetParam(), 3, body));
}

// The operator of rank 2 throws; the others' only find that it is gone.
TEST_P(OwnTypes, WhatAnOperatorThrowsFailsTheCall) {
  enum class Thrown { standard, other, error };
  const auto run = [&](std::size_t count, bool async, Thrown thrown) {
    const auto body = [&](Communicator& comm) {
      const bool guilty = comm.rank() == 2;  // which reduces in this algorithm, however few the elements
      const Op op = Op::of<int>(
          [&](int a, int b) {
            if (!guilty) return a + b;
            if (thrown == Thrown::standard) throw std::runtime_error("no such sum");
            if (thrown == Thrown::error) throw Error(ErrorCode::timeout, "no such sum");
            throw 5;
          },
          true, "sulk");
      std::vector<int> data(count, 1);
      const auto call = [&] {
        if (!async) return comm.all_reduce(data, op);
        Work work = comm.all_reduce_async(data, op);
        work.wait();
      };
      const auto error_of = [](const auto& what) {
        try {
          what();
        } catch (const Error& error) {
          return error;
        }
        throw std::runtime_error("the call succeeded");
      };
      // Others may have what they need already; the next call tells them.
      const Error error = error_of([&] {
        call();
        require(!guilty, "the call must not succeed");
        comm.barrier();
      });
      const std::string words = error.what();
      require(error.code() == (guilty ? ErrorCode::invalid_argument : ErrorCode::peer_failed), words);
      if (guilty) {
        require(words.find("rank 2, all_reduce #0 of " + std::to_string(count)) == 0, words);
        require(words.find("the operator 'sulk' threw ") != std::string::npos, words);
        require(thrown == Thrown::other || words.find("no such sum") != std::string::npos, words);
        require(words.find("the output of this rank is") != std::string::npos, words);
      } else {
        require(error.peer() == 2, words);
      }
      require(error_of([&] { comm.barrier(); }).code() == ErrorCode::aborted, "the communicator is lost");
    };
    Options options;
    options.algorithm = "recursive_doubling";
    testing::expect_all_ok(testing::run_ranks(GetParam(), 3, body, options));
  };
  for (const bool async : {false, true}) {
    for (const Thrown thrown : {Thrown::standard, Thrown::other, Thrown::error}) run(4, async, thrown);
    run(200'000, async, Thrown::standard);
  }
}

// A Work that nobody waits for: the next call tells.
TEST_P(OwnTypes, WhatAnOperatorThrowsOnTheProgressThreadIsTold) {
  const auto body = [](Communicator& comm) {
    const Op op = Op::of<int>([](int, int) -> int { throw std::runtime_error("no such sum"); });
    std::vector<int> data(3, 1);
    { const Work dropped = comm.all_reduce_async(data, op); }
    try {
      comm.barrier();
    } catch (const Error& error) {
      require(error.code() == ErrorCode::invalid_argument || error.code() == ErrorCode::peer_failed, error.what());
      return;
    }
    throw std::runtime_error("the barrier must tell");
  };
  testing::expect_all_ok(testing::run_ranks(GetParam(), 2, body));
}

INSTANTIATE_TEST_SUITE_P(Transports, OwnTypes, ::testing::ValuesIn(testing::kAllRanks),
                         [](const auto& test) { return testing::name_of(test.param); });

}  // namespace
}  // namespace tutti
