package reviews_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/reviews"
)

// harness is a Service with a database and a real repository; snapshots are its commits, and the agent's queue is a list.
type harness struct {
	t    *testing.T
	db   *store.DB
	bus  *events.Bus
	dir  string
	w    workspaces.Workspace
	ana  accounts.Actor
	ben  accounts.Actor
	room *reviews.Service

	mu      sync.Mutex
	clock   int64
	prompts map[string]prompt
	order   []string
	refuse  error // of AddPrompt
	base    string
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	h := &harness{t: t, db: storetest.SQLite(t), bus: events.New(), dir: t.TempDir(), clock: 1000, prompts: map[string]prompt{}}
	user, team := storetest.Seed(t, h.db)
	h.ana = accounts.Actor{User: user, Memberships: []accounts.Membership{{Team: team, Role: accounts.Owner}}}
	h.ben = accounts.Actor{User: accounts.User{ID: "usr_ben", Name: "Ben"}, Memberships: h.ana.Memberships}
	h.w = workspaces.Workspace{ID: id.New("ws"), TeamID: team.ID, ProjectID: id.New("prj")}
	h.exec(`INSERT INTO projects (id, team_id, name, source_kind, source, git_dir, state, created_by, created_at) VALUES (?,?,'p','sample','','','ready',?,1)`,
		h.w.ProjectID, team.ID, user.ID)
	h.exec(`INSERT INTO workspaces (id, team_id, project_id, num, name, branch, base, executor, state, created_by, created_at, updated_at)
		VALUES (?,?,?,1,'w','b','main','local','ready',?,1,1)`, h.w.ID, team.ID, h.w.ProjectID, user.ID)
	h.git("init", "-q", "-b", "main")
	h.room = h.open()
	return h
}

func (h *harness) open() *reviews.Service {
	return reviews.New(reviews.Config{Store: store.NewReviews(h.db), Trees: h, Workspaces: h, Sessions: h, Accounts: h, Bus: h.bus, Events: h.bus, Now: func() time.Time {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.clock++
		return time.UnixMilli(h.clock)
	}})
}

// run is one run of the Service.
func (h *harness) run() (end func()) {
	ctx, cancel := context.WithCancel(tenant.All(context.Background(), "test"))
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := h.room.Run(ctx); err != nil {
			h.t.Errorf("Run: %v", err)
		}
	}()
	end = sync.OnceFunc(func() { cancel(); <-done })
	h.t.Cleanup(end)
	return end
}

func (h *harness) exec(q string, args ...any) {
	h.t.Helper()
	if _, err := h.db.Exec(h.t.Context(), q, args...); err != nil {
		h.t.Fatal(err)
	}
}

func (h *harness) git(args ...string) string {
	h.t.Helper()
	out, err := h.output(h.t.Context(), args...)
	if err != nil {
		h.t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func (h *harness) output(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", h.dir, "-c", "user.name=t", "-c", "user.email=t@t", "-c", "core.quotePath=false"}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("git %v: %w: %s", args, err, stderr.String())
	}
	return out, err
}

// write changes files; an empty text removes one.
func (h *harness) write(files map[string]string) {
	h.t.Helper()
	for name, text := range files {
		p := filepath.Join(h.dir, name)
		if text == "" {
			if err := os.Remove(p); err != nil {
				h.t.Fatal(err)
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			h.t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			h.t.Fatal(err)
		}
	}
}

// snap takes a snapshot of the current files and publishes it. Of kind commit they are the branch's newest commit.
func (h *harness) snap(kind, title, session string) string {
	h.t.Helper()
	h.git("add", "-A")
	h.git("commit", "-q", "--allow-empty", "-m", title)
	commit := h.git("rev-parse", "HEAD")
	h.mu.Lock()
	h.base = cmp.Or(h.base, commit)
	h.clock++
	base, at := h.base, h.clock
	h.mu.Unlock()
	head := base
	if kind == "commit" {
		head = commit
	}
	h.exec(`INSERT INTO snapshots (id, team_id, workspace_id, at, kind, title, session_id, commit_id, tree_id, head, base_commit) VALUES (?,?,?,?,?,?,?,?,?,?,?)`,
		id.New("snp"), h.w.TeamID, h.w.ID, at, kind, title, session, commit, h.git("rev-parse", "HEAD^{tree}"), head, base)
	h.bus.Publish(h.t.Context(), events.Event{Type: "snapshots.updated", ID: h.w.ID, WorkspaceID: h.w.ID, TeamID: h.w.TeamID})
	return commit
}

// soon waits until ok accepts the Service's view of a workspace.
func (h *harness) soon(what string, ok func([]reviews.Review) bool) []reviews.Review {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.ctx(), 30*time.Second)
	defer cancel()
	sub := h.bus.Subscribe(h.w.TeamID, 0)
	defer sub.Close()
	for {
		all, err := h.room.Reviews(ctx, h.w, h.ana.User.ID)
		if err != nil {
			h.t.Fatalf("waiting for %s: %v", what, err)
		}
		if ok(all) {
			return all
		}
		select {
		case <-sub.C:
		case <-ctx.Done():
			h.t.Fatalf("%s did not happen: %+v", what, all)
		}
	}
}

func (h *harness) ctx() context.Context { return tenant.In(h.t.Context(), h.w.TeamID) }

// Fakes of the Service's dependencies.

func (h *harness) Workspace(context.Context, string) (workspaces.Workspace, error) { return h.w, nil }

func (h *harness) Actor(_ context.Context, id string) (accounts.Actor, error) {
	if id == h.ben.User.ID {
		return h.ben, nil
	}
	return h.ana, nil
}

func (h *harness) Hold(_ context.Context, _, _ string, fn func() error) error { return fn() }

func (h *harness) Resolve(ctx context.Context, _ workspaces.Workspace, rev, _ string) (reviews.Tree, error) {
	switch rev {
	case "base":
		h.mu.Lock()
		rev = h.base
		h.mu.Unlock()
	case "now", "head":
		rev = "HEAD"
	}
	out, err := h.output(ctx, "rev-parse", rev+"^{commit}", rev+"^{tree}")
	if err != nil {
		return reviews.Tree{}, fault.New(fault.NotFound, "revision_not_found", "unknown")
	}
	f := strings.Fields(string(out))
	return reviews.Tree{Commit: f[0], Tree: f[1]}, nil
}

func (h *harness) Changed(ctx context.Context, _ string, from, to reviews.Tree) ([]reviews.File, error) {
	out, err := h.output(ctx, "diff-tree", "-r", "-M", "--name-status", "-z", from.Tree, to.Tree)
	if err != nil {
		return nil, err
	}
	var files []reviews.File
	words := map[byte]string{'A': "added", 'M': "modified", 'D': "deleted", 'R': "renamed", 'T': "type_changed"}
	for f := strings.Split(string(out), "\x00"); len(f) > 1; {
		file := reviews.File{Status: words[f[0][0]], Path: f[1]}
		f = f[2:]
		if file.Status == "renamed" {
			file.OldPath, file.Path, f = file.Path, f[0], f[1:]
		}
		files = append(files, file)
	}
	return files, nil
}

func (h *harness) Patch(ctx context.Context, _ string, from, to reviews.Tree, paths []string) (io.ReadCloser, error) {
	out, err := h.output(ctx, append([]string{"diff", "-M", "-U0", from.Tree, to.Tree, "--"}, paths...)...)
	return io.NopCloser(bytes.NewReader(out)), err
}

func (h *harness) FileAt(ctx context.Context, _ string, t reviews.Tree, path string) (io.ReadCloser, int64, error) {
	out, err := h.output(ctx, "show", t.Tree+":"+path)
	if err != nil {
		return nil, 0, fault.New(fault.NotFound, "file_not_found", "There is no such file.")
	}
	return io.NopCloser(bytes.NewReader(out)), int64(len(out)), nil
}

// prompt is what the sessions know of one.
type prompt struct {
	reviews.Prompt
	Text, CreatedBy string
}

func (h *harness) Recipient(_ context.Context, id string) (reviews.Recipient, error) {
	s := reviews.Recipient{WorkspaceID: h.w.ID, Agent: "claude-code"}
	switch id {
	case "ses_shell":
		s.Agent = "shell"
	case "ses_elsewhere":
		s.WorkspaceID = "ws_other"
	}
	return s, nil
}

func (h *harness) Queue(_ context.Context, actor accounts.Actor, sessionID, promptID, text string) (reviews.Prompt, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.refuse != nil {
		return reviews.Prompt{}, h.refuse
	}
	if _, there := h.prompts[promptID]; there {
		return reviews.Prompt{}, fault.New(fault.Conflict, "already_exists", "twice")
	}
	if sessionID == "ses_ended" {
		sessionID = "ses_resumed"
	}
	p := prompt{Prompt: reviews.Prompt{ID: promptID, SessionID: sessionID, State: reviews.PromptQueued, Waits: "the agent works"}, Text: text, CreatedBy: actor.User.ID}
	h.prompts[p.ID] = p
	h.order = append(h.order, p.ID)
	return p.Prompt, nil
}

func (h *harness) Prompt(_ context.Context, id string) (reviews.Prompt, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p, ok := h.prompts[id]
	if !ok {
		return p.Prompt, fault.New(fault.NotFound, "prompt_not_found", "There is no such prompt.")
	}
	return p.Prompt, nil
}

func (h *harness) Prompts(_ context.Context, sessionID string) (out []reviews.Prompt, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range h.order {
		if p := h.prompts[id]; p.SessionID == sessionID {
			out = append(out, p.Prompt)
		}
	}
	return out, nil
}

func (h *harness) Cancel(_ context.Context, id string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	p, ok := h.prompts[id]
	switch {
	case !ok:
		return fault.New(fault.NotFound, "prompt_not_found", "There is no such prompt.")
	case p.State == reviews.PromptSent:
		return fault.New(fault.Conflict, "prompt_sent", "The agent has this prompt already.")
	}
	p.State = reviews.PromptCancelled
	h.prompts[id] = p
	return nil
}

// becomes says what became of a prompt.
func (h *harness) becomes(id string, st reviews.PromptState, reason string) {
	h.mu.Lock()
	p := h.prompts[id]
	h.clock++
	p.State, p.Reason = st, reason
	if st == reviews.PromptSent {
		p.SentAt = h.clock
	}
	h.prompts[id] = p
	h.mu.Unlock()
	h.bus.Publish(h.t.Context(), events.Event{Type: "prompt.updated", ID: p.SessionID, WorkspaceID: h.w.ID, TeamID: h.w.TeamID})
}
