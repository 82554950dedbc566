// SPDX-License-Identifier: Apache-2.0
// HTTP responses: in any pieces, chunked, compressed, truncated or malformed.
#include "k8s/client/http_response.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <catch2/catch_test_macros.hpp>
#include <random>
#include <string>

#include "tests/lib/seed.hpp"

using namespace lb::k8s;

namespace {

using State = HttpResponse::State;

/// Records a response as text; stops when the body is as long as `max_content`.
class Reports final : public ResponseHandler {
 public:
  ReadControl head(const ApiHead& head) override {
    text += fmt::format("{} {} {};", head.status, head.content_type,
                        head.retry_after ? static_cast<int>(head.retry_after->count()) : -1);
    return ReadControl::proceed;
  }
  ReadControl body(std::string_view bytes) override {
    longest = std::max(longest, bytes.size());
    content += bytes;
    return content.size() < max_content ? ReadControl::proceed : ReadControl::stop;
  }
  void end(End /*how*/, std::string /*detail*/) override { FAIL("an answer does not tell its own end"); }

  std::string text;
  std::string content;
  std::size_t longest = 0;
  std::size_t max_content = std::string::npos;
};

std::string gzip(const std::string& text) {
  z_stream stream{};
  REQUIRE(deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string in = text;
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(in.data());
  stream.avail_in = static_cast<uInt>(in.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string chunked(const std::string& text, std::size_t size) {
  std::string out;
  for (std::size_t at = 0; at < text.size(); at += size) {
    const auto piece = text.substr(at, size);
    out += fmt::format("{:x}\r\n{}\r\n", piece.size(), piece);
  }
  return out + "0\r\n\r\n";
}

const std::string chunked_head =
    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";

/// Feeds the bytes in two pieces, split at `cut`.
State feed(HttpResponse& answer, const std::string& bytes, std::size_t cut) {
  const auto state = answer.feed(std::string_view(bytes).substr(0, cut));
  return state == State::open ? answer.feed(std::string_view(bytes).substr(cut)) : state;
}

}  // namespace

TEST_CASE("k8s answer: whole wherever its bytes are cut") {
  struct Row {
    const char* name;
    std::string bytes;
    std::string text;
    std::string body;
    bool keeps;
  };
  const Row rows[] = {
      {"with a length", "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Length: 5\r\n\r\nhello",
       "200 a/b -1;", "hello", true},
      {"without a body", "HTTP/1.1 429 Too Many\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n", "429  7;",
       "", true},
      {"chunked", chunked_head + chunked("hello", 2), "200 application/json -1;", "hello", true},
      {"chunked, with a trailer", chunked_head + "5;x=y\r\nhello\r\n0\r\nRetry-After: 9\r\n\r\n",
       "200 application/json -1;", "hello", true},
      {"gzip",
       "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n" +
           chunked(gzip("hello"), 3),
       "200  -1;", "hello", true},
      {"gzip of several members, as Kubernetes 1.37 answers a watch",
       "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n" +
           chunked(gzip("hel") + gzip("") + gzip("lo"), 7),
       "200  -1;", "hello", true},
      {"gzip of no member: a watch without an event",
       "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "200  -1;",
       "", true},
      {"closing",
       "HTTP/1.1 503 No\r\nConnection: close\r\nContent-Length: 2\r\nRetry-After: Fri, 31 Dec 1999 23:59:59 "
       "GMT\r\n\r\nno",
       "503  -1;", "no", false},
      {"after an interim one", "HTTP/1.1 103 Early Hints\r\nX: y\r\n\r\nHTTP/1.1 204 None\r\n\r\n",
       "204  -1;", "", true},
      {"a redirect", "HTTP/1.1 302 Found\r\nLocation: https://elsewhere/\r\nContent-Length: 0\r\n\r\n",
       "302  -1;", "", true},
  };
  for (const auto& row : rows) {
    for (std::size_t cut = 0; cut <= row.bytes.size(); ++cut) {
      CAPTURE(row.name, cut);
      Reports reported;
      HttpResponse answer(reported);
      CHECK(answer.begun() == false);
      REQUIRE(feed(answer, row.bytes, cut) == State::whole);
      CHECK(reported.text == row.text);
      CHECK(reported.content == row.body);
      CHECK(answer.keep_alive() == row.keeps);
    }
  }
}

TEST_CASE("k8s answer: without a length it ends with the connection") {
  Reports reported;
  HttpResponse answer(reported);
  CHECK(answer.feed("HTTP/1.1 200 OK\r\n\r\nhel") == State::open);
  CHECK(answer.feed("lo") == State::open);
  CHECK(answer.close() == State::whole);
  CHECK(reported.content == "hello");
  CHECK_FALSE(answer.keep_alive());
}

TEST_CASE("REL-33: an answer that is cut anywhere is not whole") {
  const std::string answers[] = {
      "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
      chunked_head + chunked("hello", 2),
      "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nConnection: close\r\n\r\n" + gzip("hello"),
  };
  for (const auto& bytes : answers) {
    for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
      CAPTURE(bytes, cut);
      Reports reported;
      HttpResponse answer(reported);
      REQUIRE(answer.feed(bytes.substr(0, cut)) == State::open);
      REQUIRE(answer.close() == State::broken);
      CHECK_FALSE(answer.problem().empty());
    }
  }
}

TEST_CASE("k8s answer: each member of gzip is passed on as it comes") {
  Reports reported;
  HttpResponse answer(reported);
  REQUIRE(answer.feed("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n") ==
          State::open);
  std::string all;
  for (const std::string text : {"one event", "", "another"}) {
    const auto member = gzip(text);
    REQUIRE(answer.feed(fmt::format("{:x}\r\n{}\r\n", member.size(), member)) == State::open);
    CHECK(reported.content == (all += text));
  }
}

TEST_CASE("k8s answer: malformed HTTP is rejected") {
  struct Row {
    const char* name;
    std::string bytes;
  };
  const Row rows[] = {
      {"TLS", std::string("\x16\x03\x01\x02\x00\x01\x00\x01", 8)},
      {"another protocol", "SSH-2.0-OpenSSH_9.2\r\n"},
      {"an invalid status code", "HTTP/1.1 000 OK\r\nContent-Length: 2\r\n\r\nhe"},
      {"a bad chunk size", chunked_head + "zz\r\nhello\r\n"},
      {"a chunk longer than it says", chunked_head + "2\r\nhello\r\n0\r\n\r\n"},
      {"more than was asked for", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhello"},
      {"an endless head", "HTTP/1.1 200 OK\r\nX: " + std::string(100'000, 'x')},
      {"an endless chunk line", chunked_head + std::string(100'000, '1')},
      {"two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nhel"},
      {"an unknown coding", "HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 2\r\n\r\nhe"},
      {"invalid gzip data", "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello"},
      {"bytes after gzip's end",
       "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n" +
           chunked(gzip("a") + "b", 1000)},
      {"an invalid member of gzip",
       "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n" +
           chunked(gzip("a") + "hello", 1000)},
      {"a member of gzip that does not end",
       "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n" +
           chunked(gzip("a") + gzip("b").substr(0, 12), 1000)},
  };
  for (const auto& row : rows) {
    CAPTURE(row.name);
    Reports reported;
    HttpResponse answer(reported);
    CHECK(answer.feed(row.bytes) == State::broken);
    CHECK_FALSE(answer.problem().empty());
  }
}

TEST_CASE("k8s answer: a decompression bomb comes in small pieces and can be stopped") {
  const auto bomb = gzip(std::string(std::size_t{64} << 20U, 'x'));
  REQUIRE(bomb.size() < 100'000);
  Reports reported;
  reported.max_content = std::size_t{1} << 20U;
  HttpResponse answer(reported);
  CHECK(answer.feed("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: " +
                    std::to_string(bomb.size()) + "\r\n\r\n" + bomb) == State::stopped);
  CHECK(reported.longest <= 65536);
  CHECK(reported.content.size() <= reported.max_content + 65536);
}

TEST_CASE("k8s answer: a long body, cut and chunked at random, chunks across zlib's windows") {
  const auto seed = lb::test::seed();
  CAPTURE(seed);
  std::mt19937 random(seed);
  std::string text;
  for (int i = 0; i < 400'000; ++i) {
    text += static_cast<char>('a' + random() % 4);
  }
  for (const bool compressed : {false, true}) {
    const auto body = chunked(compressed ? gzip(text) : text, 1 + random() % 9000);
    const std::string head =
        compressed ? "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n"
                   : chunked_head;
    const auto bytes = head + body;
    Reports reported;
    HttpResponse answer(reported);
    auto state = State::open;
    for (std::size_t at = 0; at < bytes.size() && state == State::open;) {
      const std::size_t size = 1 + random() % 20'000;
      state = answer.feed(std::string_view(bytes).substr(at, size));
      at += size;
    }
    CHECK(state == State::whole);
    CHECK(reported.content == text);
  }
}
