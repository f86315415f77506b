// The command as a process: signals, limits, pipes, paths that aren't regular files, and output to a
// terminal.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <system_error>
#include <thread>
#include <vector>

#include "apps/command.h"
#include "isochron/apps/commands.h"
#include "isochron/core/files/file.h"
#include "isochron/core/files/run_folder.h"
#include "isochron/core/process/process_space.h"
#include "support/sanitizers.h"
#include "support/temp_folder.h"

namespace isochron::apps {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// A shell command line in which CMD stands for the command.
Outcome shell(std::string line) {
  for (size_t at = 0; (at = line.find("CMD", at)) != std::string::npos;)
    line.replace(at, 3, ISOCHRON_COMMAND);
  return run_isochron("--version >/dev/null; { " + line + "; }");
}

/// Whether a terminal would interpret characters of `text`; newlines and tabs count as text.
bool acts_on_terminals(const std::string& text) {
  return std::ranges::any_of(text, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7f;
  });
}

MATCHER(IsHarmless, "") { return !acts_on_terminals(arg); }

class Process : public testing::Test {
 protected:
  fs::path write(const std::string& name, const std::string& content) const {
    const fs::path path = folder_ / name;
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  /// All files and folders below, by their paths from `where`.
  static std::vector<std::string> names_below(const fs::path& where) {
    std::vector<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(where))
      names.push_back(fs::relative(entry.path(), where));
    std::ranges::sort(names);
    return names;
  }

  /// Starts the command, reads its output up to `text` and sends it the signal. Returns the status from
  /// waitpid.
  int status_after(const std::vector<std::string>& arguments, const std::string& text, int signal,
                   bool to_all_its_processes = false) {
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      ::setpgid(0, 0);
      ::signal(signal, SIG_DFL);  // may be ignored under nohup or in a background job of a shell
      ::dup2(ends[1], STDOUT_FILENO);
      ::dup2(ends[1], STDERR_FILENO);
      std::vector<char*> words{const_cast<char*>(ISOCHRON_COMMAND)};
      for (const std::string& argument : arguments) words.push_back(const_cast<char*>(argument.c_str()));
      words.push_back(nullptr);
      ::execv(ISOCHRON_COMMAND, words.data());
      ::_exit(127);
    }
    ::close(ends[1]);
    printed_.clear();
    bool sent = false;
    char part[4096];
    for (ssize_t got; (got = ::read(ends[0], part, sizeof part)) > 0;) {
      printed_.append(part, static_cast<size_t>(got));
      if (sent || printed_.find(text) == std::string::npos) continue;
      ::kill(to_all_its_processes ? -child : child, signal);
      sent = true;
    }
    ::close(ends[0]);
    EXPECT_TRUE(sent) << printed_;
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return status;
  }

  /// A run in progress, as `watch` sees it.
  fs::path live_folder(const std::string& title) const {
    fs::create_directories(folder_ / "live");
    nlohmann::json live = {{"format", "isochron live 1"},
                           {"title", title},
                           {"process", ::getpid()},
                           {"finished", false},
                           {"stop_reason", ""},
                           {"epoch", 1},
                           {"epochs", 2},
                           {"step", 3},
                           {"steps_per_epoch", 4},
                           {"total_steps", 3},
                           {"recorded_steps", 3},
                           {"seconds", 0.5},
                           {"results", {{"loss", 0.5}}},
                           {"p50_ns", 1000},
                           {"p99_ns", 2000},
                           {"data_wait_share", 0.1},
                           {"rss_bytes", 1000},
                           {"rss_first_bytes", 900},
                           {"spikes", 0},
                           {"medians_ns", {1000, 1001}},
                           {"alarm", title}};
    std::ofstream(folder_ / "live" / "live.json") << live.dump();
    return folder_ / "live";
  }

  TempFolder folder_;
  std::string printed_;
};

std::string table_of(int rows) {
  std::string table = "step,step_ms\n";
  for (int i = 0; i < rows; ++i) table += fmt::format("{},{}\n", i, 5 + i % 2);
  return table;
}

TEST_F(Process, AnalyzeReadsAPipeFromFrontToBack) {
  const std::string file = write("table.csv", table_of(30000)).string();
  const std::string found = "30000 iterations, median 5.";
  EXPECT_THAT(shell("cat " + file + " | CMD analyze - --column step_ms"), Ends(0, found));
  EXPECT_THAT(shell("CMD analyze - --column step_ms < " + file), Ends(0, "standard input: " + found));
  EXPECT_THAT(shell("cat " + file + " | CMD analyze /dev/stdin --column step_ms"), Ends(0, found));
  EXPECT_THAT(shell("gzip -c " + file + " | CMD analyze - --column step_ms"), Ends(0, found));
  EXPECT_THAT(shell("mkfifo " + path("pipe") + "; cat " + file + " > " + path("pipe") + " & CMD analyze " +
                    path("pipe") + " --column step_ms"),
              Ends(0, found));
  EXPECT_THAT(shell("(printf step,ste; cat /dev/null; printf 'p_ms\\n'; tail -n +2 " + file +
                    ") | CMD analyze - --column step_ms"),
              Ends(0, found))
      << "the first line in pieces";
  EXPECT_THAT(
      shell("sed 's/.*,/took /; s/$/ ms/' " + file + " | CMD analyze - --pattern 'took ([0-9]+) (ms)'"),
      Ends(0, found));
  EXPECT_THAT(shell(": | CMD analyze -"), Ends(3, "[standard input] has no rows of data"));
}

TEST_F(Process, PatternsTakeLinearTimeAndMemory) {
  const std::string line = write("line.log", std::string(200'000, 'a') + "\n").string();
  const std::string limits = std::string(kSanitizer ? "" : "ulimit -v 2000000; ") +
                             "ulimit -t 20; CMD analyze " + line + " --pattern ";
  EXPECT_THAT(shell(limits + "'((a*)*)*b([0-9])'"), Ends(3, "matches none of 1 line"));
  EXPECT_THAT(shell(limits + "'(a|aa)+(a|aa)+(a|aa)+$b'"), Ends(3, "matches none of 1 line"));
  EXPECT_THAT(shell(limits + "'((((x{1,1000}){1,1000}){1,1000}){1,1000})'"),
              Ends(2, "not a valid regular expression"));
  EXPECT_THAT(shell(limits + "'(a)\\1'"), Ends(2, "not a valid regular expression")) << "back references";
  const Outcome large = shell(limits + "\"$(printf '%0100000d' 0 | tr 0 '(')\"");
  EXPECT_THAT(large, Ends(2, "not a valid regular expression"));
  EXPECT_LT(large.text.size(), 1000u) << "what is quoted of it is short";
}

TEST_F(Process, NoMessageQuotesAllOfItsInput) {
  const std::string wide = "\"$(printf '%0100000d' 0)\"";
  std::string columns = "a";
  for (int i = 0; i < 20000; ++i) columns += ",column" + std::to_string(i);
  const std::string table = write("wide.csv", columns + "\n1\n").string();
  for (const std::string& line : {"CMD analyze " + table, "CMD analyze " + table + " --column b",
                                  "CMD analyze " + table + " --column " + wide, "CMD fly" + wide,
                                  "CMD train " + wide, "CMD bench --seconds " + wide}) {
    const Outcome outcome = shell(line);
    EXPECT_GT(outcome.status, 1) << line.substr(0, 60);
    EXPECT_LT(outcome.text.size(), 5000u) << line.substr(0, 60);
  }
}

TEST_F(Process, NothingThatATerminalActsOnIsPrinted) {
  const std::string evil =
      "\x1b[2J\x1b]0;owned\x07\r\x9b"
      "31m\x7f\b";
  const std::string header = write("header.csv", evil + ",b\n1,2\n").string();
  EXPECT_THAT(run_isochron("analyze " + header),
              AllOf(Ends(2, "\\x1b[2J"), testing::Field(&Outcome::text, IsHarmless())));
  const std::string log = write("times.log", "took " + evil + "ms\n").string();
  EXPECT_THAT(run_isochron("analyze " + log + " --pattern 'took (\\C*)ms'").text, IsHarmless());
  const fs::path named = write("name" + evil + ".csv", "step_ms\n1\n");
  const Outcome good = run_isochron("analyze '" + named.string() + "'");
  EXPECT_THAT(good.text, AllOf(IsHarmless(), HasSubstr("name\\x1b[2J")));
  EXPECT_THAT(run_isochron("analyze '" + named.string() + "none'").text,
              AllOf(IsHarmless(), HasSubstr("\\x1b[2J")));
  EXPECT_THAT(run_isochron("train '" + evil + "'").text, AllOf(IsHarmless(), HasSubstr("\\x1b[2J")));
  EXPECT_THAT(run_isochron("'" + evil + "'").text, IsHarmless());

  const std::string title = "run\x1b[2J\nforged: line\r";
  const Outcome watched = run_isochron("watch --once " + live_folder(title).string());
  EXPECT_THAT(watched, Ends(0, "run\\x1b[2J\\nforged: line\\x0d  process"));
  EXPECT_THAT(watched.text, AllOf(IsHarmless(), HasSubstr("ALARM  run"), Not(HasSubstr("\nforged"))));
  ASSERT_EQ(run_isochron("train regress --epochs 1 --steps 9 --out " + path("ran")).status, 0);
  nlohmann::json record = read_json(folder_ / "ran" / "run.json");
  record["title"] = title;
  record["settings"] = {{title, title}};
  for (nlohmann::json& part : record["parts"]) {
    if (part.contains("run")) part["run"]["name"] = title;
  }
  const std::string run = write("run.json", record.dump()).string();
  const Outcome reported = run_isochron("report " + run);
  EXPECT_THAT(reported, Ends(0, "run\\x1b[2J\\nforged: line\\x0d"));
  EXPECT_THAT(reported.text, AllOf(IsHarmless(), Not(HasSubstr("\nforged"))));
  const std::string buffers = write("buffers.csv", "id,lower,upper,size\n" + evil + ",0,2,64\n").string();
  EXPECT_THAT(run_isochron("plan " + buffers).text, IsHarmless());
}

TEST_F(Process, ReportTellsThatALaterRunDidNotEnd) {
  ASSERT_EQ(run_isochron("train regress --epochs 1 --steps 9 --out " + path("ran")).status, 0);
  EXPECT_THAT(run_isochron("report " + path("ran")).text, Not(HasSubstr("is newer")));
  const fs::path live = folder_ / "ran" / "live.json";  // as a run that was killed leaves it
  fs::last_write_time(live, fs::last_write_time(folder_ / "ran" / "run.json") + std::chrono::seconds(1));
  EXPECT_THAT(run_isochron("report " + path("ran")),
              Ends(0, "note: live.json is newer than run.json: a later run in this folder is still running"));
}

TEST_F(Process, WatchSaysOfAFarProcessThatItIsUnknown) {
  const fs::path live = live_folder("far") / "live.json";
  nlohmann::json far = read_json(live);
  far["process"] = int64_t{1} << 30;  // no process has this id
  far["rss_bytes"] = far["rss_first_bytes"] = -1;
  const auto watched = [&](const char* key, const nlohmann::json& value) {
    nlohmann::json changed = far;
    if (key != nullptr) changed[key] = value;
    std::ofstream(live) << changed.dump();
    return run_isochron("watch --once " + live.parent_path().string());
  };
  const std::string ended = "the run's process ended";
  EXPECT_THAT(watched(nullptr, {}), Ends(0, ended)) << "an older file";
  EXPECT_THAT(watched("process_space", process_space()), Ends(0, ended));
  far["host"] = "node7";
  const Outcome outcome = watched("process_space", "another/4026531836");
  EXPECT_THAT(outcome, Ends(0, "the run is on node7, or in another container"));
  EXPECT_THAT(outcome.text,
              AllOf(HasSubstr("live.json is"), HasSubstr("memory unknown"), Not(HasSubstr(ended))));
}

TEST_F(Process, ReportLeavesOutFoldersThatCannotBeRead) {
  const std::string runs = path("runs");
  ASSERT_EQ(run_isochron("train regress --epochs 1 --steps 9 --out " + runs + "/a").status, 0);
  fs::create_symlink("loop", folder_ / "runs" / "loop");
  const Outcome outcome = run_isochron("report " + runs);
  EXPECT_THAT(outcome.text, HasSubstr("note: left out, because it can't be read: " + runs + "/loop"));
  EXPECT_THAT(outcome, Ends(2, "has no run.json; runs are in 1 folder of it"));
}

TEST_F(Process, WatchShowsNoMoreOfAFileThanFitsAScreen) {
  const fs::path live = live_folder(std::string(5000, 'x')) / "live.json";
  nlohmann::json many = read_json(live);
  for (int i = 0; i < 1000; ++i) many["results"][fmt::format("{:03}{}", i, std::string(100, 'y'))] = i;
  std::ofstream(live) << many.dump();
  const Outcome outcome = run_isochron("watch --once " + live.parent_path().string());
  EXPECT_THAT(outcome, Ends(0, "063yyyy"));
  EXPECT_THAT(outcome.text, Not(HasSubstr("064yyyy")));
  EXPECT_LT(outcome.text.size(), 6000u);
}

TEST_F(Process, EverythingIsPrintedWhereItIsEscaped) {
  for (const char* folder :
       {"apps", "core", "data", "graph", "memory", "nn", "observe", "ops", "optim", "train"}) {
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(ISOCHRON_SOURCE_DIR) / folder)) {
      if (entry.path().extension() != ".cc") continue;
      std::ifstream file(entry.path());
      const std::string text(std::istreambuf_iterator<char>(file), {});
      for (const char* stream : {"std::cout", "std::cerr", "std::clog"})
        EXPECT_EQ(text.find(stream), std::string::npos)
            << entry.path() << " prints past core/process/standard_streams.h";
    }
  }
}

TEST_F(Process, ASignalEndsItInGoodOrderOutsideOfTheFitLoop) {
  const std::string live = live_folder("run").string();
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    const int status = status_after({"watch", live}, "epoch 1 of 2", signal);
    ASSERT_TRUE(WIFEXITED(status)) << signal;
    EXPECT_EQ(WEXITSTATUS(status), 128 + signal);
    EXPECT_THAT(printed_, HasSubstr("isochron: ended by SIG"));
  }
  EXPECT_THAT(shell("trap '' HUP; CMD watch " + live + " & p=$!; kill -HUP $p; kill -TERM $p; wait $p"),
              testing::Field(&Outcome::status, 143))
      << "below nohup a hangup is none";
}

TEST_F(Process, WatchingAFolderThatIsRemovedEnds) {
  const std::string folder = path("removed"), shown = path("shown");
  EXPECT_THAT(
      shell("mkdir " + folder + "; CMD watch --interval 0.01 " + folder + " > " + shown +
            " & p=$!; until grep -qs waiting " + shown + "; do :; done; rmdir " + folder + "; wait $p"),
      Ends(3, "the folder was removed before a run wrote into it"));
}

TEST_F(Process, AnInterruptedPipeIsJudgedByWhatWasRead) {
  const Outcome outcome = shell(
      "{ for i in $(seq 20); do echo \"step $i: 12.$((i % 7)) ms\"; done; printf 'step 21: 9 ms'; sleep 4; } "
      "| "
      "{ exec 3<&0; CMD analyze --json " +
      path("j") + " <&3 & p=$!; sleep 2; kill -INT $p; wait $p; echo status $?; }");
  EXPECT_THAT(outcome.text,
              AllOf(HasSubstr("20 values"), HasSubstr("SIGINT ended the reading"), HasSubstr("status 0")));
  EXPECT_EQ(read_json(folder_ / "j")["iterations"], 20) << "without the line that was cut";
}

TEST_F(Process, AHangupSavesAsSigtermDoes) {
  const int status = status_after({"train", "regress", "--epochs", "100000", "--checkpoint", path("saved")},
                                  "Epoch 1,", SIGHUP);
  ASSERT_TRUE(WIFEXITED(status)) << printed_;
  EXPECT_EQ(WEXITSTATUS(status), 129);
  EXPECT_THAT(printed_, HasSubstr("interrupted by SIGHUP; the run so far is saved in"));
  const std::vector<std::string> names = names_below(folder_ / "saved");
  EXPECT_TRUE(std::ranges::any_of(names, [](const std::string& name) { return name.starts_with("cp-"); }));
  EXPECT_FALSE(std::ranges::any_of(names, [](const std::string& name) { return name.starts_with("."); }));
}

TEST_F(Process, AnInterruptedRunWritesItsReport) {
  for (const auto& [twin, to_all] :
       {std::pair{"--no-beside-twin", false}, {"--beside-twin", false}, {"--beside-twin", true}}) {
    const std::string out = path(fmt::format("out{}{}", twin, to_all));
    const int status = status_after({"train", "regress", "--epochs", "100000", twin, "--out", out},
                                    "Epoch 1,", SIGINT, to_all);
    ASSERT_TRUE(WIFEXITED(status)) << printed_;
    EXPECT_EQ(WEXITSTATUS(status), 130);
    EXPECT_THAT(printed_, HasSubstr("interrupted by SIGINT; no weights were saved; a run with --checkpoint"));
    EXPECT_GE(read_json(fs::path(out) / "train.json")["epochs"].size(), 1u);
    EXPECT_THAT(run_isochron("report " + out), Ends(0, "interrupted"));
  }
}

TEST_F(Process, LeavesNoTemporaryFolderBehindAPipeThatCloses) {
  fs::create_directories(folder_ / "tmp");
  const std::string there = "export TMPDIR=" + path("tmp") + "; cd " + folder_.path().string() + "; ";
  EXPECT_THAT(shell(there + "(CMD train regress --epochs 100000; echo \"status $?\" >&2) | head -1").text,
              HasSubstr("status 141"));
  shell(there + "CMD compare every-epoch --iterations 1 | head -1");
  EXPECT_THAT(names_below(folder_ / "tmp"), testing::IsEmpty());
}

TEST_F(Process, WithFewDescriptorsNothingIsLeft) {
  if (kSanitizer) GTEST_SKIP() << "descriptors can't be limited here";
  for (int descriptors = 4; descriptors <= 14; ++descriptors) {
    const std::string name = path(fmt::format("c{}", descriptors));
    const Outcome outcome = shell(fmt::format(
        "ulimit -n {}; exec CMD train regress --epochs 1 --steps 2 --checkpoint {}", descriptors, name));
    EXPECT_THAT(outcome.status, testing::AnyOf(0, 3, 4, 127)) << descriptors << "\n" << outcome.text;
    if (!fs::exists(name)) continue;
    for (const std::string& left : names_below(name))
      EXPECT_THAT(left, Not(HasSubstr(".isochron-run"))) << descriptors;
  }
}

TEST_F(Process, BeyondTheLimitOfAFilesSizeNothingIsHalfWritten) {
  const Outcome outcome = shell("ulimit -f 8; CMD train digits --epochs 1 --steps 2 --checkpoint " +
                                path("c") + " --out " + path("o"));
  EXPECT_THAT(outcome, Ends(3, "File too large"));
  for (const std::string& name : names_below(folder_.path())) EXPECT_THAT(name, Not(HasSubstr(".tmp-")));
  EXPECT_THAT(names_below(folder_ / "c"), testing::IsEmpty());
  for (const std::string name : {"train.json", "run.json", "live.json"}) {
    if (!fs::exists(folder_ / "o" / name)) continue;
    EXPECT_NO_THROW(read_json(folder_ / "o" / name)) << name;
  }
}

TEST_F(Process, AFolderOfResultsHasOneProcess) {
  fs::create_directories(folder_ / "out");
  const FolderLock lock(folder_ / "out");
  const std::string refused = "is in use by another process; wait for its end, or name another folder";
  for (const char* command : {"train regress --epochs 1 --steps 5", "compare growing-graph", "sweep batch"})
    EXPECT_THAT(run_isochron(std::string(command) + " --out " + path("out")), Ends(3, refused));
  EXPECT_TRUE(fs::is_empty(folder_ / "out"));
}

TEST_F(Process, OneFolderMayServeForAll) {
  EXPECT_THAT(
      run_isochron("train regress --epochs 1 --steps 2 --out " + path("o") + " --checkpoint " + path("o")),
      Ends(0, "weights.safetensors"));
  EXPECT_THAT(
      run_isochron("train regress --epochs 1 --steps 2 --out " + path("p") + " --checkpoint " + path("p/.")),
      Ends(0, "weights.safetensors"))
      << "however it is spelled";
}

TEST_F(Process, FilesThatAreNoneAreErrors) {
  ASSERT_EQ(::mkfifo(path("run.json").c_str(), 0600), 0);
  ASSERT_EQ(::mkfifo(path("live.json").c_str(), 0600), 0);
  EXPECT_THAT(run_isochron("report " + folder_.path().string()), Ends(3, "is not a regular file"));
  EXPECT_THAT(run_isochron("report " + path("run.json")), Ends(3, "is a pipe that nobody writes to"));
  EXPECT_THAT(run_isochron("watch " + folder_.path().string()), Ends(3, "is not a regular file"));
  EXPECT_THAT(shell("CMD doctor 2>&1 >/dev/full || exit $?; true"), Ends(3, "No space left on device"));
  const std::string table = write("steps.csv", table_of(100)).string();
  EXPECT_THAT(run_isochron("analyze " + table + " --column step_ms --json /dev/full"),
              Ends(3, "No space left on device"));
}

TEST_F(Process, TextInUtf16IsBadInput) {
  std::string wide;
  for (const char c : table_of(80)) wide += {c, '\0'};
  EXPECT_THAT(
      run_isochron("analyze " + write("marked.csv", "\xff\xfe" + wide).string() + " --column step_ms"),
      Ends(3, "is text in UTF-16"));
  EXPECT_THAT(run_isochron("analyze " + write("plain.csv", wide).string()),
              Ends(3, "looks like text in UTF-16"));
  EXPECT_THAT(run_isochron("analyze " + write("log", "\xff\xfe" + wide).string() + " --pattern '([0-9]+)'"),
              Ends(3, "is text in UTF-16"));
  EXPECT_THAT(run_isochron("analyze " + write("binary", std::string(3000, '\0') + "1\n").string()),
              Ends(3, "is not text"));
  EXPECT_THAT(run_isochron("plan " + (folder_ / "marked.csv").string()), Ends(3, "is text in UTF-16"));
  EXPECT_THAT(run_isochron("train co2 --data " + (folder_ / "plain.csv").string()),
              Ends(3, "looks like text in UTF-16LE"));
}

TEST_F(Process, TimesThatCantBeAreRefused) {
  std::string brief = "time_ns\n", endless = "time_min\n";
  for (int i = 0; i < 100; ++i) {
    brief += "1e-300\n";
    endless += "1e300\n";
  }
  const Outcome outcome = run_isochron("analyze " + write("brief.csv", brief).string());
  EXPECT_THAT(outcome, Ends(2, "is the unit of the times right?"));
  EXPECT_THAT(outcome.text, Not(HasSubstr("-9")));
  EXPECT_THAT(run_isochron("analyze " + write("endless.csv", endless).string()),
              Ends(3, "line 2] expected a time of less than 146 years"));
}

TEST_F(Process, WatchEndsOnTheLastEpochsResults) {
  ASSERT_EQ(
      run_isochron("train digits --epochs 8 --steps 3 --out " + path("o") + " --json " + path("j")).status,
      0);
  const nlohmann::json live = read_json(folder_ / "o" / "live.json"), result = read_json(folder_ / "j");
  EXPECT_EQ(live["epoch"], 8);
  const nlohmann::json last = result["epochs"][7];
  for (const char* name : {"loss", "accuracy", "val_accuracy"})
    EXPECT_EQ(live["results"][name].get<double>(), last[name].get<double>()) << name;
  EXPECT_THAT(run_isochron("watch " + path("o")),
              Ends(0, fmt::format("val_accuracy {:.4g}", last["val_accuracy"].get<double>())));
}

TEST_F(Process, WatchTellsResultsThatAreNotFinite) {
  ASSERT_EQ(run_isochron("train digits --epochs 1 --steps 3 --out " + path("o")).status, 0);
  nlohmann::ordered_json live = nlohmann::ordered_json::parse(std::ifstream(folder_ / "o" / "live.json"));
  live["results"] = {{"loss", "nan"}, {"val_loss", "inf"}, {"accuracy", nullptr}};
  std::ofstream(folder_ / "o" / "live.json") << live;
  EXPECT_THAT(run_isochron("watch " + path("o")), Ends(0, "accuracy unknown  loss nan  val_loss inf"));
}

TEST_F(Process, WantOfMemoryOrThreadsIsToldAndExitsWithFour) {
  for (const int number : {ENOMEM, EAGAIN})
    EXPECT_TRUE(is_want_of_memory({number, std::system_category()})) << "as a thread that can't be had says";
  EXPECT_FALSE(is_want_of_memory({ENOSPC, std::system_category()}));
  if (kSanitizer) GTEST_SKIP() << "address space can't be limited here";
  // From the limit at which the command barely loads to one that is large enough, in small steps around what
  // the libraries need.
  const auto limited = [](int megabytes, const std::string& what) {
    return shell(fmt::format("ulimit -v {}; CMD {}", megabytes * 1024, what));
  };
  int enough = 0, wanting = 0;
  for (int megabytes = 100; megabytes <= 400; megabytes += megabytes < 200 ? 8 : 50) {
    const Outcome outcome = limited(megabytes, "bench --case cnn --steps 1 --threads 2");
    if (outcome.status == 127) continue;  // its libraries couldn't be loaded
    EXPECT_THAT(outcome.status, testing::AnyOf(0, 4)) << megabytes << " MB\n" << outcome.text;
    (outcome.status == 0 ? enough : wanting) += 1;
    if (outcome.status == 0) continue;
    EXPECT_THAT(outcome.text, HasSubstr("isochron: ")) << megabytes;
  }
  EXPECT_GT(enough, 0);
  EXPECT_GT(wanting, 0);
}

}  // namespace
}  // namespace isochron::apps
