/* One writer and many watchers: how many changes are delivered, and how soon.  The same for distkv, Redis and NATS.
 *
 *   fanout PORT PROTOCOL WATCHERS DEPTH SECONDS TAG SIZE WATCHED PATHS PAUSE_US
 *
 * PORT      where the writer writes
 * PROTOCOL  distkv  every watcher has a connection, and a `watch` on the same prefix; the writer sets PATHS paths below it
 *           redis   every watcher has a connection that has subscribed to the same channel; the writer publishes
 *           nats    the same
 *           activity  everybody logs in, and the writer sends activities
 * SECONDS   0: until SIGTERM, and every delivery counts; else the first 15 % do not count
 * WATCHED   one port or more, with commas between them: there the watchers watch in turn
 * PAUSE_US  0: a message leaves as soon as it may; else after a random pause, this long on average
 *
 * At most DEPTH messages are under way: message n leaves when message n - DEPTH has been answered and has reached every watcher.
 * So nothing is dropped, whoever is slow, and what is measured is what server and watchers can do for as long as one likes.  With
 * a DEPTH of 1 a pause begins when the last message is everywhere.  A message has SIZE bytes, its number and TAG among them.
 *
 * What is believed: nothing.  A delivery counts when it is the next one of its watcher, by its number, with every byte; distkv:
 * with the number of the watch and a token.  When all is over, nothing more may come.  `resync` is counted, and what is shown in its course
 * is no delivery; the messages that it stands for are waited for no longer.  NATS answers no message; an activity's
 * answer is its echo.  With no watchers, what counts
 * is the answer to each message.
 *
 * One line of JSON is printed, with the fields of load.c.  A latency is the time from the sending of a message until one watcher has it.
 */
#include "wire.h"
#include <signal.h>
#include <sys/timerfd.h>

enum { IN = 1 << 18, STRAY_MS = 50, INTEREST_US = 300000 };

struct watcher { int fd; uint32_t next; bool is_resyncing; size_t fill; char *in; };
struct message { uint64_t sent_ns; uint32_t left; }; /* left: watchers that have not got it, and its reply */

static char protocol, channel[10], *value;
static size_t size;
static uint32_t watchers, paths, depth, seq, sent, base; /* all before `base` are done */
static uint32_t answered;
static struct message *messages;
static uint64_t delivered, counted, resyncs;
static uint64_t warm_ns, end_ns, pause_ns, due_ns; /* due: when the next message may leave; 0: not decided */
static bool is_open; /* until SIGTERM */
static volatile sig_atomic_t is_stopped;

static void done(uint32_t number) {
    messages[number % depth].left--;
    while (base < sent && !messages[base % depth].left) base++;
}

static void judge(enum verdict verdict, const char *reply, size_t length) {
    errors += verdict == REFUSED;
    wrong += verdict == WRONG;
    if (verdict != GOOD) note(reply, length);
}

/* -- the watchers --------------------------------------------------------------------------------------------------- */

/* The number in a value of ours that was sent already; -1: it is none. */
static int64_t number_of(const char *found) {
    int64_t number = 0;
    for (int i = 1; i <= 8; i++) {
        if (found[i] < '0' || found[i] > '9') return -1;
        number = 10 * number + found[i] - '0';
    }
    digits8(value + 1, (uint32_t)number);
    return !memcmp(found, value, size) && number < sent ? number : -1;
}

static void count_one(uint32_t number, uint64_t now) {
    delivered++;
    if (!is_open && (now < warm_ns || now >= end_ns)) return;
    counted++;
    count_latency(now - messages[number % depth].sent_ns);
}

static enum verdict deliver(struct watcher *w, const char *found, uint64_t now) {
    if (number_of(found) != w->next) return WRONG;
    count_one(w->next, now);
    done(w->next++);
    return GOOD;
}

static enum verdict pass_over(struct watcher *w, const char *found) { /* it stands for all before it */
    int64_t number = number_of(found);
    if (number < 0) return WRONG;
    while (w->next <= number) done(w->next++);
    return GOOD;
}

static enum verdict read_item(struct watcher *w, const uint8_t *at, const uint8_t *end, uint64_t now) {
    const char *found = NULL;
    bool has_seq = false, has_path = false, has_token = false;
    if (*at < 0x80 || *at > 0x8f) return WRONG;
    for (at++; at < end;) {
        const uint8_t *middle = skip(at, end), *next = skip(middle, end);
        if (holds(at, "error")) return REFUSED;
        else if (holds(at, "seq")) has_seq = is_number(middle, next, 1);
        else if (holds(at, "token")) has_token = true;
        else if (holds(at, "value") && next - middle > (ptrdiff_t)size) found = (const char *)next - size;
        else if (holds(at, "path")) has_path = *middle == 0x93 && holds(middle + 1, "bench") && holds(middle + 7, channel);
        else if (holds(at, "state")) {
            resyncs += holds(middle, "resync");
            w->is_resyncing = !holds(middle, "uptodate");
            return w->is_resyncing && !holds(middle, "resync") ? WRONG : GOOD;
        }
        at = next;
    }
    if (!has_seq || !has_path || !found) return WRONG;
    if (w->is_resyncing) return pass_over(w, found);
    return has_token ? deliver(w, found, now) : WRONG;
}

/* An activity of ours. */
static enum verdict read_line(const char *line, size_t length, const char **found) {
    static const char before[] = "{\"v\":\"";
    const char *at = memmem(line, length, before, sizeof before - 1);
    if (!memmem(line, length, "\"ACTIVITY_BROADCAST\"", 20)) return REFUSED;
    if (!at || (size_t)(line + length - at) < sizeof before + size) return WRONG;
    *found = at + sizeof before - 1;
    return (*found)[size] == '"' ? GOOD : WRONG;
}

static enum verdict hear_line(struct watcher *w, const char *line, size_t length, uint64_t now) {
    const char *found = NULL;
    enum verdict verdict = read_line(line, length, &found);
    return verdict == GOOD ? deliver(w, found, now) : verdict;
}

static size_t frame_header(char *to) {
    if (protocol == 'n') return (size_t)sprintf(to, "MSG %s 1 %zu\r\n", channel, size);
    return (size_t)sprintf(to, "*3\r\n$7\r\nmessage\r\n$9\r\n%s\r\n$%zu\r\n", channel, size);
}

/* What NATS says besides messages: how long the line is; 0: it is not whole. */
static size_t take_line(int fd, const char *in, size_t fill) {
    const char *line = memmem(in, fill, "\r\n", 2);
    if (!line) return 0;
    size_t length = (size_t)(line - in) + 2;
    if (*in == 'P' && in[1] == 'I') send_whole(fd, "PONG\r\n", 6);
    judge(*in == '-' ? REFUSED : GOOD, in, length);
    return length;
}

/* How long the first frame is; 0: it is not whole. */
static size_t take_one(struct watcher *w, const char *in, size_t fill, uint64_t now) {
    static char header[64];
    size_t length;
    enum verdict verdict;
    if (protocol == 'd') {
        const uint8_t *end = skip((const uint8_t *)in, (const uint8_t *)in + fill);
        if (!end) return 0;
        length = (size_t)(end - (const uint8_t *)in);
        verdict = read_item(w, (const uint8_t *)in, end, now);
    } else if (protocol == 'a') {
        const char *end = memchr(in, '\n', fill);
        if (!end) return 0;
        length = (size_t)(end - in) + 1;
        verdict = hear_line(w, in, length, now);
    } else {
        size_t before = *header ? strlen(header) : frame_header(header);
        if (protocol == 'n' && *in != *header) return take_line(w->fd, in, fill);
        length = before + size + 2;
        if (*in == *header && fill < length) return 0;
        verdict = *in != *header ? REFUSED : memcmp(in, header, before) ? WRONG : deliver(w, in + before, now);
    }
    judge(verdict, in, length);
    return length;
}

static void hear(struct watcher *w) {
    w->fill += receive_some(w->fd, w->in + w->fill, IN - w->fill);
    size_t at = 0, length;
    uint64_t now = now_ns();
    while (!errors && !wrong && at < w->fill && (length = take_one(w, w->in + at, w->fill - at, now))) at += length;
    if (errors || wrong) return;
    memmove(w->in, w->in + at, w->fill - at);
    w->fill -= at;
}

static bool is_begun(const char *in, size_t fill, const char *words) {
    if (protocol == 'd') return skip((const uint8_t *)in, (const uint8_t *)in + fill);
    if (protocol == 'n') return memmem(in, fill, words, strlen(words)) && in[fill - 1] == '\n'; /* other lines may come before */
    if (protocol == 'a') return fill && in[fill - 1] == '\n';
    return fill >= 4 && !memcmp(in + fill - 2, "\r\n", 2);
}

/* Read what begins the conversation, and see that these bytes are in it; what was read. */
static const char *expect(int fd, const char *words) {
    static char in[4097];
    size_t fill = 0;
    while (fill < sizeof in - 1 && !is_begun(in, fill, words)) fill += receive_some(fd, in + fill, sizeof in - 1 - fill);
    if (!memmem(in, fill, words, strlen(words))) fail("no '%s' in the answer to the first request", words);
    in[fill] = 0;
    return in;
}

/* Where a node wants to have us; it may name another one at once. */
static int log_in(int fd) {
    static const char login[] = "{\"command\":\"LOGIN\",\"username\":\"anonymous\"}\n", port[] = "\"port\":";
    for (;;) {
        send_whole(fd, login, sizeof login - 1);
        const char *redirect = strstr(expect(fd, "LOGIN_SUCCESS"), "REDIRECT"), *at = redirect ? strstr(redirect, port) : NULL;
        if (!at) return fd;
        close(fd);
        fd = connect_to((uint16_t)atoi(at + sizeof port - 1));
    }
}

static int greet(uint16_t port) {
    int fd = connect_to(port);
    if (protocol == 'd') expect(fd, "version");
    if (protocol == 'a') return log_in(fd);
    if (protocol != 'n') return fd;
    static const char hello[] = "CONNECT {\"verbose\":false,\"pedantic\":false}\r\nPING\r\n";
    expect(fd, "INFO ");
    send_whole(fd, hello, sizeof hello - 1);
    expect(fd, "PONG\r\n");
    return fd;
}

static void open_watcher(struct watcher *w, uint16_t port) {
    char out[128], *at = out;
    *w = (struct watcher){.fd = greet(port), .in = malloc(IN)};
    if (protocol == 'a') return;
    if (protocol == 'd') {
        *at++ = (char)0x83;
        at = text(at, "seq");
        *at++ = 1;
        at = text(text(text(at, "action"), "watch"), "path");
        *at++ = (char)0x92;
        at = text(text(at, "bench"), channel);
    } else if (protocol == 'n')
        at += sprintf(at, "SUB %s 1\r\nPING\r\n", channel);
    else
        at += sprintf(at, "*2\r\n$9\r\nSUBSCRIBE\r\n$9\r\n%s\r\n", channel);
    send_whole(w->fd, out, (size_t)(at - out));
    expect(w->fd, protocol == 'd' ? "start" : protocol == 'n' ? "PONG\r\n" : ":1\r\n");
}

/* The ports of this list, in turn. */
static void open_watchers(struct watcher *all, const char *ports) {
    const char *at = ports;
    for (uint32_t i = 0; i < watchers; i++) {
        open_watcher(all + i, (uint16_t)atoi(at));
        at = strchr(at, ',');
        at = at ? at + 1 : ports;
    }
    if (protocol == 'n') usleep(INTEREST_US); /* a server tells the others who subscribed; nothing says when they know */
}

/* -- the writer ----------------------------------------------------------------------------------------------------- */

static size_t build(char *to, uint32_t number) {
    char key[10] = {'n'}, *at = to;
    digits8(value + 1, number);
    if (protocol == 'n') return (size_t)sprintf(to, "PUB %s %zu\r\n%s\r\n", channel, size, value);
    if (protocol == 'a')
        return (size_t)sprintf(
            to, "{\"command\":\"ACTIVITY_MESSAGE\",\"username\":\"anonymous\",\"activity\":{\"v\":\"%s\"}}\n", value);
    if (protocol == 'r') return (size_t)sprintf(to, "*3\r\n$7\r\nPUBLISH\r\n$9\r\n%s\r\n$%zu\r\n%s\r\n", channel, size, value);
    digits8(key + 1, number % paths);
    *at++ = (char)0x84;
    at = text(at, "seq");
    *at++ = (char)0xce;
    uint32_t big = htonl(++seq);
    memcpy(at, &big, 4);
    at = text(text(text(at + 4, "action"), "set_value"), "path");
    *at++ = (char)0x93;
    at = text(text(text(text(at, "bench"), channel), key), "value");
    *at++ = (char)0xda;
    *at++ = (char)(size >> 8);
    *at++ = (char)size;
    memcpy(at, value, size);
    return (size_t)(at + size - to);
}

static void publish(int fd, uint32_t count) {
    static char out[BUFFER];
    size_t length = 0;
    uint64_t now = now_ns();
    for (; count > 0; count--, sent++) {
        messages[sent % depth] = (struct message){now, watchers + (protocol != 'n')};
        length += build(out + length, sent);
    }
    send_whole(fd, out, length);
}

static uint64_t random_pause(void) {
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % (2 * pause_ns);
}

/* Send what may leave now. */
static void go_on(int fd) {
    uint32_t room = depth - (sent - base);
    uint64_t now = now_ns();
    if (is_stopped || now >= end_ns) due_ns = 0;
    else if (!pause_ns && room) publish(fd, room);
    else if (room && !due_ns) due_ns = now + random_pause();
    else if (room && now >= due_ns) {
        publish(fd, 1);
        due_ns = room > 1 ? due_ns + random_pause() : 0;
    }
}

static enum verdict read_reply(const char *reply, size_t length) {
    char right[32];
    if (protocol == 'a') {
        const char *found = NULL;
        enum verdict verdict = read_line(reply, length, &found);
        return verdict != GOOD ? verdict : number_of(found) == answered ? GOOD : WRONG;
    }
    if (protocol == 'r') {
        size_t wanted = (size_t)sprintf(right, ":%u\r\n", watchers);
        return *reply == '-' ? REFUSED : length == wanted && !memcmp(reply, right, wanted) ? GOOD : WRONG;
    }
    const uint8_t *at = (const uint8_t *)reply, *end = at + length;
    bool has_seq = false, is_changed = false;
    if (*at < 0x80 || *at > 0x8f) return WRONG;
    for (at++; at < end;) {
        const uint8_t *middle = skip(at, end), *next = skip(middle, end);
        if (holds(at, "error")) return REFUSED;
        if (holds(at, "seq")) has_seq = is_number(middle, next, answered + 1);
        if (holds(at, "changed")) is_changed = *middle == 0xc3;
        at = next;
    }
    return has_seq && is_changed ? GOOD : WRONG;
}

static void hear_replies(int fd) {
    static char in[BUFFER];
    static size_t fill;
    size_t at = 0;
    fill += receive_some(fd, in + fill, BUFFER - fill);
    while (protocol == 'n' && at < fill) {
        size_t length = take_line(fd, in + at, fill - at);
        if (!length) break;
        at += length;
    }
    while (protocol != 'n' && at < fill && answered < sent) {
        const char *line = protocol == 'd' ? NULL : memchr(in + at, '\n', fill - at);
        const char *end = protocol == 'd' ? (const char *)skip((uint8_t *)in + at, (uint8_t *)in + fill) : line ? line + 1 : NULL;
        if (!end) break;
        enum verdict verdict = read_reply(in + at, (size_t)(end - in) - at);
        judge(verdict, in + at, (size_t)(end - in) - at);
        if (!watchers && verdict == GOOD) count_one(answered, now_ns());
        at = (size_t)(end - in);
        done(answered++);
    }
    memmove(in, in + at, fill - at);
    fill -= at;
}

static void stop(int number) { is_stopped = number; }

/* Everything that comes until all messages are everywhere, and no more are due. */
static void run(int epoll, int timer, int writer) {
    sigset_t none;
    sigemptyset(&none);
    for (go_on(writer); !errors && !wrong; go_on(writer)) {
        if (base == sent && (is_stopped || now_ns() >= end_ns)) return;
        uint64_t wake_ns = !due_ns ? 0 : due_ns < end_ns ? due_ns : end_ns;
        struct itimerspec wake = {.it_value = {(time_t)(wake_ns / 1000000000u), (long)(wake_ns % 1000000000u)}};
        struct epoll_event events[256];
        if (pause_ns) timerfd_settime(timer, TFD_TIMER_ABSTIME, &wake, NULL);
        int ready = epoll_pwait(epoll, events, 256, SILENCE_S * 1000, &none);
        if (ready < 0 && is_stopped) continue;
        if (ready <= 0) fail("%u of %u messages have not reached every watcher within %d s", sent - base, sent, SILENCE_S);
        for (int i = 0; i < ready && !errors && !wrong; i++) {
            if (events[i].data.ptr == &due_ns) timerfd_settime(timer, 0, &(struct itimerspec){0}, NULL);
            else if (events[i].data.ptr) hear(events[i].data.ptr);
            else hear_replies(writer);
        }
    }
}

/* Whether more comes than was sent. */
static bool hears_more(int epoll, int writer) {
    struct epoll_event event;
    while (!errors && !wrong && epoll_wait(epoll, &event, 1, STRAY_MS) > 0) {
        if (protocol != 'n') return true;
        if (event.data.ptr) hear(event.data.ptr); /* it may only ask whether we are there */
        else hear_replies(writer);
    }
    return false;
}

int main(int count, char **words) {
    if (count != 11 || !strchr("drna", words[2][0])) return 2;
    uint16_t port = (uint16_t)atoi(words[1]);
    protocol = words[2][0];
    watchers = (uint32_t)atoi(words[3]);
    depth = (uint32_t)atoi(words[4]);
    double seconds = atof(words[5]);
    uint32_t tag = (uint32_t)atol(words[6]);
    size = (size_t)atoi(words[7]);
    paths = (uint32_t)atol(words[9]);
    pause_ns = 1000u * (uint64_t)atol(words[10]);
    if ((!watchers && protocol == 'n') || !depth || !paths || size < MARK || size > REQUEST / 4) return 2;
    if ((size_t)depth * (size + 200) > IN / 2) return 2;
    is_open = seconds == 0;
    value = new_value(tag, size);
    channel[0] = 'f';
    digits8(channel + 1, tag);
    histogram = calloc(LATENCY_US + 1, sizeof *histogram);
    messages = calloc(depth, sizeof *messages);

    sigset_t term; /* is delivered only while nothing else is done */
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    sigprocmask(SIG_BLOCK, &term, NULL);
    sigaction(SIGTERM, &(struct sigaction){.sa_handler = stop}, NULL);

    int epoll = epoll_create1(0), timer = timerfd_create(CLOCK_MONOTONIC, 0), writer = greet(port);
    struct watcher *all = calloc(watchers, sizeof *all);
    open_watchers(all, words[8]);
    for (uint32_t i = 0; i < watchers; i++)
        epoll_ctl(epoll, EPOLL_CTL_ADD, all[i].fd, &(struct epoll_event){.events = EPOLLIN, .data.ptr = all + i});
    epoll_ctl(epoll, EPOLL_CTL_ADD, timer, &(struct epoll_event){.events = EPOLLIN, .data.ptr = &due_ns});
    epoll_ctl(epoll, EPOLL_CTL_ADD, writer, &(struct epoll_event){.events = EPOLLIN, .data.ptr = NULL});

    double cpu_before = cpu_s();
    uint64_t begin = now_ns();
    warm_ns = begin + (uint64_t)(seconds * 0.15e9);
    end_ns = is_open ? UINT64_MAX : begin + (uint64_t)(seconds * 1e9);
    run(epoll, timer, writer);
    double busy = (cpu_s() - cpu_before) * 1e9 / (double)(now_ns() - begin);
    if (is_open) end_ns = now_ns();
    epoll_ctl(epoll, EPOLL_CTL_DEL, timer, NULL);
    wrong += hears_more(epoll, writer);
    print_line(counted, (double)(end_ns - warm_ns) / 1e9, delivered, sent, resyncs, busy);
    return 0;
}
