/* A closed loop of locks: acquire, release, and again.  The same for distkv's tokens and etcd's locks (its JSON gateway).
 *
 *   tokens PORT PROTOCOL MODE CONNECTIONS NAMES SECONDS TAG
 *
 * PROTOCOL  distkv | etcd
 * MODE      alone   every connection has NAMES tokens of its own, and takes them in turn: nobody waits
 *           handed  all connections want the same one: it is handed from one to the next
 *
 * Every connection has a session (etcd: a lease), which is opened before the time begins and outlives it, and one request under
 * way.  An operation is a grant and the release after it; its time runs from the request to the answer to the release.  It counts
 * when the last of it comes in the time that counts: not in the first 15 % of SECONDS, nor later.  TAG is in every name.
 *
 * What is believed: nothing.  A grant counts when it is the reply to this request, and above all that came before for this
 * token: by its fence, in etcd by the revision of the store, and the key has the name of the lock in it.  All that came is read
 * before the next release is sent, and of the tokens that are handed each connection keeps its first one for a while.  A grant
 * that comes while another connection has one, and has not sent its release, is wrong.  A refusal is an error.
 *
 * One line of JSON is printed, with the fields of load.c.  Exit code 0: it is there, errors or not; 1: the server is gone or
 * silent; 2: wrong usage.
 */
#include "wire.h"

enum { TTL_S = 600, WAIT_S = 15, KEEP_MS = 1, NAME = 15, NAME_BASE64 = 20, WORD = 256 };
enum step { OPEN, ACQUIRE, RELEASE, CLOSE };

struct token { char name[NAME + 1], name64[NAME_BASE64 + 5]; uint64_t epoch, counter; const struct connection *holder; };
struct connection {
    int fd;
    uint32_t seq, turn;
    enum step step; /* what is under way */
    enum verdict verdict; /* of the grant */
    uint64_t keep_ns; /* until then it keeps its first token; 0: it keeps none */
    bool has_kept;
    uint64_t sent_ns;
    struct token *tokens;
    char session[WORD], key[WORD]; /* etcd: its lease; what is released there */
    size_t fill;
    char *in;
};

static char protocol;
static bool is_handed;
static uint32_t names; /* of each connection */
static uint32_t under_way, keeping; /* connections */
static uint64_t warm_ns, end_ns, good, acknowledged;

static struct token *token_of(const struct connection *c) { return c->tokens + c->turn % names; }

static struct token *new_tokens(uint32_t tag, uint32_t count) {
    struct token *made = calloc(count, sizeof *made);
    for (uint32_t i = 0; i < count; i++) {
        char number[9] = {0};
        digits8(number, i);
        memcpy(made[i].name, "t00000000.", 10);
        digits8(made[i].name + 1, tag);
        memcpy(made[i].name + 10, number + 3, 5);
        base64(made[i].name64, made[i].name, NAME);
    }
    return made;
}

/* -- requests ------------------------------------------------------------------------------------------------------- */

static size_t build_distkv(char *to, const struct connection *c) {
    static const char *actions[] = {"token_open", "token_acquire", "token_release", "token_close"};
    static const char fields[] = {3, 5, 6, 3};
    char *at = to;
    *at++ = (char)(0x80 | fields[c->step]);
    at = text(text(number(text(at, "seq"), c->seq), "action"), actions[c->step]);
    if (c->step == OPEN) return (size_t)(number(text(at, "ttl"), TTL_S) - to);
    at = text(text(at, "session"), c->session);
    if (c->step == ACQUIRE || c->step == RELEASE) at = text(text(at, "token"), token_of(c)->name);
    if (c->step == ACQUIRE) at = number(text(at, "wait"), WAIT_S);
    if (c->step == RELEASE) /* with its fence, as a client that keeps its session does */
        at = number64(text(number64(text(at, "epoch"), token_of(c)->epoch), "counter"), token_of(c)->counter);
    return (size_t)(at - to);
}

static size_t build_etcd(char *to, const struct connection *c) {
    char body[4 * WORD];
    if (c->step == OPEN) sprintf(body, "{\"TTL\":\"%d\"}", TTL_S);
    else if (c->step == ACQUIRE) sprintf(body, "{\"name\":\"%s\",\"lease\":\"%s\"}", token_of(c)->name64, c->session);
    else if (c->step == RELEASE) sprintf(body, "{\"key\":\"%s\"}", c->key);
    else sprintf(body, "{\"ID\":\"%s\"}", c->session);
    static const char *places[] = {"lease/grant", "lock/lock", "lock/unlock", "lease/revoke"};
    return post(to, places[c->step], body);
}

/* -- replies -------------------------------------------------------------------------------------------------------- */

static bool copy_word(char *to, const char *from, size_t length) {
    if (!length || length >= WORD) return false;
    memcpy(to, from, length);
    to[length] = 0;
    return true;
}

/* Whether this grant is above all that came before; then it is the highest. */
static bool rises(struct token *token, uint64_t epoch, uint64_t counter) {
    if (epoch < token->epoch || (epoch == token->epoch && counter <= token->counter)) return false;
    token->epoch = epoch;
    token->counter = counter;
    return true;
}

static enum verdict judge_distkv(const uint8_t *reply, size_t length, struct connection *c) {
    const uint8_t *end = reply + length, *at = reply + 1;
    bool has_seq = false, has_session = false, has_name = false, is_alone = false;
    uint64_t epoch = 0, counter = 0;
    if (*reply < 0x80 || *reply > 0x8f) return WRONG;
    while (at < end) {
        const uint8_t *middle = skip(at, end), *next = skip(middle, end);
        if (holds(at, "error")) return REFUSED;
        if (holds(at, "seq")) has_seq = is_number(middle, next, c->seq);
        if (holds(at, "session") && c->step == OPEN) /* a short string, which `text` can send */
            has_session = (*middle & 0xe0) == 0xa0 && copy_word(c->session, (const char *)middle + 1, (size_t)(next - middle - 1));
        if (holds(at, "token")) has_name = is_text(middle, next, token_of(c)->name, NAME);
        if (holds(at, "epoch")) epoch = number_at(middle, next);
        if (holds(at, "counter")) counter = number_at(middle, next);
        if (holds(at, "shared")) is_alone = *middle == 0xc2;
        at = next;
    }
    if (!has_seq || (c->step == OPEN && !has_session)) return WRONG;
    return c->step != ACQUIRE || (has_name && is_alone && rises(token_of(c), epoch, counter)) ? GOOD : WRONG;
}

/* The text of a field of JSON; false: there is none. */
static bool find_word(const char *in, size_t length, const char *name, char *to) {
    char quoted[32];
    const char *at = memmem(in, length, quoted, (size_t)sprintf(quoted, "\"%s\":\"", name));
    if (!at) return false;
    at += strlen(quoted);
    const char *end = memchr(at, '"', length - (size_t)(at - in));
    return end && copy_word(to, at, (size_t)(end - at));
}

static enum verdict judge_etcd(const char *reply, size_t length, struct connection *c) {
    char revision[WORD];
    if (is_refusal(reply, length)) return REFUSED;
    if (!find_word(reply, length, "revision", revision)) return WRONG;
    if (c->step == OPEN) return find_word(reply, length, "ID", c->session) ? GOOD : WRONG;
    if (c->step != ACQUIRE) return GOOD;
    bool has_key = find_word(reply, length, "key", c->key) && !strncmp(c->key, token_of(c)->name64, NAME_BASE64);
    return has_key && rises(token_of(c), 0, strtoull(revision, NULL, 10)) ? GOOD : WRONG;
}

static void count_bad(enum verdict verdict, const char *reply, size_t length) {
    errors += verdict == REFUSED;
    wrong += verdict == WRONG;
    if (verdict != GOOD) note(reply, length);
}

/* -- connections ---------------------------------------------------------------------------------------------------- */

static void ask(struct connection *c, enum step step) {
    char out[REQUEST];
    c->step = step;
    c->seq++;
    send_whole(c->fd, out, protocol == 'd' ? build_distkv(out, c) : build_etcd(out, c));
}

/* Take the reply if it is whole.  It is the only one: `ask` follows. */
static bool take(struct connection *c, enum verdict *verdict) {
    c->fill += receive_some(c->fd, c->in + c->fill, BUFFER - c->fill);
    size_t length = protocol == 'd' ? whole_object(c->in, c->fill) : whole_response(c->in, c->fill);
    if (!length) return false;
    *verdict = protocol == 'd' ? judge_distkv((const uint8_t *)c->in, length, c) : judge_etcd(c->in, length, c);
    if (length < c->fill) *verdict = WRONG; /* nobody asked for more */
    if (*verdict == GOOD && c->step == ACQUIRE && token_of(c)->holder) *verdict = WRONG;
    count_bad(*verdict, c->in, c->fill);
    c->fill = 0;
    return true;
}

static bool ask_and_wait(struct connection *c, enum step step) {
    enum verdict verdict;
    ask(c, step);
    while (!take(c, &verdict)) continue;
    return verdict == GOOD;
}

static bool open_connection(struct connection *c, uint16_t port, struct token *tokens) {
    *c = (struct connection){.fd = connect_to(port), .in = malloc(BUFFER), .tokens = tokens};
    while (protocol == 'd' && !whole_object(c->in, c->fill)) /* it greets */
        c->fill += receive_some(c->fd, c->in + c->fill, BUFFER - c->fill);
    c->fill = 0;
    return ask_and_wait(c, OPEN);
}

static void acquire(struct connection *c) {
    c->sent_ns = now_ns();
    ask(c, ACQUIRE);
}

static void release(struct connection *c) {
    if (token_of(c)->holder == c) token_of(c)->holder = NULL;
    ask(c, RELEASE);
}

/* -- the loop ------------------------------------------------------------------------------------------------------- */

/* Take what came; whether this connection goes on. */
static bool hear(struct connection *c) {
    bool is_asked = c->step != CLOSE && !c->keep_ns;
    enum verdict verdict;
    if (!take(c, &verdict)) return false;
    wrong += !is_asked && verdict == GOOD;
    if (c->step == ACQUIRE && is_asked) {
        c->verdict = verdict;
        if (verdict != REFUSED) token_of(c)->holder = c;
    }
    if (c->step == RELEASE && verdict == GOOD && c->verdict == GOOD) {
        uint64_t now = now_ns();
        acknowledged++;
        if (now >= warm_ns && now < end_ns) {
            count_latency(now - c->sent_ns);
            good++;
        }
    }
    return is_asked;
}

static void go_on(struct connection *c, uint64_t now) {
    bool is_granted = c->step == ACQUIRE && c->verdict != REFUSED;
    if (is_granted && is_handed && !c->has_kept) {
        c->has_kept = true;
        c->keep_ns = now + KEEP_MS * 1000000u;
        keeping++;
    } else if (is_granted) {
        release(c);
    } else if (now < end_ns) {
        c->turn++;
        acquire(c);
    } else {
        c->step = CLOSE; /* it asks for nothing more */
        under_way--;
    }
}

static void end_keeping(struct connection *c, uint64_t now) {
    if (!c->keep_ns || now < c->keep_ns) return;
    c->keep_ns = 0;
    keeping--;
    release(c);
}

static void run(int epoll, struct connection *all, uint32_t connections) {
    for (uint32_t i = 0; i < connections; i++) acquire(all + i);
    under_way = connections;
    while (under_way > 0) {
        struct epoll_event events[256];
        struct connection *heard[256];
        uint32_t count = 0;
        int ready = epoll_wait(epoll, events, 256, keeping ? KEEP_MS : SILENCE_S * 1000);
        if (ready < 0 || (!ready && !keeping)) fail("no answer within %d s", SILENCE_S);
        for (int i = 0; i < ready; i++) /* everything is read before a release is sent */
            if (hear(events[i].data.ptr)) heard[count++] = events[i].data.ptr;
        uint64_t now = now_ns();
        for (uint32_t i = 0; keeping && i < connections; i++) end_keeping(all + i, now);
        for (uint32_t i = 0; i < count; i++) go_on(heard[i], now);
    }
}

int main(int count, char **words) {
    if (count != 8 || !strchr("de", words[2][0])) return 2;
    uint16_t port = (uint16_t)atoi(words[1]);
    protocol = words[2][0];
    is_handed = !strcmp(words[3], "handed");
    uint32_t connections = (uint32_t)atoi(words[4]);
    names = is_handed ? 1 : (uint32_t)atoi(words[5]);
    double seconds = atof(words[6]);
    uint32_t tag = (uint32_t)atol(words[7]);
    if (!connections || !names || connections * names > 100000) return 2;
    histogram = calloc(LATENCY_US + 1, sizeof *histogram);

    struct token *tokens = new_tokens(tag, is_handed ? 1 : connections * names);
    int epoll = epoll_create1(0);
    struct connection *all = calloc(connections, sizeof *all);
    bool is_open = true;
    for (uint32_t i = 0; i < connections; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = all + i};
        is_open = open_connection(all + i, port, is_handed ? tokens : tokens + i * names) && is_open;
        epoll_ctl(epoll, EPOLL_CTL_ADD, all[i].fd, &event);
    }

    double cpu_before = cpu_s();
    uint64_t begin = now_ns();
    warm_ns = begin + (uint64_t)(seconds * 0.15e9);
    end_ns = begin + (uint64_t)(seconds * 1e9);
    if (is_open) run(epoll, all, connections);
    double busy = (cpu_s() - cpu_before) * 1e9 / (double)(now_ns() - begin);
    for (uint32_t i = 0; i < connections; i++) {
        if (*all[i].session) ask_and_wait(all + i, CLOSE);
        close(all[i].fd);
    }
    print_line(good, (double)(end_ns - warm_ns) / 1e9, acknowledged, 0, 0, busy);
    return 0;
}
