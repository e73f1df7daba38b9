// What leaves the shared library; all that does not say so stays hidden in it.
#pragma once

#define TUTTI_API __attribute__((visibility("default")))
