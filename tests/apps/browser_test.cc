// The pages in a real browser if one is installed (Debian's package `chromium`): they fit desktop and phone
// screens, draw their content, make no network requests and raise no errors.
#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "apps/command.h"
#include "apps/handmade_scenario.h"
#include "isochron/apps/compare/page.h"
#include "support/temp_folder.h"

namespace isochron::apps {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string output_of(const std::string& command) {
  std::string text;
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return text;
  std::array<char, 4096> part;
  while (const size_t count = std::fread(part.data(), 1, part.size(), pipe)) text.append(part.data(), count);
  pclose(pipe);
  return text;
}

std::string browser() {
  for (const char* name : {"chromium", "chromium-browser", "google-chrome"}) {
    if (std::string path = output_of(std::string("command -v ") + name + " 2>/dev/null"); !path.empty()) {
      path.pop_back();
      return path;
    }
  }
  return "";
}

/// Uses its own profile, so that the user's profile isn't touched.
std::string headless(const std::string& browser, const TempFolder& folder) {
  return browser + " --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --user-data-dir=" +
         (folder.path() / "profile").string();
}

/// What the browser finds in `page`, shown in a frame of `width`.
nlohmann::json look_at(const std::string& browser, const std::filesystem::path& page, int width,
                       const TempFolder& folder) {
  const std::filesystem::path wrapper = page.parent_path() / "wrapper.html";
  std::ofstream(wrapper) << R"(<!doctype html><body><iframe id="f" style="border:0;width:)" << width
                         << R"(px;height:900px" src=")" << page.filename().string()
                         << R"("></iframe><pre id="out"></pre>
<script>
document.getElementById('f').onload = (event) => {
  const view = event.target.contentWindow, page = view.document;
  page.querySelectorAll('details').forEach((d) => { d.open = true; });
  const shown = [...page.querySelectorAll('svg')].filter((s) => s.getBoundingClientRect().width > 0);
  document.getElementById('out').textContent = 'FOUND' + JSON.stringify({
    width: page.documentElement.scrollWidth,
    height: page.documentElement.scrollHeight,
    plots: shown.length,
    widest: Math.max(0, ...shown.map((s) => s.getBoundingClientRect().right)),
    lines: page.querySelectorAll('svg polyline, svg path').length,
    answer: Math.max(0, ...[...page.querySelectorAll('table.cards')].slice(0, 1).map(
      (t) => t.rows[1].getBoundingClientRect().bottom)),
    fetched: view.performance.getEntriesByType('resource').length,
    title: page.title,
    text: page.body.innerText.slice(0, 2000),
  }) + 'END';
};
</script>)";
  const std::string dom = output_of(headless(browser, folder) +
                                    " --allow-file-access-from-files --enable-logging=stderr "
                                    "--virtual-time-budget=10000 --dump-dom file://" +
                                    wrapper.string() + " 2>&1");
  EXPECT_THAT(dom, Not(HasSubstr("CONSOLE"))) << "an error or a warning of the page's";
  const size_t begin = dom.find(">FOUND"), end = dom.find("}END<");
  if (begin == std::string::npos || end == std::string::npos) {
    ADD_FAILURE() << "the browser found nothing:\n" << dom.substr(0, 4000);
    return {};
  }
  std::string found = dom.substr(begin + 6, end - begin - 5);
  for (const auto& [entity, text] :
       {std::pair{"&lt;", "<"}, {"&gt;", ">"}, {"&amp;", "&"}, {"&nbsp;", " "}}) {
    for (size_t at; (at = found.find(entity)) != std::string::npos;)
      found.replace(at, std::string(entity).size(), text);
  }
  return nlohmann::json::parse(found);
}

/// `answer`: whether the first screen must say what is wrong with a loop.
void expect_good(const std::string& browser, const std::filesystem::path& page, const std::string& text,
                 const TempFolder& folder, bool answer = false) {
  for (const int width : {360, 400, 1400}) {
    SCOPED_TRACE(page.string() + " at " + std::to_string(width));
    const nlohmann::json found = look_at(browser, page, width, folder);
    if (found.is_null()) continue;
    EXPECT_LE(found["width"], width) << "it must not scroll sideways";
    EXPECT_LE(found["widest"], width) << "no plot reaches beyond";
    EXPECT_GT(found["height"], 500);
    EXPECT_GT(found["plots"], 0);
    EXPECT_GT(found["lines"], 0);
    if (answer) {
      EXPECT_GT(found["answer"], 0);
      EXPECT_LT(found["answer"], 800);
    }
    EXPECT_EQ(found["fetched"], 0) << "it stands on its own";
    EXPECT_THAT(found["text"].get<std::string>(), HasSubstr(text));
  }
}

/// Skips where no browser is installed or where it can't run.
class Browser : public testing::Test {
 protected:
  void SetUp() override {
    if (program_.empty()) GTEST_SKIP() << "no chromium on this machine";
    const std::string empty = output_of(headless(program_, folder_) + " --dump-dom about:blank 2>&1");
    if (empty.find("<html>") == std::string::npos)
      GTEST_SKIP() << "it opens no page on this machine:\n" << empty;
  }

  const std::string program_ = browser();
  const TempFolder folder_;
};

TEST_F(Browser, ReadsThePagesOfTrainReportAndCompare) {
  const std::string a = (folder_.path() / "a").string(), b = (folder_.path() / "b").string();
  ASSERT_THAT(run_isochron("train regress --epochs 20 --out " + a), Ends(0, ""));
  ASSERT_THAT(run_isochron("train regress --epochs 20 --batch 16 --out " + b), Ends(0, ""));
  ASSERT_THAT(run_isochron("report " + a + " " + b + " --out " + a + "/both.html"), Ends(0, ""));
  expect_good(program_, folder_.path() / "a" / "report.html", "The time of an iteration is", folder_);
  expect_good(program_, folder_.path() / "a" / "both.html", "median step", folder_);
  ASSERT_THAT(run_isochron("compare gpu-memory --iterations 300 --out " + b), Ends(0, ""));
  expect_good(program_, folder_.path() / "b" / "report.html", "explicit collection", folder_);
}

TEST_F(Browser, TheFirstScreenOfComparesPageTellsWhatIsWrong) {
  const HandmadeScenario handmade;
  const std::filesystem::path page = folder_.path() / "report.html";
  std::ofstream(page) << compare_page({&handmade.result, 1}, {});
  expect_good(program_, page, "slows down from 118.0 us to 482.0 us", folder_, /*answer=*/true);
}

}  // namespace
}  // namespace isochron::apps
