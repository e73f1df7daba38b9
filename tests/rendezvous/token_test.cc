// The token, its file, and what errors say of it.
#include "rendezvous/token.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "tutti/error.h"

namespace tutti::rendezvous {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kDigits = "0123456789abcdef0123456789ABCDEF0123456789abcdef0123456789abcdef";

class TokenFile : public ::testing::Test {
 protected:
  TokenFile() {
    char name[] = "/tmp/tutti-token-XXXXXX";
    folder_ = ::mkdtemp(name);
    path_ = folder_ + "/token";
  }
  ~TokenFile() override {
    ::unlink(path_.c_str());
    ::rmdir(folder_.c_str());
  }
  void write(const std::string& text, mode_t mode) const {
    std::ofstream(path_) << text;
    ::chmod(path_.c_str(), mode);
  }
  std::string error_of_reading() const {
    try {
      Token::read_file(path_);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  std::string folder_, path_;
};

TEST(Token, IsSixtyFourDigits) {
  EXPECT_EQ(Token::from_hex(kDigits).hex(), "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef");
  EXPECT_NE(Token::random().hex(), Token::random().hex());
  for (const std::string& wrong : {std::string(), kDigits.substr(1), kDigits + "0", std::string(64, 'g')}) {
    try {
      Token::from_hex(wrong);
      ADD_FAILURE() << "took " << wrong;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      // A secret, even if it is wrong.
      EXPECT_TRUE(wrong.empty() || std::string(error.what()).find(wrong) == std::string::npos);
    }
  }
}

// RFC 4231 has no key of 32 bytes; this one is from `openssl dgst -sha256 -mac HMAC`.
TEST(Token, MakesMacs) {
  const std::string first = "what do ya want ", second = "for nothing?";
  const Token token = Token::from_hex(kDigits);
  const auto bytes = [](const std::string& text) { return std::as_bytes(std::span(text)); };
  EXPECT_EQ(Token::from_bytes(token.mac({bytes(first), bytes(second)})).hex(),
            "2fcd29d1e701a46eafbdda9ac8c12b0a8592e5fa6b470bd507de7a533fe23b1e");
  EXPECT_NE(token.mac({bytes(first)}), token.mac({bytes(second)}));
  EXPECT_NE(token.mac({bytes(first)}), Token::random().mac({bytes(first)}));
}

TEST_F(TokenFile, IsWrittenForItsOwnerAndReadAgain) {
  const Token token = Token::random();
  token.write_file(path_);
  struct stat facts {};
  ASSERT_EQ(::stat(path_.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 07777, 0600u);
  EXPECT_EQ(Token::read_file(path_).hex(), token.hex());
  EXPECT_THROW(token.write_file(path_), Error) << "never overwritten";
}

TEST_F(TokenFile, MustBePrivateAndWellFormed) {
  EXPECT_THAT(error_of_reading(), AllOf(HasSubstr(path_), HasSubstr("cannot be read"), HasSubstr("tutti token")));
  write(kDigits, 0644);
  EXPECT_THAT(error_of_reading(), HasSubstr("chmod 600 " + path_));
  write(kDigits, 0640);
  EXPECT_THAT(error_of_reading(), HasSubstr("chmod 600 " + path_));
  write(kDigits + "\n", 0600);
  EXPECT_EQ(error_of_reading(), "");
  write(kDigits, 0400);
  EXPECT_EQ(error_of_reading(), "");
  ::chmod(path_.c_str(), 0600);
  for (const std::string& wrong : {std::string(), kDigits.substr(1), kDigits + "\n\n", kDigits + kDigits}) {
    write(wrong, 0600);
    EXPECT_THAT(error_of_reading(), AllOf(HasSubstr("64 hexadecimal digits"), Not(HasSubstr(kDigits.substr(2, 20)))));
  }
  ::unlink(path_.c_str());
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_THAT(error_of_reading(), HasSubstr("no regular file")) << "and does not wait for a writer";
}

}  // namespace
}  // namespace tutti::rendezvous
