package vercel

import (
	"archive/tar"
	"bufio"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/hosted"
)

// client speaks Vercel's API. What people call a sandbox's id is its name here. Safe for concurrent use.
type client struct {
	set   Settings // normal
	api   *hosted.API
	now   func() time.Time
	login *login
}

// login is what is known of one project.
type login struct {
	mu       sync.Mutex
	sessions map[string]session // the present one of each sandbox
	asked    time.Time          // when the token was last tried
	count    int
	refused  error
}

var _ hosted.Service = (*client)(nil)

func newClient(set Settings, now func() time.Time) *client {
	return &client{set: set, now: now, login: &login{sessions: make(map[string]session)},
		api: hosted.NewAPI(hosted.API{Service: "Vercel", Base: set.APIURL, Token: set.Token, Query: url.Values{"teamId": {set.Team}}, Now: now})}
}

// with is the same client under settings that change no connection.
func (c *client) with(set Settings) *client {
	other := *c
	other.set = set
	return &other
}

// session is a machine that runs, or has run. Times are ms UTC by Vercel's clock.
type session struct {
	ID      string `json:"id"`
	Status  string `json:"status"`
	VCPUs   int    `json:"vcpus"`
	Memory  int64  `json:"memory"`
	Timeout int64  `json:"timeout"`
	Started int64  `json:"startedAt"`
	Created int64  `json:"createdAt"`
	Stopped int64  `json:"stoppedAt"`
	Aborted int64  `json:"abortedAt"`
	Updated int64  `json:"updatedAt"`

	ends time.Time // by our clock
}

// box is a sandbox, with its present session.
type box struct {
	Sandbox struct {
		Name string `json:"name"`
	} `json:"sandbox"`
	Session session `json:"session"`
}

// machine is a sandbox as the executor sees it.
func (c *client) machine(name string, s session) hosted.Machine {
	m := hosted.Machine{ID: name, Name: name, State: hosted.Stopped, CPUs: s.VCPUs, MemoryMB: s.Memory, BeganAt: c.api.Clock.Ours(max(s.Started, s.Created)), EndedAt: c.api.Clock.Ours(max(s.Stopped, s.Aborted))}
	if s.Status == "running" || s.Status == "pending" {
		m.State, m.EndedAt = hosted.Running, 0
	}
	return m
}

func (c *client) project() url.Values { return url.Values{"projectId": {c.set.Project}} }

func sandboxPath(name string) string { return "/v2/sandboxes/" + url.PathEscape(name) }

// check asks whether the token is taken, and how many sandboxes the first page has; a fresh answer is not asked for again.
func (c *client) check(ctx context.Context) (int, error) {
	l := c.login
	l.mu.Lock()
	asked, n, refused := l.asked, l.count, l.refused
	l.mu.Unlock()
	if !asked.IsZero() && c.now().Sub(asked) < askedFor {
		return n, refused
	}
	var page struct {
		Sandboxes []struct{} `json:"sandboxes"`
	}
	_, err := c.api.Do(ctx, hosted.Ask{Method: http.MethodGet, Path: "/v2/sandboxes", Query: url.Values{"project": {c.set.Project}, "limit": {"20"}}, Out: &page, Repeat: true, Within: 15 * time.Second})
	if ctx.Err() == nil {
		l.mu.Lock()
		l.asked, l.count, l.refused = c.now(), len(page.Sandboxes), err
		l.mu.Unlock()
	}
	return len(page.Sandboxes), err
}

// keep remembers a sandbox's present session.
func (c *client) keep(name string, s session) session {
	s.ends = c.now().Add(time.Duration(s.Started+s.Timeout-s.Updated) * time.Millisecond) // Vercel's clock may be another
	if s.Started == 0 {
		s.ends = c.now().Add(time.Duration(s.Timeout) * time.Millisecond)
	}
	c.login.mu.Lock()
	defer c.login.mu.Unlock()
	if s.Status == "running" {
		c.login.sessions[name] = s
	} else {
		delete(c.login.sessions, name)
	}
	return s
}

// policy is what a sandbox may reach.
type policy struct {
	Mode    string   `json:"mode,omitempty"`
	Allow   []string `json:"allow,omitempty"`
	Subnets *subnets `json:"subnets,omitempty"`
}

type subnets struct {
	Allow []string `json:"allow,omitempty"`
	Deny  []string `json:"deny,omitempty"`
}

// reaching is a network in Vercel's form.
func reaching(n executors.Network) policy {
	switch n.Mode {
	case executors.NetworkNone:
		return policy{Mode: "deny-all"}
	case executors.NetworkAllow:
		names, addresses := hosted.Allowed(n)
		if len(names)+len(addresses) == 0 {
			return policy{Mode: "deny-all"}
		}
		p := policy{Allow: names}
		if len(addresses) > 0 {
			p.Subnets = &subnets{Allow: addresses}
		}
		return p
	}
	return policy{Allow: []string{"*"}, Subnets: &subnets{Deny: hosted.Private}}
}

type newSandbox struct {
	Project    string            `json:"projectId"`
	Name       string            `json:"name"`
	Timeout    int64             `json:"timeout"`
	Resources  map[string]int    `json:"resources"`
	Persistent bool              `json:"persistent"`
	Runtime    string            `json:"runtime,omitempty"`
	Image      string            `json:"image,omitempty"`
	Network    policy            `json:"networkPolicy"`
	Tags       map[string]string `json:"tags"`
	Keep       map[string]any    `json:"keepLastSnapshots"`
	Region     string            `json:"region,omitempty"`
}

// Make makes a sandbox and waits for its first session.
func (c *client) Make(ctx context.Context, name string, s executors.Spec) (hosted.Machine, error) {
	in := newSandbox{Project: c.set.Project, Name: name, Timeout: Lease.Milliseconds(), Resources: map[string]int{"vcpus": c.set.CPUs}, Persistent: true, Network: reaching(s.Network),
		Tags: map[string]string{"parawork": "1", "sandbox": s.ID, "workspace": s.WorkspaceID}, Keep: map[string]any{"count": 1, "deleteEvicted": true}, Region: c.set.Region}
	if s.Size.CPUs > 0 {
		in.Resources["vcpus"] = s.Size.CPUs
	}
	path := "/v3/sandboxes"
	if in.Image = c.set.Image; in.Image == "" {
		path, in.Runtime = "/v2/sandboxes", c.set.Runtime
	}
	var b box
	if _, err := c.api.Do(ctx, hosted.Ask{Method: http.MethodPost, Path: path, In: in, Out: &b, Within: 2 * time.Minute}); err != nil {
		return hosted.Machine{}, err
	}
	if b.Sandbox.Name != name {
		return hosted.Machine{}, fmt.Errorf("Vercel made the sandbox %q when asked for %q", hosted.Line(b.Sandbox.Name, 80), name)
	}
	sess, err := c.running(ctx, name, b.Session)
	m := c.machine(name, sess)
	m.CPUs, m.MemoryMB = in.Resources["vcpus"], int64(in.Resources["vcpus"])*memoryPerCPU
	return m, err
}

const (
	// pollEvery and pollFor say how a session that changes its state is waited for.
	pollEvery = 500 * time.Millisecond
	pollFor   = 2 * time.Minute
)

// running waits until a session runs.
func (c *client) running(ctx context.Context, name string, s session) (session, error) {
	for until := c.now().Add(pollFor); s.Status == "pending"; {
		if c.now().After(until) {
			return s, context.DeadlineExceeded
		}
		if err := pause(ctx); err != nil {
			return s, err
		}
		b, err := c.box(ctx, name, false)
		if err != nil {
			return s, err
		}
		s = b.Session
	}
	if s.Status != "running" {
		return s, &hosted.APIError{Service: "Vercel", Status: http.StatusServiceUnavailable, Code: "session_" + s.Status, Message: "the session did not start", RetryAfter: -1}
	}
	return c.keep(name, s), nil
}

func pause(ctx context.Context) error {
	t := time.NewTimer(pollEvery)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// box asks for a sandbox; resume starts a session where none runs.
func (c *client) box(ctx context.Context, name string, resume bool) (box, error) {
	q := c.project()
	if resume {
		q.Set("resume", "true")
	}
	var b box
	_, err := c.api.Do(ctx, hosted.Ask{Method: http.MethodGet, Path: sandboxPath(name), Query: q, Out: &b, Repeat: true, Within: 2 * time.Minute})
	if hosted.IsStatus(err, http.StatusNotFound) || hosted.IsCode(err, "snapshot_not_found") {
		return b, errors.Join(hosted.ErrNoMachine, err)
	}
	if err == nil && b.Sandbox.Name != name {
		err = fmt.Errorf("Vercel returned the sandbox %q when asked for %q", hosted.Line(b.Sandbox.Name, 80), name)
	}
	if err == nil && !resume {
		c.keep(name, b.Session)
	}
	return b, err
}

// Look says how a sandbox stands.
func (c *client) Look(ctx context.Context, name string) (hosted.Machine, error) {
	b, err := c.box(ctx, name, false)
	return c.machine(name, b.Session), err
}

// present is the session that runs. One that has stopped is not started: whoever asks may only think that it runs.
func (c *client) present(ctx context.Context, name string) (session, error) {
	c.login.mu.Lock()
	s, ok := c.login.sessions[name]
	c.login.mu.Unlock()
	if ok {
		return s, nil
	}
	b, err := c.box(ctx, name, false)
	if err != nil {
		return session{}, err
	}
	if b.Session.Status != "running" {
		return session{}, errStopped
	}
	return b.Session, nil
}

var errStopped = errors.New("the sandbox at Vercel has stopped: its lease ended, or somebody stopped it there")

// inSession does something in the present session, and notices where that has ended.
func (c *client) inSession(ctx context.Context, name string, do func(path string) error) error {
	s, err := c.present(ctx, name)
	if err != nil {
		return err
	}
	err = do("/v2/sandboxes/sessions/" + url.PathEscape(s.ID))
	if hosted.IsStatus(err, http.StatusGone, http.StatusNotFound) || hosted.IsCode(err, "sandbox_stopping") || hosted.IsCode(err, "sandbox_snapshotting") {
		c.login.mu.Lock()
		if c.login.sessions[name].ID == s.ID {
			delete(c.login.sessions, name)
		}
		c.login.mu.Unlock()
		return errors.Join(errStopped, err)
	}
	return err
}

// maxPages bounds how many pages of sandboxes are read.
const maxPages = 100

// All lists the sandboxes whose names begin so.
func (c *client) All(ctx context.Context, prefix string) ([]hosted.Machine, error) {
	query := url.Values{"project": {c.set.Project}, "limit": {"50"}, "namePrefix": {prefix}, "sortBy": {"name"}}
	var out []hosted.Machine
	for range maxPages {
		var page struct {
			Sandboxes []struct {
				Name   string `json:"name"`
				Status string `json:"status"`
			} `json:"sandboxes"`
			Pagination struct {
				Next *string `json:"next"`
			} `json:"pagination"`
		}
		if _, err := c.api.Do(ctx, hosted.Ask{Method: http.MethodGet, Path: "/v2/sandboxes", Query: query, Out: &page, Repeat: true}); err != nil {
			return nil, err
		}
		for _, b := range page.Sandboxes {
			if strings.HasPrefix(b.Name, prefix) {
				out = append(out, c.machine(b.Name, session{Status: b.Status}))
			}
		}
		if page.Pagination.Next == nil || *page.Pagination.Next == "" {
			return out, nil
		}
		query.Set("cursor", *page.Pagination.Next)
	}
	return out, nil
}

// Start begins a new session on the sandbox's disk.
func (c *client) Start(ctx context.Context, name string) error {
	for until := c.now().Add(pollFor); ; {
		b, err := c.box(ctx, name, true)
		if hosted.IsCode(err, "sandbox_stopping") || hosted.IsCode(err, "sandbox_snapshotting") ||
			err == nil && (b.Session.Status == "stopping" || b.Session.Status == "snapshotting") { // its disk is being kept
			if c.now().After(until) {
				return context.DeadlineExceeded
			}
			if err := pause(ctx); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		_, err = c.running(ctx, name, b.Session)
		return err
	}
}

// Stop ends the session; Vercel keeps a snapshot of the disk. It waits for that.
func (c *client) Stop(ctx context.Context, name string) error {
	err := c.inSession(ctx, name, func(path string) error {
		_, err := c.api.Do(ctx, hosted.Ask{Method: http.MethodPost, Path: path + "/stop", Repeat: true, Within: 2 * time.Minute})
		return err
	})
	if err != nil && !errors.Is(err, errStopped) {
		return err
	}
	for until := c.now().Add(pollFor); ; {
		b, err := c.box(ctx, name, false)
		if err != nil {
			return err
		}
		if s := b.Session.Status; s != "running" && s != "stopping" && s != "snapshotting" {
			return nil
		}
		if c.now().After(until) {
			return context.DeadlineExceeded
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

// Remove ends a sandbox and forgets its disk, with the snapshots of it, also the one that its end makes.
func (c *client) Remove(ctx context.Context, name string) error {
	q := c.project()
	q.Set("deleteOrphanSnapshots", "true")
	_, err := c.api.Do(ctx, hosted.Ask{Method: http.MethodDelete, Path: sandboxPath(name), Query: q, Repeat: true})
	if err != nil && !hosted.IsStatus(err, http.StatusNotFound) && !hosted.IsCode(err, "snapshot_not_found") {
		return err
	}
	c.login.mu.Lock()
	delete(c.login.sessions, name)
	c.login.mu.Unlock()
	return nil
}

// extend lets the present session live for d from now, where the plan allows it.
func (c *client) extend(ctx context.Context, name string, d time.Duration, since int64) (executors.Lease, error) {
	s, err := c.present(ctx, name)
	if err != nil {
		return executors.Lease{}, err
	}
	l := executors.Lease{RunEndsAt: since + c.set.MaxRun.Milliseconds(), EndsAt: s.ends.UnixMilli()}
	until := c.now().Add(d)
	if end := time.UnixMilli(l.RunEndsAt); until.After(end) {
		until = end
	}
	more := until.Sub(s.ends)
	if more < time.Second {
		return l, nil
	}
	var got struct {
		Session session `json:"session"`
	}
	err = c.inSession(ctx, name, func(path string) error { // not twice: it adds
		_, err := c.api.Do(ctx, hosted.Ask{Method: http.MethodPost, Path: path + "/extend-timeout", In: map[string]int64{"duration": more.Milliseconds()}, Out: &got})
		return err
	})
	if hosted.IsStatus(err, http.StatusBadRequest) { // the plan's bound is shorter: this run ends when the lease does
		l.RunEndsAt = l.EndsAt
		return l, nil
	}
	if err != nil {
		return l, err
	}
	l.EndsAt = c.keep(name, got.Session).ends.UnixMilli()
	return l, nil
}

// reach sets what a sandbox may reach, of the sandbox and so of its present session.
func (c *client) reach(ctx context.Context, name string, n executors.Network) error {
	err := c.inSession(ctx, name, func(path string) error {
		_, err := c.api.Do(ctx, hosted.Ask{Method: http.MethodPost, Path: path + "/network-policy", In: reaching(n), Repeat: true})
		return err
	})
	if errors.Is(err, errStopped) { // the next session has it
		_, err = c.api.Do(ctx, hosted.Ask{Method: http.MethodPatch, Path: sandboxPath(name), Query: c.project(), In: map[string]policy{"networkPolicy": reaching(n)}, Repeat: true})
	}
	return err
}

// putWithin is how long a file may take to be sent.
const putWithin = 10 * time.Minute

// Put sends a file to a folder that everybody may write, and moves it to its place as root.
func (c *client) Put(ctx context.Context, name string, f hosted.File) error {
	var try [8]byte
	if _, err := rand.Read(try[:]); err != nil {
		return err
	}
	part := ".parawork-" + hex.EncodeToString(try[:])
	r, w := io.Pipe()
	packed := make(chan struct{})
	go func() { // ends with the request, which closes r
		defer close(packed)
		z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed) // a level that there is
		t := tar.NewWriter(z)
		err := t.WriteHeader(&tar.Header{Name: part, Mode: f.Mode, Size: f.Size, Typeflag: tar.TypeReg, ModTime: time.Unix(0, 0)})
		if err == nil {
			_, err = io.Copy(t, f.Content)
		}
		_ = w.CloseWithError(errors.Join(err, t.Close(), z.Close()))
	}()
	err := c.inSession(ctx, name, func(path string) error {
		_, err := c.api.Do(ctx, hosted.Ask{Method: http.MethodPost, Path: path + "/fs/write", Body: r, Header: http.Header{"Content-Type": {"application/gzip"}, "X-Cwd": {"/tmp"}}, Within: putWithin})
		return err
	})
	_ = r.Close()
	<-packed
	if err != nil {
		return err
	}
	res, err := c.Run(ctx, name, []string{"/bin/sh", "-c", `chown 0:0 "$1" && chmod "$3" "$1" && mv -f "$1" "$2"`, "put", "/tmp/" + part, f.Path, strconv.FormatInt(f.Mode, 8)})
	if err == nil && res.Code != 0 {
		err = fmt.Errorf("moving a file to its place: %s", hosted.Line(res.Output, 300))
	}
	return err
}

// maxOutput is how much of a program's output is kept.
const maxOutput = 64 << 10

// command is a program in a session.
type command struct {
	ID   string `json:"id"`
	Code *int   `json:"exitCode"`
}

// line is a line of a command's stream.
type line struct {
	Command *command        `json:"command"`
	Stream  string          `json:"stream"`
	Data    json.RawMessage `json:"data"`
}

// Run runs a program as root to its end. Where its stream is cut, its end and its output are asked for.
func (c *client) Run(ctx context.Context, name string, argv []string) (hosted.Result, error) {
	var out hosted.Result
	err := c.inSession(ctx, name, func(path string) error {
		in := map[string]any{"command": argv[0], "args": argv[1:], "cwd": "/", "env": map[string]string{}, "sudo": true, "wait": true, "logs": true}
		resp, err := c.api.Do(ctx, hosted.Ask{Method: http.MethodPost, Path: path + "/cmd", In: in, Stream: true, Within: 15 * time.Minute})
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		cmd, text, err := follow(ctx, resp.Body)
		if cmd.ID == "" {
			return cmp.Or(err, hosted.Lost(ctx, errors.New("the stream ended before the command began")))
		}
		if cmd.Code == nil { // it runs on
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if cmd, text, err = c.finish(ctx, path, cmd.ID); err != nil {
				return err
			}
		}
		out = hosted.Result{Code: *cmd.Code, Output: text}
		return nil
	})
	return out, err
}

// finish waits for a command whose stream was cut, and reads what it wrote.
func (c *client) finish(ctx context.Context, path, id string) (command, string, error) {
	at := path + "/cmd/" + url.PathEscape(id)
	var got struct {
		Command command `json:"command"`
	}
	for got.Command.Code == nil {
		if _, err := c.api.Do(ctx, hosted.Ask{Method: http.MethodGet, Path: at, Query: url.Values{"wait": {"true"}}, Out: &got, Repeat: true, Within: 5 * time.Minute}); err != nil {
			return command{}, "", err
		}
	}
	resp, err := c.api.Do(ctx, hosted.Ask{Method: http.MethodGet, Path: at + "/logs", Stream: true, Repeat: true})
	if err != nil {
		return command{}, "", err
	}
	defer resp.Body.Close()
	_, text, err := follow(ctx, resp.Body)
	return got.Command, text, err
}

// follow reads a command's stream to its end.
func follow(ctx context.Context, r io.Reader) (cmd command, text string, err error) {
	var out []byte
	scan := bufio.NewScanner(r)
	scan.Buffer(make([]byte, 64<<10), 4<<20)
	for scan.Scan() {
		if len(strings.TrimSpace(scan.Text())) == 0 {
			continue
		}
		var l line
		if err := json.Unmarshal(scan.Bytes(), &l); err != nil {
			return cmd, "", fmt.Errorf("Vercel's stream cannot be read: %w", err)
		}
		switch {
		case l.Command != nil:
			cmd = *l.Command
		case l.Stream == "error":
			var e struct{ Code, Message string }
			_ = json.Unmarshal(l.Data, &e)
			return cmd, string(out), &hosted.APIError{Service: "Vercel", Status: http.StatusGone, Code: hosted.Line(e.Code, 100), Message: hosted.Line(e.Message, 300), RetryAfter: -1}
		default:
			var s string
			if err := json.Unmarshal(l.Data, &s); err != nil {
				return cmd, "", fmt.Errorf("Vercel's stream cannot be read: %w", err)
			}
			out = append(out, s...)
			out = out[max(0, len(out)-maxOutput):]
		}
	}
	if err := scan.Err(); err != nil {
		return cmd, string(out), hosted.Lost(ctx, err)
	}
	return cmd, string(out), nil
}

// rawScript makes the terminal one that changes no byte, and becomes a program, as root. A terminal's own settings change nothing before it says so.
const rawScript = `stty raw -echo || exit 97
if [ "$(id -u)" = 0 ]; then exec "$@"; else exec sudo -n "$@"; fi`

// Open starts a program under a raw terminal.
func (c *client) Open(ctx context.Context, name string, argv []string) (io.ReadWriteCloser, error) {
	var at struct {
		URL   string `json:"url"`
		Token string `json:"token"`
	}
	err := c.inSession(ctx, name, func(path string) error {
		_, err := c.api.Do(ctx, hosted.Ask{Method: http.MethodPost, Path: path + "/interactive", In: struct{}{}, Out: &at})
		return err
	})
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(at.URL)
	if err != nil || u.Scheme != "wss" && u.Scheme != "ws" || u.Host == "" || u.Scheme == "ws" && !strings.HasPrefix(c.set.APIURL, "http:") {
		return nil, fmt.Errorf("Vercel named %q for a pipe, which is no address of one", hosted.Line(at.URL, 80))
	}
	q := u.Query()
	q.Set("token", at.Token)
	u.RawQuery = q.Encode()
	s, err := c.api.SocketAt(ctx, u.String(), http.Header{}, output, nil)
	if err != nil {
		return nil, err
	}
	start, err := json.Marshal(map[string]any{"type": "start", "command": "/bin/sh", "args": append([]string{"-c", rawScript, "pipe"}, argv...), "env": []string{"TERM=dumb"}, "cwd": "/", "cols": 80, "rows": 24})
	if err == nil {
		err = s.Say(start)
	}
	if err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

// output reads a message of an interactive session.
func output(kind int, m []byte) ([]byte, error) {
	if kind == websocket.BinaryMessage {
		return m, nil
	}
	var t struct {
		Type string `json:"type"`
		Code int    `json:"code"`
	}
	if json.Unmarshal(m, &t) == nil && t.Type == "exit" {
		if t.Code == 0 {
			return nil, io.EOF
		}
		return nil, fmt.Errorf("the program in the sandbox ended with %d", t.Code)
	}
	return nil, nil
}
