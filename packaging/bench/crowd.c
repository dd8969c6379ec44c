/* Many clients of the activity network: they log in, follow redirects, send, resume, and write down what they were told.
 *
 *   crowd CLIENTS SENDERS RATE PORTS FILE
 *
 * PORTS     of the listeners, with commas between them; a client begins at one after the other, unless `first` is said
 * RATE      activities a second of each sender, the first SENDERS clients; less where their echoes come later: a sender has two
 *           under way at the most
 *
 * Of five clients that follow each other three resume; one never does: after a break it is another client; one resumes, and
 * goes to another node each second.
 *
 * stdin has commands, each a line: `send`, `rest` (nobody sends any more), `quit`.  Each half second a line is printed:
 * MS IN GOT ECHOED: since when, how many are logged in, and how much they were told.  FILE has in the end, each a line:
 *
 *   got CLIENT CONNECTION STREAM FIRST LAST   these numbers in their order.  A stream is SENDER.CONNECTION of who does not
 *                                             resume, else SENDER.0; so is the connection of a client that is told
 *   echo STREAM FIRST LAST                    these came back on the connection on which they were sent
 *   gap CLIENT CONNECTION ORIGIN FIRST LAST   it was told so
 *   again CLIENT ORIGIN NUMBER                a client that resumes was told what it had
 *   move CLIENT CONNECTION MS PORT AT_LOGIN   it was sent on by the node with this port; AT_LOGIN: it had just come
 *   lost CLIENT CONNECTION MS PORT            its connection ended without a word
 *   refused CLIENT CONNECTION MS PORT LINE    its connection ended with this
 *   hops CLIENT COUNT                         so often it was sent on, the most times one after the other
 *   late MS PART                              so long it took until this part of all that was told came
 */
#include "wire.h"
#include <errno.h>
#include <fcntl.h>

enum { IN = 1 << 17, OUT = 1 << 15, NODES = 16, ORIGINS = 64, SENDERS = 64, UNECHOED = 1, LOGIN_MS = 8000, JUMP_MS = 1000 };
enum phase { AWAY, ASKING, LOGGED_IN };
enum kind { RESUMES, PLAIN, JUMPS };

struct run { uint32_t connection, first, last; }; /* numbers of a stream that came one after the other */
struct place { char origin[100]; uint64_t number; };
struct client {
    int fd;
    enum phase phase;
    enum kind kind;
    uint32_t number, connection, hops, hops_max, origins, sent, sent_here, echoed;
    int at, next; /* ports, by their place in the list; next: -1 is any */
    bool was_in, is_moved;
    uint64_t begun_ms, again_ms, in_ms, due_us;
    size_t fill, left;
    char client[300];
    struct place reached[ORIGINS];
    struct run runs[SENDERS], echo;
    char *in, *out;
};

static struct client *all;
static uint32_t clients, senders, rate, nodes, logged_in;
static uint16_t ports[NODES];
static uint64_t begin_ns, got, echoes, seed = 88172645463325252u;
static bool is_sending, is_over;
static FILE *file;
static int epoll;

static uint64_t now_ms(void) { return (now_ns() - begin_ns) / 1000000; }

static uint32_t draw(uint32_t below) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)(seed % below);
}

/* -- what is written down -------------------------------------------------------------------------------------------- */

static uint32_t connection_of(const struct client *c) { return c->kind == PLAIN ? c->connection : 0; }

static void write_run(const struct client *c, uint32_t sender) {
    const struct run *run = c->runs + sender;
    if (run->first)
        fprintf(file, "got %u %u %u.%u %u %u\n", c->number, connection_of(c), sender, run->connection, run->first, run->last);
}

static void write_echo(struct client *c) {
    if (c->echo.first) fprintf(file, "echo %u.%u %u %u\n", c->number, c->echo.connection, c->echo.first, c->echo.last);
    c->echo.first = 0;
}

static void note_got(struct client *c, uint32_t sender, uint32_t connection, uint32_t number) {
    struct run *run = c->runs + sender;
    if (run->first && run->connection == connection && number == run->last + 1) run->last = number;
    else {
        write_run(c, sender);
        *run = (struct run){connection, number, number};
    }
    got++;
    if (sender != c->number || connection != connection_of(c) || number <= c->sent_here || number > c->sent) return;
    echoes++;
    c->echoed = number;
    if (c->echo.first && number == c->echo.last + 1) c->echo.last = number;
    else {
        write_echo(c);
        c->echo = (struct run){connection, number, number};
    }
}

static void write_all_runs(struct client *c) {
    for (uint32_t sender = 0; sender < senders; sender++) {
        write_run(c, sender);
        c->runs[sender].first = 0;
    }
    write_echo(c);
}

/* -- connections ----------------------------------------------------------------------------------------------------- */

static void put(struct client *c, const char *data, size_t length) {
    if (c->left + length > OUT) return; /* the login timeout ends it */
    memcpy(c->out + c->left, data, length);
    c->left += length;
}

static void leave(struct client *c, int next, uint64_t pause_ms) {
    logged_in -= c->phase == LOGGED_IN;
    close(c->fd);
    write_echo(c);
    if (c->kind == PLAIN) write_all_runs(c);
    c->phase = AWAY;
    c->fd = -1;
    c->next = next;
    c->again_ms = now_ms() + pause_ms;
}

static void flush(struct client *c) {
    while (c->left) {
        ssize_t sent = send(c->fd, c->out, c->left, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent <= 0) return; /* a connection that is broken is read as such */
        memmove(c->out, c->out + sent, c->left - (size_t)sent);
        c->left -= (size_t)sent;
    }
}

static void say_login(struct client *c) {
    char line[ORIGINS * 130 + 600], *at = line;
    at += sprintf(at, "{\"command\":\"LOGIN\",\"username\":\"anonymous\"");
    if (c->kind != PLAIN) {
        at += sprintf(at, ",\"resume\":{");
        for (uint32_t i = 0; i < c->origins; i++)
            at += sprintf(at, "%s\"%s\":%lu", i ? "," : "", c->reached[i].origin, c->reached[i].number);
        at += sprintf(at, "}");
        if (*c->client) at += sprintf(at, ",\"client\":\"%s\"", c->client);
    }
    at += sprintf(at, "}\n");
    put(c, line, (size_t)(at - line));
    flush(c);
}

static void enter(struct client *c) {
    int port = c->next >= 0 ? c->next : (int)draw(nodes), one = 1;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(ports[port]), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (c->fd < 0) fail("no socket: %m");
    if (connect(c->fd, (struct sockaddr *)&to, sizeof to)) {
        close(c->fd);
        c->fd = -1;
        c->next = -1;
        c->again_ms = now_ms() + 50 + draw(100);
        return;
    }
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    fcntl(c->fd, F_SETFL, O_NONBLOCK);
    c->at = port;
    c->fill = c->left = 0;
    c->begun_ms = now_ms();
    c->phase = ASKING;
    c->is_moved = false;
    c->connection++;
    c->sent_here = c->echoed = c->sent; /* what is not echoed until now never will be */
    if (c->kind == PLAIN) c->sent = c->sent_here = c->echoed = 0;
    epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd, &(struct epoll_event){.events = EPOLLIN, .data.ptr = c});
    say_login(c);
}

/* -- what comes ------------------------------------------------------------------------------------------------------ */

static bool reach(struct client *c, const char *origin, size_t length, uint64_t number) {
    for (uint32_t i = 0; i < c->origins; i++) {
        struct place *p = c->reached + i;
        if (strlen(p->origin) != length || memcmp(p->origin, origin, length)) continue;
        if (number <= p->number) return false;
        p->number = number;
        return true;
    }
    if (c->origins == ORIGINS) fail("too many origins");
    struct place *p = c->reached + c->origins++;
    memcpy(p->origin, origin, length);
    p->origin[length] = 0;
    p->number = number;
    return true;
}

/* The number behind this key; 0: there is none. */
static uint64_t number_behind(const char *line, const char *key) {
    const char *at = strstr(line, key);
    return at ? strtoull(at + strlen(key), NULL, 10) : 0;
}

/* The text behind this key; NULL: there is none. */
static const char *text_behind(const char *line, const char *key, size_t *length) {
    const char *at = strstr(line, key), *end = at ? strchr(at + strlen(key), '"') : NULL;
    if (!end) return NULL;
    *length = (size_t)(end - at) - strlen(key);
    return at + strlen(key);
}

static void hear_success(struct client *c, const char *line) {
    size_t length;
    c->phase = LOGGED_IN;
    c->in_ms = now_ms();
    logged_in++;
    const char *mark = text_behind(line, "\"client\":\"", &length), *at = strstr(line, "\"at\":{");
    if (mark && length < sizeof c->client) {
        memcpy(c->client, mark, length);
        c->client[length] = 0;
    }
    if (c->was_in || !at) return;
    c->was_in = true;
    for (at += 6; *at == '"' || *at == ',';) {
        const char *name = strchr(at, '"') + 1, *end = strchr(name, '"');
        char *next;
        uint64_t number = strtoull(end + 2, &next, 10);
        reach(c, name, (size_t)(end - name), number); /* 0 too: an empty map would begin anew */
        at = next;
    }
}

static void hear_broadcast(struct client *c, const char *line) {
    size_t length;
    const char *origin = text_behind(line, "\"origin\":\"", &length);
    uint64_t number = number_behind(line, "\"number\":");
    if (!origin || !number) fail("no broadcast: %.200s", line);
    if (c->kind != PLAIN && !reach(c, origin, length, number)) {
        fprintf(file, "again %u %.*s %lu\n", c->number, (int)length, origin, number);
        return;
    }
    uint64_t sender = number_behind(line, "\"s\":"), ms = number_behind(line, "\"t\":"), now = now_ms();
    if (sender >= senders) fail("nobody sent this: %.200s", line);
    note_got(c, (uint32_t)sender, (uint32_t)number_behind(line, "\"c\":"), (uint32_t)number_behind(line, "\"n\":"));
    histogram[now > ms ? (now - ms < LATENCY_US ? now - ms : LATENCY_US) : 0]++;
}

static void hear_gap(struct client *c, const char *line) {
    size_t length;
    const char *origin = text_behind(line, "\"origin\":\"", &length);
    uint64_t first = number_behind(line, "\"first\":"), last = number_behind(line, "\"last\":");
    if (origin && reach(c, origin, length, last))
        fprintf(file, "gap %u %u %.*s %lu %lu\n", c->number, c->connection, (int)length, origin, first, last);
}

static void hear_redirect(struct client *c, const char *line) {
    uint64_t port = number_behind(line, "\"port\":"), now = now_ms();
    int next = -1;
    bool is_login = c->phase == LOGGED_IN && now - c->in_ms < (c->kind == PLAIN ? 1000 : 300);
    for (uint32_t i = 0; i < nodes; i++)
        if (ports[i] == port) next = (int)i;
    if (next < 0 && nodes < NODES) {
        ports[nodes] = (uint16_t)port;
        next = (int)nodes++;
    }
    fprintf(file, "move %u %u %lu %u %d\n", c->number, c->connection, now, ports[c->at], is_login);
    c->hops = is_login ? c->hops + 1 : 1;
    if (c->hops > c->hops_max) c->hops_max = c->hops;
    c->is_moved = true;
    leave(c, next, 0);
}

static void hear_line(struct client *c, const char *line) {
    if (strstr(line, "\"ACTIVITY_BROADCAST\"")) hear_broadcast(c, line);
    else if (strstr(line, "\"LOGIN_SUCCESS\"")) hear_success(c, line);
    else if (strstr(line, "\"ACTIVITY_GAP\"")) hear_gap(c, line);
    else if (strstr(line, "\"REDIRECT\"")) hear_redirect(c, line);
    else {
        fprintf(file, "refused %u %u %lu %u %.200s\n", c->number, c->connection, now_ms(), ports[c->at], line);
        leave(c, -1, 100 + draw(200));
    }
}

static void hear(struct client *c) {
    for (int reads = 0; reads < 4 && c->phase != AWAY; reads++) {
        ssize_t count = recv(c->fd, c->in + c->fill, IN - 1 - c->fill, MSG_DONTWAIT);
        if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
        if (count <= 0) {
            fprintf(file, "lost %u %u %lu %u\n", c->number, c->connection, now_ms(), ports[c->at]);
            leave(c, -1, 20 + draw(80));
            return;
        }
        c->fill += (size_t)count;
        char *at = c->in, *end;
        while (c->phase != AWAY && (end = memchr(at, '\n', c->fill - (size_t)(at - c->in)))) {
            *end = 0;
            hear_line(c, at);
            at = end + 1;
        }
        c->fill -= (size_t)(at - c->in);
        memmove(c->in, at, c->fill);
        if (c->fill == IN - 1) fail("a line without an end: %.100s", c->in);
    }
}

/* -- what they do ---------------------------------------------------------------------------------------------------- */

static void speak(struct client *c, uint64_t now_us) {
    char line[300];
    if (!c->due_us) c->due_us = now_us + draw(1000000 / rate);
    if (now_us < c->due_us) return;
    c->due_us += 1000000 / rate;
    if (c->due_us + 1000000 < now_us) c->due_us = now_us; /* nobody catches up for more than a second */
    if (c->left || c->sent - c->echoed > UNECHOED) return;
    c->sent++;
    size_t length = (size_t)sprintf(
        line, "{\"command\":\"ACTIVITY_MESSAGE\",\"username\":\"anonymous\",\"activity\":{\"s\":%u,\"c\":%u,\"n\":%u,\"t\":%lu}}\n",
        c->number, connection_of(c), c->sent, now_us / 1000);
    put(c, line, length);
}

static void act(struct client *c) {
    uint64_t now = now_ms();
    if (c->phase == AWAY && c->again_ms <= now) enter(c);
    else if (c->phase == ASKING && c->begun_ms + LOGIN_MS < now) {
        fprintf(file, "refused %u %u %lu %u no answer to a login\n", c->number, c->connection, now, ports[c->at]);
        leave(c, -1, 0);
    } else if (c->phase == LOGGED_IN) {
        if (c->hops && now - c->in_ms > 1000) c->hops = 0;
        if (c->kind == JUMPS && is_sending && now - c->in_ms > JUMP_MS) leave(c, (c->at + 1 + (int)draw(nodes - 1)) % (int)nodes, 0);
        else if (is_sending && c->number < senders) speak(c, (now_ns() - begin_ns) / 1000);
    }
    if (c->phase != AWAY) flush(c);
}

static void obey(void) {
    char words[256];
    ssize_t count = read(0, words, sizeof words - 1);
    if (count <= 0) is_over = true;
    words[count > 0 ? count : 0] = 0;
    if (strstr(words, "send")) is_sending = true;
    if (strstr(words, "rest")) is_sending = false;
    if (strstr(words, "quit")) is_over = true;
}

static void run(void) {
    struct epoll_event events[64];
    uint64_t tick_ms = 0, said_ms = 0;
    while (!is_over) {
        int count = epoll_wait(epoll, events, 64, 5);
        for (int i = 0; i < count; i++) {
            struct client *c = events[i].data.ptr;
            if (!c) obey();
            else if (c->phase != AWAY) hear(c);
        }
        uint64_t now = now_ms();
        if (now < tick_ms + 5) continue;
        tick_ms = now;
        for (uint32_t i = 0; i < clients; i++) act(all + i);
        if (now < said_ms + 500) continue;
        said_ms = now;
        printf("%lu %u %lu %lu\n", now, logged_in, got, echoes);
        fflush(stdout);
    }
}

int main(int count, char **words) {
    if (count != 6) return 2;
    clients = (uint32_t)atoi(words[1]);
    senders = (uint32_t)atoi(words[2]);
    rate = (uint32_t)atoi(words[3]);
    for (char *at = words[4]; at && nodes < NODES; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        ports[nodes++] = (uint16_t)atoi(at);
    file = fopen(words[5], "w");
    if (!clients || senders > clients || senders > SENDERS || !rate || !nodes || !file) return 2;
    begin_ns = now_ns();
    histogram = calloc(LATENCY_US + 1, sizeof *histogram);
    epoll = epoll_create1(0);
    all = calloc(clients, sizeof *all);
    for (uint32_t i = 0; i < clients; i++)
        all[i] = (struct client){.fd = -1, .number = i, .kind = i % 5 == 3 ? PLAIN : i % 5 == 4 ? JUMPS : RESUMES,
            .next = (int)(i % nodes), .in = malloc(IN), .out = malloc(OUT)};
    epoll_ctl(epoll, EPOLL_CTL_ADD, 0, &(struct epoll_event){.events = EPOLLIN, .data.ptr = NULL});
    run();
    for (uint32_t i = 0; i < clients; i++) {
        write_all_runs(all + i);
        fprintf(file, "hops %u %u\n", i, all[i].hops_max);
    }
    for (int part = 0; part < 3; part++) {
        double parts[] = {0.5, 0.99, 1};
        fprintf(file, "late %lu %g\n", quantile(got, parts[part]), parts[part]);
    }
    return fclose(file) ? 1 : 0;
}
