"""Every constant of the flatness verdict (docs/flatness.md), set too low and too high: a part of mutants_list.py.

Each row: the file below observe/statistics/, the text that holds the constant, with | before and after it, the other values, and the
tests that hold it."""

CHANGES = "LevelChange.*"
RECURRING = "LongIterations.*:Season.*"
SERIES = "SeriesVerdict.*"
MACHINE = "EvenSpeed.*:MachineSpeed.*"

CONSTANTS = [
    ("recurring.h", "size_t kStalls = |5|;", ["4", "6"], RECURRING),
    ("recurring.cc", "constexpr double kPart = |1.0 / 3|;", ["0.2", "0.5"], RECURRING),
    ("recurring.cc", "constexpr size_t kReach = |2|;", ["1", "3"], RECURRING),
    ("recurring.cc", "constexpr double kStalled = |1.5|;", ["1.3", "2"], RECURRING),
    ("recurring.cc", "quantile(additions, |0.1|)", ["0.01", "0.5"], RECURRING),
    ("recurring.cc", "constexpr double kFewestPeriods = |4|;", ["3", "8"], RECURRING),
    ("recurring.cc", "constexpr double kFewPeriods = |8|;", ["6", "12"], RECURRING),
    ("recurring.cc", "kMaxBinsOfFew = |8|,", ["4", "16"], RECURRING),
    ("recurring.cc", "kMaxBins = |32|;", ["16", "64"], RECURRING),
    ("recurring.cc", "kMinExplained = |0.6|,", ["0.4", "0.75"], RECURRING),
    ("recurring.cc", "kMinExplainedByFew = |0.8|;", ["0.6", "0.97"], RECURRING),
    ("recurring.cc", "constexpr double kAsGood = |0.02|;", ["0", "0.2"], RECURRING),
    ("recurring.cc", "const double step = 1 / (|4| *", ["0.5"], RECURRING),

    ("level_change.cc", "constexpr size_t kPoints = |64|;", ["32", "128"], CHANGES),
    ("level_change.cc", "    |1e-3|;  // of the largest value", ["1e-4", "1e-2"], CHANGES),
    ("level_change.cc", "constexpr int kFewestDegrees = |3|;", ["1", "6"], CHANGES),
    ("level_change.cc", "trimmed_mean(points, |0.2|)", ["0.0", "0.35"], CHANGES),
    ("level_change.cc", "std::max<size_t>(1, n / |10|)", ["5", "20"], CHANGES),
    ("level_change.cc", "constexpr size_t kParts = |8|;", ["3"], CHANGES),
    ("level_change.cc", "if (n < |4 * kParts|) return {};", ["100"], CHANGES),
    ("level_change.cc", "size_t best = |tenth(n)|;", ["n / 4"], CHANGES),
    ("level_change.cc", "constexpr size_t kFar = |4|;", ["0", "1"], CHANGES),
    ("level_change.cc", "constexpr size_t kParts = |10|;", ["3"], CHANGES),
    ("level_change.cc", "between = std::max<size_t>(1, n / |20|);", ["8"], CHANGES),
    ("level_change.cc", "b + |at_ends| <= n; ++b", ["1"], CHANGES),
    ("level_change.cc", "std::min(|0.97|,", ["0.9", "0.99"], CHANGES),
    ("level_change.cc", "biased + (|2| + 4 * biased)", ["0"], CHANGES),
    ("level_change.cc", "biased + (2 + |4| * biased)", ["0"], CHANGES),
    ("level_change.cc", "constexpr size_t kFewestOfMany = |20|;", ["19", "21"], CHANGES),
    ("level_change.cc", "std::max(\n      2.0, static_cast<double>(n) / |long_run_variance(autoregression(residuals_of(points, closest)))|)",
     ["std::pow(long_run_variance(autoregression(residuals_of(points, closest))), 0)"], CHANGES),
    ("level_change.cc", "constexpr double kMaxBack = |0.01|;", ["0.005", "0.02"], CHANGES),
    ("level_change.cc", "std::max(1.0, result.independent - |one.shape.parameters|)", ["0", "20"], CHANGES),
    ("level_change.cc", "constexpr double kEvident = |6|;", ["2", "20"], CHANGES),
    ("level_change.cc", "static_cast<int>(change.independent) - |2|)", ["0", "8"], CHANGES),
    ("level_change.cc", "student_quantile(|2| * options.confidence", ["1"], CHANGES),
    ("level_change.cc", "const double correction = |left_out_by_blocks(tracks[t].rho, block)|;",
     ["0.6 + 0 * left_out_by_blocks(tracks[t].rho, block)", "2 + 0 * left_out_by_blocks(tracks[t].rho, block)"], CHANGES),

    ("series_verdict.cc", "constexpr size_t kFewest = |4|;", ["3", "5"], SERIES),
    ("series_verdict.h", "constexpr double kMaxLonger = |1e4|;", ["1e3", "1e5"], SERIES),
    ("series_verdict.h", "constexpr double kForMost = |2.3|;", ["1", "4.6"], SERIES),
    ("series_verdict.cc", "constexpr double kAlarmsRarer = |5|;", ["1", "25"], SERIES),
    ("series_verdict.cc", "constexpr double kLookedAt = |0.25|;", ["0.12", "0.9"], SERIES + ":Flatness.*"),
    ("series_verdict.cc", "after > (1 + |0.5| * options.bound)", ["0.2", "5"], SERIES),
    ("series_verdict.cc", "constexpr size_t kStalls = |2|;", ["1", "3"], SERIES),
    ("series_verdict.cc", "std::fabs(second - first) <= |2| *", ["1", "8"], SERIES),
    ("series_verdict.cc", "trimmed_mean(means, |0.25|)", ["0"], SERIES),
    ("series_verdict.cc", "constexpr double kModelError = |0.02|;", ["0", "0.1"], SERIES),
    ("series_verdict.cc", "widest.wander < verdict.bound / |4|)", ["2", "8"], SERIES),
    ("series_verdict.cc", "constexpr double kDependent = |0.5|;", ["0.02", "2"], SERIES),
    ("series_verdict.cc", "none ? |0.5| * bound", ["1"], SERIES),
    ("flatness.h", "double max_warmup = |0.1|;", ["0.05", "0.2"], SERIES),
    ("flatness.h", "int min_windows = |64|;", ["32", "100"], "Flatness.*"),
    ("flatness.h", "double min_seconds = |2|;", ["1", "4"], "Flatness.*"),
    ("flatness.h", "double bound = |0.05|;", ["0.02", "0.1"], SERIES),
    ("flatness.h", "double confidence = |0.95|;", ["0.9", "0.99"], SERIES),
    ("flatness.h", "double kMinorShare = |0.1|;", ["0.03", "0.5"], "Flatness.*"),
    ("flatness.cc", "constexpr double kMaxBound = |5|;", ["2", "20"], "Flatness.*"),

    ("even_speed.cc", "std::max(|0.1| * result[i],", ["0.9"], MACHINE),
    ("even_speed.cc", "constexpr double kEnough = |0.2|;", ["0.02", "0.8"], MACHINE),
    ("even_speed.cc", "if (|3| * kept.size() < n", ["30"], MACHINE),
    ("even_speed.cc", "|4| * in_last < end)", ["400"], MACHINE),
    ("even_speed.cc", "constexpr double kMatters = |0.02|;", ["0.9"], MACHINE),
    ("even_speed.cc", "constexpr double kErrors = |2|;", ["100"], MACHINE),
    ("machine_speed.cc", "kBands{1.05, |1.5|,", ["5.0"], MACHINE),
    ("machine_speed.cc", "constexpr double kLost = |1.15|;", ["3"], MACHINE),
    ("machine_speed.cc", "    |0.15|;  // of the typical time", ["5"], MACHINE),
    ("machine_speed.cc", "constexpr double kMaxExponent = |2|;", ["0.3"], MACHINE),
    ("machine_speed.cc", "quantile(reference, |0.25|)", ["0.9"], MACHINE),
]


# Pauses, classes of steps and short runs: a name, the file, the text, what takes its place, the tests that find it.
RUNS = [
    ("ramps-on-whole-tenths", "observe/statistics/level_change.cc", "for (size_t step = std::max<size_t>(1, n / 20); step > 0;) {",
     "for (size_t step = 0; step > 0;) {", "LevelChange.ShapesAreToldApart"),
    ("rising-steps-by-ranks", "observe/statistics/level_change.cc", "(result.shape == kStep || rises)", "result.shape == kStep", "PausedRuns.GrowthAnd*"),
    ("pauses-change-the-spacing", "observe/statistics/windows.h", "kMaxTimes = 100;", "kMaxTimes = 1e12;", "PausedRuns.AreTimed*"),
    ("windows-of-one-length", "observe/diagnose/report.cc", "                       .starts = columns[i].starts,\n", "", "PausedRuns.*:SeveralClasses.*"),
    ("stalls-grow-in-phases", "observe/diagnose/evidence.cc", "  cut_stalls(means);\n", "",
     "PausedRuns.TheCause*"),
    ("stalls-cost-as-growth", "observe/diagnose/report.cc", "    const std::vector<double> means = level_means(windows);\n    const double usual",
     "    const std::vector<double> means = window_means(windows);\n    const double usual", "PausedRuns.GrowthAnd*"),
    ("shares-of-classes-are-not-looked-at", "observe/diagnose/report.cc", "  doubt_changing_shares(verdict, data);\n",
     "  if (data.classes.empty()) doubt_changing_shares(verdict, data);\n", "SeveralClasses.*"),
    ("steps-needed-without-the-warm-up", "observe/diagnose/report.cc", "counted ? 0 : data.totals.warmup_iterations;", "counted ? 0 : 0;", "ShortRuns.*"),
    ("short-runs-are-corrected", "observe/statistics/flatness.cc", "|| brief || verdict.windows < options.min_windows) return verdict;", "|| (false && brief)) return verdict;",
     "ShortRuns.*"),
    ("twins-in-short-runs", "observe/interleaved/interleaved_runner.cc", "if (!enough(seconds - kOwnSecondsBefore - kOwnSecondsLeft, left)) {",
     "if (!enough(seconds + 1e9, left + 1000)) {", "BesideTwin.LeavesAShort*"),
    ("first-steps-of-no-time-hide-all-others", "observe/statistics/windows.h", "steady_ns_ > 0 && before", "before > 0 && before", "PausedRuns.AFirst*"),
    ("runs-that-end-early-beside-a-twin", "observe/interleaved/interleaved_runner.cc", "if (!enough(static_cast<double>(running_ns() - run_began_ns_) * 1e-9, ran_)) {",
     "if (run_began_ns_ < 0) {", "BesideTwin.LeavesAShort*"),
    ("waiting-explains-no-growth", "observe/statistics/flatness.cc", "if (without.kind != Flatness::kGrowing) return", "if (without.windows < 0) return",
     "EvenSpeed.GrowthThatWaiting*"),
    ("waiting-explains-all-growth", "observe/statistics/flatness.cc", "if (without.kind != Flatness::kGrowing) return", "if (without.windows > 0) return",
     "EvenSpeed.*"),
    ("waits-beyond-the-time", "observe/record/recorder.cc", "std::min(now_ns - waited_ns_, at_ns - waited_at_ns_)", "std::min(now_ns - waited_ns_, at_ns)", "Recorder.WaitsAre*"),
]


def faults(mutant):
    """A Mutant for each other value of each constant; `mutant` makes one of its fields."""
    made = []
    for file, text, others, tests in CONSTANTS:
        before, value, after = text.split("|")
        constant = before.split("\n")[0].strip().removeprefix("constexpr ").rstrip(" =({") or after.split("//")[-1].strip()
        for other in others:
            made.append(mutant(f"verdict/{file}: {constant} {value.split('(')[0]} is {other}", f"observe/statistics/{file}",
                               before + value + after, before + other + after, "observe", tests))
    return made + [mutant(name, file, old, new, "observe", tests) for name, file, old, new, tests in RUNS]
