// Package guard checks, on a member's own machine, what the server asks of the guests there. Reads
// pass unchecked; every request that starts, writes or ends something must carry a command signed by the server (wire.Command) for that very
// request, and passes only when the machine's owner allows it. After an upgrade, the guard connects the pipe - a terminal's bytes - to the
// guest without looking at the contents.
//
// The guest's own token never leaves the machine: the server uses one that is valid for the guard only.
package guard

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/parawork/parawork/executors/runner/policy"
	"github.com/parawork/parawork/executors/runner/wire"
)

// Keeper applies the owner's policy.
type Keeper interface {
	// Check returns nil when a may be done. It waits while the owner is asked.
	Check(ctx context.Context, a policy.Ask) error
	// Refused records what was refused before the owner could be asked.
	Refused(a policy.Ask, err error)
}

// Checker verifies the commands that requests carry.
type Checker interface {
	// Check returns the command of a request whose body was read; nil is the body of a stream.
	Check(r *http.Request, body []byte) (wire.Command, error)
}

// Config configures a Guard. All but Log is required.
type Config struct {
	Checker Checker
	Keeper  Keeper
	Log     *slog.Logger
}

// Guard guards pipes. Safe for concurrent use. It starts nothing that survives a Serve.
type Guard struct{ cfg Config }

// New makes a Guard.
func New(cfg Config) *Guard {
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	return &Guard{cfg}
}

// Target is the guest a pipe leads to.
type Target struct {
	SandboxID   string
	WorkspaceID string
	Token       string // the token the server must present
	Root        string // its worktree, for the owner's log

	// Dial opens a pipe to the guest, and returns the guest's own token.
	Dial  func(ctx context.Context) (pipe io.ReadWriteCloser, token string, err error)
	Start func(id string, argv []string) // called when a process was started; optional
	Ended func()                         // called when the guest accepted a shutdown; optional
}

// Limits of the requests on a pipe.
const (
	maxHead    = 64 << 10
	headWithin = 30 * time.Second
	// preface is the beginning of HTTP/2.
	preface = "PRI"
)

// Serve handles a pipe until it, the guest or ctx ends. Then it closes the pipe.
func (g *Guard) Serve(ctx context.Context, conn net.Conn, t Target) error {
	pipe := &lasting{Conn: conn}
	conn = pipe
	defer pipe.end()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	late := time.AfterFunc(headWithin, func() { _ = conn.Close() }) // a pipe has no deadlines
	defer late.Stop()
	head := &bounded{r: conn, left: maxHead}
	r := bufio.NewReaderSize(head, 4<<10)
	first, err := r.Peek(len(preface))
	if err != nil {
		return fmt.Errorf("waiting for the first request: %w", err)
	}
	if string(first) == preface {
		head.left = -1
		late.Stop()
		return g.serveShared(ctx, &buffered{Conn: conn, r: r}, t)
	}
	req, err := http.ReadRequest(r)
	if err != nil {
		return fmt.Errorf("reading the request of a pipe: %w", err)
	}
	late.Stop()
	return g.serveUpgrade(ctx, conn, r, head, req, t)
}

// lasting is a connection that rejects writes once it has ended: the HTTP/2 server may be late with its last frame, and a pipe is a response
// body that is over by then.
type lasting struct {
	net.Conn
	mu   sync.RWMutex
	over bool
}

func (l *lasting) Write(p []byte) (int, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.over {
		return 0, net.ErrClosed
	}
	return l.Conn.Write(p)
}

// end closes the connection and waits for pending writes.
func (l *lasting) end() {
	_ = l.Conn.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
}

// bounded reads at most left bytes; -1 = any number.
type bounded struct {
	r    io.Reader
	left int64
}

var errHead = errors.New("the head has no end")

func (b *bounded) Read(p []byte) (int, error) {
	if b.left < 0 {
		return b.r.Read(p)
	}
	if b.left == 0 {
		return 0, errHead
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

// buffered is a connection of which some bytes were already read.
type buffered struct {
	net.Conn
	r *bufio.Reader
}

func (b *buffered) Read(p []byte) (int, error) { return b.r.Read(p) }
