"""Faults in how modules name their members, in what is moved, in input that isn't what it seems, in handles within a trace
and in what ranks compare: a part of mutants_list.py."""

MODULE = "nn/module/module.cc"
# Each row: a name, the file, the text, what takes its place, the program, the tests that find it.
ROWS = [
    ("names-that-end-with-a-slash", MODULE, " && name.back() != '/'", "", "nn", "ModuleNames.ArePartsOfPaths"),
    ("names-like-paths-of-a-child", MODULE, "!other->starts_with(below)", "true", "nn", "ModuleNames.ArePartsOfPaths"),
    ("modules-moved-from-compute", MODULE, "  left_ = std::exchange(other.left_, true);\n", "", "nn", "ModuleMoves.*"),
    ("modules-moved-to-are-left", MODULE, "left_ = std::exchange(other.left_, true);", "other.left_ = true;", "nn", "ModuleMoves.*"),
    ("errors-of-a-replay-without-a-path", "graph/program/program.cc", "instruction.name.substr(0, scope + 1) + error.where()",
     "error.where()", "nn", "Embedding.AnIndexOutOfRange*"),
    ("optimizers-moved-from-update", "optim/optimizer.cc", "  require(step_.defined(), ErrorCode::kInvalidArgument,",
     "  require(true, ErrorCode::kInvalidArgument,", "optim", "Optimizer.SaysThatItWasMovedFrom"),
    ("pipes-without-a-writer-are-empty", "core/files/input_stream.cc", "require(ready != 0,", "require(ready != 0 || true,",
     "core", "InputStreams.AreNotKeptWaiting*"),
    ("pipes-between-programs-are-hurried", "core/files/input_stream.cc", "system.f_type != PIPEFS_MAGIC", "true", "core",
     "InputStreams.WaitForAPipe*"),
    ("wider-texts-are-of-two-bytes", "core/text/encoding.cc",
     '  if (starts({0xff, 0xfe, 0, 0}) || starts({0, 0, 0xfe, 0xff})) return "UTF-32";\n', "", "core", "Encoding.*"),
    ("places-of-zeroes-not-told-apart", "core/text/encoding.cc", "zeroes[i % 4] +=", "zeroes[i % 2] +=", "core", "Encoding.*"),
    ("modules-lie-in-each-other-for-ever", MODULE, "require(t_nested_lists < kDeepest,", "require(true,", "nn", "Module.IsNoMember*"),
    ("handles-between-two-updates-stay-fresh", "graph/capture/capture.cc", "  storage.next_generation();\n", "", "graph",
     "Capture.HandlesFrom*"),
    ("handles-stay-stale-after-a-trace", "graph/capture/capture.cc", "  restore_generations();\n  t_current", "  t_current", "graph",
     "Capture.HandlesFrom*"),
    ("copies-in-a-capture", "graph/capture/apply.cc", "require(Capture::current() == nullptr, ErrorCode::kCaptureViolation, \"copy\",",
     "require(true, ErrorCode::kCaptureViolation, \"copy\",", "graph", "Capture.CopiesAreRefused"),
    ("losses-of-many-numbers-are-summed", "optim/optimizer.cc", "require(loss.defined() && loss.elems() == 1,",
     "require(loss.defined(),", "optim", "Optimizer.RejectsWrongCalls"),
    ("sizes-that-no-compression-reaches", "data/formats/npz.cc", "<= entry.comp_size,", "<= entry.size,", "data", "Npz.SizesThat*"),
    ("calls-of-ranks-arent-compared", "comm/group/group.cc",
     "      if (next < kComparedCalls || std::has_single_bit(next + 1)) compare_ranks(collective, next + 1);\n", "", "comm",
     "Group.RanksThatMake*"),
    ("dtypes-of-ranks-arent-compared", "comm/group/group.cc", "own = {.content = collective.content_, .bytes", "own = {.bytes", "ops",
     "Collectives.OtherShapes*"),
    ("weights-of-ranks-arent-compared", "train/loop/data_parallel.cc",
     "if (different == told_.end()) return;", "if (different == told_.end() || true) return;", "train", "Mpi/RanksFit.WeightsThat*"),
    ("later-rates-arent-compared", "optim/optimizer.cc", "steps <= kLaterRates;", "steps <= kLaterRates % 2;", "train",
     "Mpi/RanksFit.WhatMust*"),
    ("one-rank-ends-alone", "train/loop/fit.cc", "parallel_->first_that(!run_.stop_reason.empty())", "parallel_->first_that(false)",
     "train", "Mpi/RanksFit.WhatACallback*"),
    ("a-broadcasts-second-gradient-on-one-rank", "ops/collective/collectives.cc",
     "return {where(scalar(0, DType::kBool), sum, scalar(0, sum.dtype()))};",
     "return {broadcast_to(scalar(0, sum.dtype()), sum.shape())};", "ops", "Collectives.ASecondGradient*"),
]


def faults(mutant):
    return [mutant(*row) for row in ROWS]
