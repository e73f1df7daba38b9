// What a checkpoint looks like on disk: files that others read, an index that says what is wrong with it, blocks that
// are checked one by one.
#include "train/checkpoint_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "check.h"
#include "effort.h"
#include "shell.h"
#include "train/checkpoint_index.h"
#include "train/one_process.h"
#include "train/saved_folder.h"
#include "tutti/train/checkpoint.h"

namespace tutti::train {
namespace {

using testing::error_of;
using ::testing::HasSubstr;
using testing::require;
using testing::SavedFolder;

// ---- The index.

CheckpointIndex small_index() {
  CheckpointIndex index;
  index.position = {.step = 12, .sampler = {1, 64}, .notes = {{"seed", "7"}, {"text", "line\n\"quoted\", ä"}}};
  index.updates = 11;
  index.ranks = 2;
  index.stage = 1;
  index.optimizer = "Lion";
  index.settings = {{"learning_rate", 1e-4}, {"beta1", 0.9}};
  index.arrays = {"master", "exp_avg"};
  index.loss_scale = SavedLossScale{1024, 3};
  index.parameters = {{.name = "w", .type = DType::bfloat16, .shape = {2, 3}}, {.name = "none", .shape = {0}}};
  index.pieces = {
      {"rank-00000.safetensors", 132, {std::string(64, 'a')}, {{0, 0, 4, {100, 116}}}},
      {"rank-00001.safetensors", 116, {std::string(64, 'b')}, {{0, 4, 2, {100, 108}}, {1, 0, 0, {116, 116}}}}};
  return index;
}

std::string refused(const std::function<void(CheckpointIndex&)>& change) {
  CheckpointIndex index = small_index();
  change(index);
  return error_of([&] { index_from_text(to_text(index)); }).what();
}

TEST(Index, IsReadAsItWasWritten) {
  const std::string text = to_text(small_index());
  const CheckpointIndex read = index_from_text(text);
  EXPECT_EQ(to_text(read), text);
  EXPECT_EQ(read.position, small_index().position);
  EXPECT_EQ(read.pieces, small_index().pieces);
  EXPECT_EQ(read.parameters[0].type, DType::bfloat16);
  EXPECT_EQ(read.loss_scale->steps_since_overflow, 3);
}

TEST(Index, IsRefusedWhereAnyBitFlipped) {
  const std::string text = to_text(small_index());
  const std::size_t stride = testing::kSanitized ? 10 : 1;
  for (std::size_t at = 0; at < text.size(); at += stride) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = text;
      flipped[at] = static_cast<char>(flipped[at] ^ (1 << bit));
      try {
        EXPECT_EQ(to_text(index_from_text(flipped)), text) << "bit " << bit << " of byte " << at;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      }
    }
  }
}

TEST(Index, IsRefusedWhereItContradictsItself) {
  EXPECT_THAT(refused([](auto& index) { index.pieces.pop_back(); }),
              HasSubstr("does not have every element of \"w\" once: after element 4"));
  EXPECT_THAT(refused([](auto& index) { index.pieces[1].slices[0].first = 3; }),
              HasSubstr("every element of \"w\" once"));
  EXPECT_THAT(refused([](auto& index) { index.pieces[1].slices[0].first = 0; }),
              HasSubstr("the same slice of \"w\" twice"));
  EXPECT_THAT(refused([](auto& index) { index.pieces[1].slices[0].count = 3; }), HasSubstr("beyond the end of \"w\""));
  EXPECT_THAT(refused([](auto& index) { index.pieces[0].slices[0].offsets[1] = 120; }),
              HasSubstr("beyond the end of rank-00000.safetensors"));
  EXPECT_THAT(refused([](auto& index) { index.pieces[0].slices[0].parameter = 2; }),
              HasSubstr("which it does not list"));
  EXPECT_THAT(refused([](auto& index) { index.pieces[0].slices[0].offsets.pop_back(); }),
              HasSubstr("number of arrays"));
  EXPECT_THAT(refused([](auto& index) { index.pieces[0].file = "../rank-00000"; }), HasSubstr("no name of a file"));
  EXPECT_THAT(refused([](auto& index) { index.pieces[0].checksums.clear(); }), HasSubstr("has 0 checksums"));
  EXPECT_THAT(refused([](auto& index) { index.updates = -1; }), HasSubstr("from below 0"));
}

// A checksum says nothing of who wrote it: numbers that nothing can have are told, before anything is done with them.
TEST(Index, IsRefusedWhereNumbersAreOutOfAllMeasure) {
  constexpr std::size_t kHuge = ~std::size_t{0};
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  const std::string huge = "has 18446744073709551615 where a number belongs",
                    most = "has 9223372036854775807 where a number belongs";
  EXPECT_THAT(refused([](auto& index) { index.pieces[0].slices[0].count = kHuge; }), HasSubstr(huge));
  EXPECT_THAT(refused([](auto& index) { index.pieces[1].slices[0].first = kHuge - 1; }), HasSubstr("where a number"));
  EXPECT_THAT(refused([](auto& index) { index.pieces[0].slices[0].offsets[0] = kHuge; }), HasSubstr(huge));
  EXPECT_THAT(refused([](auto& index) { index.pieces[0].bytes = kHuge; }), HasSubstr(huge));
  EXPECT_THAT(refused([](auto& index) { index.updates = kMost; }), HasSubstr(most));
  EXPECT_THAT(refused([](auto& index) { index.position.step = kMost; }), HasSubstr(most));
  EXPECT_THAT(refused([](auto& index) { index.loss_scale->steps_since_overflow = 1 << 30 | 1; }),
              HasSubstr("has 1073741825 where a small count belongs"));
  EXPECT_THAT(refused([](auto& index) { index.loss_scale->steps_since_overflow = -1; }), HasSubstr("has -1 where"));
  EXPECT_THAT(refused([](auto& index) { index.loss_scale->scale = 0; }), HasSubstr("has the loss scale 0"));
  EXPECT_THAT(refused([](auto& index) { index.ranks = -2; }), HasSubstr("has -2 where a count belongs"));
  EXPECT_THAT(refused([](auto& index) {
                index.local_updates = SavedRounds{std::int64_t{1} << 41, 0};
              }),
              HasSubstr("has local updates of 2199023255552 steps"));
  // A block is read at once, and a file may have holes.
  EXPECT_THAT(refused([](auto& index) {
                index.checksum_bytes = std::size_t{1} << 40;
                index.pieces[0].bytes = std::size_t{1} << 40;
              }),
              HasSubstr("has checksums of 1099511627776 bytes"));
}

TEST(Index, IsRefusedWhereShapesAreNone) {
  EXPECT_THAT(refused([](auto& index) { index.parameters[0].shape = {-2, -3}; }), HasSubstr("has -2 where a count"));
  // As many elements as 2^64 more.
  EXPECT_THAT(refused([](auto& index) {
                index.parameters[1].shape = {std::int64_t{1} << 32, std::int64_t{1} << 32};
              }),
              HasSubstr("has the shape [4294967296,4294967296], of more elements than any memory has"));
  EXPECT_THAT(refused([](auto& index) { index.parameters[1].name = "w"; }), HasSubstr("two parameters named \"w\""));
}

TEST(Index, IsRefusedWhereItIsNestedDeeply) {
  const std::size_t depth = 1 << 20;
  const std::string text = R"({"format": "tutti checkpoint", "version": 1, "sha256": "0", "deep": )" +
                           std::string(depth, '[') + std::string(depth, ']') + "}";
  EXPECT_THAT(error_of([&] { index_from_text(text); }).what(), HasSubstr("nested more deeply"));
}

// Of two strategies, with what compression keeps of each rank's.
CheckpointIndex shared_index() {
  CheckpointIndex index = small_index();
  index.others = {{10, SavedLossScale{64, 2}}};
  index.compression = SavedCompression{"int8", 5};
  index.compression->pieces = {
      {"compression-00000.safetensors",
       124,
       {std::string(64, 'c')},
       {{0, 0, 6, {100}, "lost"}},
       {{"one", {5, 4}, {1, 0}}}},
      {"compression-00001.safetensors", 100, {std::string(64, 'd')}, {}, {{"two", {5, 0}, {0}}}}};
  return index;
}

TEST(Index, OfSeveralStrategiesIsReadAsItWasWritten) {
  const std::string text = to_text(shared_index());
  const CheckpointIndex read = index_from_text(text);
  EXPECT_EQ(to_text(read), text);
  EXPECT_EQ(read.compression->pieces, shared_index().compression->pieces);
  EXPECT_EQ(read.counts_of(0).updates, 11);
  EXPECT_EQ(read.counts_of(1).updates, 10);
  EXPECT_EQ(read.counts_of(1).loss_scale->scale, 64);
  EXPECT_EQ(read.counts_of(2).updates, 11) << "as the first where fewer have saved";
}

TEST(Index, OfSeveralStrategiesIsRefusedWhereItContradictsItself) {
  const auto told = [](const std::function<void(CheckpointIndex&)>& change) {
    return refused([&](auto& index) {
      index = shared_index();
      change(index);
    });
  };
  EXPECT_THAT(told([](auto& index) { index.others[0].updates = -1; }), HasSubstr("from below 0"));
  EXPECT_THAT(told([](auto& index) { index.compression->pieces[1].origin.reset(); }),
              HasSubstr("does not tell whose is what compression keeps in compression-00001.safetensors"));
  EXPECT_THAT(told([](auto& index) { index.compression->pieces[0].origin->steps.pop_back(); }),
              HasSubstr("does not tell whose is what compression keeps in compression-00000.safetensors"));
  for (const std::size_t number : {std::size_t{1}, std::size_t{2}})
    EXPECT_THAT(told([&](auto& index) {
                  index.compression->pieces[0].origin->order = {1, number};
                }),
                HasSubstr("has parameters twice, or that it does not list, in the order of compression-00000"));
  EXPECT_THAT(told([](auto& index) { index.compression->pieces.clear(); }), HasSubstr("of other steps or ranks"));
  EXPECT_THAT(told([](auto& index) { index.compression->pieces[1].origin->steps[1] = -1; }),
              HasSubstr("counts steps from below 0 in compression-00001.safetensors"));
  EXPECT_THAT(told([](auto& index) { index.compression->pieces[0].origin.reset(); }),
              HasSubstr("tells of some pieces whose is what compression keeps in them, and of others not"));
  const auto told_of_slices = [&](std::size_t first, std::size_t count) {
    return told([&](auto& index) {
      index.compression->pieces[0].slices = {{0, 0, 4, {100}, "lost"}, {0, first, count, {100}, "lost"}};
    });
  };
  for (const auto& [first, count] : std::vector<std::pair<std::size_t, std::size_t>>{{0, 4}, {3, 3}, {0, 1}})
    EXPECT_THAT(told_of_slices(first, count), HasSubstr("numbers of \"w\" twice in compression-00000.safetensors"));
  EXPECT_THAT(told_of_slices(~std::size_t{0} - 2, 4), HasSubstr("where a number belongs"));
}

TEST(Index, OfAnotherKindOrVersionIsToldApart) {
  const auto words = [](const std::string& text) {
    return std::string(error_of([&] { index_from_text(text); }).what());
  };
  EXPECT_THAT(words("{}"), HasSubstr("is not the index of a checkpoint"));
  EXPECT_THAT(words("[1]"), HasSubstr("is not the index of a checkpoint"));
  EXPECT_THAT(words(R"({"format": "tutti checkpoint", "version": 2})"),
              HasSubstr("load it with the library that saved it"));
}

// ---- Blocks.

constexpr std::size_t kBlock = 5000;

// A file of two blocks and a half, each byte of which tells where it is.
struct LongFile {
  LongFile() : path(folder / "long") {
    content.resize(2 * kBlock + kBlock / 2);
    for (std::size_t i = 0; i < content.size(); ++i) content[i] = static_cast<std::byte>(i * 2654435761 >> 13);
    PieceFile file(path, kBlock);
    const std::span<const std::byte> all(content);
    file.write(all.first(1001));
    file.write(all.subspan(1001));
    file.finish(piece);
  }
  std::vector<std::byte> read(std::size_t offset, std::size_t count) const {
    std::vector<std::byte> bytes(count);
    std::vector<WantedBytes> wanted{{offset + count / 2, count - count / 2, bytes.data() + count / 2},
                                    {offset, count / 2, bytes.data()}};
    read_piece(path, piece, kBlock, wanted);
    return bytes;
  }
  bool is_right(std::size_t offset, std::size_t count) const {
    return std::ranges::equal(read(offset, count), std::span(content).subspan(offset, count));
  }

  SavedFolder folder;
  std::string path;
  std::vector<std::byte> content;
  CheckpointPiece piece;
};

TEST(Blocks, AreReadWhereverTheWantedBytesLie) {
  const LongFile file;
  EXPECT_EQ(file.piece.checksums.size(), 3U);
  for (const auto& [offset, count] : std::vector<std::pair<std::size_t, std::size_t>>{
           {0, 10}, {kBlock - 3, 7}, {5, 2 * kBlock}, {0, file.content.size()}, {file.content.size() - 1, 1}})
    EXPECT_TRUE(file.is_right(offset, count)) << offset << ", " << count;
}

TEST(Blocks, AreCheckedWhereSomethingIsWantedOfThem) {
  const LongFile file;
  testing::flip_bit(file.path, kBlock + 17);
  EXPECT_TRUE(file.is_right(100, 1000));
  EXPECT_TRUE(file.is_right(2 * kBlock, 1000));
  EXPECT_THAT(error_of([&] { file.read(kBlock - 1, 2); }).what(),
              HasSubstr("is damaged: bytes 5000 to 9999 do not have the checksum"));
}

TEST(Blocks, HaveTheChecksumThatOthersCompute) {
  const SavedFolder folder;
  CheckpointPiece piece;
  PieceFile file(folder / "small");
  file.write(std::as_bytes(std::span("abc", 3)));
  file.finish(piece);
  EXPECT_THAT(piece.checksums,
              ::testing::ElementsAre("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"));
}

// ---- Folders.

// A folder with a file that tells which one it is.
void make_checkpoint(const std::string& path, const std::string& which) {
  std::filesystem::create_directory(path);
  testing::overwrite(path + "/which", which);
}

std::string which(const SavedFolder& folder, std::int64_t step) {
  return testing::content_of(folder / saved_name(folder.path(), step) + "/which");
}

TEST(Folders, ThatExchangeNamesOrCannotReplaceACheckpoint) {
  for (const bool can : {true, false}) {
    const SavedFolder folder;
    for (const char* const text : {"first", "second", "third"}) {
      make_checkpoint(folder / "step-00000002.unfinished-7", text);
      put_in_place(folder / "step-00000002.unfinished-7", folder / "step-00000002",
                   [&](const std::string& one, const std::string& other) { return can && exchange_names(one, other); });
      EXPECT_EQ(which(folder, 2), text);
      EXPECT_EQ(folder.entries(), 1);
    }
  }
}

// Ended where the old one has lost its name and the new one has none yet: what is to get it is gone here.
TEST(Folders, HaveTheOldCheckpointWhereReplacingItEndedInBetween) {
  const SavedFolder folder;
  make_checkpoint(folder / "step-00000002", "old");
  const std::string unfinished = folder / "step-00000002.unfinished-7";
  make_checkpoint(unfinished, "new");
  const Error error = error_of([&] {
    put_in_place(unfinished, folder / "step-00000002", [&](const std::string&, const std::string&) {
      std::filesystem::remove_all(unfinished);
      return false;
    });
  });
  EXPECT_EQ(error.code(), ErrorCode::system);
  EXPECT_FALSE(std::filesystem::exists(folder / "step-00000002"));
  EXPECT_EQ(saved_steps(folder.path()), std::vector<std::int64_t>{2});
  EXPECT_EQ(which(folder, 2), "old");
  remove_unfinished(folder.path());
  EXPECT_EQ(testing::content_of(folder / "step-00000002/which"), "old");
  EXPECT_EQ(folder.entries(), 1);
}

TEST(Folders, HaveTheNewCheckpointWhereReplacingItEndedBeforeTheOldOneWasRemoved) {
  const SavedFolder folder;
  make_checkpoint(folder / "step-00000002", "new");
  make_checkpoint(folder / "step-00000002.replaced", "old");
  EXPECT_EQ(saved_steps(folder.path()), std::vector<std::int64_t>{2});
  EXPECT_EQ(which(folder, 2), "new");
  remove_unfinished(folder.path());
  EXPECT_EQ(which(folder, 2), "new");
  EXPECT_EQ(folder.entries(), 1);
}

TEST(Folders, WithACheckpointThatWasMovedAsideAreLoadedFromAndSavedTo) {
  const testing::ToyModel model;
  const SavedFolder folder;
  testing::expect_all_ok(testing::run_ranks(testing::Ranks::threads, 2, [&](Communicator& comm) {
    Strategy strategy = zero(1, comm, model.parameters, AdamW{});
    testing::train_step(strategy, model, comm.rank(), 0);
    Checkpoints checkpoints(comm, folder.path(), {.keep = 1});
    checkpoints.save(strategy, {.step = 2});
    if (comm.rank() == 0) std::filesystem::rename(folder / "step-00000002", folder / "step-00000002.replaced");
    comm.barrier();
    require(checkpoints.steps() == std::vector<std::int64_t>{2}, "it is there");
    require(checkpoints.load(strategy)->step == 2 && checkpoints.load(strategy, 2)->step == 2, "and loads");
    checkpoints.save(strategy, {.step = 3});
  }));
  EXPECT_EQ(saved_steps(folder.path()), std::vector<std::int64_t>{3});
  EXPECT_EQ(folder.entries(), 1);
}

// ---- Readers of others.

// The line that read_safetensors.py prints of a tensor.
std::string line_of(const std::string& name, const std::string& shape, std::span<const float> values) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i) sum += (i + 1) * std::bit_cast<std::uint32_t>(values[i]);
  return name + " " + shape + " " + std::to_string(sum);
}

std::string in_brackets(const std::vector<std::int64_t>& shape) {
  std::string words;
  for (const std::int64_t extent : shape) words += (words.empty() ? "" : ", ") + std::to_string(extent);
  return "[" + words + "]";
}

// What one rank owns, as lines, in the order of names.
std::string lines_of(Strategy& strategy, bool whole) {
  std::map<std::string, std::string> lines;
  for (const OwnedPart& part : strategy.owned()) {
    const Parameter& parameter = strategy.parameters()[part.parameter];
    const std::pair<const char*, const float*> arrays[] = {
        {"", part.shard.master}, {".exp_avg", part.shard.states[0]}, {".exp_avg_sq", part.shard.states[1]}};
    for (const auto& [suffix, values] : arrays) {
      const bool all = part.count == parameter.elements();
      require(all || !whole, "one rank has all of " + parameter.name);
      std::string name = parameter.name + suffix;
      if (!all) name += "[" + std::to_string(part.first) + ":" + std::to_string(part.first + part.count) + "]";
      const std::string shape = all ? in_brackets(parameter.shape) : "[" + std::to_string(part.count) + "]";
      lines[name] = line_of(name, shape, {values, part.count});
    }
  }
  std::string text;
  for (const auto& [name, line] : lines) text += line + "\n";
  return text;
}

// A model of 8 parameters after two steps, one of them without elements.
void expect_readable(int ranks, const std::string& python, const std::string& by) {
  const testing::ToyModel model;
  const SavedFolder folder;
  std::vector<std::string> expected(static_cast<std::size_t>(ranks));
  testing::expect_all_ok(testing::run_ranks(testing::Ranks::threads, ranks, [&](Communicator& comm) {
    Strategy strategy = zero(1, comm, model.parameters, AdamW{});
    for (const int step : {0, 1}) testing::train_step(strategy, model, comm.rank(), step);
    Checkpoints(comm, folder.path()).save(strategy, {.step = 2});
    expected[static_cast<std::size_t>(comm.rank())] = lines_of(strategy, ranks == 1);
  }));
  for (int rank = 0; rank < ranks; ++rank) {
    const std::string command = python + " " TUTTI_SOURCE_DIRECTORY "/tests/train/read_safetensors.py " + by + " " +
                                (folder / "step-00000002/") + piece_name(rank);
    const testing::Ended ended = testing::shell(command);
    if (ended.exit_code == 77) GTEST_SKIP() << "no safetensors package; SAFETENSORS_PYTHON names a python that has it";
    ASSERT_EQ(ended.exit_code, 0) << ended.output;
    std::string tensors;
    for (std::size_t at = ended.output.find('\n') + 1, end = 0; at < ended.output.size(); at = end + 1) {
      end = ended.output.find('\n', at);
      const std::string line = ended.output.substr(at, end - at);
      if (line.find("empty") != 0) tensors += line + "\n";
    }
    EXPECT_EQ(tensors, expected[static_cast<std::size_t>(rank)]);
    EXPECT_THAT(ended.output, HasSubstr("step 2 rank " + std::to_string(rank) + " of " + std::to_string(ranks)));
    const bool has_empty = ended.output.find("empty.exp_avg [0, 7] 0") != std::string::npos;
    EXPECT_EQ(has_empty, rank == 0);
  }
}

bool has_python() { return testing::shell("python3 -c 'import json, struct'").exit_code == 0; }

TEST(Pieces, AreReadByATinyParser) {
  if (!has_python()) GTEST_SKIP() << "no python3";
  for (const int ranks : {1, 3}) expect_readable(ranks, "python3", "--by-hand");
}

TEST(Pieces, AreReadByTheSafetensorsPackage) {
  if (!has_python()) GTEST_SKIP() << "no python3";
  const char* named = std::getenv("SAFETENSORS_PYTHON");
  for (const int ranks : {1, 3}) expect_readable(ranks, named != nullptr ? named : "python3", "--package");
}

TEST(Pieces, CannotHaveTwoTensorsOfOneName) {
  testing::ToyModel model;
  model.parameters[1].name = "b1.exp_avg";
  const SavedFolder folder;
  testing::expect_all_ok(testing::run_ranks(testing::Ranks::threads, 1, [&](Communicator& comm) {
    Strategy strategy = data_parallel(comm, model.parameters, AdamW{});
    const std::string words = error_of([&] { Checkpoints(comm, folder.path()).save(strategy, {.step = 1}); }).what();
    require(words.find("cannot have two tensors named \"b1.exp_avg\"") != std::string::npos, words);
  }));
  EXPECT_EQ(folder.entries(), 0);
}

}  // namespace
}  // namespace tutti::train
