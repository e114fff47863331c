// Package guard stands on a member's own machine between the server and the guests there. It reads along what a guest is asked: looking
// passes at full speed; whatever starts, writes or ends something must carry a command of the server's (wire.Command) for that very
// request, and is done only when the machine's owner allows it. What an upgraded pipe carries - a terminal's bytes - is joined to the guest
// and not looked at any more.
//
// The guest's own token never leaves the machine: a server names one that is good for the guard alone.
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

// Keeper is the owner's say.
type Keeper interface {
	// Check answers nil when a may be done. It waits where the owner is asked.
	Check(ctx context.Context, a policy.Ask) error
	// Refused notes what was refused before it could be asked.
	Refused(a policy.Ask, err error)
}

// Checker judges the commands that requests carry.
type Checker interface {
	// Check returns the command of a request whose body was read; nil is the body of a stream.
	Check(r *http.Request, body []byte) (wire.Command, error)
}

// Config is what a Guard is made of. All but Log is required.
type Config struct {
	Checker Checker
	Keeper  Keeper
	Log     *slog.Logger
}

// Guard guards pipes. Safe for concurrent use. It starts nothing that outlives a Serve.
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
	Token       string // what the server must say
	Root        string // its worktree, for the owner's log

	// Dial opens a pipe to the guest, and tells what it must be told: its own token.
	Dial  func(ctx context.Context) (pipe io.ReadWriteCloser, token string, err error)
	Start func(id string, argv []string) // called when a process was started; optional
	Ended func()                         // called when the guest was told to end itself, and took it; optional
}

// Limits of what a pipe may ask.
const (
	maxHead    = 64 << 10
	headWithin = 30 * time.Second
	// preface is how HTTP/2 begins.
	preface = "PRI"
)

// Serve answers what comes over a pipe until it, the guest or ctx ends. The pipe is closed then.
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
		return fmt.Errorf("waiting for the first question: %w", err)
	}
	if string(first) == preface {
		head.left = -1
		late.Stop()
		return g.serveShared(ctx, &buffered{Conn: conn, r: r}, t)
	}
	req, err := http.ReadRequest(r)
	if err != nil {
		return fmt.Errorf("reading the question of a pipe: %w", err)
	}
	late.Stop()
	return g.serveUpgrade(ctx, conn, r, head, req, t)
}

// lasting is a connection nobody writes to any more once it has ended: what serves HTTP/2 may come late with its last frame, and a pipe is
// an answer that is over then.
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

// end closes the connection and waits for who still writes.
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

// buffered is a connection of which something was read already.
type buffered struct {
	net.Conn
	r *bufio.Reader
}

func (b *buffered) Read(p []byte) (int, error) { return b.r.Read(p) }
