/* What the generators need: msgpack, HTTP and base64, a loopback connection, times and their distribution, the line of JSON.
 *
 * Knows nothing of what is asked or measured.  Whatever goes wrong ends the program with 1 and one line on stderr.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { BUFFER = 1 << 20, MARK = 18, SILENCE_S = 20, LATENCY_US = 5000000, REQUEST = 8192 };
enum verdict { GOOD, REFUSED, WRONG };

static uint32_t *histogram; /* by microsecond */
static uint64_t errors, wrong; /* replies */
static char first_note[256]; /* the first bad reply */

static inline void fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("load: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    exit(1);
}

static inline void note(const char *reply, size_t length) { /* shown in JSON: plain characters only */
    for (size_t i = 0; !first_note[i] && i < length && i < sizeof first_note - 1; i++)
        first_note[i] = reply[i] < ' ' || reply[i] > '~' || strchr("\"\\", reply[i]) ? '?' : reply[i];
}

/* -- time ----------------------------------------------------------------------------------------------------------- */

static inline uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline double cpu_s(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) + 1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

static inline void count_latency(uint64_t ns) { histogram[ns / 1000 < LATENCY_US ? ns / 1000 : LATENCY_US]++; }

static inline uint64_t quantile(uint64_t count, double part) {
    uint64_t seen = 0;
    for (uint64_t us = 0; us <= LATENCY_US; us++)
        if ((seen += histogram[us]) > 0 && (double)seen >= part * (double)count) return us;
    return 0;
}

/* What is printed at the end.  `count` operations were counted, in so many seconds. */
static inline void print_line(uint64_t count, double seconds, uint64_t acknowledged, uint32_t checked, uint64_t resyncs,
                              double busy) {
    uint64_t half = quantile(count, 0.5), most = quantile(count, 0.99);
    printf("{\"ops\": %lu, \"seconds\": %.4f, \"p50_us\": %lu, \"p99_us\": %lu, \"acknowledged\": %lu, \"errors\": %lu, "
           "\"wrong\": %lu, \"checked\": %u, \"resyncs\": %lu, \"busy\": %.3f, \"note\": \"%s\"}\n",
           count, seconds, half, most, acknowledged, errors, wrong, checked, resyncs, busy, first_note);
}

/* -- bytes ---------------------------------------------------------------------------------------------------------- */

static inline void digits8(char *to, uint32_t number) {
    for (int i = 7; i >= 0; i--, number /= 10) to[i] = (char)('0' + number % 10);
}

/* A value with room for the 8 digits that make it one of its kind, behind its first letter. */
static inline char *new_value(uint32_t tag, size_t size) {
    char *value = malloc(size + 1);
    memset(value, 'x', size);
    value[size] = 0;
    memcpy(value, "v00000000.00000000.", MARK);
    digits8(value + 10, tag);
    return value;
}

static inline char *text(char *to, const char *from) { /* msgpack: a short string */
    size_t length = strlen(from);
    *to++ = (char)(0xa0 | length);
    memcpy(to, from, length);
    return to + length;
}

static inline char *number(char *to, uint32_t from) { /* msgpack: an integer of 32 bits */
    uint32_t big = htonl(from);
    *to++ = (char)0xce;
    memcpy(to, &big, 4);
    return to + 4;
}

static inline char *number64(char *to, uint64_t from) { /* the same of 64 bits */
    *to++ = (char)0xcf;
    for (int shift = 56; shift >= 0; shift -= 8) *to++ = (char)(from >> shift);
    return to;
}

static inline bool holds(const uint8_t *at, const char *name) { /* whether this is it */
    size_t length = strlen(name);
    return *at == (0xa0 | length) && !memcmp(at + 1, name, length);
}

static inline uint64_t big_endian(const uint8_t *at, int count) {
    uint64_t number = 0;
    while (count-- > 0) number = number << 8 | *at++;
    return number;
}

static inline uint64_t number_at(const uint8_t *at, const uint8_t *end) { /* an int of any width, not below 0 */
    ptrdiff_t width = end - at;
    return width == 1 ? *at : big_endian(at + 1, (int)width - 1);
}

static inline bool is_number(const uint8_t *at, const uint8_t *end, uint64_t number) { return number_at(at, end) == number; }

static inline bool is_text(const uint8_t *at, const uint8_t *end, const char *from, size_t size) { /* a str of any width */
    ptrdiff_t header = (*at >= 0xa0 && *at < 0xc0) ? 1 : (*at >= 0xd9 && *at <= 0xdb) ? 1 + (1 << (*at - 0xd9)) : -1;
    return end - at == header + (ptrdiff_t)size && !memcmp(end - size, from, size);
}

/* Where the msgpack object at `at` ends; NULL: after `end`. */
static const uint8_t *skip(const uint8_t *at, const uint8_t *end) {
    static const uint8_t fixed[32] = {[0xca - 0xc0] = 4, [0xcb - 0xc0] = 8, [0xcc - 0xc0] = 1, [0xcd - 0xc0] = 2,
        [0xce - 0xc0] = 4, [0xcf - 0xc0] = 8, [0xd0 - 0xc0] = 1, [0xd1 - 0xc0] = 2, [0xd2 - 0xc0] = 4, [0xd3 - 0xc0] = 8,
        [0xd4 - 0xc0] = 2, [0xd5 - 0xc0] = 3, [0xd6 - 0xc0] = 5, [0xd7 - 0xc0] = 9, [0xd8 - 0xc0] = 17};
    if (at >= end) return NULL;
    uint8_t c = *at++;
    uint64_t bytes = 0, objects = 0;
    int width = 0;
    if (c < 0x80 || c >= 0xe0) return at;
    if (c < 0x90) objects = 2u * (c & 15);
    else if (c < 0xa0) objects = c & 15;
    else if (c < 0xc0) bytes = c & 31;
    else if (c >= 0xc4 && c <= 0xc9) width = 1 << (c - 0xc4) % 3;
    else if (c >= 0xd9 && c <= 0xdb) width = 1 << (c - 0xd9);
    else if (c >= 0xdc) width = c & 1 ? 4 : 2;
    else bytes = fixed[c - 0xc0];
    if (width > end - at) return NULL;
    if (width) {
        uint64_t declared = big_endian(at, width);
        at += width;
        if (c >= 0xdc) objects = c >= 0xde ? 2 * declared : declared;
        else bytes = declared + (c >= 0xc7 && c <= 0xc9);
    }
    if (bytes > (uint64_t)(end - at)) return NULL;
    at += bytes;
    while (objects-- > 0)
        if (!(at = skip(at, end))) return NULL;
    return at;
}

/* How long the msgpack object is that `in` begins with; 0: it is not whole. */
static inline size_t whole_object(const char *in, size_t fill) {
    const uint8_t *end = skip((const uint8_t *)in, (const uint8_t *)in + fill);
    return end ? (size_t)(end - (const uint8_t *)in) : 0;
}

/* -- HTTP, as etcd's gateway speaks it ------------------------------------------------------------------------------ */

static inline size_t base64(char *to, const char *from, size_t count) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t out = 0;
    for (size_t i = 0; i < count; i += 3) {
        size_t left = count - i;
        uint32_t bits = (uint32_t)(uint8_t)from[i] << 16;
        if (left > 1) bits |= (uint32_t)(uint8_t)from[i + 1] << 8;
        if (left > 2) bits |= (uint8_t)from[i + 2];
        to[out++] = digits[bits >> 18];
        to[out++] = digits[bits >> 12 & 63];
        to[out++] = left > 1 ? digits[bits >> 6 & 63] : '=';
        to[out++] = left > 2 ? digits[bits & 63] : '=';
    }
    to[out] = 0;
    return out;
}

/* A request to some place below /v3/. */
static inline size_t post(char *to, const char *place, const char *body) {
    return (size_t)sprintf(to, "POST /v3/%s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                               "Content-Length: %zu\r\n\r\n%s", place, strlen(body), body);
}

/* How long the response is that `in` begins with; 0: it is not whole. */
static inline size_t whole_response(const char *in, size_t fill) {
    char *blank = memmem(in, fill, "\r\n\r\n", 4);
    if (!blank) return 0;
    char *field = memmem(in, (size_t)(blank - in), "Content-Length: ", 16);
    if (!field) fail("a reply without Content-Length: %.200s", in);
    size_t length = (size_t)(blank - in) + 4 + (size_t)atol(field + 16);
    return length <= fill ? length : 0;
}

static inline bool is_refusal(const char *response, size_t length) { return length < 15 || memcmp(response + 9, "200", 3); }

/* -- a connection --------------------------------------------------------------------------------------------------- */

static inline int connect_to(uint16_t port) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval silence = {.tv_sec = SILENCE_S};
    int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to)) fail("cannot connect to port %u: %m", port);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &silence, sizeof silence);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &silence, sizeof silence);
    return fd;
}

static inline size_t receive_some(int fd, char *to, size_t room) {
    ssize_t got = recv(fd, to, room, 0);
    if (got <= 0) fail(got ? "no answer: %m" : "the server closed a connection");
    return (size_t)got;
}

static inline void send_whole(int fd, const char *data, size_t length) {
    while (length > 0) {
        ssize_t sent = send(fd, data, length, MSG_NOSIGNAL);
        if (sent < 0) fail("cannot send: %m");
        data += sent;
        length -= (size_t)sent;
    }
}
