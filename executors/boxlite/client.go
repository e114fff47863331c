package boxlite

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/hosted"
	"github.com/parawork/parawork/internal/tasks"
)

// client speaks BoxLite's REST API, as its openapi/box.openapi.yaml of August 2026 has it. Safe for concurrent use.
type client struct {
	set  Settings // normal
	api  *hosted.API
	work *tasks.Group

	mu      sync.Mutex
	known   *about
	askedAt time.Time
	refused error
}

var _ hosted.Service = (*client)(nil)

func newClient(set Settings, work *tasks.Group) *client {
	token := set.APIKey
	if token == "" {
		token = "none" // a server that asks for no key asks for a header
	}
	return &client{set: set, work: work, api: hosted.NewAPI(hosted.API{Service: "BoxLite", Base: set.URL + "/v1", Token: token})}
}

// about is what a server says of itself and of the key.
type about struct {
	prefix   string // of the paths of boxes, "" or /SLOT
	cpus     int    // the most, 0 = it does not say
	memoryMB int64
	diskGB   int
}

// about asks whether the key is taken, and what the server can do; a fresh answer is not asked for again.
func (c *client) about(ctx context.Context, now func() time.Time) (*about, error) {
	c.mu.Lock()
	known, refused, at := c.known, c.refused, c.askedAt
	c.mu.Unlock()
	if !at.IsZero() && now().Sub(at) < askedFor {
		return known, refused
	}
	a, err := c.askAbout(ctx)
	if ctx.Err() == nil {
		c.mu.Lock()
		c.refused, c.askedAt = err, now()
		if err == nil {
			c.known = a
		}
		c.mu.Unlock()
	}
	return a, err
}

func (c *client) askAbout(ctx context.Context) (*about, error) {
	var me struct {
		PathPrefix string `json:"path_prefix"`
		Prefix     string `json:"prefix"` // of servers before the document said path_prefix
	}
	if _, err := c.api.Do(ctx, hosted.Ask{Method: http.MethodGet, Path: "/me", Out: &me, Repeat: true, Within: 15 * time.Second}); err != nil {
		return nil, err
	}
	var config struct {
		Capabilities struct {
			CPUs     int   `json:"max_cpus"`
			MemoryMB int64 `json:"max_memory_mib"`
			DiskGB   int   `json:"max_disk_size_gb"`
		} `json:"capabilities"`
	}
	if _, err := c.api.Do(ctx, hosted.Ask{Method: http.MethodGet, Path: "/config", Out: &config, Repeat: true, Within: 15 * time.Second}); err != nil {
		return nil, err
	}
	a := &about{cpus: config.Capabilities.CPUs, memoryMB: config.Capabilities.MemoryMB, diskGB: config.Capabilities.DiskGB}
	prefix := me.PathPrefix
	if prefix == "" {
		prefix = me.Prefix
	}
	if prefix = strings.Trim(prefix, "/"); prefix != "" {
		if len(prefix) > 128 || strings.ContainsAny(prefix, "?#% \\") || strings.Contains(prefix, "..") {
			return nil, fmt.Errorf("BoxLite named the path prefix %q, which is none", hosted.Line(prefix, 80))
		}
		a.prefix = "/" + prefix
	}
	return a, nil
}

// refuses says why the server makes no box of a size, and what to do; "" = it does.
func (a *about) refuses(cpus int, memoryMB int64) (reason, cure string) {
	switch {
	case a.cpus > 0 && cpus > a.cpus:
		return fmt.Sprintf("this BoxLite server gives a box %d vCPU at most", a.cpus), "Choose less."
	case a.memoryMB > 0 && memoryMB > a.memoryMB:
		return fmt.Sprintf("this BoxLite server gives a box %s of memory at most", executors.MemoryWords(a.memoryMB)), "Choose less."
	}
	return "", ""
}

// words are the most a box may have.
func (a *about) words() string {
	return executors.Limits{CPUs: float64(a.cpus), MemoryMB: a.memoryMB, DiskMB: int64(a.diskGB) << 10}.Words()
}

// boxes is the path of boxes, with what comes behind it.
func (c *client) boxes(ctx context.Context, rest ...string) (string, error) {
	c.mu.Lock()
	known := c.known
	c.mu.Unlock()
	if known == nil { // what was refused before is asked again
		var err error
		if known, err = c.askAbout(ctx); err != nil {
			return "", err
		}
		c.mu.Lock()
		c.known = known
		c.mu.Unlock()
	}
	p := known.prefix + "/boxes"
	for _, r := range rest {
		p += "/" + url.PathEscape(r)
	}
	return p, nil
}

// box is a box as the server describes it.
type box struct {
	ID       string `json:"box_id"`
	Name     string `json:"name"`
	Status   string `json:"status"`
	CPUs     int    `json:"cpus"`
	MemoryMB int64  `json:"memory_mib"`
}

// machine is a box as the executor sees it. A box that failed or froze counts as stopped: it must be started to be used.
func (b box) machine() hosted.Machine {
	m := hosted.Machine{ID: b.ID, Name: b.Name, State: hosted.Stopped, CPUs: b.CPUs, MemoryMB: b.MemoryMB}
	if b.Status == "running" {
		m.State = hosted.Running
	}
	return m
}

// outbound is what a box may reach.
type outbound struct {
	Mode     string   `json:"mode"`
	AllowNet []string `json:"allow_net,omitempty"`
}

// network is that as the document has it, or as servers before it have it: flat.
type network struct {
	Outbound *outbound `json:"outbound,omitempty"`
	*outbound
}

type newBox struct {
	Name       string   `json:"name"`
	Image      string   `json:"image"`
	CPUs       int      `json:"cpus"`
	MemoryMB   int64    `json:"memory_mib"`
	DiskGB     int      `json:"disk_size_gb"`
	Entrypoint []string `json:"entrypoint"`
	Cmd        []string `json:"cmd"`
	Network    network  `json:"network"`
	Detach     bool     `json:"detach"`
	AutoStop   int      `json:"auto_stop"` // s; 0 = never: the server's own default is 900
	AutoDelete int      `json:"auto_delete"`
	AutoResume bool     `json:"auto_resume"`
}

// reach is a network in BoxLite's form. An empty list would mean everything.
func reach(n executors.Network) outbound {
	switch n.Mode {
	case executors.NetworkNone:
		return outbound{Mode: "disabled"}
	case executors.NetworkAllow:
		names, addresses := hosted.Allowed(n)
		if all := append(names, addresses...); len(all) > 0 {
			return outbound{Mode: "enabled", AllowNet: all}
		}
		return outbound{Mode: "disabled"}
	}
	return outbound{Mode: "enabled"}
}

// idempotencyKey makes the same UUID of the same name.
func idempotencyKey(name string) string {
	h := sha256.Sum256([]byte(name))
	h[6], h[8] = h[6]&0x0f|0x80, h[8]&0x3f|0x80 // a UUID of version 8
	t := hex.EncodeToString(h[:16])
	return t[:8] + "-" + t[8:12] + "-" + t[12:16] + "-" + t[16:20] + "-" + t[20:]
}

// Make makes a box and starts it. Names are unique, so a box whose making was not answered is found by its name.
func (c *client) Make(ctx context.Context, name string, s executors.Spec) (hosted.Machine, error) {
	at, err := c.boxes(ctx)
	if err != nil {
		return hosted.Machine{}, err
	}
	purpose, _ := executors.AskerOf(ctx)
	net := reach(s.Network)
	// The first process of a box is the box's life, and an image's own may end at once: this one waits.
	in := newBox{Name: name, Image: c.set.image(purpose), CPUs: s.Size.CPUs, MemoryMB: s.Size.MemoryMB, DiskGB: c.set.DiskGB, Network: network{Outbound: &net}, Detach: true,
		Entrypoint: []string{"/bin/sh", "-c"}, Cmd: []string{"trap 'exit 0' TERM INT; while :; do sleep 3600 & wait $!; done"}}
	if in.CPUs == 0 {
		in.CPUs, in.MemoryMB = c.set.CPUs, int64(c.set.MemoryMB)
	}
	var b box
	ask := hosted.Ask{Method: http.MethodPost, Path: at, In: in, Out: &b, Repeat: true, Header: http.Header{"Idempotency-Key": {idempotencyKey(name)}}, Within: 2 * time.Minute}
	_, err = c.api.Do(ctx, ask)
	if hosted.IsStatus(err, http.StatusBadRequest, http.StatusUnprocessableEntity) && strings.Contains(err.Error(), "outbound") { // a server before that word
		in.Network = network{outbound: &net}
		ask.In, ask.Header = in, http.Header{"Idempotency-Key": {idempotencyKey(name + " flat")}}
		_, err = c.api.Do(ctx, ask)
	}
	if hosted.IsCode(err, "already_exists") { // an answer was lost, and this server's memory of the key, too
		b, err = c.box(ctx, name)
	}
	if err != nil {
		return hosted.Machine{}, err
	}
	if b.ID == "" || len(b.ID) > 128 {
		return hosted.Machine{}, fmt.Errorf("BoxLite named the box %q, which is no name of one", hosted.Line(b.ID, 80))
	}
	m := b.machine()
	m.CPUs, m.MemoryMB = in.CPUs, in.MemoryMB
	return m, c.Start(ctx, b.ID)
}

func (c *client) box(ctx context.Context, id string) (box, error) {
	var b box
	at, err := c.boxes(ctx, id)
	if err == nil {
		_, err = c.api.Do(ctx, hosted.Ask{Method: http.MethodGet, Path: at, Out: &b, Repeat: true})
	}
	return b, missing(err)
}

// missing is an answer that there is no such box.
func missing(err error) error {
	if hosted.IsStatus(err, http.StatusNotFound) {
		return errors.Join(hosted.ErrNoMachine, err)
	}
	return err
}

// Look says how a box stands.
func (c *client) Look(ctx context.Context, id string) (hosted.Machine, error) {
	b, err := c.box(ctx, id)
	return b.machine(), err
}

// maxPages bounds how many pages of boxes are read.
const maxPages = 50

// All lists the boxes whose names begin so.
func (c *client) All(ctx context.Context, prefix string) ([]hosted.Machine, error) {
	at, err := c.boxes(ctx)
	if err != nil {
		return nil, err
	}
	var out []hosted.Machine
	query := url.Values{"pageSize": {"1000"}}
	for range maxPages {
		var page struct {
			Boxes []box  `json:"boxes"`
			Next  string `json:"next_page_token"`
		}
		if _, err := c.api.Do(ctx, hosted.Ask{Method: http.MethodGet, Path: at, Query: query, Out: &page, Repeat: true}); err != nil {
			return nil, err
		}
		for _, b := range page.Boxes {
			if strings.HasPrefix(b.Name, prefix) {
				out = append(out, b.machine())
			}
		}
		if page.Next == "" {
			return out, nil
		}
		query.Set("pageToken", page.Next)
	}
	return out, nil
}

// Start starts a box: the server fetches its image where it has not.
func (c *client) Start(ctx context.Context, id string) error {
	return missing(c.change(ctx, id, "start", makeWithin))
}

// Stop stops a box: its disk stays.
func (c *client) Stop(ctx context.Context, id string) error {
	err := c.change(ctx, id, "stop", 90*time.Second)
	if hosted.IsCode(err, "stopped") {
		return nil
	}
	return missing(err)
}

// changingFor is how long a box that is changing its state is waited for.
const changingFor = 30 * time.Second

// change starts or stops a box, patiently where it is changing already.
func (c *client) change(ctx context.Context, id, verb string, within time.Duration) error {
	at, err := c.boxes(ctx, id, verb)
	if err != nil {
		return err
	}
	return patiently(ctx, func() error {
		_, err := c.api.Do(ctx, hosted.Ask{Method: http.MethodPost, Path: at, In: struct{}{}, Repeat: true, Within: within})
		return err
	})
}

// patiently asks again while the server says that a box is changing its state.
func patiently(ctx context.Context, do func() error) error {
	until := time.Now().Add(changingFor)
	for {
		err := do()
		if !hosted.IsStatus(err, http.StatusConflict) || time.Now().After(until) {
			return err
		}
		t := time.NewTimer(300 * time.Millisecond)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return err
		}
	}
}

// Remove removes a box with its disk, running or not.
func (c *client) Remove(ctx context.Context, id string) error {
	at, err := c.boxes(ctx, id)
	if err != nil {
		return err
	}
	err = patiently(ctx, func() error {
		_, err := c.api.Do(ctx, hosted.Ask{Method: http.MethodDelete, Path: at, Query: url.Values{"force": {"true"}}, Repeat: true})
		return err
	})
	if hosted.IsStatus(err, http.StatusNotFound) {
		return nil
	}
	return err
}

// putWithin is how long a file may take to be sent.
const putWithin = 10 * time.Minute

// Put sends a file as an archive of one.
func (c *client) Put(ctx context.Context, id string, f hosted.File) error {
	at, err := c.boxes(ctx, id, "files")
	if err != nil {
		return err
	}
	r, w := io.Pipe()
	packed := make(chan struct{})
	go func() { // ends with the request, which closes r
		defer close(packed)
		t := tar.NewWriter(w)
		err := t.WriteHeader(&tar.Header{Name: path.Base(f.Path), Mode: f.Mode, Size: f.Size, Typeflag: tar.TypeReg, ModTime: time.Unix(0, 0)})
		if err == nil {
			_, err = io.Copy(t, f.Content)
		}
		_ = w.CloseWithError(errors.Join(err, t.Close()))
	}()
	_, err = c.api.Do(ctx, hosted.Ask{Method: http.MethodPut, Path: at, Query: url.Values{"path": {path.Dir(f.Path)}, "overwrite": {"true"}}, Body: r,
		Header: http.Header{"Content-Type": {"application/x-tar"}}, Within: putWithin})
	_ = r.Close()
	<-packed
	return missing(err)
}

// exec starts a program and returns what it is called.
func (c *client) exec(ctx context.Context, id string, argv []string) (string, error) {
	at, err := c.boxes(ctx, id, "exec")
	if err != nil {
		return "", err
	}
	in := struct {
		Command string   `json:"command"`
		Args    []string `json:"args"`
		WorkDir string   `json:"working_dir"`
	}{argv[0], argv[1:], "/"}
	var out struct {
		ID string `json:"execution_id"`
	}
	_, err = c.api.Do(ctx, hosted.Ask{Method: http.MethodPost, Path: at, In: in, Out: &out, Within: 2 * time.Minute})
	if err == nil && out.ID == "" {
		err = errors.New("BoxLite named no execution")
	}
	return out.ID, missing(err)
}

// endWithin bounds the removal of an execution.
const endWithin = 10 * time.Second

// end removes an execution in the background: it may have ended already.
func (c *client) end(id, execution string) {
	c.work.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), endWithin)
		defer cancel()
		if at, err := c.boxes(ctx, id, "executions", execution); err == nil {
			_, _ = c.api.Do(ctx, hosted.Ask{Method: http.MethodDelete, Path: at, Repeat: true}) // the server removes it itself when nobody comes
		}
	})
}

// exited says that a program has ended.
type exited struct {
	code int
	said string // what it wrote on standard error last
}

func (e *exited) Error() string {
	said := ""
	if e.said != "" {
		said = ": " + hosted.Line(strings.TrimSpace(e.said), 300)
	}
	return "the program in the box ended with " + strconv.Itoa(e.code) + said
}

// maxSaid is how much of standard error is kept.
const maxSaid = 1 << 10

// reader reads the messages of an attachment. errors goes where standard error is to be read as output, too.
func reader(both bool) func(int, []byte) ([]byte, error) {
	var said []byte
	return func(kind int, m []byte) ([]byte, error) {
		switch {
		case kind == websocket.BinaryMessage && len(m) > 0 && (m[0] == 1 || m[0] == 2 && both):
			return m[1:], nil
		case kind == websocket.BinaryMessage && len(m) > 0 && m[0] == 2:
			said = append(said, m[1:]...)
			said = said[max(0, len(said)-maxSaid):]
			return nil, nil
		case kind == websocket.BinaryMessage:
			return nil, errors.New("BoxLite's stream cannot be read: it names no channel")
		}
		var t struct {
			Type    string `json:"type"`
			Code    int    `json:"exit_code"`
			Message string `json:"message"`
		}
		if err := json.Unmarshal(m, &t); err != nil {
			return nil, fmt.Errorf("BoxLite's stream cannot be read: %w", err)
		}
		switch t.Type {
		case "exit":
			return nil, &exited{t.Code, string(said)}
		case "error":
			said = append(said, t.Message...)
		}
		return nil, nil
	}
}

func (c *client) attach(ctx context.Context, id, execution string, both bool, then func()) (*hosted.Socket, error) {
	at, err := c.boxes(ctx, id, "executions", execution, "attach")
	if err != nil {
		return nil, err
	}
	return c.api.Socket(ctx, at, reader(both), then)
}

// Open starts a program and attaches to it. Its end ends the pipe.
func (c *client) Open(ctx context.Context, id string, argv []string) (io.ReadWriteCloser, error) {
	execution, err := c.exec(ctx, id, argv)
	if err != nil {
		return nil, err
	}
	s, err := c.attach(ctx, id, execution, false, func() { c.end(id, execution) })
	if err != nil {
		c.end(id, execution)
		return nil, err
	}
	return s, nil
}

const (
	// attachAgain is how long to wait before an execution whose stream was cut is attached to again: the server may not have noticed the cut.
	attachAgain = 500 * time.Millisecond
	// attachTries bounds how often that fails in a row: a server notices within 45 s that a client has gone.
	attachTries = 100
)

// maxOutput is how much of a program's output is kept.
const maxOutput = 64 << 10

// Run runs a program to its end. A stream that was cut is opened again: the server repeats what was written so far.
func (c *client) Run(ctx context.Context, id string, argv []string) (hosted.Result, error) {
	execution, err := c.exec(ctx, id, argv)
	if err != nil {
		return hosted.Result{}, err
	}
	defer c.end(id, execution)
	for failed := 0; ; {
		r, attached, err := c.follow(ctx, id, execution)
		if failed++; attached {
			failed = 0
		}
		if ctx.Err() != nil {
			return hosted.Result{}, context.Cause(ctx)
		}
		if err == nil || failed > attachTries || hosted.IsStatus(err, http.StatusNotFound, http.StatusGone, http.StatusUnauthorized, http.StatusForbidden) {
			return r, err
		}
		t := time.NewTimer(attachAgain)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
		}
	}
}

func (c *client) follow(ctx context.Context, id, execution string) (r hosted.Result, attached bool, err error) {
	s, err := c.attach(ctx, id, execution, true, nil)
	if err != nil {
		return r, false, err
	}
	defer context.AfterFunc(ctx, func() { _ = s.Close() })()
	defer s.Close()
	var out []byte
	b := make([]byte, 32<<10)
	for {
		n, err := s.Read(b)
		out = append(out, b[:n]...)
		out = out[max(0, len(out)-maxOutput):]
		if e, ok := errors.AsType[*exited](err); ok {
			return hosted.Result{Code: e.code, Output: string(out)}, true, nil
		}
		if err != nil {
			return r, true, err
		}
	}
}
