#include "isochron/observe/export/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace isochron::observe {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(Table, HasOneFormForTheConsoleAndOneForThePage) {
  const Table table{.title = "Ways <a & b>",
                    .columns = {"way", "bytes", "says"},
                    .rows = {{"first", "12.5 KB", "yes"}, {"the second", "3 B", "no"}},
                    .own_row = 1,
                    .says = "One is smaller."};
  EXPECT_EQ(table_text(table),
            "  Ways <a & b>\n"
            "  way           bytes  says\n"
            "  first       12.5 KB  yes\n"
            "  the second      3 B  no\n"
            "  One is smaller.\n");
  EXPECT_THAT(table_markup(table),
              AllOf(HasSubstr("<h3>Ways &lt;a &amp; b&gt;</h3>"), HasSubstr("<td>12.5 KB</td>"),
                    HasSubstr("<td class=\"prose\">yes</td>"), HasSubstr("<p>One is smaller.</p>"),
                    HasSubstr("<tr class=\"own\"><td>the second</td>")));
}

TEST(Table, NeedsNeitherTitleNorSentence) {
  const Table table{.columns = {"way", "bytes"}, .rows = {{"first", "1 B"}}};
  EXPECT_EQ(table_text(table), "  way    bytes\n  first    1 B\n");
  EXPECT_THAT(table_markup(table), AllOf(Not(HasSubstr("<h3>")), Not(HasSubstr("<p>"))));
}

}  // namespace
}  // namespace isochron::observe
