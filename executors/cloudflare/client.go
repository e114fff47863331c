package cloudflare

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/hosted"
	"github.com/parawork/parawork/guest/attend"
	"github.com/parawork/parawork/internal/fault"
)

// workerVersion is the version of the worker's routes.
const workerVersion = 1

// client speaks to our worker. Safe for concurrent use.
type client struct {
	set Settings // normal
	api *hosted.API
	now func() time.Time

	mu      sync.Mutex
	asked   time.Time
	refused error
}

var _ hosted.Service = (*client)(nil)

func newClient(set Settings, now func() time.Time) *client {
	return &client{set: set, api: hosted.NewAPI(hosted.API{Service: "Cloudflare", Base: set.URL + "/v1", Token: set.APIKey, Now: now}), now: now}
}

// askedFor is how long it holds that the key is taken.
const askedFor = 20 * time.Second

// check asks whether the key is taken, and whether the worker is one of ours; a fresh answer is not asked for again.
func (c *client) check(ctx context.Context) error {
	c.mu.Lock()
	asked, refused := c.asked, c.refused
	c.mu.Unlock()
	if !asked.IsZero() && c.now().Sub(asked) < askedFor {
		return refused
	}
	var about struct {
		Version int `json:"version"`
	}
	_, err := c.api.Do(ctx, hosted.Ask{Method: http.MethodGet, Path: "/about", Out: &about, Repeat: true, Within: 15 * time.Second})
	if err == nil && about.Version != workerVersion {
		err = &hosted.APIError{Service: "Cloudflare", Status: http.StatusOK, Code: "other_version", RetryAfter: -1,
			Message: fmt.Sprintf("the worker is of version %d, and this server speaks %d: deploy it again", about.Version, workerVersion)}
	}
	if ctx.Err() == nil {
		c.mu.Lock()
		c.asked, c.refused = c.now(), err
		c.mu.Unlock()
	}
	return err
}

// secret is what opens a container. It is not stored: it follows from the worker's key.
func (c *client) secret(name string) string {
	h := hmac.New(sha256.New, []byte(c.set.APIKey))
	h.Write([]byte("parawork container " + name))
	return hex.EncodeToString(h.Sum(nil))
}

// row is a container as the worker describes it.
type row struct {
	Name  string `json:"name"`
	State string `json:"state"`
	Began int64  `json:"began"`
	Ended int64  `json:"ended"`
}

func (c *client) machine(r row) hosted.Machine {
	return hosted.Machine{ID: r.Name, Name: r.Name, State: hosted.Running, CPUs: c.set.CPUs, MemoryMB: int64(c.set.MemoryMB), BeganAt: c.api.Clock.Ours(r.Began), EndedAt: c.api.Clock.Ours(r.Ended)}
}

func at(name, rest string) string { return "/sandboxes/" + url.PathEscape(name) + rest }

// Make begins a container.
func (c *client) Make(ctx context.Context, name string, s executors.Spec) (hosted.Machine, error) {
	if s.Network.Mode == executors.NetworkAllow {
		return hosted.Machine{}, fault.New(fault.Unsupported, "network_not_enforced",
			"Cloudflare's containers reach the whole internet or nothing, and this workspace may reach only what a list names. Choose another place, or another network for the project.")
	}
	in := map[string]any{"name": name, "secret": c.secret(name), "internet": s.Network.Mode != executors.NetworkNone, "lease": int(Lease / time.Second)}
	var r row
	if _, err := c.api.Do(ctx, hosted.Ask{Method: http.MethodPost, Path: "/sandboxes", In: in, Out: &r, Within: 2 * time.Minute}); err != nil {
		return hosted.Machine{}, err
	}
	return c.machine(r), nil
}

// Look says how a container stands. One that has ended is none any more: nothing of it is left.
func (c *client) Look(ctx context.Context, name string) (hosted.Machine, error) {
	var r row
	_, err := c.api.Do(ctx, hosted.Ask{Method: http.MethodGet, Path: at(name, ""), Out: &r, Repeat: true})
	if hosted.IsStatus(err, http.StatusNotFound) || err == nil && r.State != "running" {
		return c.machine(r), errors.Join(hosted.ErrNoMachine, err)
	}
	return c.machine(r), err
}

// All lists the containers whose names begin so, also those that have ended: their names are forgotten by Remove.
func (c *client) All(ctx context.Context, prefix string) ([]hosted.Machine, error) {
	var page struct {
		Sandboxes []row `json:"sandboxes"`
	}
	if _, err := c.api.Do(ctx, hosted.Ask{Method: http.MethodGet, Path: "/sandboxes", Query: url.Values{"prefix": {prefix}}, Out: &page, Repeat: true}); err != nil {
		return nil, err
	}
	var out []hosted.Machine
	for _, r := range page.Sandboxes {
		out = append(out, c.machine(r))
	}
	return out, nil
}

// Start has nothing to start: a container begins once.
func (c *client) Start(context.Context, string) error { return hosted.ErrNoMachine }

// Stop is not offered: nothing of a container that has stopped is left.
func (c *client) Stop(context.Context, string) error {
	return errors.New("a container at Cloudflare cannot be stopped and kept")
}

// Remove ends a container.
func (c *client) Remove(ctx context.Context, name string) error {
	_, err := c.api.Do(ctx, hosted.Ask{Method: http.MethodDelete, Path: at(name, ""), Repeat: true})
	if hosted.IsStatus(err, http.StatusNotFound) {
		return nil
	}
	return err
}

func (c *client) extend(ctx context.Context, name string, d time.Duration) error {
	_, err := c.api.Do(ctx, hosted.Ask{Method: http.MethodPost, Path: at(name, "/lease"), In: map[string]int{"seconds": max(1, int(d/time.Second))}, Repeat: true})
	return err
}

// exited says that a program has ended.
type exited struct{ code int }

func (e *exited) Error() string {
	return "the program in the container ended with " + strconv.Itoa(e.code)
}

// program is the input and output of a program in a container: frames of guest/attend in binary messages.
type program struct {
	*hosted.Socket
	mu  sync.Mutex
	buf []byte
}

// Write writes to the program.
func (p *program) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	sent := 0
	for sent < len(b) {
		n := min(len(b)-sent, 32<<10)
		p.buf = append(binary.BigEndian.AppendUint32(p.buf[:0], uint32(n)), b[sent:sent+n]...)
		if _, err := p.Socket.Write(p.buf); err != nil {
			return sent, err
		}
		sent += n
	}
	return sent, nil
}

// closeInput ends the program's input.
func (p *program) closeInput() error {
	_, err := p.Socket.Write(make([]byte, 4))
	return err
}

// frames reads frames out of messages, whose borders are not theirs.
func frames() func(int, []byte) ([]byte, error) {
	var have []byte
	return func(kind int, m []byte) ([]byte, error) {
		if kind != websocket.BinaryMessage {
			return nil, errors.New("the worker's stream cannot be read")
		}
		have = append(have, m...)
		var out []byte
		for len(have) >= 5 {
			n := int(binary.BigEndian.Uint32(have[1:5]))
			if n > 1<<20 {
				return nil, errors.New("the container's stream cannot be read")
			}
			if len(have) < 5+n {
				break
			}
			body := have[5 : 5+n]
			if have[0] == attend.Ended {
				if n != 4 {
					return nil, errors.New("the container's stream cannot be read")
				}
				return out, &exited{int(int32(binary.BigEndian.Uint32(body)))}
			}
			out = append(out, body...)
			have = have[5+n:]
		}
		return out, nil
	}
}

func (c *client) start(ctx context.Context, name string, argv []string) (*program, error) {
	s, err := c.api.Socket(ctx, at(name, "/pipe"), frames(), nil)
	if err != nil {
		return nil, err
	}
	line, err := json.Marshal(attend.Ask{Secret: c.secret(name), Argv: argv})
	if err == nil {
		_, err = s.Write(append(line, '\n'))
	}
	if err != nil {
		_ = s.Close()
		return nil, err
	}
	return &program{Socket: s}, nil
}

// Open starts a program. The end of the connection ends it.
func (c *client) Open(ctx context.Context, name string, argv []string) (io.ReadWriteCloser, error) {
	p, err := c.start(ctx, name, argv)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// maxOutput is how much of a program's output is kept.
const maxOutput = 64 << 10

// Run runs a program to its end. One whose connection was cut has been ended.
func (c *client) Run(ctx context.Context, name string, argv []string) (hosted.Result, error) {
	return c.feed(ctx, name, argv, nil)
}

func (c *client) feed(ctx context.Context, name string, argv []string, in io.Reader) (hosted.Result, error) {
	p, err := c.start(ctx, name, argv)
	if err != nil {
		return hosted.Result{}, err
	}
	defer p.Close()
	defer context.AfterFunc(ctx, func() { _ = p.Close() })()
	fed := make(chan error, 1)
	go func() { // ends with the connection
		var err error
		if in != nil {
			_, err = io.Copy(p, in)
		}
		fed <- errors.Join(err, p.closeInput())
	}()
	var out []byte
	b := make([]byte, 32<<10)
	for {
		n, err := p.Read(b)
		out = append(out, b[:n]...)
		out = out[max(0, len(out)-maxOutput):]
		if e, ok := errors.AsType[*exited](err); ok {
			_ = p.Close()
			if ferr := <-fed; ferr != nil && in != nil && e.code == 0 {
				return hosted.Result{}, ferr
			}
			return hosted.Result{Code: e.code, Output: string(out)}, nil
		}
		if err != nil {
			_ = p.Close()
			<-fed
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return hosted.Result{}, err
		}
	}
}

// Put writes a file.
func (c *client) Put(ctx context.Context, name string, f hosted.File) error {
	r, err := c.feed(ctx, name, []string{"/bin/sh", "-c", `umask 077; cat >"$1" && chmod "$2" "$1" && [ "$(wc -c <"$1")" -eq "$3" ]`, "put", path.Clean(f.Path),
		strconv.FormatInt(f.Mode, 8), strconv.FormatInt(f.Size, 10)}, f.Content)
	if err == nil && r.Code != 0 {
		err = fmt.Errorf("writing %s in the container: it ended with %d: %s", path.Base(f.Path), r.Code, hosted.Line(r.Output, 300))
	}
	return err
}
