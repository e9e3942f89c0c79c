// Measurements that print `NAME NANOSECONDS`, the least time of several rounds.
#include <stdio.h>
#include <time.h>

#define ROUNDS 15

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1e9 + time.tv_nsec;
}

struct Measure {
  const char *name;
  int runs, rounds;
  double begin, best;
};

// Ends a round, and begins the next one. Prints the least time after the last round.
static int next_round(struct Measure *measure) {
  if (measure->rounds++ > 0) {
    double each = (now() - measure->begin) / measure->runs;
    measure->best = each < measure->best ? each : measure->best;
  }
  if (measure->rounds > ROUNDS) {
    printf("%s %.1f\n", measure->name, measure->best);
    return 0;
  }
  measure->begin = now();
  return 1;
}

// Runs the statement RUNS times in each round, and prints the least time of one run.
#define MEASURE(NAME, RUNS)                                                                        \
  for (struct Measure measure = {NAME, RUNS, 0, 0, 1e30}; next_round(&measure);)                   \
    for (int run = 0; run < measure.runs; run++)
