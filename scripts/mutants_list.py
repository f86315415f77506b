"""The faults that mutants.py plants: small slips of the kind that bugs were, in every folder. The list grows with each
bug that no test found."""

from typing import NamedTuple


class Mutant(NamedTuple):
    name: str
    file: str
    old: str  # occurs once in the file
    new: str
    program: str  # tests/<program>
    filter: str  # of the tests that should find it
    equivalent: str = ""  # why nobody could notice it


MUTANTS = [
    # --- core
    Mutant("file-not-synced", "core/file.cc", 'if (sync && ::fsync(file.get()) != 0) fail_errno(path, "sync");', "",
           "train", "Checkpoint.OneThatIsSavedLastsWhenThePowerFails"),
    Mutant("folder-not-synced-after-rename", "core/file.cc", "  if (sync) sync_folder(folder);\n}", "}",
           "train", "Checkpoint.OneThatIsSavedLastsWhenThePowerFails"),
    Mutant("temporary-file-left-after-failure", "core/file.cc", "    ::unlink(temporary.c_str());\n    throw;", "    throw;",
           "train", "Checkpoint.AnyCallThatFailsLeavesTheOldOneWhole"),
    Mutant("read-past-a-cut-file", "core/file.cc",
           'if (got == 0) {\n      fail(ErrorCode::kIo, path_.string(), "ends at byte',
           'if (got == 0) {\n      return;\n      fail(ErrorCode::kIo, path_.string(), "ends at byte',
           "data", "ReadMemoryTest.AFileCutShortUnderAPrefetchingReaderIsAnError:Tokens.OfAFileThatShrankAreAnError"),
    Mutant("regular-file-not-demanded", "core/file.cc",
           'if (!streams) fail(ErrorCode::kIo, path.string(), "is not a regular file");', "static_cast<void>(streams);",
           "data", "ReadMemoryTest.WhatIsNoRegularFileIsRefusedWhereOneIsNeeded"),
    Mutant("broadcast-of-an-empty-axis", "core/shape.cc", "result[i] = ea == 1 ? eb : ea;", "result[i] = std::max(ea, eb);",
           "core", "*Shape*:*Broadcast*"),
    Mutant("axis-one-too-far", "core/shape.cc", "require(result >= 0 && result < rank,", "require(result >= 0 && result <= rank,",
           "core", "*Shape*:*Ax*"),
    Mutant("record-checksum-ignored", "core/record_file.cc", "require(little_endian(crc) == masked_crc32c(record),",
           "require(little_endian(crc) == masked_crc32c(record) || true,", "core", "Record*"),
    Mutant("gzip-end-not-demanded", "core/input_stream.cc", "const bool whole = !from.member_open && from.read_bytes > 0;",
           "const bool whole = from.read_bytes > 0;", "data", "Csv.GzipTruncatedAnywhereIsAnError"),
    # --- memory
    Mutant("limit-off-by-one", "memory/adaptors.cc", "if (live > limit || bytes > limit - live) return false;",
           "if (live > limit || bytes >= limit - live) return false;", "memory", "Limiting.*"),
    Mutant("limit-not-released", "memory/adaptors.cc", "  upstream_.deallocate(pointer, bytes);\n  release(bytes);",
           "  upstream_.deallocate(pointer, bytes);", "memory", "Limiting.*"),
    Mutant("plan-peak-counts-the-ended", "memory/planner.cc", "if (item.lower > peak || item.upper <= peak) continue;",
           "if (item.lower > peak || item.upper < peak) continue;", "memory", "Planner.*"),
    Mutant("owners-with-the-ended", "memory/planner.cc", "requests[i].lower <= time && time < requests[i].upper)",
           "requests[i].lower <= time && time <= requests[i].upper)", "memory", "Planner.*"),
    Mutant("plan-check-blind-to-the-next", "memory/plan_check.cc", "offset + requests[moment.buffer].size_bytes > next->first)",
           "offset + requests[moment.buffer].size_bytes > next->first + 64)", "memory", "CheckPlan.*"),
    Mutant("arena-reset-with-the-living", "memory/arena.cc", "require(stats_.live_allocations == 0,",
           "require(stats_.live_allocations >= 0,", "memory", "Arena.*"),
    # --- graph
    Mutant("no-wait-for-a-read", "graph/dependencies.cc", "if ((use.writes || before.use.writes) && overlap",
           "if (before.use.writes && overlap", "graph", "Dependencies.*"),
    Mutant("overlap-of-neighbours", "graph/dependencies.cc", "a.space == b.space && a.begin < b.end && b.begin < a.end;",
           "a.space == b.space && a.begin <= b.end && b.begin < a.end;", "graph", "Dependencies.*"),
    Mutant("random-ops-merged", "graph/passes.cc",
           "    if (node->op->random || node->op->side_effect) continue;\n    size_t hash",
           "    if (node->op->side_effect) continue;\n    size_t hash", "graph", "Passes.*:Capture*:Captured*"),
    Mutant("updates-are-dead-code", "graph/passes.cc",
           "  for (const Update& update : graph.updates()) live[update.value] = 1;\n", "", "graph", "Passes.*:Capture*:Captured*"),
    # --- ops
    Mutant("same-padding-before", "ops/window.cc", "      before = total / 2;", "      before = (total + 1) / 2;",
           "ops", "GoldenConvolution*:*Convolution*"),
    Mutant("reach-not-bounded", "ops/window.cc", "require((window - 1) * dilation < kMostReach,",
           "require((window - 1) * dilation < kMostReach || true,", "ops", "HugeNumbers.WindowsThatReachTooFarAreRefused"),
    Mutant("softmax-gradient-unweighted", "ops/softmax.cc", "return {weighted - call.outputs[0] * row_sum(weighted)};",
           "return {weighted - row_sum(weighted)};", "ops", "*OpChecks*:*Gradient*:Softmax*"),
    Mutant("square-gradient-halved", "ops/elementwise.cc", "return one(g(c) * 2.0 * x(c));", "return one(g(c) * x(c));",
           "ops", "*Gradient*"),
    Mutant("generator-stands-still", "ops/random.cc", "    ++next[1];\n", "", "ops", "Random*"),
    # --- autograd
    Mutant("gradients-not-added-up", "autograd/autograd.cc", "return total.defined() ? total + more : more;",
           "return total.defined() && !more.defined() ? total : more;", "autograd", "GradientTape.*:Gradients.*"),
    Mutant("seed-shape-unchecked", "autograd/autograd.cc", "require(seed.spec() == targets[i].spec(),",
           "require(seed.dtype() == targets[i].dtype(),", "autograd", "GradientTape.*:Gradients.*"),
    Mutant("paused-tape-records", "autograd/autograd.cc", "if (!recording || paused) return;", "if (!recording) return;",
           "autograd", "GradientTape.*"),
    # --- optim
    Mutant("warmup-begins-at-zero", "optim/schedules.cc", "(step + 1.0) * (peak / length)", "step * (peak / length)",
           "optim", "Schedule*.*:GoldenSchedule*"),
    Mutant("piecewise-one-step-early", "optim/schedules.cc", "rate = where(step > static_cast<double>(boundaries[i]),",
           "rate = where(step >= static_cast<double>(boundaries[i]),", "optim", "Schedule*.*:GoldenSchedule*"),
    Mutant("clipping-without-a-root", "optim/clipping.cc", "return cast(sqrt(square_sum(defined)), defined[0].dtype());",
           "return cast(square_sum(defined), defined[0].dtype());", "optim", "*Clip*:Optimizer*"),
    Mutant("accumulation-one-more", "optim/optimizer_step.cc",
           "phase >= static_cast<double>(options_.accumulate - 1)", "phase >= static_cast<double>(options_.accumulate)",
           "optim", "Accumulat*"),
    Mutant("loss-scale-never-grows", "optim/optimizer_step.cc", "return {where(finite, grown, fallen),",
           "return {where(finite, slots[0], fallen),", "optim", "*LossScale*"),
    # --- nn
    Mutant("running-mean-by-the-wrong-share", "nn/normalization.cc",
           "stop_gradient(towards) * ((1 - options_.momentum) * factor)", "stop_gradient(towards) * (options_.momentum * factor)",
           "nn", "*Norm*"),
    Mutant("huber-without-its-step", "nn/losses.cc", "size * delta - 0.5 * delta * delta", "size * delta", "nn", "*Loss*:Golden*"),
    Mutant("fans-exchanged", "nn/initializers.cc", "fan == Fan::kIn ? fans.in : fan == Fan::kOut ? fans.out",
           "fan == Fan::kIn ? fans.out : fan == Fan::kOut ? fans.in", "nn", "*Initializ*"),
    Mutant("metric-without-weights", "nn/metrics.cc", "add_to(1, sum(weights) * per_sample);",
           "add_to(1, scalar(static_cast<double>(values.elems()), DType::kF64));", "nn", "*Metric*"),
    # --- data
    Mutant("every-epoch-in-the-same-order", "data/shuffle_keys.cc", "(stage.shuffle.reshuffle ? epoch : 0)", "0 * epoch",
           "data", "Dataset*:Resume*"),
    Mutant("budget-not-given-back", "data/pipeline_memory.cc",
           "ReadMemory::~ReadMemory() {\n  if (bytes_ == 0) return;\n  budget_allocator().release(bytes_);",
           "ReadMemory::~ReadMemory() {\n  if (bytes_ == 0) return;", "data", "ReadMemoryTest.*"),
    Mutant("tables-without-a-budget", "data/csv.cc", "      memory.add(block_rows * row_bytes);\n", "",
           "data", "ReadMemoryTest.CompressedTablesAreBounded"),
    Mutant("arrays-bounded-one-by-one-alone", "data/npz.cc", "    memory.hold(held);\n", "    memory.hold(0);\n",
           "data", "ReadMemoryTest.DeflatedArraysAreBoundedOneByOneAndAllTogether"),
    Mutant("tokens-beyond-the-vocabulary", "data/token_file.cc", "static_cast<int64_t>(token) < vocabulary);",
           "static_cast<int64_t>(token) <= vocabulary);", "data", "Tokens.*"),
    # --- observe
    Mutant("median-of-the-upper-half", "observe/statistics.cc",
           "  return 0.5 * (*middle + *std::max_element(values.begin(), middle));", "  return *middle;",
           "observe", "Statistics.*:MannKendall.*:TheilSen.*"),
    Mutant("ties-without-a-shared-rank", "observe/statistics.cc",
           "0.5 * static_cast<double>(begin + 1 + end)", "static_cast<double>(begin + 1)",
           "observe", "Statistics.*:MannKendall.*"),
    Mutant("window-largest-of-the-newer", "observe/windows.cc", "result.max_ns = std::max(older.max_ns, newer.max_ns);",
           "result.max_ns = newer.max_ns;", "observe", "*Window*"),
    # --- train
    Mutant("named-checkpoint-dropped", "train/checkpoint_writer.cc", "return !waiting_ || waiting_->path == request.path ||",
           "return true || waiting_->path == request.path ||", "train", "CheckpointWriter.*:ModelCheckpoint.*"),
    Mutant("coalesced-save-keeps-the-old", "train/checkpoint_writer.cc",
           "    request.replaced.insert(request.replaced.end(), waiting_->replaced.begin(), waiting_->replaced.end());\n", "",
           "train", "CheckpointWriter.*"),
    Mutant("one-too-many-kept", "train/model_checkpoint.cc",
           "files_.size() > static_cast<size_t>(options_.keep_last)", "files_.size() > static_cast<size_t>(options_.keep_last) + 1",
           "train", "ModelCheckpoint.*"),
    Mutant("patience-one-too-long", "train/callbacks.cc", "  if (waited_ < options_.patience) return;\n  run.stop(best_epoch_",
           "  if (waited_ <= options_.patience) return;\n  run.stop(best_epoch_", "train", "EarlyStopping.*"),
    # --- apps
    Mutant("steps-from-zero", "apps/train/command.cc", "if (range.first < 1 || range.last < range.first)",
           "if (range.first < 0 || range.last < range.first)", "apps", "TrainCommand.*"),
    Mutant("weights-only-with-all-state", "apps/train/saving.cc", ".save_weights_only = options.weights_only,",
           ".save_weights_only = false,", "apps", "TrainCommand.SavesWeightsAloneEverySoManyEpochs"),
    Mutant("interruption-ends-with-zero", "apps/commands.cc", "return 128 + interrupted.signal();", "return 0;",
           "apps", "TrainCommand.AnInterruptedRunIsJudgedToo"),
]
