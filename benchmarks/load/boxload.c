/* boxload: ask a service as fast as it answers, or at a rate, and keep a ledger of every request.

   One thread, epoll. Each connection has up to --pipeline requests out; a request's sn says which connection sent it and
   as which one, so an answer that comes twice, or to a request that was never sent, is noticed. Requests go out as netkit
   Boxes over TCP or UDP, or, with --http, as GETs over keep-alive connections (one at a time, without numbers).

   Without --rate the loop is closed: the next request leaves when an answer has come. With it the loop is open: requests
   are due at fixed times, and latencies count from those, so a slow server cannot hide by slowing us down.

   With --heed RET a connection that is answered with RET asks no more: so behaves a client that is told of a stop.

   After --seconds, or at TERM or INT, no new request is sent; what is out is waited for, for --linger seconds at most.
   One line of JSON says what happened. Every request is in exactly one of: answered, lost, unsent, timed_out,
   unanswered. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { HEADER = 24, MAGIC = 0x7978AECF, MOST_FRAME = 16 << 20, SUB = 64, POWERS = 40, RETS = 64, OVERDUE = 4096 };
enum { RETRY_NS = 10000000, TICK_NS = 10000000 };

static struct {
    const char *host, *port;
    int connections, body, cmd, pipeline;
    double seconds, rate, timeout, linger;
    int udp, http, echo, until_closed, heed;
} want = {"127.0.0.1", "9900", 16, 100, 1, 1, 3, 0, 0, 2, 0, 0, 0, 0, 0};

typedef struct { int64_t due; uint64_t end; uint32_t number; int is_out; } Slot;

typedef struct {
    int fd, index, is_open, is_connecting, wants_out, out_count, has_heard;
    uint32_t next;                    /* the next request's number on this connection, from 1 */
    Slot *slots;
    uint32_t overdue[OVERDUE];        /* numbers given up lately: their answers are late, not second ones */
    uint32_t overdue_count;
    uint64_t queued, written;         /* bytes, over this connection's life */
    char *out; size_t out_from, out_to, out_size;
    char *in; size_t in_count, in_size;
    int64_t retry_at;
} Conn;

static struct {
    uint64_t sent, answered, in_time, lost, unsent, timed_out, late, twice, strange, garbled, bad_frames, reconnects,
        refused, closed;
    struct { int32_t ret; uint64_t count; } rets[RETS];
    int ret_count;
    uint64_t histogram[POWERS * SUB], failures[POWERS * SUB];   /* of all answers, and of those whose ret is not 0 */
    uint64_t failed, max;
} seen;

static Conn *conns;
static int poller, timer;
static struct addrinfo *target;
static char *payload;
static const char GET[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
static volatile sig_atomic_t told_to_stop;
static int is_sending = 1;
static int64_t started;
static uint64_t scheduled;
static int turn;

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void die(const char *what) {
    fprintf(stderr, "boxload: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* Latencies: 64 steps per power of two of nanoseconds, so a figure is at most 1.6 % too high. */

static void record(int64_t ns, int32_t ret) {
    uint64_t value = ns > 0 ? (uint64_t)ns : 0;
    if (value > seen.max) seen.max = value;
    int power = 0;
    while (value >= 2 * SUB && power < POWERS - 2) { value >>= 1; power++; }
    int index = power == 0 ? (int)value : power * SUB + (int)value;
    if (index >= POWERS * SUB) index = POWERS * SUB - 1;
    seen.histogram[index]++;
    if (ret) { seen.failures[index]++; seen.failed++; }
}

static double percentile_us(const uint64_t *histogram, uint64_t count, double part) {
    uint64_t rank = (uint64_t)(part * (double)count), sum = 0;
    if (!count) return 0;
    for (int index = 0; index < POWERS * SUB; index++) {
        sum += histogram[index];
        if (sum > rank) {
            int power = index < 2 * SUB ? 0 : index / SUB - 1;
            double top = (double)((uint64_t)(index - power * SUB + 1) << power);
            return (top < (double)seen.max ? top : (double)seen.max) / 1000;
        }
    }
    return (double)seen.max / 1000;
}

static void count_ret(int32_t ret) {
    for (int i = 0; i < seen.ret_count; i++)
        if (seen.rets[i].ret == ret) { seen.rets[i].count++; return; }
    if (seen.ret_count < RETS) {
        seen.rets[seen.ret_count].ret = ret;
        seen.rets[seen.ret_count++].count = 1;
    }
}

/* Connections */

static void watch(Conn *c, int operation) {
    struct epoll_event event = {.events = EPOLLIN | (c->wants_out ? EPOLLOUT : 0), .data.ptr = c};
    if (epoll_ctl(poller, operation, c->fd, &event) < 0) die("epoll_ctl");
}

static void open_conn(Conn *c) {
    c->fd = socket(target->ai_family, target->ai_socktype | SOCK_NONBLOCK, target->ai_protocol);
    if (c->fd < 0) die("socket");
    int on = 1;
    if (!want.udp) setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    int done = connect(c->fd, target->ai_addr, target->ai_addrlen);
    if (done < 0 && errno != EINPROGRESS) {
        seen.refused++;
        close(c->fd);
        c->fd = -1;
        c->retry_at = now_ns() + RETRY_NS;
        return;
    }
    c->is_connecting = done < 0;
    c->is_open = !c->is_connecting;
    c->wants_out = c->is_connecting;
    c->queued = c->written = 0;
    c->out_from = c->out_to = c->in_count = 0;
    watch(c, EPOLL_CTL_ADD);
}

/* The connection has ended. What left whole may have run: lost; the rest cannot have. */
static void close_conn(Conn *c) {
    for (int i = 0; i < want.pipeline; i++) {
        Slot *slot = &c->slots[i];
        if (!slot->is_out) continue;
        if (slot->end <= c->written) seen.lost++; else seen.unsent++;
        slot->is_out = 0;
    }
    if (c->is_open) seen.closed++;
    c->out_count = 0;
    close(c->fd);
    c->fd = -1;
    c->is_open = c->is_connecting = 0;
    c->retry_at = want.until_closed ? INT64_MAX : 0;
}

static void reopen(Conn *c, int64_t now) {
    if (!is_sending || c->has_heard || c->fd >= 0 || now < c->retry_at) return;
    seen.reconnects++;
    open_conn(c);
}

static int flush_conn(Conn *c) {
    while (c->out_from < c->out_to) {
        ssize_t done = send(c->fd, c->out + c->out_from, c->out_to - c->out_from, MSG_NOSIGNAL);
        if (done < 0) {
            if (errno == EINTR) continue;
            if (errno == EAGAIN || errno == EWOULDBLOCK) break;
            return -1;
        }
        c->out_from += (size_t)done;
        c->written += (uint64_t)done;
    }
    if (c->out_from == c->out_to) c->out_from = c->out_to = 0;
    int wants_out = c->out_from < c->out_to;
    if (wants_out != c->wants_out) { c->wants_out = wants_out; watch(c, EPOLL_CTL_MOD); }
    return 0;
}

static void put32(char *at, uint32_t value) { value = htonl(value); memcpy(at, &value, 4); }
static uint32_t get32(const char *at) { uint32_t value; memcpy(&value, at, 4); return ntohl(value); }

static size_t write_request(char *at, Conn *c, uint32_t number) {
    if (want.http) { memcpy(at, GET, sizeof GET - 1); return sizeof GET - 1; }
    put32(at, MAGIC);
    put32(at + 4, 0);
    put32(at + 8, (uint32_t)(HEADER + want.body));
    put32(at + 12, (uint32_t)want.cmd);
    put32(at + 16, 0);
    put32(at + 20, number * (uint32_t)want.connections + (uint32_t)c->index);
    memcpy(at + HEADER, payload, (size_t)want.body);
    return (size_t)(HEADER + want.body);
}

static size_t request_size(void) {
    size_t box = (size_t)(HEADER + want.body);
    return want.http ? sizeof GET - 1 : box;
}

/* There may be no room though a request may be out: one was given up, or answered, before all of it had left. */
static Slot *free_slot(Conn *c) {
    if (!c->is_open || c->has_heard || c->out_count == want.pipeline) return NULL;
    if (c->out_size - (c->out_to - c->out_from) < request_size()) return NULL;
    for (int i = 0; i < want.pipeline; i++)
        if (!c->slots[i].is_out) return &c->slots[i];
    return NULL;
}

static void ask(Conn *c, Slot *slot, int64_t due) {
    if (c->out_from && c->out_from < c->out_to) {       /* make room at the end */
        memmove(c->out, c->out + c->out_from, c->out_to - c->out_from);
        c->out_to -= c->out_from;
        c->out_from = 0;
    }
    slot->number = c->next++;
    slot->due = due;
    slot->is_out = 1;
    c->out_count++;
    seen.sent++;
    if (want.udp) {
        size_t length = write_request(c->out, c, slot->number);
        /* A refusal of an earlier datagram shows up here; this one is tried once more, then left to its time-out. */
        if (send(c->fd, c->out, length, MSG_NOSIGNAL) < 0 && errno == ECONNREFUSED) {
            seen.refused++;
            if (send(c->fd, c->out, length, MSG_NOSIGNAL) < 0) seen.refused++;
        }
        slot->end = 0;
        return;
    }
    size_t length = write_request(c->out + c->out_to, c, slot->number);
    c->out_to += length;
    c->queued += length;
    slot->end = c->queued;
}

/* Closed loop: use every free slot. */
static int fill(Conn *c) {
    Slot *slot;
    if (want.rate > 0) return want.udp ? 0 : flush_conn(c);
    while (is_sending && (slot = free_slot(c))) ask(c, slot, now_ns());
    return want.udp ? 0 : flush_conn(c);
}

/* Open loop: send what is due, as far as there are free slots; what has to wait keeps its time. */
static void send_due(int64_t now) {
    for (;;) {
        int64_t due = started + (int64_t)((double)scheduled * 1e9 / want.rate);
        if (!is_sending || due > now) break;
        Slot *slot = NULL;
        Conn *c = NULL;
        for (int tried = 0; tried < want.connections && !slot; tried++) {
            c = &conns[turn];
            turn = (turn + 1) % want.connections;
            slot = free_slot(c);
        }
        if (!slot) break;
        ask(c, slot, due);
        scheduled++;
        if (!want.udp && flush_conn(c) < 0) close_conn(c);
    }
}

static void settle(Conn *c, Slot *slot, int32_t ret) {
    slot->is_out = 0;
    c->out_count--;
    seen.answered++;
    if (is_sending) seen.in_time++;
    if (want.heed && ret == want.heed) c->has_heard = 1;
    count_ret(ret);
    record(now_ns() - slot->due, ret);
}

static void take_box(Conn *c, const char *frame, uint32_t length) {
    uint32_t sn = get32(frame + 20), number = sn / (uint32_t)want.connections;
    int32_t ret = (int32_t)get32(frame + 16);
    if (sn % (uint32_t)want.connections != (uint32_t)c->index || number == 0 || number >= c->next) {
        seen.strange++;
        return;
    }
    for (int i = 0; i < want.pipeline; i++)
        if (c->slots[i].is_out && c->slots[i].number == number) {
            int is_echo = length == (uint32_t)(HEADER + want.body) && !memcmp(frame + HEADER, payload, (size_t)want.body);
            if (want.echo && ret == 0 && !is_echo) seen.garbled++;
            settle(c, &c->slots[i], ret);
            return;
        }
    for (uint32_t i = 0; i < OVERDUE && i < c->overdue_count; i++)
        if (c->overdue[i] == number) { c->overdue[i] = 0; seen.late++; return; }
    seen.twice++;
}

/* Bytes of one answer at `at`: 0 if it is not whole yet, -1 if it is none. `room` is set to what it will need. */
static ssize_t box_length(const char *at, size_t there, size_t *room) {
    if (there < HEADER) return 0;
    uint32_t length = get32(at + 8);
    if (get32(at) != MAGIC || length < HEADER || length > MOST_FRAME) return -1;
    *room = length;
    return there >= length ? (ssize_t)length : 0;
}

static const char *header_of(const char *at, const char *end, const char *name) {
    size_t size = strlen(name);
    for (const char *line = at; line < end;) {
        const char *stop = memmem(line, (size_t)(end - line), "\r\n", 2);
        if (!stop) break;
        if ((size_t)(stop - line) > size && !strncasecmp(line, name, size)) return line + size;
        line = stop + 2;
    }
    return NULL;
}

static ssize_t http_length(const char *at, size_t there, size_t *room, int *is_last) {
    const char *end = memmem(at, there, "\r\n\r\n", 4);
    if (!end) return there > 65536 ? -1 : 0;
    const char *length = header_of(at, end + 2, "content-length:"), *connection = header_of(at, end + 2, "connection:");
    if (!length) return -1;
    *is_last = connection && !strncasecmp(connection + strspn(connection, " "), "close", 5);
    *room = (size_t)(end + 4 - at) + (size_t)atol(length);
    return there >= *room ? (ssize_t)*room : 0;
}

static int32_t http_ret(const char *at) { return strncmp(at + 8, " 200", 4) ? -1 : 0; }

/* Take what has come; -1 when the connection is to be closed. */
static int take(Conn *c) {
    size_t from = 0, room = 0;
    for (;;) {
        int is_last = 0;
        ssize_t length = want.http ? http_length(c->in + from, c->in_count - from, &room, &is_last)
                                   : box_length(c->in + from, c->in_count - from, &room);
        if (length < 0) { seen.bad_frames++; return -1; }
        if (length == 0) break;
        if (!want.http) take_box(c, c->in + from, (uint32_t)length);
        else if (c->slots[0].is_out) settle(c, &c->slots[0], http_ret(c->in + from));
        else seen.twice++;
        from += (size_t)length;
        if (is_last) return -1;
    }
    memmove(c->in, c->in + from, c->in_count - from);
    c->in_count -= from;
    if (room > c->in_size) {
        c->in_size = room;
        c->in = realloc(c->in, c->in_size);
        if (!c->in) die("memory");
    }
    return 0;
}

static int read_stream(Conn *c) {
    ssize_t count = recv(c->fd, c->in + c->in_count, c->in_size - c->in_count, 0);
    if (count < 0) return errno == EAGAIN || errno == EINTR ? 0 : -1;
    if (count == 0) return -1;
    c->in_count += (size_t)count;
    return take(c);
}

static void read_datagrams(Conn *c) {
    for (int i = 0; i < 64; i++) {
        ssize_t count = recv(c->fd, c->in, c->in_size, 0);
        if (count < 0) {
            if (errno == ECONNREFUSED) { seen.refused++; continue; }
            return;
        }
        size_t from = 0, room = 0;
        while (from < (size_t)count) {
            ssize_t length = box_length(c->in + from, (size_t)count - from, &room);
            if (length <= 0) { seen.bad_frames++; break; }
            take_box(c, c->in + from, (uint32_t)length);
            from += (size_t)length;
        }
    }
}

static void serve(Conn *c, uint32_t events) {
    if (c->is_connecting) {
        int error = 0;
        socklen_t size = sizeof error;
        getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &size);
        if (error) {
            seen.refused++;
            close_conn(c);
            if (!want.until_closed) c->retry_at = now_ns() + RETRY_NS;
            return;
        }
        if (!(events & EPOLLOUT)) return;
        c->is_connecting = 0;
        c->is_open = 1;
    } else if (want.udp) {
        read_datagrams(c);
    } else if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) && read_stream(c) < 0) {
        close_conn(c);
        reopen(c, now_ns());
        return;
    }
    if (fill(c) < 0) close_conn(c);
}

static void give_up_overdue(int64_t now) {
    if (want.timeout <= 0) return;
    for (int n = 0; n < want.connections; n++)
        for (int i = 0; i < want.pipeline; i++) {
            Slot *slot = &conns[n].slots[i];
            if (!slot->is_out || (double)(now - slot->due) < want.timeout * 1e9) continue;
            slot->is_out = 0;
            conns[n].out_count--;
            conns[n].overdue[conns[n].overdue_count++ % OVERDUE] = slot->number;
            seen.timed_out++;
        }
}

static uint64_t outstanding(void) {
    uint64_t sum = 0;
    for (int n = 0; n < want.connections; n++) sum += (uint64_t)conns[n].out_count;
    return sum;
}

static int are_all_closed(void) {
    for (int n = 0; n < want.connections; n++)
        if (conns[n].fd >= 0 && !(conns[n].has_heard && !conns[n].out_count)) return 0;
    return 1;
}

/* Wake up every 10 ms; in an open loop also for the next request. A closed one must not spend a system call on this. */
static void arm(int64_t now) {
    static int is_ticking;
    int64_t next = now + TICK_NS;
    if (is_ticking && want.rate <= 0) return;
    is_ticking = 1;
    if (want.rate > 0 && is_sending) {
        int64_t due = started + (int64_t)((double)scheduled * 1e9 / want.rate);
        if (due > now && due < next) next = due;          /* what is due already waits for a free slot */
    }
    struct itimerspec at = {.it_interval = {.tv_nsec = TICK_NS},
                            .it_value = {.tv_sec = next / 1000000000, .tv_nsec = next % 1000000000}};
    if (timerfd_settime(timer, TFD_TIMER_ABSTIME, &at, NULL) < 0) die("timer");
}

static double run(void) {
    struct epoll_event events[256];
    int64_t now = now_ns(), end = started + (int64_t)(want.seconds * 1e9), stopped = 0;
    for (;;) {
        if (is_sending && (told_to_stop || now >= end || ((want.until_closed || want.heed) && are_all_closed()))) {
            is_sending = 0;
            stopped = now;
        }
        if (!is_sending && (!outstanding() || (double)(now - stopped) > want.linger * 1e9)) break;
        if (want.rate > 0) send_due(now);
        arm(now);
        int count = epoll_wait(poller, events, 256, -1);
        for (int i = 0; i < count; i++) {
            Conn *c = events[i].data.ptr;
            uint64_t ticks;
            if (c) { if (c->fd >= 0) serve(c, events[i].events); }
            else if (read(timer, &ticks, sizeof ticks) < 0 && errno != EAGAIN) die("timer");
        }
        now = now_ns();
        give_up_overdue(now);
        for (int n = 0; n < want.connections; n++) {
            if (conns[n].fd < 0) reopen(&conns[n], now);
            else if (want.udp && fill(&conns[n]) < 0) close_conn(&conns[n]);
        }
    }
    return (double)(stopped - started) / 1e9;
}

static void report(double seconds) {
    printf("{\"seconds\":%.3f,\"sent\":%lu,\"answered\":%lu,\"per_second\":%.1f,", seconds, seen.sent, seen.answered,
           seconds > 0 ? (double)seen.in_time / seconds : 0.0);
    printf("\"p50_us\":%.1f,\"p90_us\":%.1f,\"p99_us\":%.1f,", percentile_us(seen.histogram, seen.answered, .5),
           percentile_us(seen.histogram, seen.answered, .9), percentile_us(seen.histogram, seen.answered, .99));
    printf("\"max_us\":%.1f,\"failed_p99_us\":%.1f,\"rets\":{", (double)seen.max / 1000,
           percentile_us(seen.failures, seen.failed, .99));
    for (int i = 0; i < seen.ret_count; i++)
        printf("%s\"%d\":%lu", i ? "," : "", seen.rets[i].ret, seen.rets[i].count);
    printf("},\"lost\":%lu,\"unsent\":%lu,\"timed_out\":%lu,\"unanswered\":%lu,", seen.lost, seen.unsent, seen.timed_out,
           outstanding());
    printf("\"late\":%lu,\"twice\":%lu,\"strange\":%lu,\"garbled\":%lu,\"bad_frames\":%lu,", seen.late, seen.twice,
           seen.strange, seen.garbled, seen.bad_frames);
    printf("\"closed\":%lu,\"reconnects\":%lu,\"refused\":%lu}\n", seen.closed, seen.reconnects, seen.refused);
}

static void stop(int number) { (void)number; told_to_stop = 1; }

static void parse(int argc, char **argv) {
    static const struct option options[] = {
        {"host", 1, 0, 'h'}, {"port", 1, 0, 'p'}, {"connections", 1, 0, 'c'}, {"body", 1, 0, 'b'}, {"cmd", 1, 0, 'm'},
        {"pipeline", 1, 0, 'k'}, {"seconds", 1, 0, 's'}, {"rate", 1, 0, 'r'}, {"timeout", 1, 0, 't'},
        {"linger", 1, 0, 'l'}, {"udp", 0, 0, 'u'}, {"http", 0, 0, 'w'}, {"echo", 0, 0, 'e'}, {"until-closed", 0, 0, 'x'},
        {"heed", 1, 0, 'd'}, {0}};
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 'h': want.host = optarg; break;
        case 'p': want.port = optarg; break;
        case 'c': want.connections = atoi(optarg); break;
        case 'b': want.body = atoi(optarg); break;
        case 'm': want.cmd = atoi(optarg); break;
        case 'k': want.pipeline = atoi(optarg); break;
        case 's': want.seconds = atof(optarg); break;
        case 'r': want.rate = atof(optarg); break;
        case 't': want.timeout = atof(optarg); break;
        case 'l': want.linger = atof(optarg); break;
        case 'u': want.udp = 1; break;
        case 'w': want.http = 1; break;
        case 'e': want.echo = 1; break;
        case 'x': want.until_closed = 1; break;
        case 'd': want.heed = atoi(optarg); break;
        default: exit(2);
        }
    }
    if (want.connections < 1 || want.pipeline < 1 || want.body < 0 || want.body > MOST_FRAME - HEADER ||
        want.seconds <= 0 || (want.http && (want.udp || want.pipeline > 1))) {
        fprintf(stderr, "boxload: connections and pipeline are 1 or more, --http goes one at a time over TCP\n");
        exit(2);
    }
    if (want.udp && want.timeout <= 0) want.timeout = 1;   /* a datagram may be gone for good */
}

static void prepare(void) {
    struct addrinfo hints = {.ai_socktype = want.udp ? SOCK_DGRAM : SOCK_STREAM};
    int failed = getaddrinfo(want.host, want.port, &hints, &target);
    if (failed) { fprintf(stderr, "boxload: %s: %s\n", want.host, gai_strerror(failed)); exit(1); }
    payload = malloc((size_t)want.body + 1);
    conns = calloc((size_t)want.connections, sizeof *conns);
    if (!payload || !conns) die("memory");
    for (int i = 0; i < want.body; i++) payload[i] = (char)('a' + i % 26);
    poller = epoll_create1(0);
    timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    if (poller < 0 || timer < 0) die("epoll");
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    if (epoll_ctl(poller, EPOLL_CTL_ADD, timer, &event) < 0) die("epoll_ctl");
    for (int n = 0; n < want.connections; n++) {
        Conn *c = &conns[n];
        c->index = n;
        c->next = 1;
        c->slots = calloc((size_t)want.pipeline, sizeof *c->slots);
        c->out_size = request_size() * (size_t)want.pipeline;
        c->out = malloc(c->out_size);
        c->in_size = 65536;
        c->in = malloc(c->in_size);
        if (!c->slots || !c->out || !c->in) die("memory");
    }
}

int main(int argc, char **argv) {
    parse(argc, argv);
    signal(SIGINT, stop);
    signal(SIGTERM, stop);
    prepare();
    started = now_ns();
    for (int n = 0; n < want.connections; n++) {
        open_conn(&conns[n]);
        if (conns[n].is_open && fill(&conns[n]) < 0) close_conn(&conns[n]);
    }
    report(run());
    return 0;
}
