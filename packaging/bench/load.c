/* A closed-loop load generator: the same for distkv, Redis and etcd (its JSON gateway).
 *
 *   load PORT PROTOCOL VERB CONNECTIONS DEPTH SECONDS KEYS FAMILY TAG SIZE
 *
 * PROTOCOL  distkv | numbers | fenced | held | held2 | redis | etcd
 * VERB      get     random keys, for SECONDS
 *           set     random keys, for SECONDS
 *           fill    every key once
 *
 * Every connection keeps DEPTH requests under way.  The first 15 % of SECONDS are not counted.  Key number n is FAMILY (one
 * letter) and 8 digits; its value has SIZE bytes, and n and TAG in it, so that no other value can be taken for it.  The path in
 * distkv is ["bench", key]; with `numbers` it is [FAMILY, n], where n is an integer.  With `held` a set asks for `replicas: 3`,
 * and its reply must say that three nodes hold it; with `held2` two, or more.  With `fenced` the path is ["fence", key], a set is made under the fence of a
 * token, and what is read must have this fence.
 *
 * What is believed: nothing.  A reply counts when it is the one to this request: in order (distkv: with its seq), and with
 * every byte of the value.  Anything else is an error, and is not an operation.  After `set` and `fill` a sample of what was
 * acknowledged is read back over a new connection.
 *
 * One line of JSON is printed.  Exit code 0: it is there, errors or not; 1: the server is gone or silent; 2: wrong usage.
 */
#include "wire.h"

enum { MARK_BASE64 = 24, SAMPLE = 200, EPOCH = 2, COUNTER = 7 };
enum verb { GET, SET };

/* One request under way. */
struct slot { uint64_t sent_ns; uint32_t key; };
struct connection { int fd; uint32_t seq, answered; uint32_t head, count; struct slot *slots; size_t fill; char *in; };

static char protocol, family;
static bool has_numbers; /* names that are numbers */
static bool is_held; /* sets are answered when so many nodes hold them */
static uint32_t replicas;
static bool is_fenced; /* sets are made under a fence */
static uint32_t keys, tag, depth;
static size_t size;
static char *value, *value64; /* of the key that was written into them last */
static uint64_t acknowledged;
static bool *is_acknowledged;

static uint32_t random_key(void) {
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state % keys);
}

static void make_value(void) {
    value = new_value(tag, size);
    value64 = malloc(size * 2 + 8);
    base64(value64, value, size);
}

/* Only the mark differs from key to key: 18 bytes, which are 24 in base64. */
static void set_value_of(uint32_t key) {
    char mark[MARK_BASE64 + 1];
    digits8(value + 1, key);
    if (protocol == 'e') {
        base64(mark, value, MARK);
        memcpy(value64, mark, MARK_BASE64);
    }
}

/* -- requests ------------------------------------------------------------------------------------------------------- */

static char *put_fence(char *to) {
    *to++ = (char)0x93;
    return number(number(text(to, "load"), EPOCH), COUNTER);
}

/* Whether this is that fence. */
static bool is_fence(const uint8_t *at, const uint8_t *end) {
    if (*at != 0x93 || !holds(at + 1, "load")) return false;
    const uint8_t *epoch = skip(at + 1, end), *counter = skip(epoch, end);
    return is_number(epoch, counter, EPOCH) && is_number(counter, end, COUNTER);
}

static size_t build_distkv(char *to, enum verb verb, const char *name, uint32_t key, uint32_t seq) {
    const char top[] = {family, 0};
    char *at = to;
    *at++ = (char)((verb == GET ? 0x83 : 0x84) + (is_fenced || (verb == SET && is_held)));
    at = text(number(text(at, "seq"), seq), "action");
    at = text(at, verb == SET ? "set_value" : "get_value");
    at = text(at, "path");
    *at++ = (char)0x92;
    at = has_numbers ? number(text(at, top), key) : text(text(at, is_fenced ? "fence" : "bench"), name);
    if (verb == SET && is_held) {
        at = text(at, "replicas");
        *at++ = (char)replicas;
    }
    if (is_fenced && verb == SET) at = put_fence(text(at, "fence"));
    if (is_fenced && verb == GET) { /* else its fence is not shown */
        at = text(at, "nchain");
        *at++ = 1;
    }
    if (verb == SET) {
        at = text(at, "value");
        *at++ = (char)0xda;
        *at++ = (char)(size >> 8);
        *at++ = (char)size;
        memcpy(at, value, size);
        at += size;
    }
    return (size_t)(at - to);
}

static size_t build_redis(char *to, enum verb verb, const char *key) {
    if (verb == GET) return (size_t)sprintf(to, "*2\r\n$3\r\nGET\r\n$9\r\n%s\r\n", key);
    return (size_t)sprintf(to, "*3\r\n$3\r\nSET\r\n$9\r\n%s\r\n$%zu\r\n%s\r\n", key, size, value);
}

static size_t build_etcd(char *to, enum verb verb, const char *key) {
    char key64[16], body[REQUEST / 2];
    base64(key64, key, 9);
    if (verb == GET) sprintf(body, "{\"key\":\"%s\"}", key64);
    else sprintf(body, "{\"key\":\"%s\",\"value\":\"%s\"}", key64, value64);
    return post(to, verb == GET ? "kv/range" : "kv/put", body);
}

static size_t build(char *to, enum verb verb, uint32_t key, uint32_t seq) {
    char name[10] = {family};
    digits8(name + 1, key);
    if (verb == SET) set_value_of(key);
    if (protocol == 'd') return build_distkv(to, verb, name, key, seq);
    return protocol == 'r' ? build_redis(to, verb, name) : build_etcd(to, verb, name);
}

/* -- replies: how long the first one is (0: it is not whole), and whether it is the right one ------------------------- */

static size_t cut(const char *in, size_t fill) {
    if (protocol == 'd') return whole_object(in, fill);
    if (protocol == 'r') {
        char *line = memmem(in, fill, "\r\n", 2);
        if (!line) return 0;
        size_t length = (size_t)(line - in) + 2;
        if (in[0] == '$' && in[1] != '-') length += (size_t)atol(in + 1) + 2;
        return length <= fill ? length : 0;
    }
    return whole_response(in, fill);
}

static enum verdict judge_distkv(const uint8_t *reply, size_t length, enum verb verb, uint32_t seq) {
    const uint8_t *end = reply + length, *at = reply + 1;
    bool has_seq = false, is_right = false, is_with_all = verb == GET ? !is_fenced : !is_held;
    if (*reply < 0x80 || *reply > 0x8f) return WRONG;
    while (at < end) {
        const uint8_t *middle = skip(at, end), *next = skip(middle, end);
        if (holds(at, "error")) return REFUSED;
        if (holds(at, "seq")) has_seq = is_number(middle, next, seq);
        if (verb == SET && holds(at, "changed")) is_right = *middle == 0xc3;
        if (verb == SET && holds(at, "replicas")) is_with_all = number_at(middle, next) >= replicas;
        if (verb == GET && is_fenced && holds(at, "fence")) is_with_all = is_fence(middle, next);
        if (verb == GET && holds(at, "value")) is_right = is_text(middle, next, value, size);
        at = next;
    }
    return has_seq && is_right && is_with_all ? GOOD : WRONG;
}

static enum verdict judge_redis(const char *reply, size_t length, enum verb verb) {
    if (reply[0] == '-') return REFUSED;
    if (verb == SET) return length == 5 && !memcmp(reply, "+OK\r\n", 5) ? GOOD : WRONG;
    char header[16];
    size_t before = (size_t)sprintf(header, "$%zu\r\n", size);
    bool is_right = length == before + size + 2 && !memcmp(reply, header, before) && !memcmp(reply + before, value, size);
    return is_right ? GOOD : WRONG;
}

static enum verdict judge_etcd(const char *reply, size_t length, enum verb verb) {
    if (is_refusal(reply, length)) return REFUSED;
    const char *name = verb == SET ? "\"revision\":\"" : "\"value\":\"";
    char *found = memmem(reply, length, name, strlen(name));
    if (!found || verb == SET) return found ? GOOD : WRONG;
    size_t count = strlen(value64);
    found += strlen(name);
    bool is_right = (size_t)(reply + length - found) > count && !memcmp(found, value64, count) && found[count] == '"';
    return is_right ? GOOD : WRONG;
}

static enum verdict judge(const char *reply, size_t length, enum verb verb, uint32_t key, uint32_t seq) {
    if (verb == GET) set_value_of(key);
    enum verdict found = protocol == 'd'   ? judge_distkv((const uint8_t *)reply, length, verb, seq)
                         : protocol == 'r' ? judge_redis(reply, length, verb)
                                           : judge_etcd(reply, length, verb);
    if (found != GOOD) note(reply, length);
    return found;
}

/* -- connections ------------------------------------------------------------------------------------------------------ */

static void receive(struct connection *c) {
    c->fill += receive_some(c->fd, c->in + c->fill, BUFFER - c->fill);
}

static void forget(struct connection *c, size_t length) {
    memmove(c->in, c->in + length, c->fill - length);
    c->fill -= length;
}

static void open_connection(struct connection *c, uint16_t port) {
    *c = (struct connection){.fd = connect_to(port), .in = malloc(BUFFER), .slots = calloc(depth, sizeof(struct slot))};
    size_t length = 0;
    while (protocol == 'd' && !length) { /* it greets */
        receive(c);
        length = cut(c->in, c->fill);
    }
    forget(c, length);
}

/* Send `count` more requests at once. */
static void ask(struct connection *c, enum verb verb, uint32_t count, uint32_t *next_key) {
    static char out[BUFFER];
    size_t length = 0;
    uint64_t now = now_ns();
    while (count-- > 0) {
        uint32_t key = next_key ? (*next_key)++ : random_key();
        c->slots[(c->head + c->count++) % depth] = (struct slot){now, key};
        length += build(out + length, verb, key, ++c->seq);
        if (length > BUFFER - REQUEST) {
            send_whole(c->fd, out, length);
            length = 0;
        }
    }
    send_whole(c->fd, out, length);
}

/* Take the replies that are whole; the operations among them. */
static uint32_t take(struct connection *c, enum verb verb, bool is_counted, uint32_t *good) {
    uint32_t answered = 0;
    size_t at = 0, length;
    uint64_t now = now_ns();
    while (c->count > 0 && (length = cut(c->in + at, c->fill - at))) {
        struct slot slot = c->slots[c->head];
        enum verdict verdict = judge(c->in + at, length, verb, slot.key, ++c->answered);
        at += length;
        c->head = (c->head + 1) % depth;
        c->count--;
        answered++;
        errors += verdict == REFUSED;
        wrong += verdict == WRONG;
        if (verdict != GOOD) continue;
        acknowledged++;
        if (verb == SET) is_acknowledged[slot.key] = true;
        if (!is_counted) continue;
        count_latency(now - slot.sent_ns);
        ++*good;
    }
    forget(c, at);
    return answered;
}

/* Read back a sample of what was acknowledged; how many keys were read. */
static uint32_t read_back(uint16_t port) {
    struct connection c;
    uint32_t known = 0, checked = 0;
    for (uint32_t key = 0; key < keys; key++) known += is_acknowledged[key];
    uint32_t step = known / SAMPLE + 1, seen = 0;
    depth = 1;
    open_connection(&c, port);
    for (uint32_t key = 0; key < keys; key++) {
        if (!is_acknowledged[key] || seen++ % step) continue;
        char out[REQUEST];
        size_t length = 0;
        send_whole(c.fd, out, build(out, GET, key, ++c.seq));
        while (!length) {
            receive(&c);
            length = cut(c.in, c.fill);
        }
        enum verdict verdict = judge(c.in, length, GET, key, c.seq);
        errors += verdict == REFUSED;
        wrong += verdict == WRONG;
        forget(&c, length);
        checked++;
    }
    close(c.fd);
    return checked;
}

int main(int count, char **words) {
    if (count != 11 || !strchr("dnfhre", words[2][0])) return 2;
    uint16_t port = (uint16_t)atoi(words[1]);
    has_numbers = words[2][0] == 'n';
    is_held = words[2][0] == 'h';
    replicas = words[2][0] == 'h' && words[2][4] == '2' ? 2 : 3;
    is_fenced = words[2][0] == 'f';
    protocol = has_numbers || is_held || is_fenced ? 'd' : words[2][0];
    bool is_fill = !strcmp(words[3], "fill");
    enum verb verb = !strcmp(words[3], "get") ? GET : SET;
    uint32_t connections = (uint32_t)atoi(words[4]);
    depth = (uint32_t)atoi(words[5]);
    double seconds = atof(words[6]);
    keys = (uint32_t)atoi(words[7]);
    family = words[8][0];
    tag = (uint32_t)atol(words[9]);
    size = (size_t)atoi(words[10]);
    if (!connections || !depth || !keys || size < MARK || size > REQUEST / 4) return 2;
    make_value();
    histogram = calloc(LATENCY_US + 1, sizeof *histogram);
    is_acknowledged = calloc(keys, sizeof *is_acknowledged);

    int epoll = epoll_create1(0);
    struct connection *all = calloc(connections, sizeof *all);
    for (uint32_t i = 0; i < connections; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = all + i};
        open_connection(all + i, port);
        epoll_ctl(epoll, EPOLL_CTL_ADD, all[i].fd, &event);
    }

    uint64_t begin = now_ns(), warm = begin + (uint64_t)(seconds * 0.15e9), end = begin + (uint64_t)(seconds * 1e9);
    uint32_t next_key = 0, under_way = 0, good = 0;
    double cpu_before = cpu_s();
    if (is_fill) warm = begin;
    for (uint32_t i = 0; i < connections; i++) {
        uint32_t more = !is_fill || keys - next_key > depth ? depth : keys - next_key;
        ask(all + i, verb, more, is_fill ? &next_key : NULL);
        under_way += more;
    }
    while (under_way > 0) {
        struct epoll_event events[256];
        int ready = epoll_wait(epoll, events, 256, SILENCE_S * 1000);
        if (ready <= 0) fail("no answer within %d s", SILENCE_S);
        for (int i = 0; i < ready; i++) {
            struct connection *c = events[i].data.ptr;
            receive(c);
            uint64_t now = now_ns();
            uint32_t answered = take(c, verb, now >= warm && (is_fill || now < end), &good);
            uint32_t more = is_fill ? (keys - next_key > answered ? answered : keys - next_key) : now < end ? answered : 0;
            if (more) ask(c, verb, more, is_fill ? &next_key : NULL);
            under_way += more - answered;
        }
    }
    uint64_t last = now_ns();
    double busy = (cpu_s() - cpu_before) * 1e9 / (double)(last - begin);
    double counted_s = (double)((is_fill ? last : end) - warm) / 1e9;
    for (uint32_t i = 0; i < connections; i++) close(all[i].fd);
    uint32_t checked = verb == SET ? read_back(port) : 0;
    print_line(good, counted_s, acknowledged, checked, 0, busy);
    return 0;
}
