/* A closed-loop load generator for logs of messages: distkv's topics, Redis's streams, and NATS JetStream.
 *
 *   topics PORT PROTOCOL VERB CONNECTIONS DEPTH SECONDS COUNT COPIES TAG SIZE
 *
 * PROTOCOL  distkv | redis | nats
 * VERB      put     messages on all connections, for SECONDS; each one is an operation
 *           get     COUNT messages are put first; an operation is a message that is got, BATCH at once, with those before done
 *           tell    put on PORT, one at a time; an operation is a message that a get had waited for, on the port COUNT
 *
 * Every connection keeps DEPTH puts under way.  It is a producer of its own (distkv), with counters from 1, and gives a floor and
 * a tag as distkv's clients do.  TAG is in the name of the topic, or stream: no run uses that of another one.  A subscriber is
 * there before the first message, so all messages are kept.  Of `put` and `tell` the first 15 % of SECONDS are not counted.  `tell`
 * pauses PAUSE_US on average before each message, at random; its times run from the sending until the message is read.
 *
 * What is believed: nothing.  A put counts when its reply has its seq, producer and counter, at least COPIES copies, and is no
 * duplicate.  (Redis: when the ID is above the last one of this connection; NATS: when the number in the stream is.)  A message that
 * is got counts when it is the next one of its producer, with every byte of its value.  After `put` all messages are got, on a new
 * connection: there must be just those that were acknowledged.  (Redis and NATS: as many.)
 *
 * One line of JSON is printed.  Exit code 0: it is there, errors or not; 1: the server is gone or silent; 2: wrong usage.
 */
#include "wire.h"

enum { BATCH = 100, PAUSE_US = 20000, WAIT_S = 10 };

/* One put under way is the one whose counter is `answered + 1`, and so on: replies come in order. */
struct connection { int fd; uint32_t number, seq, asked, answered; uint64_t last; uint64_t *sent_ns; size_t fill; char *in; };

static char protocol;
static uint32_t tag, depth, copies;
static size_t size;
static char *value, topic[16];
static uint64_t acknowledged, *had; /* messages of each producer that were got */
static uint32_t producers;

static void set_value_of(uint32_t counter) { digits8(value + 1, counter); }

static void producer_name(char *to, uint32_t number) {
    to[0] = 'p';
    digits8(to + 1, number);
    to[9] = 0;
}

/* -- requests ------------------------------------------------------------------------------------------------------- */

static char *head(char *to, int fields, uint32_t seq, const char *action) {
    *to++ = (char)(0x80 | (fields + 3));
    to = text(text(number(text(to, "seq"), seq), "action"), action);
    return text(text(to, "topic"), topic);
}

static char *long_text(char *to, const char *from, size_t length) {
    *to++ = (char)0xda;
    *to++ = (char)(length >> 8);
    *to++ = (char)length;
    memcpy(to, from, length);
    return to + length;
}

static size_t build_put(char *to, struct connection *c, uint32_t counter) {
    set_value_of(counter);
    if (protocol == 'r')
        return (size_t)sprintf(to, "*5\r\n$4\r\nXADD\r\n$9\r\n%s\r\n$1\r\n*\r\n$1\r\nv\r\n$%zu\r\n%s\r\n", topic, size, value);
    if (protocol == 'n') return (size_t)sprintf(to, "PUB bench.%s i.%u %zu\r\n%s\r\n", topic, c->number, size, value);
    char name[16], *at = head(to, 5, ++c->seq, "topic_put");
    producer_name(name, c->number);
    at = text(text(at, "producer"), name);
    at = number(text(number(text(at, "counter"), counter), "floor"), c->answered + 1);
    at = text(at, "tag");
    *at++ = (char)0xc4;
    *at++ = 8;
    memcpy(at, value + 1, 8);
    at = long_text(text(at + 8, "value"), value, size);
    return (size_t)(at - to);
}

/* Those that were got before, as `done`, are in `done`. */
static size_t build_get(char *to, uint32_t seq, const char *done, uint32_t count, size_t length, uint32_t limit, uint32_t wait_s) {
    char *at = head(to, 4, seq, "topic_get");
    at = text(text(at, "subscriber"), "s");
    at = number(text(number(text(at, "limit"), limit), "wait"), wait_s);
    at = text(at, "done");
    *at++ = (char)0xdc;
    *at++ = (char)(count >> 8);
    *at++ = (char)count;
    memcpy(at, done, length);
    return (size_t)(at + length - to);
}

/* -- replies ---------------------------------------------------------------------------------------------------------- */

static size_t cut(const char *in, size_t fill) {
    if (protocol == 'd') return whole_object(in, fill);
    char *line = memmem(in, fill, "\r\n", 2);
    if (!line) return 0;
    size_t length = (size_t)(line - in) + 2;
    if (in[0] == '$') length += (size_t)atol(in + 1) + 2;
    if (in[0] == 'M') { /* MSG subject sid size */
        const char *last = line;
        while (last > in && last[-1] != ' ') last--;
        length += (size_t)atol(last) + 2;
    }
    return length <= fill ? length : 0;
}

static enum verdict judge_distkv(const uint8_t *reply, size_t length, struct connection *c, uint32_t counter) {
    const uint8_t *end = reply + length, *at = reply + 1;
    bool has_seq = false, has_producer = false, has_counter = false, is_new = false, has_copies = false;
    char name[16];
    producer_name(name, c->number);
    if (*reply < 0x80 || *reply > 0x8f) return WRONG;
    while (at < end) {
        const uint8_t *middle = skip(at, end), *next = skip(middle, end);
        if (holds(at, "error")) return REFUSED;
        if (holds(at, "seq")) has_seq = is_number(middle, next, c->seq - (c->asked - counter));
        if (holds(at, "producer")) has_producer = is_text(middle, next, name, strlen(name));
        if (holds(at, "counter")) has_counter = is_number(middle, next, counter);
        if (holds(at, "duplicate")) is_new = *middle == 0xc2;
        if (holds(at, "copies")) has_copies = number_at(middle, next) >= copies;
        at = next;
    }
    return has_seq && has_producer && has_counter && is_new && has_copies ? GOOD : WRONG;
}

static enum verdict judge_put(const char *reply, size_t length, struct connection *c, uint32_t counter) {
    char *at = NULL;
    uint64_t found = 0;
    if (protocol == 'd') return judge_distkv((const uint8_t *)reply, length, c, counter);
    if (reply[0] == '-' || memmem(reply, length, "\"error\"", 7)) return REFUSED;
    if (protocol == 'r' && reply[0] == '$' && (at = memmem(reply, length, "\r\n", 2))) { /* milliseconds-number */
        found = strtoull(at + 2, &at, 10) << 20;
        found += strtoull(at + 1, NULL, 10);
    }
    if (protocol == 'n' && reply[0] == 'M' && (at = memmem(reply, length, "\"seq\":", 6))) found = strtoull(at + 6, NULL, 10);
    bool is_above = found > c->last;
    c->last = found;
    return is_above ? GOOD : WRONG;
}

/* The messages of one reply; what is to be said as done next is put into `done`. How many there were; -1: an error, or wrong. */
static int judge_get(const uint8_t *reply, size_t length, uint32_t seq, char *done, size_t *done_length) {
    const uint8_t *end = reply + length, *at = reply + 1, *messages = NULL;
    bool has_seq = false;
    *done_length = 0;
    while (at < end) {
        const uint8_t *middle = skip(at, end), *next = skip(middle, end);
        if (holds(at, "error")) { errors++; return -1; }
        if (holds(at, "seq")) has_seq = is_number(middle, next, seq);
        if (holds(at, "messages")) messages = middle;
        at = next;
    }
    if (!has_seq || !messages || !(*messages == 0xdc || (*messages & 0xf0) == 0x90)) { wrong++; return -1; }
    int count = *messages == 0xdc ? (int)big_endian(messages + 1, 2) : *messages & 15;
    const uint8_t *one = messages + (*messages == 0xdc ? 3 : 1);
    for (int i = 0; i < count; i++) {
        const uint8_t *after = skip(one, end), *field = one + 1;
        uint32_t producer = UINT32_MAX;
        uint64_t counter = 0;
        bool is_right = false;
        while (field < after) { /* the value is judged with the counter, which may stand behind it */
            const uint8_t *middle = skip(field, after), *next = skip(middle, after);
            if (holds(field, "producer") && next - middle == 10) producer = (uint32_t)strtoul((const char *)middle + 2, NULL, 10);
            if (holds(field, "counter")) counter = number_at(middle, next);
            field = next;
        }
        set_value_of((uint32_t)counter);
        for (field = one + 1; field < after;) {
            const uint8_t *middle = skip(field, after), *next = skip(middle, after);
            if (holds(field, "value")) is_right = is_text(middle, next, value, size);
            field = next;
        }
        if (producer >= producers || counter != had[producer] + 1 || !is_right) { wrong++; return -1; }
        had[producer]++;
        char name[16], *to = done + *done_length;
        producer_name(name, producer);
        *to++ = (char)0x92;
        *done_length = (size_t)(number(text(to, name), (uint32_t)counter) - done);
        one = after;
    }
    return count;
}

/* -- connections ------------------------------------------------------------------------------------------------------ */

static void receive(struct connection *c) { c->fill += receive_some(c->fd, c->in + c->fill, BUFFER - c->fill); }

static void forget(struct connection *c, size_t length) {
    memmove(c->in, c->in + length, c->fill - length);
    c->fill -= length;
}

/* The next whole reply is at `in`. */
static size_t await(struct connection *c) {
    size_t length;
    while (!(length = cut(c->in, c->fill))) receive(c);
    return length;
}

static void open_connection(struct connection *c, uint16_t port, uint32_t index) {
    *c = (struct connection){.fd = connect_to(port), .number = index, .in = malloc(BUFFER), .sent_ns = calloc(depth, 8)};
    if (protocol != 'r') forget(c, await(c)); /* it greets */
    char out[REQUEST];
    if (protocol == 'n') send_whole(c->fd, out, (size_t)sprintf(out, "CONNECT {\"verbose\":false}\r\nSUB i.%u 1\r\n", index));
}

static void close_connection(struct connection *c) {
    close(c->fd);
    free(c->in);
    free(c->sent_ns);
}

static void subscribe(uint16_t port) {
    struct connection c;
    char out[REQUEST], *at;
    if (protocol != 'd') return;
    open_connection(&c, port, 0);
    at = text(text(head(out, 1, ++c.seq, "topic_subscribe"), "subscriber"), "s");
    send_whole(c.fd, out, (size_t)(at - out));
    size_t length = await(&c);
    if (memmem(c.in, length, "\xa5" "error", 6)) {
        note(c.in, length);
        fail("it does not subscribe: %s", first_note);
    }
    close_connection(&c);
}

static void ask(struct connection *c, uint32_t count) {
    static char out[BUFFER];
    size_t length = 0;
    uint64_t now = now_ns();
    while (count-- > 0) {
        c->sent_ns[c->asked++ % depth] = now;
        length += build_put(out + length, c, c->asked);
        if (length > BUFFER - REQUEST) {
            send_whole(c->fd, out, length);
            length = 0;
        }
    }
    send_whole(c->fd, out, length);
}

static uint32_t take(struct connection *c, bool is_counted, uint64_t *good) {
    uint32_t answered = 0;
    size_t at = 0, length;
    uint64_t now = now_ns();
    while (c->answered < c->asked && (length = cut(c->in + at, c->fill - at))) {
        if (protocol == 'n' && c->in[at] == 'P') { /* PING */
            send_whole(c->fd, "PONG\r\n", 6);
            at += length;
            continue;
        }
        enum verdict verdict = judge_put(c->in + at, length, c, c->answered + 1);
        if (verdict != GOOD) note(c->in + at, length);
        at += length;
        answered++;
        errors += verdict == REFUSED;
        wrong += verdict == WRONG;
        uint64_t sent = c->sent_ns[c->answered++ % depth];
        if (verdict != GOOD) continue;
        acknowledged++;
        if (!is_counted) continue;
        count_latency(now - sent);
        ++*good;
    }
    forget(c, at);
    return answered;
}

/* -- what is measured --------------------------------------------------------------------------------------------------- */

/* Put for so many seconds, or so many messages. */
static uint64_t put(uint16_t port, uint32_t connections, double seconds, uint32_t most, double *counted_s) {
    int epoll = epoll_create1(0);
    struct connection *all = calloc(connections, sizeof *all);
    for (uint32_t i = 0; i < connections; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = all + i};
        open_connection(all + i, port, i);
        epoll_ctl(epoll, EPOLL_CTL_ADD, all[i].fd, &event);
    }
    uint64_t begin = now_ns(), warm = begin + (uint64_t)(seconds * 0.15e9), end = begin + (uint64_t)(seconds * 1e9), good = 0;
    uint32_t under_way = 0, left = most;
    for (uint32_t i = 0; i < connections; i++) {
        uint32_t more = depth < left ? depth : left;
        ask(all + i, more);
        under_way += more;
        left -= more;
    }
    while (under_way > 0) {
        struct epoll_event events[256];
        int ready = epoll_wait(epoll, events, 256, SILENCE_S * 1000);
        if (ready <= 0) fail("no answer within %d s", SILENCE_S);
        for (int i = 0; i < ready; i++) {
            struct connection *c = events[i].data.ptr;
            receive(c);
            uint64_t now = now_ns();
            uint32_t answered = take(c, now >= warm && now < end, &good);
            uint32_t more = now < end || most < UINT32_MAX ? (answered < left ? answered : left) : 0;
            if (more) ask(c, more);
            under_way += more - answered;
            left -= more;
        }
    }
    for (uint32_t i = 0; i < connections; i++) close_connection(all + i);
    free(all);
    close(epoll);
    *counted_s = (double)(end - warm) / 1e9;
    return good;
}

/* Get all that is there, in batches; how many messages. */
static uint64_t drain(uint16_t port, bool is_counted) {
    struct connection c;
    static char out[REQUEST], done[REQUEST / 2];
    uint64_t total = 0;
    uint32_t count = 0;
    size_t done_length = 0;
    open_connection(&c, port, 0);
    for (;;) {
        uint64_t sent = now_ns();
        send_whole(c.fd, out, build_get(out, ++c.seq, done, count, done_length, BATCH, 0));
        size_t length = await(&c);
        int found = judge_get((const uint8_t *)c.in, length, c.seq, done, &done_length);
        if (found < 0) note(c.in, length);
        if (found <= 0) break;
        if (is_counted)
            for (int i = 0; i < found; i++) count_latency(now_ns() - sent);
        forget(&c, length);
        count = (uint32_t)found;
        total += count;
    }
    close_connection(&c);
    return total;
}

/* How many messages Redis has. */
static uint64_t count_redis(uint16_t port) {
    struct connection c;
    char out[REQUEST];
    open_connection(&c, port, 0);
    send_whole(c.fd, out, (size_t)sprintf(out, "*2\r\n$4\r\nXLEN\r\n$9\r\n%s\r\n", topic));
    await(&c);
    uint64_t found = c.in[0] == ':' ? strtoull(c.in + 1, NULL, 10) : 0;
    close_connection(&c);
    return found;
}

static uint64_t tell(uint16_t port, uint16_t other, double seconds, double *counted_s) {
    struct connection from, to;
    static char out[REQUEST], done[REQUEST / 2];
    uint64_t random = 88172645463325252u ^ tag, good = 0;
    size_t done_length = 0;
    uint32_t count = 0;
    open_connection(&from, port, 0);
    open_connection(&to, other, 0);
    uint64_t begin = now_ns(), warm = begin + (uint64_t)(seconds * 0.15e9), end = begin + (uint64_t)(seconds * 1e9), now = begin;
    while (now < end) {
        send_whole(to.fd, out, build_get(out, ++to.seq, done, count, done_length, 1, WAIT_S));
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        usleep((useconds_t)(PAUSE_US / 2 + random % PAUSE_US));
        uint64_t sent = now_ns(), ignored = 0;
        ask(&from, 1);
        size_t length = await(&to);
        now = now_ns();
        int found = judge_get((const uint8_t *)to.in, length, to.seq, done, &done_length);
        if (found != 1) note(to.in, length);
        if (found < 0) break;
        wrong += found == 0; /* it did not wait long enough */
        forget(&to, length);
        count = (uint32_t)found;
        while (from.answered < from.asked) {
            receive(&from);
            take(&from, false, &ignored);
        }
        if (found != 1 || now < warm) continue;
        count_latency(now - sent);
        good++;
    }
    close_connection(&from);
    close_connection(&to);
    *counted_s = (double)(now - warm) / 1e9;
    return good;
}

int main(int count, char **words) {
    if (count != 11 || !strchr("drn", words[2][0])) return 2;
    uint16_t port = (uint16_t)atoi(words[1]);
    protocol = words[2][0];
    uint32_t connections = (uint32_t)atoi(words[4]), amount = (uint32_t)atoi(words[7]);
    depth = (uint32_t)atoi(words[5]);
    double seconds = atof(words[6]), counted_s = 0;
    copies = (uint32_t)atoi(words[8]);
    tag = (uint32_t)atol(words[9]);
    size = (size_t)atoi(words[10]);
    if (!connections || !depth || size < MARK || size > REQUEST / 4) return 2;
    producers = connections;
    had = calloc(producers, sizeof *had);
    value = new_value(tag, size);
    topic[0] = 't';
    digits8(topic + 1, tag);
    histogram = calloc(LATENCY_US + 1, sizeof *histogram);
    subscribe(port);

    uint64_t good = 0, checked = 0, begin = now_ns();
    double cpu_before = cpu_s(), busy;
    if (!strcmp(words[3], "put")) {
        good = put(port, connections, seconds, UINT32_MAX, &counted_s);
        busy = (cpu_s() - cpu_before) * 1e9 / (double)(now_ns() - begin);
        checked = protocol == 'd' ? drain(port, false) : protocol == 'r' ? count_redis(port) : acknowledged;
        wrong += checked != acknowledged;
    } else if (!strcmp(words[3], "get")) {
        put(port, connections, 0, amount, &counted_s);
        memset(histogram, 0, (LATENCY_US + 1) * sizeof *histogram);
        begin = now_ns();
        cpu_before = cpu_s();
        good = checked = drain(port, true);
        counted_s = (double)(now_ns() - begin) / 1e9;
        busy = (cpu_s() - cpu_before) / counted_s;
        wrong += checked != acknowledged;
    } else {
        good = tell(port, (uint16_t)amount, seconds, &counted_s);
        busy = (cpu_s() - cpu_before) * 1e9 / (double)(now_ns() - begin);
    }
    print_line(good, counted_s, acknowledged, (uint32_t)checked, 0, busy);
    return 0;
}
