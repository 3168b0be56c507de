/* A fake libnvidia-ml for machines without a driver.
 *
 * Faults: STAND_IN_FAILS names one for the life of the process; the first byte of the file that
 * STAND_IN_MOOD names can be changed while it runs: h hang, e errors, f flood, l GPU 1 lost.
 * STAND_IN_GPUS is the number of GPUs (default 2).
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

typedef struct { char legacy[16]; unsigned domain, bus, device, id, sub; char bus_id[32]; } Pci;
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned gpu, memory; } Load;
typedef struct { void *device; unsigned long long type, data; unsigned gi, ci; } Event;
typedef struct {
  unsigned field, scope; long long at, latency; unsigned type, status; unsigned long long value;
} Field;
typedef struct { unsigned version; unsigned long long counts[11]; unsigned exceeded; } Sram;
typedef struct {
  unsigned version; unsigned char cluster[16]; unsigned status, clique; unsigned char state;
  unsigned mask;
} Fabric;
typedef struct { unsigned version; int degrees; } Margin;
typedef struct { unsigned pid; unsigned long long memory; unsigned gi, ci; } Process;

#define BASE 0x7f0000000000UL
#define SET ((void *)0x7e0000000000UL)

static int fails(const char *what) {
  const char *wanted = getenv("STAND_IN_FAILS");
  return wanted && !strcmp(wanted, what);
}

static const volatile char *mood_byte = 0;
static char mood(void) {
  static const char none = 0;
  if (!mood_byte) {
    const char *path = getenv("STAND_IN_MOOD");
    int fd = path ? open(path, O_RDONLY) : -1;
    void *page = fd < 0 ? MAP_FAILED : mmap(0, 1, PROT_READ, MAP_SHARED, fd, 0);
    mood_byte = page == MAP_FAILED ? &none : page;
  }
  return *mood_byte;
}

static int events = 0;
static unsigned long index_of(void *h) { return (unsigned long)h - BASE; }

/* Every call about a device goes through here. */
static int answer(void *h) {
  if (mood() == 'h') for (;;) pause();
  if (mood() == 'e') return 999;
  if (mood() == 'l' && index_of(h) == 1) return 15;
  return 0;
}
static int number(void *h, unsigned *to, unsigned value) { *to = value; return answer(h); }

const char *nvmlErrorString(int code) {
  return code == 15 ? "GPU is lost" : code == 18 ? "Driver/library version mismatch" : "Unknown";
}
int nvmlInit_v2(void) { return fails("init") ? 18 : 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *n) {
  const char *count = getenv("STAND_IN_GPUS");
  *n = count ? atoi(count) : 2;
  if (mood() == 'h') for (;;) pause();
  return fails("count") || mood() == 'e' ? 999 : 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **h) {
  if (i == 1 && (fails("lost") || mood() == 'l')) return 15;
  *h = (void *)(BASE + i); return 0;
}
int nvmlDeviceGetUUID(void *h, char *s, unsigned n) {
  snprintf(s, n, "GPU-%lu", index_of(h)); return 0;
}
int nvmlDeviceGetSerial(void *h, char *s, unsigned n) {
  if (fails("serial")) return 3;
  snprintf(s, n, "165%07lu", index_of(h)); return 0;
}
int nvmlDeviceGetName(void *h, char *s, unsigned n) { snprintf(s, n, "NVIDIA H100"); return 0; }
int nvmlDeviceGetPciInfo_v3(void *h, Pci *p) {
  memset(p, 0, sizeof *p);
  snprintf(p->bus_id, 32, "00000000:%02lX:00.0", index_of(h) + 1); return 0;
}
int nvmlDeviceGetMemoryInfo(void *h, Memory *m) {
  m->total = 80ULL << 30; m->used = 3ULL << 30; m->free = 77ULL << 30; return 0;
}
int nvmlDeviceGetUtilizationRates(void *h, Load *l) { l->gpu = 97; l->memory = 3; return 0; }
int nvmlDeviceGetPowerUsage(void *h, unsigned *mw) { *mw = 350500; return fails("power") ? 3 : 0; }
int nvmlDeviceGetEnforcedPowerLimit(void *h, unsigned *mw) { return number(h, mw, 700000); }
int nvmlDeviceGetPowerManagementDefaultLimit(void *h, unsigned *mw) { return number(h, mw, 700000); }
int nvmlDeviceGetTemperature(void *h, int sensor, unsigned *t) {
  *t = 61; return fails("fell_off") ? 15 : answer(h);
}
int nvmlDeviceGetMarginTemperature(void *h, Margin *m) {
  if (m->version != (sizeof *m | 1 << 24)) return 25;
  m->degrees = 29; return 0;
}
int nvmlDeviceGetTemperatureThreshold(void *h, int kind, unsigned *t) {
  *t = kind == 0 ? 95 : kind == 1 ? 90 : 95; return kind <= 2 ? 0 : 3;
}
int nvmlDeviceGetClockInfo(void *h, int kind, unsigned *mhz) { return number(h, mhz, 1980); }
int nvmlDeviceGetCurrentClocksEventReasons(void *h, unsigned long long *r) { *r = 0; return 0; }
int nvmlDeviceGetTotalEccErrors(void *h, int kind, int counter, unsigned long long *n) {
  *n = kind == 1 && counter == 0 ? (fails("clean") || getenv("STAND_IN_MOOD") ? 0 : 2) : 77;
  if (kind == 1 && counter == 1 && getenv("STAND_IN_MOOD")) *n = 0;
  if (kind == 0 && counter == 0 && mood() == 'f') {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    *n = (now.tv_sec * 1000ULL + now.tv_nsec / 1000000) * 20; /* 20,000 a second */
  }
  return fails("ecc") ? 3 : 0;
}
int nvmlDeviceGetEccMode(void *h, unsigned *now, unsigned *next) { *now = *next = 1; return 0; }
int nvmlDeviceGetSramEccErrorStatus(void *h, Sram *s) {
  if (s->version != (sizeof *s | 1 << 24)) return 25;
  s->exceeded = fails("sram"); return 0;
}
int nvmlDeviceGetRemappedRows(void *h, unsigned *c, unsigned *u, unsigned *p, unsigned *f) {
  *c = 1; *u = 2; *p = fails("remap"); *f = 0; return 0;
}
int nvmlDeviceGetRowRemapperHistogram(void *h, unsigned v[5]) {
  v[0] = 3070; v[1] = 2; v[2] = v[3] = v[4] = 0; return 0;
}
int nvmlDeviceGetRetiredPages(void *h, int cause, unsigned *n, unsigned long long *pages) {
  *n = fails("pages") ? 5 : 0; return fails("pages") ? 7 : 3;
}
int nvmlDeviceGetRetiredPagesPendingStatus(void *h, unsigned *p) { return 3; }
int nvmlDeviceGetCurrPcieLinkGeneration(void *h, unsigned *n) { return number(h, n, 5); }
int nvmlDeviceGetMaxPcieLinkGeneration(void *h, unsigned *n) { return number(h, n, 5); }
int nvmlDeviceGetCurrPcieLinkWidth(void *h, unsigned *n) { return number(h, n, fails("width") ? 8 : 16); }
int nvmlDeviceGetMaxPcieLinkWidth(void *h, unsigned *n) { return number(h, n, 16); }
int nvmlDeviceGetPcieReplayCounter(void *h, unsigned *n) { return number(h, n, 4); }
int nvmlDeviceGetPersistenceMode(void *h, unsigned *n) { return number(h, n, 1); }
int nvmlDeviceGetNvLinkState(void *h, unsigned link, unsigned *active) {
  *active = !(link == 3 && fails("link")); return link < 18 ? 0 : 2;
}
int nvmlDeviceGetGpuFabricInfoV(void *h, Fabric *f) {
  if (f->version != (sizeof *f | 2 << 24)) return 25;
  f->state = 3; f->status = 0; f->mask = 0x1aa; return 0;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void *h, unsigned *n, Process *p) {
  p[0].pid = 4242 + index_of(h); *n = fails("idle") ? 0 : 1; return 0;
}
int nvmlDeviceGetFieldValues(void *h, int n, Field *fields) {
  for (int i = 0; i < n; i++) {
    Field *f = fields + i;
    f->status = 0; f->type = 3;
    switch (f->field) {
      case 82: f->type = 1; f->value = 0xabcd000000000000ULL | 58; break;
      case 230: f->type = 1; f->value = fails("recovery") ? 2 : 0; break;
      case 269: case 270: case 271: f->value = 1000000ULL * f->field; break;
      case 161: f->value = 10 + f->scope; break;
      case 162: case 163: f->value = 0; break;
      default: f->status = 3;
    }
  }
  return answer(h);
}
int nvmlSystemGetDriverVersion(char *s, unsigned n) { snprintf(s, n, "580.1"); return 0; }
int nvmlSystemGetCudaDriverVersion_v2(int *v) { *v = 13020; return 0; }
int nvmlEventSetCreate(void **set) { *set = SET; return 0; }
int nvmlEventSetFree(void *set) { return 0; }
int nvmlDeviceRegisterEvents(void *h, unsigned long long types, void *set) {
  events += types == 8 && set == SET && !getenv("STAND_IN_MOOD"); return 0;
}
int nvmlEventSetWait_v2(void *set, Event *e, unsigned ms) {
  if (mood() == 'h') for (;;) pause();
  if (fails("flood") || mood() == 'f') {
    e->device = (void *)BASE; e->type = 8; e->data = 92; return 0;
  }
  if (events == 0) return 10;
  e->device = (void *)(BASE + --events); e->type = 8; e->data = 79; return 0;
}
