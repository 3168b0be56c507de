/* Sends heartbeats over loopback: one thread, epoll, HTTP/1.1 or gRPC (unary over cleartext HTTP/2).
 *
 *   heartbeat_load MODE PORT CONNECTIONS WARM_S MEASURE_S RATE FILE PATH TOKEN
 *
 * MODE is http or grpc. RATE 0 keeps one request under way on every connection; any other sends that
 * many a second, each on the connection that has been idle longest. FILE holds requests as (u32
 * little endian length, bytes): whole HTTP requests, or protobuf messages. Connection i of n sends
 * the requests i, i + n, i + 2n, ... over and over. Prints "begin" and "end" around the measured time, then one line of JSON. Latencies
 * count from the moment at which a request was due, so a late start is not forgiven.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { FRAME_DATA = 0, FRAME_HEADERS = 1, FRAME_RESET = 3, FRAME_SETTINGS = 4, FRAME_PING = 6,
       FRAME_GOAWAY = 7, FRAME_WINDOW = 8 };
enum { END_STREAM = 1, ACK = 1, END_HEADERS = 4, FRAME_HEAD = 9 };

struct buffer { uint8_t *bytes; size_t used, sent, room; };

struct connection {
    int fd, busy, dead, settled;
    uint32_t next;               /* the request to send next */
    uint64_t due_ns;
    struct buffer in, out;
    uint32_t stream;             /* the HTTP/2 stream of the request under way */
    int64_t window, stream_window, initial_window;
    int waiting_for_window, got_data;
};

static struct connection *connections;
static int connection_count, is_grpc, poll_fd;
static uint8_t **requests;
static uint32_t *request_sizes, request_count;
static const char *path, *token;
static int *idle, idle_first, idle_count;
static uint64_t sent, acknowledged, failed, measured, measure_from_ns;
static uint32_t *latencies_us;
static const uint64_t LATENCIES_MAX = 4000000;

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000ULL + (uint64_t)t.tv_nsec;
}

static void append(struct buffer *b, const void *bytes, size_t count) {
    if (b->used + count > b->room) {
        b->room = (b->used + count) * 2;
        b->bytes = realloc(b->bytes, b->room);
    }
    memcpy(b->bytes + b->used, bytes, count);
    b->used += count;
}

static void watch(struct connection *c, uint32_t events) {
    struct epoll_event event = {.events = events, .data.ptr = c};
    epoll_ctl(poll_fd, EPOLL_CTL_MOD, c->fd, &event);
}

static void flush(struct connection *c) {
    while (c->out.sent < c->out.used) {
        ssize_t n = write(c->fd, c->out.bytes + c->out.sent, c->out.used - c->out.sent);
        if (n < 0) {
            if (errno == EAGAIN) watch(c, EPOLLIN | EPOLLOUT);
            else failed++;
            return;
        }
        c->out.sent += (size_t)n;
    }
    c->out.used = c->out.sent = 0;
}

static void complete(struct connection *c, int ok) {
    uint64_t t = now_ns();
    c->busy = 0;
    c->next = (c->next + (uint32_t)connection_count) % request_count;
    if (!ok) failed++;
    else {
        acknowledged++;
        if (measure_from_ns && c->due_ns >= measure_from_ns && measured < LATENCIES_MAX)
            latencies_us[measured++] = (uint32_t)((t - c->due_ns) / 1000);
    }
    idle[(idle_first + idle_count++) % connection_count] = (int)(c - connections);
}

/* --- HTTP/2, as much of it as a unary call needs --- */

static void frame(struct connection *c, uint32_t size, int type, int flags, uint32_t stream) {
    uint8_t head[FRAME_HEAD] = {size >> 16, size >> 8, size, type, flags,
                                stream >> 24, stream >> 16, stream >> 8, stream};
    append(&c->out, head, sizeof head);
}

static size_t literal(uint8_t *to, const char *name, const char *value) {
    size_t n = 0, name_size = strlen(name), value_size = strlen(value);
    to[n++] = 0; /* without indexing, new name; both strings are shorter than 127 bytes */
    to[n++] = (uint8_t)name_size;
    memcpy(to + n, name, name_size); n += name_size;
    to[n++] = (uint8_t)value_size;
    memcpy(to + n, value, value_size); n += value_size;
    return n;
}

static void send_headers(struct connection *c) {
    uint8_t block[1024];
    size_t n = 0;
    block[n++] = 0x83; /* :method POST, from the static table */
    block[n++] = 0x86; /* :scheme http */
    n += literal(block + n, ":path", path);
    n += literal(block + n, ":authority", "localhost");
    n += literal(block + n, "content-type", "application/grpc");
    n += literal(block + n, "te", "trailers");
    if (*token) {
        char bearer[120];
        snprintf(bearer, sizeof bearer, "Bearer %s", token);
        n += literal(block + n, "authorization", bearer);
    }
    frame(c, (uint32_t)n, FRAME_HEADERS, END_HEADERS, c->stream);
    append(&c->out, block, n);
}

static void send_message(struct connection *c) {
    uint32_t i = c->next, size = request_sizes[i];
    if (c->window < (int64_t)size + 5 || c->stream_window < (int64_t)size + 5) {
        c->waiting_for_window = 1;
        return;
    }
    c->waiting_for_window = 0;
    c->window -= size + 5;
    uint8_t prefix[5] = {0, size >> 24, size >> 16, size >> 8, size};
    frame(c, size + 5, FRAME_DATA, END_STREAM, c->stream);
    append(&c->out, prefix, sizeof prefix);
    append(&c->out, requests[i], size);
}

static void settings(struct connection *c, const uint8_t *body, uint32_t size, int flags) {
    if (!(flags & ACK)) {
        for (uint32_t i = 0; i + 6 <= size; i += 6)
            if (body[i] == 0 && body[i + 1] == 4) c->initial_window = ntohl(*(uint32_t *)(body + i + 2));
        frame(c, 0, FRAME_SETTINGS, ACK, 0);
    }
    c->settled = 1;
}

static size_t take_frame(struct connection *c, uint8_t *bytes, size_t count) {
    if (count < FRAME_HEAD) return 0;
    uint32_t size = (uint32_t)bytes[0] << 16 | (uint32_t)bytes[1] << 8 | bytes[2];
    if (count < FRAME_HEAD + size) return 0;
    int type = bytes[3], flags = bytes[4];
    uint32_t stream = ntohl(*(uint32_t *)(bytes + 5)) & 0x7fffffff;
    uint8_t *body = bytes + FRAME_HEAD;
    if (type == FRAME_DATA && stream == c->stream) c->got_data = 1;
    else if (type == FRAME_HEADERS && stream == c->stream && (flags & END_STREAM) && c->busy)
        complete(c, c->got_data); /* trailers without a message are a refusal */
    else if (type == FRAME_RESET && stream == c->stream && c->busy) complete(c, 0);
    else if (type == FRAME_SETTINGS) settings(c, body, size, flags);
    else if (type == FRAME_PING && !(flags & ACK)) {
        frame(c, 8, FRAME_PING, ACK, 0);
        append(&c->out, body, 8);
    } else if (type == FRAME_GOAWAY) failed++;
    else if (type == FRAME_WINDOW) {
        uint32_t more = ntohl(*(uint32_t *)body) & 0x7fffffff;
        if (stream == 0) c->window += more;
        else if (stream == c->stream) c->stream_window += more;
    }
    if (c->waiting_for_window && c->busy) send_message(c);
    return FRAME_HEAD + size;
}

/* --- HTTP/1.1 --- */

static size_t take_response(struct connection *c, uint8_t *bytes, size_t count) {
    uint8_t *end = memmem(bytes, count, "\r\n\r\n", 4);
    if (!end) return 0;
    size_t head = (size_t)(end - bytes) + 4, length = 0;
    for (uint8_t *line = bytes; line < end;) {
        uint8_t *next = memchr(line, '\n', (size_t)(end - line) + 2);
        if (!strncasecmp((char *)line, "content-length:", 15)) length = strtoul((char *)line + 15, 0, 10);
        if (!next) break;
        line = next + 1;
    }
    if (count < head + length) return 0;
    complete(c, !memcmp(bytes + 9, "200", 3));
    return head + length;
}

/* --- the loop --- */

static void start(struct connection *c, uint64_t due_ns) {
    c->busy = 1;
    c->due_ns = due_ns;
    sent++;
    if (is_grpc) {
        c->stream += 2;
        c->stream_window = c->initial_window;
        c->got_data = 0;
        send_headers(c);
        send_message(c);
    } else {
        append(&c->out, requests[c->next], request_sizes[c->next]);
    }
    flush(c);
}

static void drop(struct connection *c) {
    if (c->dead) return;
    if (c->busy) failed++;
    c->dead = 1;
    epoll_ctl(poll_fd, EPOLL_CTL_DEL, c->fd, 0);
    close(c->fd);
}

static void receive(struct connection *c) {
    for (;;) {
        uint8_t chunk[16384];
        ssize_t n = read(c->fd, chunk, sizeof chunk);
        if (n == 0 || (n < 0 && errno != EAGAIN)) { drop(c); return; }
        if (n < 0) break;
        append(&c->in, chunk, (size_t)n);
        if ((size_t)n < sizeof chunk) break;
    }
    size_t done = 0, taken;
    do {
        taken = (is_grpc ? take_frame : take_response)(c, c->in.bytes + done, c->in.used - done);
        done += taken;
    } while (taken && done < c->in.used);
    memmove(c->in.bytes, c->in.bytes + done, c->in.used - done);
    c->in.used -= done;
    if (c->out.used) flush(c);
}

static void poll_once(int timeout_ms) {
    static struct epoll_event events[1024];
    int n = epoll_wait(poll_fd, events, 1024, timeout_ms);
    for (int i = 0; i < n; i++) {
        struct connection *c = events[i].data.ptr;
        if (events[i].events & EPOLLOUT) { watch(c, EPOLLIN); flush(c); }
        if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) receive(c);
    }
}

static struct connection *next_idle(void) {
    while (idle_count) {
        struct connection *c = connections + idle[idle_first];
        idle_first = (idle_first + 1) % connection_count;
        idle_count--;
        if (!c->dead) return c;
    }
    return NULL;
}

static int open_connections(int port) {
    struct sockaddr_in server = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    inet_pton(AF_INET, "127.0.0.1", &server.sin_addr);
    for (int i = 0; i < connection_count; i++) {
        struct connection *c = connections + i;
        int one = 1;
        c->next = (uint32_t)i % request_count;
        c->fd = socket(AF_INET, SOCK_STREAM, 0);
        if (c->fd < 0 || connect(c->fd, (void *)&server, sizeof server)) { perror("connect"); return 1; }
        setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        fcntl(c->fd, F_SETFL, O_NONBLOCK);
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
        epoll_ctl(poll_fd, EPOLL_CTL_ADD, c->fd, &event);
        c->window = c->initial_window = 65535;
        c->stream = (uint32_t)-1;
        c->settled = !is_grpc;
        if (is_grpc) {
            append(&c->out, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24);
            frame(c, 0, FRAME_SETTINGS, 0, 0);
            uint32_t window = htonl(0x7fff0000 - 65535); /* replies never wait for us */
            frame(c, 4, FRAME_WINDOW, 0, 0);
            append(&c->out, &window, 4);
            flush(c);
        }
        if (i % 64 == 63) poll_once(0);
    }
    uint64_t give_up = now_ns() + 20000000000ULL;
    for (int settled = 0; settled < connection_count && now_ns() < give_up;) {
        settled = 0;
        for (int i = 0; i < connection_count; i++) settled += connections[i].settled;
        if (settled < connection_count) poll_once(10);
    }
    return 0;
}

static int read_requests(const char *name) {
    FILE *file = fopen(name, "rb");
    if (!file) { perror(name); return 1; }
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    uint8_t *all = malloc((size_t)size);
    if (fread(all, 1, (size_t)size, file) != (size_t)size) return 1;
    fclose(file);
    requests = malloc(sizeof *requests * (size_t)(size / 4 + 1));
    request_sizes = malloc(sizeof *request_sizes * (size_t)(size / 4 + 1));
    for (long at = 0; at < size;) {
        uint32_t length;
        memcpy(&length, all + at, 4);
        requests[request_count] = all + at + 4;
        request_sizes[request_count++] = length;
        at += 4 + (long)length;
    }
    return 0;
}

static int by_size(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static double percentile_ms(double q) {
    return measured ? latencies_us[(uint64_t)((double)(measured - 1) * q)] / 1000.0 : 0.0;
}

int main(int argc, char **argv) {
    if (argc != 10) {
        fprintf(stderr, "usage: %s http|grpc PORT CONNECTIONS WARM_S MEASURE_S RATE FILE PATH TOKEN\n", argv[0]);
        return 2;
    }
    is_grpc = !strcmp(argv[1], "grpc");
    connection_count = atoi(argv[3]);
    double warm_s = atof(argv[4]), measure_s = atof(argv[5]), rate = atof(argv[6]);
    path = argv[8];
    token = argv[9];
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    if (read_requests(argv[7])) return 1;
    poll_fd = epoll_create1(0);
    connections = calloc((size_t)connection_count, sizeof *connections);
    idle = malloc(sizeof *idle * (size_t)connection_count);
    latencies_us = malloc(sizeof *latencies_us * LATENCIES_MAX);
    if (open_connections(atoi(argv[2]))) return 1;
    for (int i = 0; i < connection_count; i++) idle[i] = i;
    idle_count = connection_count;

    uint64_t from = now_ns(), measure_at = from + (uint64_t)(warm_s * 1e9);
    uint64_t until = measure_at + (uint64_t)(measure_s * 1e9), scheduled = 0, before = 0;
    double period_ns = rate > 0 ? 1e9 / rate : 0;
    struct connection *c;
    for (;;) {
        uint64_t t = now_ns();
        if (!measure_from_ns && t >= measure_at) {
            measure_from_ns = t;
            before = acknowledged;
            puts("begin");
            fflush(stdout);
        }
        if (t >= until) break;
        if (rate > 0) {
            uint64_t due = from + (uint64_t)((double)scheduled * period_ns);
            while (due <= t && (c = next_idle())) {
                start(c, due);
                due = from + (uint64_t)((double)++scheduled * period_ns);
            }
            poll_once(due > t + 1000000 ? 1 : 0);
        } else {
            while ((c = next_idle())) start(c, now_ns());
            poll_once(100);
        }
    }
    double elapsed = (double)(now_ns() - measure_from_ns) / 1e9;
    uint64_t in_time = acknowledged - before;
    puts("end");
    fflush(stdout);
    /* What is under way may still arrive. */
    for (uint64_t give_up = now_ns() + 5000000000ULL; acknowledged + failed < sent && now_ns() < give_up;) poll_once(50);
    qsort(latencies_us, measured, sizeof *latencies_us, by_size);
    printf("{\"sent\":%lu,\"acknowledged\":%lu,\"failed\":%lu,\"measured\":%lu,\"seconds\":%.3f,"
           "\"p50_ms\":%.3f,\"p99_ms\":%.3f,\"max_ms\":%.3f}\n",
           (unsigned long)sent, (unsigned long)acknowledged, (unsigned long)failed, (unsigned long)in_time,
           elapsed, percentile_ms(0.5), percentile_ms(0.99), percentile_ms(1.0));
    return 0;
}
