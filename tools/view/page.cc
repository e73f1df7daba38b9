#include "tools/view/page.h"

#include <algorithm>
#include <string_view>

#include "base/json_text.h"
#include "tutti/error.h"

namespace tutti::view {
namespace {

const std::string& text_of(std::string_view name) {
  const auto found = std::find_if(kViewerFiles.begin(), kViewerFiles.end(),
                                  [&](const EmbeddedFile& file) { return file.name == name; });
  if (found == kViewerFiles.end())
    throw Error(ErrorCode::unsupported, "this build lacks " + std::string(name) + " of the viewer");
  return found->text;
}

// A module's address, with the module in it: what a URL, a JSON string or a script element would read otherwise is
// escaped.
std::string address_of(std::string_view module) {
  constexpr std::string_view kPlain = " \"->_.~!*'()/:;,=?@&+$[]{}|^`";
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string address = "data:text/javascript;charset=utf-8,";
  for (const char c : module) {
    const auto byte = static_cast<unsigned char>(c);
    const bool alphanumeric = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (alphanumeric || kPlain.find(c) != std::string_view::npos) {
      address += c;
    } else {
      address += '%';
      address += kDigits[byte >> 4U];
      address += kDigits[byte & 15U];
    }
  }
  return address;
}

// Where a module is found by its name: in the page itself.
std::string import_map() {
  nlohmann::ordered_json imports;
  for (const EmbeddedFile& file : kViewerFiles) {
    if (file.name.ends_with(".js")) imports["tutti/" + file.name] = address_of(file.text);
  }
  return nlohmann::ordered_json{{"imports", std::move(imports)}}.dump();
}

// JSON in which nothing ends a script element: "<" stands in strings alone.
std::string inside_script(const nlohmann::ordered_json& document) {
  std::string text;
  for (const char c : json_text(document, -1)) {
    if (c == '<') {
      text += "\\u003c";
    } else {
      text += c;
    }
  }
  return text;
}

void replace_once(std::string& page, std::string_view what, const std::string& by) {
  const std::size_t at = page.find(what);
  if (at == std::string::npos) throw Error(ErrorCode::unsupported, "the viewer's page lacks " + std::string(what));
  page.replace(at, what.size(), by);
}

}  // namespace

std::string page_of(const nlohmann::ordered_json& document) {
  std::string page = text_of("index.html");
  replace_once(page, "<link rel=\"stylesheet\" href=\"style.css\">", "<style>\n" + text_of("style.css") + "</style>");
  replace_once(page, "{ \"imports\": { \"tutti/\": \"./\" } }", import_map());
  replace_once(page, "id=\"document\">{}<", "id=\"document\">" + inside_script(document) + "<");
  return page;
}

}  // namespace tutti::view
