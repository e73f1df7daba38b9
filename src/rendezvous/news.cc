#include "rendezvous/news.h"

namespace tutti::rendezvous {
namespace {

constexpr std::uint8_t kBeat = 1;

int read_rank(Reader& reader, int least, int size) {
  const int rank = reader.i32();
  if (rank < least || rank >= size) reader.refuse();
  return rank;
}

Loss read_loss(Reader& reader) {
  const std::uint8_t loss = reader.u8();
  if (loss > static_cast<std::uint8_t>(Loss::silent)) reader.refuse();
  return static_cast<Loss>(loss);
}

bool read_flag(Reader& reader) {
  const std::uint8_t flag = reader.u8();
  if (flag > 1) reader.refuse();
  return flag == 1;
}

void write(Writer& writer, const Statement& statement) {
  writer.u64(statement.sequence).u64(statement.kinds).u64(statement.count).u64(statement.detail);
}

Statement read_statement(Reader& reader) {
  Statement statement;
  statement.sequence = reader.u64();
  statement.kinds = reader.u64();
  statement.count = reader.u64();
  statement.detail = reader.u64();
  return statement;
}

}  // namespace

Bytes beat_frame() { return frame_of(kBeat); }

bool is_beat(const Frame& frame) { return frame.kind == kBeat && frame.body.empty(); }

Bytes frame_of(const News& news) {
  Writer writer;
  writer.i32(news.origin).u64(news.number);
  switch (news.kind) {
    case News::Kind::goodbye: writer.i32(news.rank); break;
    case News::Kind::loss: writer.i32(news.rank).u8(static_cast<std::uint8_t>(news.loss)); break;
    case News::Kind::abort:
      writer.u64(news.group).i32(news.rank).u8(static_cast<std::uint8_t>(news.cause)).u8(news.left ? 1 : 0);
      break;
    case News::Kind::leave: writer.u64(news.group); break;
    case News::Kind::statement:
      writer.u64(news.group).u32(news.channel);
      write(writer, news.statement);
      break;
  }
  return frame_of(static_cast<std::uint8_t>(news.kind), writer);
}

std::optional<News> decode_news(const Frame& frame, int size) {
  Reader reader(frame.body);
  News news;
  news.kind = static_cast<News::Kind>(frame.kind);
  news.origin = read_rank(reader, 0, size);
  news.number = reader.u64();
  switch (news.kind) {
    case News::Kind::goodbye: news.rank = read_rank(reader, 0, size); break;
    case News::Kind::loss:
      news.rank = read_rank(reader, 0, size);
      news.loss = read_loss(reader);
      break;
    case News::Kind::abort:
      news.group = reader.u64();
      news.rank = read_rank(reader, -1, size);
      news.cause = read_code(reader);
      news.left = read_flag(reader);
      break;
    case News::Kind::leave: news.group = reader.u64(); break;
    case News::Kind::statement:
      news.group = reader.u64();
      news.channel = reader.u32();
      news.statement = read_statement(reader);
      if (news.channel >= kMostChannels) reader.refuse();
      break;
    default: return std::nullopt;
  }
  if (!reader.complete() || news.number == 0) return std::nullopt;
  return news;
}

}  // namespace tutti::rendezvous
