/* Clocks that jump, for one process: LD_PRELOAD of what this makes.
 *
 * The file that JUMPS names holds two numbers (double): by how many seconds the clock of the day is ahead, and by how many that
 * of the time since the start of the machine, which goes on while that sleeps. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static const volatile double *ahead;
static int (*real)(clockid_t, struct timespec *);

static void begin(void) {
    real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    const char *name = getenv("JUMPS");
    int file = name ? open(name, O_RDONLY) : -1;
    if (file < 0) return;
    void *found = mmap(NULL, 2 * sizeof *ahead, PROT_READ, MAP_SHARED, file, 0);
    if (found != MAP_FAILED) ahead = found;
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    if (!real) begin();
    int result = real(clock, time);
    double by = !ahead ? 0 : clock == CLOCK_REALTIME ? ahead[0] : clock == CLOCK_BOOTTIME ? ahead[1] : 0;
    if (!result) time->tv_sec += (time_t)by;
    return result;
}
