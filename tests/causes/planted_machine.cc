#include <immintrin.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "causes/models.h"
#include "causes/planted.h"
#include "causes/played_machine.h"
#include "isochron/graph/step/captured.h"

namespace isochron::causes {
namespace {

using observe::Phase;
using observe::PhaseScope;
using observe::Recorder;
using observe::RunReport;
using observe::SensorReading;

constexpr std::string_view kQueue = "an asynchronous queue that fills";
constexpr std::string_view kClocks = "clocks or throttling";
constexpr std::string_view kStolen = "stolen CPU time";
constexpr std::string_view kMachine = "the machine slowed, not the program";
constexpr std::string_view kProfiler = "the profiler itself";

int64_t g_played_ns = 0;

/// Another thread does the work in order; at most `capacity` pieces are queued, as in a device's stream.
class Stream {
 public:
  Stream(size_t capacity, std::function<void()> work)
      : capacity_(capacity), work_(std::move(work)), thread_([this] { run(); }) {}
  ~Stream() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  void launch() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return waiting_ < capacity_; });
    ++waiting_;
    changed_.notify_all();
  }
  /// Spins instead of sleeping until there is room, like some drivers.
  void launch_spinning() {
    while (waiting_ >= capacity_) _mm_pause();
    launch();
  }
  int64_t depth() const { return static_cast<int64_t>(waiting_); }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return stop_ || waiting_ > 0; });
      if (stop_) return;
      lock.unlock();
      work_();
      lock.lock();
      --waiting_;
      changed_.notify_all();
    }
  }

  const size_t capacity_;
  const std::function<void()> work_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<size_t> waiting_ = 0;
  bool stop_ = false;
  std::thread thread_;
};

constexpr Extent kFillsInTheRun{.warmup = 0, .least = 8000, .seconds = 0, .most = 8000};

/// Steps are only launched; the queue holds a quarter of the run.
RunReport launched_ahead() {
  Stream stream(2000, [] { compute_for(50'000); });
  return run_loop(
      [&](Recorder& recorder, int64_t) {
        const PhaseScope compute(recorder, Phase::kCompute);
        stream.launch();
      },
      kFillsInTheRun);
}

/// The same with a captured step, a driver that spins, and a gauge of the queue.
RunReport launched_by_spinning() {
  Regression problem(16, 8, 8);
  const Tensor x = problem.x, y = problem.y;
  auto step = capture([&](const Tensor& a, const Tensor& b) { return problem.train(a, b); });
  step(x, y);
  Stream stream(2500, [&] {
    step(x, y);
    compute_for(60'000);
  });
  observe::RecorderOptions options = recorder_options();
  options.timing_share = 0.02;  // so that enough launches, a us each, are timed
  options.gauges = {{"queue_depth", [](void* at) { return static_cast<Stream*>(at)->depth(); }, &stream}};
  return run_loop([&](Recorder&, int64_t) { stream.launch_spinning(); }, kFillsInTheRun, options);
}

void nothing(SensorReading&, double) {}

RunReport clock_falls() {
  return PlayedMachine([](SensorReading& reading, double part) {
           reading.clock_khz = static_cast<int64_t>(3'600'000 / (1 + 0.6 * part));
         })
      .run(1.6);
}
RunReport too_hot() {
  return PlayedMachine([](SensorReading& reading, double part) {
           reading.thermal_throttles = static_cast<int64_t>(40 * part);
         })
      .run(1.4);
}
RunReport device_too_hot() {
  return PlayedMachine([](SensorReading& reading, double part) {
           reading.device_throttled_ns = static_cast<int64_t>(part * part * 2e9);
         })
      .run(1.4, true);
}
RunReport clock_of_device_falls() {
  return PlayedMachine([](SensorReading& reading, double part) {
           reading.device_clock_khz = static_cast<int64_t>(1'980'000 / (1 + 0.6 * part));
         })
      .run(1.6, true);
}
RunReport quota_used_up() {
  return PlayedMachine([](SensorReading& reading, double part) {
           reading.throttled_ns = static_cast<int64_t>(part * 0.3 * 4e9);
         })
      .run();
}
RunReport stolen_more_and_more() {
  return PlayedMachine([](SensorReading& reading, double part) {
           reading.stolen_ns = static_cast<int64_t>(part * part * 2e9) * observe::describe_machine().cores;
         })
      .run(1.5);
}
RunReport stolen_all_along() {
  return PlayedMachine([](SensorReading& reading, double part) {
           reading.stolen_ns = static_cast<int64_t>(part * 1.5e9) * observe::describe_machine().cores;
         })
      .run();
}
RunReport slows() { return PlayedMachine(nothing).run(1.5); }
RunReport slows_a_little() { return PlayedMachine(nothing).run(1.2); }

/// Steps with almost no work, in scopes.
RunReport scopes_around_nothing() {
  std::vector<float> values(64, 1.0F);
  observe::RecorderOptions options = recorder_options();
  options.timing_share = 0;  // every iteration is timed, whatever it costs
  return run_loop(
      [&](Recorder& recorder, int64_t) {
        for (float& value : values) {
          const PhaseScope compute(recorder, Phase::kCompute);
          value = value * 0.5F + 1.0F;
        }
      },
      {}, options);
}

/// Steps shorter than reading the clock takes.
RunReport steps_of_nothing() {
  std::vector<float> values(16, 1.0F);
  observe::RecorderOptions options = recorder_options();
  options.timing_share = 0;
  return run_loop(
      [&](Recorder&, int64_t) {
        for (float& value : values) value = value * 0.5F + 1.0F;
        asm volatile("" : : "r"(values.data()) : "memory");
      },
      {}, options);
}

}  // namespace

int64_t PlayedMachine::now() { return g_played_ns; }

RunReport PlayedMachine::run(double slowdown, bool on_device) {
  on_device_ = on_device;
  constexpr int64_t kIterations = 4000;
  constexpr double kStepNs = 1e6;
  g_played_ns = 1'000'000'000;
  observe::RecorderOptions options = recorder_options();
  options.clock = now;
  options.sensors = this;
  Recorder recorder(std::move(options));
  Rng rng(1);
  double level = 0;  // of the slowdown
  for (int64_t i = 0; i < kIterations; ++i) {
    part_ = static_cast<double>(i + 1) / kIterations;
    // Full speed at first; then the level changes at random every 100 iterations.
    if (part_ > 0.4 && i % 100 == 0) level = 0.6 + 0.4 * rng.uniform();
    speed_ = 1 + (slowdown - 1) * level;
    const observe::IterationScope iteration(recorder);
    const PhaseScope compute(recorder, Phase::kCompute);
    g_played_ns += static_cast<int64_t>(kStepNs * speed_ * (1 + 0.02 * rng.normal()));
  }
  recorder.sample();
  return make_report(recorder, "played", report_options());
}

std::vector<Planted> planted_machine() {
  return {{kQueue, "steps launched ahead of a thread that does them", launched_ahead},
          {kQueue, "the same where the launcher spins, with a gauge", launched_by_spinning},
          {kClocks, "the clock falls", clock_falls, true},
          {kClocks, "the processor throttles itself", too_hot, true},
          {kClocks, "the device throttles itself", device_too_hot, true},
          {kClocks, "its clock falls", clock_of_device_falls, true},
          {kClocks, "the control group's quota is used up", quota_used_up, true},
          {kStolen, "the hypervisor takes more and more", stolen_more_and_more, true},
          {kStolen, "the hypervisor takes a share all along", stolen_all_along, true},
          {kMachine, "the reference kernel slows by half", slows, true},
          {kMachine, "and by a fifth", slows_a_little, true},
          {kProfiler, "scopes around nothing much", scopes_around_nothing},
          {kProfiler, "steps shorter than the reading of a clock", steps_of_nothing}};
}

}  // namespace isochron::causes
