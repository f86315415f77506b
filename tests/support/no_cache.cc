// Linked into every test program, so that neither the program nor the commands it runs use the user's cache
// folder.
#include <cstdlib>

namespace {
const int g_no_cache = setenv("ISOCHRON_CACHE", "off", 1);
}  // namespace
