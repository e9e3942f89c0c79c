// LLVM's executor, driven like Longshore's. Prints the best time and the median of each operation,
// in nanoseconds.

#include "llvm/ExecutionEngine/Orc/EPCGenericMemoryAccess.h"
#include "llvm/ExecutionEngine/Orc/Shared/OrcRTBridge.h"
#include "llvm/ExecutionEngine/Orc/SimpleRemoteEPC.h"
#include "llvm/ExecutionEngine/Orc/SymbolStringPool.h"
#include "llvm/ExecutionEngine/Orc/TaskDispatch.h"
#include "llvm/Support/Error.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

using namespace llvm;
using namespace llvm::orc;
using Clock = std::chrono::steady_clock;

static ExitOnError check("llvm: ");

struct Executor {
  pid_t process;
  std::unique_ptr<SimpleRemoteEPC> control;
};

static Executor start(const char *path) {
  int to[2], from[2];
  if (pipe(to) || pipe(from))
    std::exit(1);
  pid_t process = fork();
  if (process == 0) {
    close(to[1]);
    close(from[0]);
    std::string descriptors = "filedescs=" + std::to_string(to[0]) + "," + std::to_string(from[1]);
    execl(path, path, descriptors.c_str(), nullptr);
    _exit(1);
  }
  close(to[0]);
  close(from[1]);
  auto control = check(SimpleRemoteEPC::Create<FDSimpleRemoteEPCTransport>(
      std::make_unique<DynamicThreadPoolTaskDispatcher>(std::nullopt), SimpleRemoteEPC::Setup(),
      from[0], to[1]));
  return {process, std::move(control)};
}

// The controller itself creates no memory access.
static EPCGenericMemoryAccess memoryOf(SimpleRemoteEPC &control) {
  EPCGenericMemoryAccess::FuncAddrs functions;
  check(control.getBootstrapSymbols(
      {{functions.WriteUInt8s, rt::MemoryWriteUInt8sWrapperName},
       {functions.WriteUInt16s, rt::MemoryWriteUInt16sWrapperName},
       {functions.WriteUInt32s, rt::MemoryWriteUInt32sWrapperName},
       {functions.WriteUInt64s, rt::MemoryWriteUInt64sWrapperName},
       {functions.WriteBuffers, rt::MemoryWriteBuffersWrapperName}}));
  return EPCGenericMemoryAccess(control, functions);
}

static void stop(Executor executor) {
  check(executor.control->disconnect());
  waitpid(executor.process, nullptr, 0);
}

template <typename Work> static void time(const char *name, unsigned count, Work work) {
  std::vector<double> rounds;
  for (unsigned round = 0; round < 20; ++round) {
    work();
    auto start = Clock::now();
    for (unsigned index = 0; index < count; ++index)
      work();
    std::chrono::duration<double, std::nano> took = Clock::now() - start;
    rounds.push_back(took.count() / count);
  }
  std::sort(rounds.begin(), rounds.end());
  std::printf("%s\t%.0f\t%.0f\n", name, rounds.front(), rounds[rounds.size() / 2]);
}

int main(int count, char **arguments) {
  const char *path = arguments[1];
  time("start", 1, [&] { stop(start(path)); });
  Executor executor = start(path);
  auto &control = *executor.control;
  EPCGenericMemoryAccess memory = memoryOf(control);
  time("call", 300, [&] { check(memory.writeUInt64s({})); });
  auto library = check(control.loadDylib(nullptr));
  const char *names[] = {"malloc", "free", "memcpy", "memset", "strlen",
                         "printf", "exit", "fopen", "qsort", "getenv"};
  // A word of the C library that nothing here uses.
  SymbolLookupSet word;
  word.add(control.getSymbolStringPool()->intern("optarg"));
  auto found = check(control.lookupSymbols({{library, word}}));
  ExecutorAddr optarg = found[0][0].getAddress();
  time("write", 300, [&] { check(memory.writeUInt64s({{optarg, 0}})); });
  SymbolLookupSet symbols;
  auto &pool = *control.getSymbolStringPool();
  for (const char *name : names)
    symbols.add(pool.intern(name));
  time("look-ups", 200, [&] { check(control.lookupSymbols({{library, symbols}})); });
  stop(std::move(executor));
}
