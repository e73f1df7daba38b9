# Turns files into a table of C++: cmake -DOUTPUT=FILE.cc -DHEADER=its/header.h -DNAME=kFiles -DNAMESPACE=a::b -DFILES="a;b" -P embed.cmake
# The header declares `extern const std::vector<EmbeddedFile> NAME`, where an EmbeddedFile has a name and a text.
set(text "// Made by cmake/embed.cmake.\n#include \"${HEADER}\"\n\nnamespace ${NAMESPACE} {\n\nconst std::vector<EmbeddedFile> ${NAME} = {\n")
foreach(file ${FILES})
  get_filename_component(name "${file}" NAME)
  file(READ "${file}" content)
  string(APPEND text "    {\"${name}\", R\"embedded(${content})embedded\"},\n")
endforeach()
string(APPEND text "};\n\n}  // namespace ${NAMESPACE}\n")
file(WRITE "${OUTPUT}" "${text}")
