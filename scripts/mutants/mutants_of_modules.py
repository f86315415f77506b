"""Faults in how modules name their members, in what is moved, and in input that isn't what it seems: a part of
mutants_list.py."""

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
]


def faults(mutant):
    return [mutant(*row) for row in ROWS]
