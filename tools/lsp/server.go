package lsp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/time/rate"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/jsonlist"
	"github.com/parawork/parawork/internal/locks"
	"github.com/parawork/parawork/internal/safetext"
	"github.com/parawork/parawork/tools/lsp/languages"
	"github.com/parawork/parawork/tools/lsp/protocol"
)

// Bounds of what a server may have us remember.
const (
	maxReports     = 2000 // files with diagnostics
	maxDiagnostics = 500  // of one file
	maxMessageText = 2000 // characters of one diagnostic
	maxSourceText  = 100
	maxCode        = 200      // bytes; a longer code is left out
	maxData        = 4 << 10  // bytes; so is longer data
	maxReported    = 32 << 20 // bytes of all diagnostics: other files' are forgotten for those of one
	maxProgress    = 64       // tasks it says it works at
	maxSections    = 100      // of one request for its configuration
)

// server is the language server of one language in one sandbox.
type server struct {
	s     *Service
	place *executors.Place
	lang  languages.Language
	id    string // of its process
	conn  *protocol.Conn
	root  string // the worktree inside the sandbox

	ready     chan struct{} // closed when it can be asked, or startErr is set
	startErr  error
	gone      chan struct{} // closed when nothing of it is left
	found     languages.Found
	caps      protocol.Capabilities
	abilities json.RawMessage // caps as the server said them
	resumed   bool            // an earlier run of Parawork started its process
	stderr    tail
	heard     chan struct{} // closed when nothing more comes to stderr

	began    atomic.Int64 // where reading its output began
	answered atomic.Bool  // requests that the record does not know of
	saving   atomic.Bool  // a goroutine of saveSoon waits
	pace     *rate.Limiter

	docs documents // guarded by its turn

	mu       sync.Mutex
	used     time.Time
	asking   int
	rss      int64
	pid      int
	since    int64 // ms UTC, of its start
	pulls    bool  // it wants to be asked for diagnostics
	reports  map[string]*report
	reported int           // bytes of reports
	seq      int           // of the last report
	changed  chan struct{} // closed at the next report
	progress map[string]string
	cause    error // why it ended, with what its process left behind

	applyTurn locks.Turn                                          // held while edits are written that a command asks for
	applying  func(context.Context, protocol.WorkspaceEdit) error // takes them; nil while no command runs
}

// report is what a server last pushed about a file.
type report struct {
	seq     int // grows with each
	version *int
	items   []protocol.Diagnostic
	bytes   int // of items, about
}

// newReport keeps of diagnostics what is of use.
func newReport(seq int, version *int, items []protocol.Diagnostic) *report {
	r := &report{seq: seq, version: version, items: slices.Clone(items[:min(len(items), maxDiagnostics)])}
	for i := range r.items {
		d := &r.items[i]
		d.Message, d.Source = strings.Clone(safetext.Cut(d.Message, maxMessageText)), strings.Clone(safetext.Cut(d.Source, maxSourceText))
		if len(d.Code) > maxCode {
			d.Code = nil
		}
		if len(d.Data) > maxData {
			d.Data = nil
		}
		r.bytes += int(unsafe.Sizeof(*d)) + len(d.Message) + len(d.Source) + len(d.Code) + len(d.Data)
	}
	return r
}

func newServer(s *Service, p *executors.Place, l languages.Language) *server {
	return &server{s: s, place: p, lang: l, id: id.New(processPrefix + l.ID), conn: protocol.NewConn(id.New("pw")+"_", s.cfg.Now), pace: rate.NewLimiter(savesPerSecond, savesAtOnce), root: p.Hello.Root,
		ready: make(chan struct{}), gone: make(chan struct{}), heard: make(chan struct{}), used: s.cfg.Now(), reports: map[string]*report{}, changed: make(chan struct{}),
		progress: map[string]string{}, applyTurn: locks.NewTurn(), docs: documents{turn: locks.NewTurn(), open: map[string]*document{}, ever: map[string]bool{}}}
}

func (sv *server) idleSince(now time.Time) time.Duration {
	sv.mu.Lock()
	defer sv.mu.Unlock()
	if sv.asking > 0 {
		return 0
	}
	return now.Sub(sv.used)
}

// use notes that somebody asks the server until the returned func is called: its sandbox is not idle meanwhile.
func (sv *server) use() func() {
	sv.mu.Lock()
	sv.asking++
	sv.mu.Unlock()
	release := sv.place.Use()
	return func() {
		release()
		sv.mu.Lock()
		sv.asking--
		sv.used = sv.s.cfg.Now()
		sv.mu.Unlock()
	}
}

// last returns why the server ended, with what its process left behind; nil when that is unknown.
func (sv *server) last() error {
	sv.mu.Lock()
	defer sv.mu.Unlock()
	return sv.cause
}

func (sv *server) describe(st *Status) {
	st.State = "starting"
	select {
	case <-sv.ready:
		if sv.startErr == nil {
			st.State, st.Program, st.Version = "ready", path.Base(sv.found.Program), safetext.Line(sv.found.Version)
		}
	default:
	}
	sv.mu.Lock()
	defer sv.mu.Unlock()
	st.RSSBytes, st.PID, st.Since = sv.rss, sv.pid, sv.since
	for _, title := range sv.progress {
		st.Doing = title
	}
}

// run is the whole life of the server.
func (sv *server) run(ctx context.Context) {
	defer close(sv.gone)
	listening, deaf := context.WithCancel(ctx)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	starting, stop := context.WithTimeoutCause(ctx, startWithin, fmt.Errorf("it did not answer within %d seconds", int(startWithin.Seconds())))
	defer stop()
	var work sync.WaitGroup
	defer work.Wait()
	defer deaf()
	if err := sv.launch(starting); err != nil {
		sv.fail(err, nil)
		return
	}
	work.Go(func() { // until the end of what it wrote, which may come after the end of its output
		defer close(sv.heard)
		sv.readErrors(listening)
	})
	work.Go(func() { // wakes what waits when the sandbox ends
		select {
		case <-sv.place.Done():
			sv.conn.End(errors.New("its sandbox ended: " + sv.place.Reason()))
		case <-sv.conn.Done():
		case <-ctx.Done():
			sv.conn.End(executors.ErrStopping())
		}
		cancel()
	})
	work.Go(func() {
		out := &output{ctx: ctx, sv: sv, off: sv.began.Load(), acked: sv.began.Load()}
		in := &input{ctx: ctx, sv: sv}
		_ = sv.conn.Serve(ctx, out, in, handler{sv}) // the connection keeps the cause
		out.close()
		in.close()
	})
	greet, words := sv.initialize, "language server started"
	if sv.resumed {
		greet, words = sv.resume, "language server found again"
	}
	err := greet(starting)
	stop()
	if err == nil {
		close(sv.ready)
		sv.saveSoon()
		sv.s.news.add(sv.place)
		sv.s.cfg.Log.Info(words, "workspace_id", sv.place.WorkspaceID, "language", sv.lang.ID, "program", sv.found.Program, "version", sv.found.Version)
	} else {
		sv.conn.End(err)
	}
	<-sv.conn.Done()
	cancel()
	sv.finish(err)
}

// finish ends what is left of the process and says why the server has ended.
func (sv *server) finish(startErr error) {
	cause := sv.conn.Cause()
	if errors.Is(cause, executors.ErrStopping()) || sv.s.life.Err() != nil { // the next run of Parawork finds the process again
		if startErr != nil {
			sv.fail(executors.ErrStopping(), nil)
			return
		}
		sv.s.left(sv, nil)
		return
	}
	died := cause
	ended := false
	select {
	case <-sv.place.Done():
		ended, died = true, nil
	default:
	}
	if !ended {
		ctx, cancel := context.WithTimeout(sv.s.life, executors.SettleTimeout)
		defer cancel()
		if proc, err := sv.place.Guest.Process(ctx, sv.id); err == nil && proc.State == guest.Exited && errors.Is(cause, protocol.ErrClosed) {
			cause = errors.New(exitWords(proc))
		}
		_, _ = sv.place.Guest.Stop(ctx, sv.id, endGrace) // a guest that does not answer is swept when it does
		select {
		case <-sv.heard:
		case <-time.After(lastWords): // a program that it left behind keeps its standard error open
		case <-ctx.Done():
		}
		_ = sv.place.Guest.Remove(ctx, sv.id)
		if said := sv.stderr.String(); said != "" && died != nil {
			cause = fmt.Errorf("%w; it last wrote: %s", cause, said)
		}
		if died != nil {
			died = cause
		}
	}
	if errors.Is(cause, errIdle) || errors.Is(cause, errRestarted) || errors.Is(startErr, errNotResumed) {
		died = nil
	}
	if err := sv.s.cfg.Records.DeleteRecord(sv.s.life, sv.place.WorkspaceID, sv.id); err != nil { // the process has ended: it is not found again
		sv.s.cfg.Log.Warn("the record of a language server could not be deleted", "workspace_id", sv.place.WorkspaceID, "language", sv.lang.ID, "error", err)
	}
	sv.mu.Lock()
	sv.cause = cause
	sv.mu.Unlock()
	if died != nil {
		sv.s.cfg.Log.Warn("a language server died", "workspace_id", sv.place.WorkspaceID, "language", sv.lang.ID, "cause", cause)
	}
	if errors.Is(startErr, errNotResumed) {
		sv.fail(startErr, nil)
		return
	}
	if startErr != nil {
		sv.fail(fault.Wrap(cause, fault.Unavailable, "language_server_failed", "The language server for %s could not be started: %s.", sv.lang.Title, cause), died)
		return
	}
	sv.s.left(sv, died)
}

// fail ends a server that could not be started.
func (sv *server) fail(err, died error) {
	sv.startErr = err
	sv.conn.End(err)
	sv.s.left(sv, died)
	close(sv.ready)
}

func exitWords(p guest.Process) string {
	switch {
	case p.Signal != "":
		return "it was ended by " + p.Signal
	case p.ExitCode != nil:
		return fmt.Sprintf("it exited with code %d", *p.ExitCode)
	}
	return safetext.Line(p.Reason)
}

// launch finds the program and starts it, unless an earlier run has: then that process goes on.
func (sv *server) launch(ctx context.Context) error {
	if r, ok := sv.s.inherit(sv.place, sv.lang.ID)[sv.lang.ID]; ok {
		err := sv.allowed(ctx, r.State.Found)
		if err == nil {
			return sv.takeOver(ctx, r)
		}
		_, _ = sv.place.Guest.Stop(ctx, r.ProcessID, endGrace) // without it the next question tries again
		return err
	}
	res, err := sv.place.Run(ctx, executors.SandboxCommand{Argv: []string{"/bin/sh", "-c", sv.lang.Probe()}, TimeoutMs: 30_000, MaxOutput: 64 << 10})
	if err != nil {
		return fmt.Errorf("looking for the language server for %s: %w", sv.lang.Title, err)
	}
	if sv.found = sv.lang.Read(res.Stdout); sv.found.Program == "" {
		return fault.New(fault.NotFound, "language_server_missing", "The sandbox has no language server for %s. To have one, %s", sv.lang.Title, sv.lang.Install)
	}
	argv := append([]string{"/bin/sh", "-c", languages.Path + `exec "$0" "$@"`, sv.found.Program}, sv.found.Args...)
	if err := sv.allowed(ctx, sv.found); err != nil {
		return err
	}
	proc, err := sv.place.Guest.Start(ctx, guest.ProcessSpec{ID: sv.id, Argv: argv, Env: sv.lang.Env, Stdin: true, Helper: true, MaxLog: 16 << 20})
	if err != nil {
		return fmt.Errorf("starting the language server for %s: %w", sv.lang.Title, err)
	}
	if proc.State == guest.Exited && proc.ExitCode == nil && proc.Signal == "" {
		return fault.New(fault.Unavailable, "language_server_failed", "The language server for %s could not be started: %s.", sv.lang.Title, safetext.Line(proc.Reason))
	}
	sv.mu.Lock()
	sv.pid, sv.since = proc.Pid, proc.StartedAt
	sv.mu.Unlock()
	return nil
}

// allowed refuses a program that may not run in this kind of executor.
func (sv *server) allowed(ctx context.Context, f languages.Found) error {
	if sv.s.cfg.Guard == nil {
		return nil
	}
	return sv.s.cfg.Guard(ctx, sv.place, append([]string{f.Program}, f.Args...))
}

// initialize greets the server.
func (sv *server) initialize(ctx context.Context) error {
	root := protocol.FileURI(sv.root)
	var answer struct {
		Capabilities json.RawMessage `json:"capabilities"`
	}
	params := map[string]any{
		"processId": nil, "clientInfo": map[string]string{"name": "parawork"}, "rootUri": root, "rootPath": sv.root,
		"workspaceFolders": sv.folders(), "capabilities": capabilities(sv.lang), "initializationOptions": sv.lang.InitializationOptions(),
	}
	if err := sv.conn.Call(ctx, "initialize", params, &answer); err != nil {
		return err
	}
	sv.abilities = answer.Capabilities
	if err := json.Unmarshal(answer.Capabilities, &sv.caps); err != nil {
		return fmt.Errorf("its abilities cannot be read: %w", err)
	}
	if e := sv.caps.PositionEncoding; e != "" && e != "utf-16" {
		return fmt.Errorf("it insists on positions in %.20q", e)
	}
	sv.mu.Lock()
	sv.pulls = sv.pulls || protocol.Given(sv.caps.DiagnosticProvider)
	sv.mu.Unlock()
	if err := sv.conn.Notify("initialized", struct{}{}); err != nil {
		return err
	}
	return sv.conn.Notify("workspace/didChangeConfiguration", map[string]any{"settings": sv.lang.Settings})
}

func (sv *server) folders() []map[string]string {
	return []map[string]string{{"uri": protocol.FileURI(sv.root), "name": path.Base(sv.root)}}
}

// capabilities are what we say we can do to the server of a language.
func capabilities(l languages.Language) json.RawMessage {
	if l.Pushes {
		return bytes.Replace(clientCapabilities, pullCapability, nil, 1)
	}
	return clientCapabilities
}

var pullCapability = []byte(`"diagnostic": {"dynamicRegistration": true, "relatedDocumentSupport": false},`)

// clientCapabilities are what we say we can do. Positions are in UTF-16, which every server can.
var clientCapabilities = json.RawMessage(`{
	"general": {"positionEncodings": ["utf-16"]},
	"workspace": {"applyEdit": true, "workspaceFolders": true, "configuration": true, "workspaceEdit": {"documentChanges": true},
		"didChangeConfiguration": {"dynamicRegistration": true}, "didChangeWatchedFiles": {"dynamicRegistration": true, "relativePatternSupport": true},
		"symbol": {"dynamicRegistration": false}, "diagnostics": {"refreshSupport": true}},
	"window": {"workDoneProgress": true},
	"textDocument": {
		"synchronization": {"dynamicRegistration": true, "didSave": true},
		"publishDiagnostics": {"versionSupport": true, "relatedInformation": false, "tagSupport": {"valueSet": [1, 2]}},
		"diagnostic": {"dynamicRegistration": true, "relatedDocumentSupport": false},
		"hover": {"contentFormat": ["markdown", "plaintext"]},
		"completion": {"completionItem": {"snippetSupport": false, "documentationFormat": ["plaintext"]}},
		"definition": {"linkSupport": true}, "references": {},
		"documentSymbol": {"hierarchicalDocumentSymbolSupport": true},
		"rename": {"prepareSupport": false},
		"codeAction": {"dataSupport": true, "isPreferredSupport": true, "resolveSupport": {"properties": ["edit"]},
			"codeActionLiteralSupport": {"codeActionKind": {"valueSet": ["", "quickfix", "refactor", "refactor.extract", "refactor.inline", "refactor.rewrite", "source", "source.organizeImports"]}}}}}`)

// handler takes what a server tells and asks.
type handler struct{ sv *server }

// Notified implements protocol.Handler.
func (h handler) Notified(method string, params json.RawMessage) {
	switch method {
	case "textDocument/publishDiagnostics":
		var p protocol.PublishDiagnostics
		if json.Unmarshal(params, &p) == nil {
			h.sv.published(p)
			if file, inside := h.sv.relative(p.URI); inside {
				h.sv.fanOut(file, p.Diagnostics)
			}
			h.sv.s.news.add(h.sv.place)
		}
	case "$/progress":
		var p struct {
			Token json.RawMessage `json:"token"`
			Value struct {
				Kind  string `json:"kind"`
				Title string `json:"title"`
			} `json:"value"`
		}
		if json.Unmarshal(params, &p) == nil && len(p.Token) <= 256 {
			h.sv.progressed(string(p.Token), p.Value.Kind, p.Value.Title)
			if p.Value.Kind != "report" {
				h.sv.s.news.add(h.sv.place)
			}
		}
	}
}

// Asked implements protocol.Handler.
func (h handler) Asked(method string, params json.RawMessage) (any, error) {
	switch method {
	case "workspace/configuration":
		var p struct {
			Items []struct {
				Section string `json:"section"`
			} `json:"items"`
		}
		if err := json.Unmarshal(params, &p); err != nil || len(p.Items) > maxSections {
			return nil, errors.New("the request cannot be read")
		}
		out := make([]any, len(p.Items))
		for i, it := range p.Items {
			out[i] = h.sv.lang.Section(it.Section, h.sv.found)
		}
		return out, nil
	case "workspace/workspaceFolders":
		return h.sv.folders(), nil
	case "workspace/diagnostic/refresh":
		h.sv.s.news.add(h.sv.place)
		return nil, nil
	case "client/registerCapability", "client/unregisterCapability", "window/workDoneProgress/create", "window/showMessageRequest",
		"workspace/semanticTokens/refresh", "workspace/inlayHint/refresh", "workspace/codeLens/refresh":
		return nil, nil
	}
	return nil, protocol.ErrNoMethod
}

// Replied implements protocol.Replied.
func (h handler) Replied(method string, params json.RawMessage) {
	if method == "client/registerCapability" {
		h.sv.registered(params)
	}
	h.sv.answered.Store(true)
	h.sv.saveSoon()
}

// Slow implements protocol.Slow: edits are written to files.
func (h handler) Slow(method string) bool { return method == "workspace/applyEdit" }

// AskedSlow implements protocol.Slow.
func (h handler) AskedSlow(ctx context.Context, _ string, params json.RawMessage) (any, error) {
	var p struct {
		Edit protocol.WorkspaceEdit `json:"edit"`
	}
	if err := json.Unmarshal(params, &p); err != nil {
		return nil, errors.New("the edit cannot be read")
	}
	unlock, err := h.sv.applyTurn.Lock(ctx) // the edits of one command are written one after the other
	if err != nil {
		return nil, err
	}
	defer unlock()
	apply := h.sv.applying
	if apply == nil {
		return map[string]any{"applied": false, "failureReason": "nobody asked for it"}, nil
	}
	if err := apply(ctx, p.Edit); err != nil {
		return map[string]any{"applied": false, "failureReason": fault.Words(err, "it could not be written")}, nil
	}
	return map[string]any{"applied": true}, nil
}

func (sv *server) registered(params json.RawMessage) {
	var p struct {
		Registrations jsonlist.List[struct {
			Method string `json:"method"`
		}] `json:"registrations"`
	}
	if json.Unmarshal(params, &p) != nil {
		return
	}
	sv.mu.Lock()
	defer sv.mu.Unlock()
	for _, r := range p.Registrations {
		if r.Method == "textDocument/diagnostic" && !sv.pulls {
			sv.pulls = true
			close(sv.changed)
			sv.changed = make(chan struct{})
		}
	}
}

func (sv *server) progressed(token, kind, title string) {
	sv.mu.Lock()
	defer sv.mu.Unlock()
	switch {
	case kind == "end":
		delete(sv.progress, token)
	case kind == "begin" && len(sv.progress) < maxProgress:
		sv.progress[token] = safetext.Cut(safetext.Line(title), 100)
	}
}

// published stores what a server pushed about a file of the worktree.
func (sv *server) published(p protocol.PublishDiagnostics) {
	file, inside := sv.relative(p.URI)
	if !inside {
		return
	}
	sv.mu.Lock()
	defer sv.mu.Unlock()
	if sv.reports[file] == nil && len(sv.reports) >= maxReports {
		return
	}
	sv.forget(file)
	sv.seq++
	r := newReport(sv.seq, p.Version, p.Diagnostics)
	for other := range sv.reports {
		if sv.reported+r.bytes <= maxReported {
			break
		}
		sv.forget(other)
	}
	sv.reports[strings.Clone(file)] = r // it may be a part of a URI of any length
	sv.reported += r.bytes
	close(sv.changed)
	sv.changed = make(chan struct{})
}

// forget removes the report about a file. The caller holds mu.
func (sv *server) forget(file string) {
	if r := sv.reports[file]; r != nil {
		sv.reported -= r.bytes
		delete(sv.reports, file)
	}
}

// relative returns the path of a URI below the worktree, in wire form.
func (sv *server) relative(uri string) (file string, inside bool) {
	p := protocol.FilePath(uri)
	rel, ok := strings.CutPrefix(p, strings.TrimSuffix(sv.root, "/")+"/")
	if !ok {
		return p, false
	}
	wire := guest.EncodePath(rel)
	if guest.CheckPath(wire) != nil || rel == ".git" || strings.HasPrefix(rel, ".git/") {
		return p, false
	}
	return wire, true
}

// uri returns the URI of a path in wire form.
func (sv *server) uri(file string) string {
	return protocol.FileURI(path.Join(sv.root, guest.DecodePath(file)))
}

// tail keeps the end of a text.
type tail struct {
	mu sync.Mutex
	b  []byte
}

const tailBytes = 1000

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p[max(0, len(p)-tailBytes):]...)
	if over := len(t.b) - tailBytes; over > 0 {
		t.b = append(t.b[:0], t.b[over:]...)
	}
	return len(p), nil
}

// String returns the end as one line.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(safetext.Line(strings.ToValidUTF8(string(t.b), "\uFFFD")))
}
