// The page that plays a document: one file that needs nothing else. It is viewer/, whose files the build puts into the
// command, with the document in it. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tutti::view {

struct EmbeddedFile {
  std::string name, text;
};
// The files of viewer/.
extern const std::vector<EmbeddedFile> kViewerFiles;

std::string page_of(const nlohmann::ordered_json& document);

}  // namespace tutti::view
