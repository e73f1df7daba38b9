#include "train/checkpoint_index.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string_view>
#include <tuple>
#include <variant>

#include "train/checksum.h"
#include "train/words.h"

namespace tutti::train {
namespace {

using IndexJson = nlohmann::ordered_json;  // keys stay in the order they are written

constexpr const char* kFormat = "tutti checkpoint";
constexpr int kVersion = 1;

template <class Json>
std::string dumped(const Json& document, int indent = -1) {
  try {
    return document.dump(indent);
  } catch (const nlohmann::json::exception&) {
    throw Error(ErrorCode::invalid_argument,
                "a name of a parameter or a note is not UTF-8, which JSON is; write it in other words");
  }
}

std::string checksum_of(const IndexJson& document) {
  const std::string text = dumped(document);
  return sha256_of(std::as_bytes(std::span(text)));
}

IndexJson json_of(const CheckpointPiece& piece) {
  IndexJson slices = IndexJson::array();
  for (const CheckpointSlice& slice : piece.slices) {
    slices.push_back(
        {{"parameter", slice.parameter}, {"first", slice.first}, {"count", slice.count}, {"offsets", slice.offsets}});
    if (!slice.array.empty()) slices.back()["array"] = slice.array;
  }
  IndexJson json{
      {"file", piece.file}, {"bytes", piece.bytes}, {"sha256", piece.checksums}, {"slices", std::move(slices)}};
  if (piece.origin)
    json["origin"] = {{"maker", piece.origin->maker}, {"steps", piece.origin->steps}, {"order", piece.origin->order}};
  return json;
}

IndexJson json_of(const SavedLossScale& scale) {
  return {{"scale", scale.scale}, {"steps_since_overflow", scale.steps_since_overflow}};
}

[[noreturn]] void refuse_index(const std::string& words) { throw Error(ErrorCode::invalid_argument, words); }

void check_index(bool good, const std::string& words) {
  if (!good) refuse_index(words);
}

[[noreturn]] void refuse_number(const IndexJson& json, const char* what) {
  refuse_index("has " + json.dump() + " where " + what + " belongs");
}

// Of numbers, elements and bytes: what every reader of JSON has exactly. Sums of some, and a few bytes for each, fit
// into 64 bits.
constexpr std::int64_t kMostCount = std::int64_t{1} << 53;

// nlohmann would take -1 and 1.5 for a count, and what is too large without a word.
std::int64_t whole_number_in(const IndexJson& json) {
  const bool fits = json.is_number_unsigned() ? json.get<std::uint64_t>() <= static_cast<std::uint64_t>(kMostCount)
                                              : json.is_number_integer() && json.get<std::int64_t>() >= -kMostCount;
  if (!fits) refuse_number(json, "a number");
  return json.get<std::int64_t>();
}

std::size_t count_in(const IndexJson& json) {
  if (!json.is_number_unsigned()) refuse_number(json, "a count");
  return static_cast<std::size_t>(whole_number_in(json));
}

int small_count_in(const IndexJson& json) {
  constexpr std::size_t kMost = 1 << 30;
  const std::size_t count = count_in(json);
  if (count > kMost) refuse_number(json, "a small count");
  return static_cast<int>(count);
}

CheckpointPiece piece_in(const IndexJson& json) {
  CheckpointPiece piece{json.at("file"), count_in(json.at("bytes")), json.at("sha256"), {}};
  for (const IndexJson& slice : json.at("slices")) {
    CheckpointSlice& read = piece.slices.emplace_back();
    read.parameter = count_in(slice.at("parameter"));
    read.first = count_in(slice.at("first"));
    read.count = count_in(slice.at("count"));
    for (const IndexJson& offset : slice.at("offsets")) read.offsets.push_back(count_in(offset));
    read.array = slice.value("array", "");
  }
  if (const auto found = json.find("origin"); found != json.end()) {
    piece.origin = KeptOrigin{found->at("maker"), {}, {}};
    for (const IndexJson& steps : found->at("steps")) piece.origin->steps.push_back(whole_number_in(steps));
    for (const IndexJson& number : found->at("order")) piece.origin->order.push_back(count_in(number));
  }
  return piece;
}

DType type_named(const std::string& name) {
  for (const DType type : {DType::float32, DType::bfloat16, DType::float16})
    if (name_of(type) == name) return type;
  throw Error(ErrorCode::invalid_argument, "has a parameter of type \"" + name + "\", which cannot be trained");
}

IndexJson json_of(const Parameters& parameters) {
  IndexJson list = IndexJson::array();
  for (const Parameter& parameter : parameters)
    list.push_back({{"name", parameter.name}, {"type", name_of(parameter.type)}, {"shape", parameter.shape}});
  return list;
}

std::vector<std::int64_t> shape_in(const IndexJson& json) {
  std::vector<std::int64_t> shape;
  std::int64_t elements = 1;
  for (const IndexJson& extent : json) {
    shape.push_back(static_cast<std::int64_t>(count_in(extent)));
    if (shape.back() != 0 && elements > kMostCount / shape.back())
      refuse_index("has the shape " + json.dump() + ", of more elements than any memory has");
    elements *= shape.back();
  }
  return shape;
}

Parameters parameters_in(const IndexJson& json) {
  Parameters parameters;
  for (const IndexJson& parameter : json) {
    parameters.push_back({.name = parameter.at("name"),
                          .type = type_named(parameter.at("type")),
                          .shape = shape_in(parameter.at("shape"))});
  }
  return parameters;
}

// An index is not nested deeply; what goes through it by recursion counts on that.
IndexJson document_of(const std::string& text) {
  constexpr int kMostDepth = 16;
  return IndexJson::parse(text, [](int depth, IndexJson::parse_event_t, IndexJson&) {
    check_index(depth <= kMostDepth, "is nested more deeply than the index of a checkpoint");
    return true;
  });
}

// Calls `read` and puts what JSON has to say into words.
template <class Read>
auto in_words_of_json(Read&& read) {
  try {
    return read();
  } catch (const nlohmann::json::exception& error) {
    const std::string_view words = error.what();
    throw Error(
        ErrorCode::invalid_argument,
        "is not the index of a checkpoint: " + std::string(words.substr(std::min(words.find("] ") + 2, words.size()))));
  }
}

std::optional<SavedLossScale> loss_scale_in(const IndexJson& json) {
  const auto found = json.find("loss_scale");
  if (found == json.end()) return std::nullopt;
  const SavedLossScale saved{found->at("scale"), small_count_in(found->at("steps_since_overflow"))};
  check_index(saved.scale > 0, "has the loss scale " + in_words(saved.scale));
  return saved;
}

CheckpointIndex index_in(const IndexJson& json) {
  CheckpointIndex index;
  index.position.step = whole_number_in(json.at("step"));
  index.updates = whole_number_in(json.at("updates"));
  index.ranks = small_count_in(json.at("ranks"));
  index.stage = small_count_in(json.at("stage"));
  const IndexJson& sampler = json.at("sampler");
  index.position.sampler = {whole_number_in(sampler.at("epoch")), whole_number_in(sampler.at("taken"))};
  index.position.notes = json.at("notes").get<std::map<std::string, std::string>>();
  index.optimizer = json.at("optimizer").at("name");
  for (const auto& [name, value] : json.at("optimizer").at("settings").items())
    index.settings.emplace_back(name, value);
  index.arrays = json.at("arrays");
  index.loss_scale = loss_scale_in(json);
  if (const auto found = json.find("others"); found != json.end())
    for (const IndexJson& other : *found)
      index.others.push_back({whole_number_in(other.at("updates")), loss_scale_in(other)});
  if (const auto found = json.find("local_updates"); found != json.end())
    index.local_updates = SavedRounds{whole_number_in(found->at("steps")), whole_number_in(found->at("origin"))};
  if (const auto found = json.find("compression"); found != json.end()) {
    index.compression = SavedCompression{found->at("settings"), whole_number_in(found->at("steps"))};
    for (const IndexJson& number : found->at("order")) index.compression->order.push_back(count_in(number));
    for (const IndexJson& piece : found->at("pieces")) index.compression->pieces.push_back(piece_in(piece));
  }
  index.parameters = parameters_in(json.at("parameters"));
  index.checksum_bytes = count_in(json.at("checksum_bytes"));
  for (const IndexJson& piece : json.at("pieces")) index.pieces.push_back(piece_in(piece));
  return index;
}

// What a file may be, and that its slices lie in it. What compression keeps is one array a slice, and may be longer
// than its parameter.
void check_piece(const CheckpointIndex& index, const CheckpointPiece& piece, bool is_kept) {
  const bool plain = !piece.file.empty() && piece.file[0] != '.' && piece.file.find('/') == std::string::npos;
  check_index(plain, "has a piece in \"" + piece.file + "\", which is no name of a file beside it");
  check_index(piece.checksums.size() == (piece.bytes + index.checksum_bytes - 1) / index.checksum_bytes,
              "has " + std::to_string(piece.checksums.size()) + " checksums of " + piece.file);
  for (const CheckpointSlice& slice : piece.slices) {
    check_index(slice.parameter < index.parameters.size(),
                "has a slice of parameter " + std::to_string(slice.parameter) + ", which it does not list");
    check_index(slice.offsets.size() == (is_kept ? 1 : index.arrays.size()),
                "has a slice with another number of arrays");
    const std::size_t elements = index.parameters[slice.parameter].elements();
    check_index(is_kept || (slice.first <= elements && slice.count <= elements - slice.first),
                "has a slice beyond the end of \"" + index.parameters[slice.parameter].name + "\"");
    for (const std::size_t offset : slice.offsets)
      check_index(offset <= piece.bytes && slice.count <= (piece.bytes - offset) / sizeof(float),
                  "has a slice beyond the end of " + piece.file);
  }
}

// Whoever counts numbers that a piece has of an array may count on each being there once.
void check_kept_once(const CheckpointIndex& index, const CheckpointPiece& piece) {
  std::vector<const CheckpointSlice*> slices;
  for (const CheckpointSlice& slice : piece.slices)
    if (slice.count != 0) slices.push_back(&slice);
  std::ranges::sort(
      slices, {}, [](const CheckpointSlice* slice) { return std::tie(slice->array, slice->parameter, slice->first); });
  const auto overlap = [](const CheckpointSlice* one, const CheckpointSlice* next) {
    return one->array == next->array && one->parameter == next->parameter && next->first - one->first < one->count;
  };
  if (const auto found = std::ranges::adjacent_find(slices, overlap); found != slices.end())
    refuse_index("has numbers of \"" + index.parameters[(*found)->parameter].name + "\" twice in " + piece.file);
}

void check_origins(const CheckpointIndex& index) {
  for (const CheckpointPiece& piece : index.compression->pieces) {
    check_index(piece.origin && piece.origin->steps.size() == index.others.size() + 1,
                "does not tell whose is what compression keeps in " + piece.file);
    check_index(std::ranges::all_of(piece.origin->steps, [](std::int64_t steps) { return steps >= 0; }),
                "counts steps from below 0 in " + piece.file);
    std::vector<std::size_t> order = piece.origin->order;
    std::ranges::sort(order);
    check_index(
        std::ranges::adjacent_find(order) == order.end() && (order.empty() || order.back() < index.parameters.size()),
        "has parameters twice, or that it does not list, in the order of " + piece.file);
  }
}

void check_pieces(const CheckpointIndex& index) {
  check_index(index.checksum_bytes > 0 && index.checksum_bytes <= kMostChecksumBytes,
              "has checksums of " + std::to_string(index.checksum_bytes) + " bytes");
  std::set<std::string_view> names;
  for (const Parameter& parameter : index.parameters)
    check_index(names.insert(parameter.name).second, "has two parameters named \"" + parameter.name + "\"");
  const bool counts = index.position.step >= 0 && index.updates >= 0 &&
                      std::ranges::all_of(index.others, [](const SavedCounts& other) { return other.updates >= 0; });
  check_index(counts, "counts steps or updates from below 0");
  if (index.local_updates) {
    constexpr std::int64_t kMostSteps = std::int64_t{1} << 40;  // times fragments
    check_index(index.local_updates->origin >= 0 && index.local_updates->origin <= index.local_updates->steps,
                "has local updates that began after they ended");
    check_index(index.local_updates->steps <= kMostSteps,
                "has local updates of " + std::to_string(index.local_updates->steps) + " steps");
  }
  for (const CheckpointPiece& piece : index.pieces) check_piece(index, piece, /*is_kept=*/false);
  if (!index.compression) return;
  const std::vector<CheckpointPiece>& kept = index.compression->pieces;
  check_index(!kept.empty() && std::ssize(kept) == index.ranks &&
                  (index.compression->steps > 0 || kept.front().origin.has_value()),
              "has what compression keeps of other steps or ranks than its own");
  for (const CheckpointPiece& piece : kept) {
    check_piece(index, piece, /*is_kept=*/true);
    check_kept_once(index, piece);
  }
  if (kept.front().origin) return check_origins(index);
  check_index(std::ranges::none_of(kept, [](const CheckpointPiece& piece) { return piece.origin.has_value(); }),
              "tells of some pieces whose is what compression keeps in them, and of others not");
  std::vector<std::size_t> order = index.compression->order;
  std::ranges::sort(order);
  bool is_order = order.size() == index.parameters.size();
  for (std::size_t i = 0; is_order && i < order.size(); ++i) is_order = order[i] == i;
  check_index(is_order, "does not have every parameter once in the order of buckets");
}

void check_every_element(const CheckpointIndex& index) {
  std::vector<std::map<std::size_t, std::size_t>> ends(index.parameters.size());  // by first element
  for (const CheckpointPiece& piece : index.pieces)
    for (const CheckpointSlice& slice : piece.slices)
      if (slice.count != 0) {
        const bool fresh = ends[slice.parameter].emplace(slice.first, slice.first + slice.count).second;
        check_index(fresh, "has the same slice of \"" + index.parameters[slice.parameter].name + "\" twice");
      }
  for (std::size_t i = 0; i < index.parameters.size(); ++i) {
    std::size_t covered = 0;
    for (const auto& [first, end] : ends[i]) {
      if (first != covered) break;
      covered = end;
    }
    check_index(covered == index.parameters[i].elements() && (ends[i].empty() || ends[i].rbegin()->second == covered),
                "does not have every element of \"" + index.parameters[i].name + "\" once: after element " +
                    std::to_string(covered) + " there is a gap or an overlap");
  }
}

}  // namespace

std::string_view optimizer_name(const Optimizer& optimizer) {
  constexpr std::string_view kNames[] = {"AdamW", "Adam", "Sgd", "Lion"};
  static_assert(std::size(kNames) == std::variant_size_v<Optimizer>);
  return kNames[optimizer.index()];
}

std::vector<std::pair<std::string, double>> optimizer_settings(const Optimizer& optimizer) {
  return std::visit(
      [](const auto& with) {
        std::vector<std::pair<std::string, double>> settings{{"learning_rate", with.learning_rate},
                                                             {"weight_decay", with.weight_decay}};
        if constexpr (requires { with.beta1; }) {
          settings.emplace_back("beta1", with.beta1);
          settings.emplace_back("beta2", with.beta2);
        }
        if constexpr (requires { with.epsilon; }) settings.emplace_back("epsilon", with.epsilon);
        if constexpr (requires { with.momentum; }) {
          settings.emplace_back("momentum", with.momentum);
          settings.emplace_back("nesterov", with.nesterov ? 1 : 0);
        }
        return settings;
      },
      optimizer);
}

std::vector<std::string> arrays_of(const Optimizer& optimizer) {
  std::vector<std::string> arrays{"master", std::holds_alternative<Sgd>(optimizer) ? "momentum_buffer" : "exp_avg",
                                  "exp_avg_sq"};
  arrays.resize(1 + static_cast<std::size_t>(state_arrays(optimizer)));
  return arrays;
}

std::string to_text(const CheckpointIndex& index) {
  IndexJson document{{"format", kFormat},
                     {"version", kVersion},
                     {"step", index.position.step},
                     {"updates", index.updates},
                     {"sampler", {{"epoch", index.position.sampler.epoch}, {"taken", index.position.sampler.taken}}},
                     {"notes", index.position.notes},
                     {"ranks", index.ranks},
                     {"stage", index.stage}};
  IndexJson settings = IndexJson::object();
  for (const auto& [name, value] : index.settings) settings[name] = value;
  document["optimizer"] = {{"name", index.optimizer}, {"settings", std::move(settings)}};
  if (index.loss_scale) document["loss_scale"] = json_of(*index.loss_scale);
  for (const SavedCounts& other : index.others) {
    IndexJson& json = document["others"].emplace_back(IndexJson{{"updates", other.updates}});
    if (other.loss_scale) json["loss_scale"] = json_of(*other.loss_scale);
  }
  if (index.local_updates)
    document["local_updates"] = {{"steps", index.local_updates->steps}, {"origin", index.local_updates->origin}};
  if (index.compression) {
    IndexJson kept = IndexJson::array();
    for (const CheckpointPiece& piece : index.compression->pieces) kept.push_back(json_of(piece));
    document["compression"] = {{"settings", index.compression->settings},
                               {"steps", index.compression->steps},
                               {"order", index.compression->order},
                               {"pieces", std::move(kept)}};
  }
  document["arrays"] = index.arrays;
  document["parameters"] = json_of(index.parameters);
  document["checksum_bytes"] = index.checksum_bytes;
  IndexJson& pieces = document["pieces"] = IndexJson::array();
  for (const CheckpointPiece& piece : index.pieces) pieces.push_back(json_of(piece));
  document["sha256"] = checksum_of(document);
  return dumped(document, 1) + "\n";
}

CheckpointIndex index_from_text(const std::string& text) {
  return in_words_of_json([&] {
    IndexJson document = document_of(text);
    check_index(document.is_object() && document.value("format", "") == kFormat, "is not the index of a checkpoint");
    const int version = document.value("version", 0);
    check_index(version == kVersion, "is of version " + std::to_string(version) + ", and this library reads version " +
                                         std::to_string(kVersion) + "; load it with the library that saved it");
    const std::string told = document.at("sha256");
    document.erase("sha256");
    check_index(checksum_of(document) == told, "is damaged: it does not have the checksum that it ends with");
    CheckpointIndex index = index_in(document);
    check_pieces(index);
    check_every_element(index);
    return index;
  });
}

std::string to_text(const Parameters& parameters) { return dumped(json_of(parameters)); }

Parameters parameters_from_text(const std::string& text) {
  return in_words_of_json([&] { return parameters_in(IndexJson::parse(text)); });
}

std::string to_text(const CheckpointPiece& piece) { return dumped(json_of(piece)); }

CheckpointPiece piece_from_text(const std::string& text) {
  return in_words_of_json([&] { return piece_in(IndexJson::parse(text)); });
}

namespace {

// The tensors of a file so far.
class SafetensorsHeader {
 public:
  explicit SafetensorsHeader(const std::vector<std::pair<std::string, std::string>>& metadata) {
    for (const auto& [name, value] : metadata) document_["__metadata__"][name] = value;
  }
  // `array` is behind the parameter's name, empty for the parameter itself.
  void add(const Parameter& parameter, const std::string& array, CheckpointSlice& slice) {
    const bool whole = slice.count == parameter.elements();
    std::string name = parameter.name + (array.empty() ? "" : "." + array);
    if (!whole) name += "[" + std::to_string(slice.first) + ":" + std::to_string(slice.first + slice.count) + "]";
    check_index(!document_.contains(name), "cannot have two tensors named \"" + name +
                                               "\"; give parameters names that do not end like optimizer states");
    const std::size_t begin = end_;
    end_ += slice.count * sizeof(float);
    slice.offsets.push_back(begin);
    nlohmann::json& tensor = document_[name];
    tensor["dtype"] = "F32";
    tensor["shape"] = whole ? nlohmann::json(parameter.shape) : nlohmann::json::array({slice.count});
    tensor["data_offsets"] = {begin, end_};
  }
  // The bytes of it, behind which the tensors lie.
  std::string text(std::vector<CheckpointSlice>& slices) const {
    std::string text = dumped(document_);
    text.resize((text.size() + 7) / 8 * 8, ' ');
    const std::uint64_t length = text.size();
    std::string header(sizeof length, '\0');
    for (std::size_t byte = 0; byte < sizeof length; ++byte)
      header[byte] = static_cast<char>(length >> (8 * byte) & 0xff);
    header += text;
    for (CheckpointSlice& slice : slices)
      for (std::size_t& offset : slice.offsets) offset += header.size();
    return header;
  }

 private:
  nlohmann::json document_;  // which finds names fast, and there are many
  std::size_t end_ = 0;
};

}  // namespace

std::string safetensors_header(const Parameters& parameters, const std::vector<std::string>& arrays,
                               const std::vector<std::pair<std::string, std::string>>& metadata,
                               std::vector<CheckpointSlice>& slices) {
  SafetensorsHeader header(metadata);
  for (std::size_t array = 0; array < arrays.size(); ++array)
    for (CheckpointSlice& slice : slices)
      header.add(parameters[slice.parameter], array == 0 ? "" : arrays[array], slice);
  return header.text(slices);
}

std::string safetensors_header(const Parameters& parameters,
                               const std::vector<std::pair<std::string, std::string>>& metadata,
                               std::vector<CheckpointSlice>& slices) {
  SafetensorsHeader header(metadata);
  for (CheckpointSlice& slice : slices) header.add(parameters[slice.parameter], slice.array, slice);
  return header.text(slices);
}

}  // namespace tutti::train
