package artifacts_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/homedir"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/store/toolstore"
	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/tools/artifacts"
	"github.com/parawork/parawork/tools/artifacts/blobs"
	"github.com/parawork/parawork/tools/tooltest"
	"github.com/parawork/parawork/workspaces"
)

// world is a workspace with a home and a worktree on disk, which its agent writes.
type world struct {
	*artifacts.Service
	t        testing.TB
	cfg      artifacts.Config
	rows     *toolstore.Artifacts
	dir      string // the server's
	home     string
	worktree string
	user     accounts.User
	w        workspaces.Workspace
	sessions []sessions.Session
	now      time.Time
}

func newWorld(t testing.TB, tune ...func(*artifacts.Config)) *world {
	t.Helper()
	db := storetest.SQLite(t)
	w := &world{t: t, rows: toolstore.NewArtifacts(db), dir: t.TempDir(), home: t.TempDir(), worktree: t.TempDir(), now: time.Now().Add(time.Hour)}
	user, team := storetest.Seed(t, db)
	w.user = user
	p := workspaces.Project{ID: id.New("prj"), TeamID: team.ID, Name: "p", CreatedBy: user.ID, CreatedAt: 1}
	w.w = workspaces.Workspace{ID: id.New("ws"), TeamID: team.ID, ProjectID: p.ID, Name: "w", CreatedBy: user.ID, CreatedAt: 1}
	rows := store.NewWorkspaces(db)
	if err := rows.InsertProject(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if _, err := rows.InsertWorkspace(t.Context(), w.w); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(w.home, "artifacts"), 0o700); err != nil {
		t.Fatal(err)
	}
	w.sessions = []sessions.Session{{ID: "ses_1", TeamID: team.ID, WorkspaceID: w.w.ID, CreatedBy: user.ID, StartedAt: 1}}
	w.cfg = artifacts.Config{Store: w.rows, Blobs: blobs.NewFolder(filepath.Join(w.dir, "contents")), Dir: filepath.Join(w.dir, "incoming"), Folders: w, Worktrees: w, Workspaces: rows, Sessions: w, Secrets: w,
		Actor: func(context.Context, string) (accounts.Actor, error) { return w.actor(accounts.Owner), nil }, Now: func() time.Time { return w.now }}
	for _, fn := range tune {
		fn(&w.cfg)
	}
	w.Service = artifacts.New(w.cfg)
	return w
}

func (w *world) actor(role accounts.Role) accounts.Actor {
	return accounts.Actor{User: w.user, Memberships: []accounts.Membership{{Team: accounts.Team{ID: w.w.TeamID}, Role: role}}}
}

func (w *world) Of(context.Context, string) ([]artifacts.Folder, string, func(), error) {
	home, err := homedir.Open(w.home)
	if err != nil {
		return nil, "", nil, err
	}
	return []artifacts.Folder{{Files: home, Name: "artifacts", Path: filepath.Join(w.home, "artifacts")}}, w.worktree, func() { home.Close() }, nil
}

func (w *world) Read(_ context.Context, _, path string) (io.ReadCloser, guest.FileInfo, error) {
	root, err := homedir.Open(w.worktree)
	if err != nil {
		return nil, guest.FileInfo{}, err
	}
	defer root.Close()
	raw, err := root.ReadFile(path)
	return io.NopCloser(bytes.NewReader(raw)), guest.FileInfo{Size: int64(len(raw))}, err
}

func (w *world) List(context.Context, string) ([]sessions.Session, error) { return w.sessions, nil }

func (w *world) SecretFiles(context.Context, string) (workspaces.SecretFiles, error) {
	return workspaces.SecretFiles{}, nil
}

func (w *world) maker() artifacts.Maker {
	return artifacts.Maker{TeamID: w.w.TeamID, WorkspaceID: w.w.ID, SessionID: "ses_1", UserID: w.user.ID}
}

// put writes a file of the artifacts folder.
func (w *world) put(name, content string) string {
	w.t.Helper()
	file := filepath.Join(w.home, "artifacts", name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(content), 0o600)); err != nil {
		w.t.Fatal(err)
	}
	return file
}

func (w *world) all() []artifacts.Artifact {
	w.t.Helper()
	items, _, err := w.Service.List(w.t.Context(), artifacts.Filter{WorkspaceID: w.w.ID}, page.Page{Limit: 200})
	if err != nil {
		w.t.Fatal(err)
	}
	return items
}

func (w *world) content(a artifacts.Artifact) string {
	w.t.Helper()
	r, err := w.Open(w.t.Context(), a)
	if err != nil {
		w.t.Fatal(err)
	}
	defer r.Close()
	raw, err := io.ReadAll(r)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(raw)
}

// stray fails when anything half done is left on disk.
func (w *world) stray(contents int) {
	w.t.Helper()
	parts, _ := filepath.Glob(filepath.Join(w.dir, "incoming", "*"))
	kept, _ := filepath.Glob(filepath.Join(w.dir, "contents", "*", "*"))
	if len(parts) != 0 || len(kept) != contents {
		w.t.Errorf("%d parts and %d contents are left, want 0 and %d", len(parts), len(kept), contents)
	}
}

func wantCode(t *testing.T, err error, code string) {
	t.Helper()
	if fault.CodeOf(err) != code {
		t.Errorf("%v, want %s", err, code)
	}
}

func TestSavedFilesAreVersionedAndReadable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	file := w.put("charts/load.txt", "one")
	first, err := w.Save(t.Context(), w.maker(), artifacts.SaveRequest{Path: file})
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte("one"))
	if first.Name != "charts/load.txt" || first.Version != 1 || first.Size != 3 || first.SHA256 != hex.EncodeToString(sum[:]) || first.MIME != "text/plain" || first.SessionID != "ses_1" || w.content(first) != "one" {
		t.Errorf("saved as %+v", first)
	}
	if again, err := w.Save(t.Context(), w.maker(), artifacts.SaveRequest{Path: file}); err != nil || again.ID != first.ID {
		t.Errorf("the same content again: %+v, %v", again, err)
	}
	w.put("charts/load.txt", "two, longer")
	second, err := w.Save(t.Context(), w.maker(), artifacts.SaveRequest{Path: file})
	if err != nil || second.Version != 2 || second.Versions != 2 || w.content(first) != "one" || w.content(second) != "two, longer" {
		t.Errorf("the next version: %+v, %v", second, err)
	}
	if err := os.WriteFile(filepath.Join(w.worktree, "report.md"), []byte("# Done"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"report.md", filepath.Join(w.worktree, "report.md")} {
		a, err := w.Save(t.Context(), w.maker(), artifacts.SaveRequest{Path: name})
		if err != nil || a.Name != "report.md" || a.MIME != "text/markdown" || w.content(a) != "# Done" {
			t.Errorf("from the worktree as %s: %+v, %v", name, a, err)
		}
	}
	if err := w.Delete(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Get(t.Context(), second.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("a deleted one: %v", err)
	}
	w.stray(2)
}

func TestOldVersionsGo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range artifacts.MaxVersions + 3 {
		if _, err := w.Upload(t.Context(), w.maker(), artifacts.SaveRequest{Name: "log.txt"}, strings.NewReader(fmt.Sprint("content ", i)), -1, ""); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if all := w.all(); len(all) != 1 || all[0].Versions != artifacts.MaxVersions || all[0].Version != artifacts.MaxVersions+3 {
		t.Errorf("left: %+v", all)
	}
	w.stray(artifacts.MaxVersions)
}

func TestExpiredArtifactsGo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *artifacts.Config) { c.Keep = 24 * time.Hour })
	if _, err := w.Upload(t.Context(), w.maker(), artifacts.SaveRequest{Name: "old"}, strings.NewReader("old"), 3, ""); err != nil {
		t.Fatal(err)
	}
	w.now = w.now.Add(25 * time.Hour)
	if err := w.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if all := w.all(); len(all) != 0 {
		t.Errorf("left: %+v", all)
	}
	w.stray(0)
}

func TestWhatCannotBeSaved(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *artifacts.Config) { c.MaxFile, c.TeamBytes = 1000, 1500 })
	folder := filepath.Join(w.home, "artifacts")
	if err := errors.Join(os.Symlink("/etc/passwd", filepath.Join(folder, "link")), os.Symlink("/etc", filepath.Join(folder, "etc")), syscall.Mkfifo(filepath.Join(folder, "pipe"), 0o600),
		os.WriteFile(filepath.Join(w.home, ".credentials"), []byte("x"), 0o600)); err != nil {
		t.Fatal(err)
	}
	w.put("large", strings.Repeat("x", 1001))
	w.put("fits", strings.Repeat("x", 900))
	for path, code := range map[string]string{
		"/etc/passwd":                         "artifact_path_outside",
		"../x":                                "artifact_path_outside",
		filepath.Join(w.home, ".credentials"): "artifact_path_outside",
		folder + "/../.credentials":           "artifact_path_outside",
		"a\x00b":                              "artifact_path_invalid",
		"":                                    "artifact_path_invalid",
		filepath.Join(folder, "link"):         "artifact_not_a_file",
		filepath.Join(folder, "pipe"):         "artifact_not_a_file",
		filepath.Join(folder, "missing"):      "artifact_source_missing",
		filepath.Join(folder, "large"):        "artifact_too_large",
	} {
		_, err := w.Save(t.Context(), w.maker(), artifacts.SaveRequest{Path: path})
		wantCode(t, err, code)
	}
	if _, err := w.Save(t.Context(), w.maker(), artifacts.SaveRequest{Path: filepath.Join(folder, "etc", "passwd")}); err == nil {
		t.Error("a file behind a link to a folder was saved")
	}
	for _, name := range []string{"..", "../x", "/x", "a//b", "a\nb", "a\\b", ".", strings.Repeat("x", 600), "\xff"} {
		_, err := w.Save(t.Context(), w.maker(), artifacts.SaveRequest{Path: filepath.Join(folder, "fits"), Name: name})
		wantCode(t, err, "artifact_name_invalid")
	}
	_, err := w.Upload(t.Context(), w.maker(), artifacts.SaveRequest{Name: "up"}, strings.NewReader(strings.Repeat("x", 2000)), -1, "")
	wantCode(t, err, "artifact_too_large")
	_, err = w.Upload(t.Context(), w.maker(), artifacts.SaveRequest{Name: "up"}, strings.NewReader("short"), 500, "")
	wantCode(t, err, "artifact_cut")
	_, err = w.Upload(t.Context(), w.maker(), artifacts.SaveRequest{Name: "up"}, strings.NewReader("x"), 1, strings.Repeat("0", 64))
	wantCode(t, err, "artifact_hash_mismatch")
	if _, err := w.Save(t.Context(), w.maker(), artifacts.SaveRequest{Path: filepath.Join(folder, "fits")}); err != nil {
		t.Fatal(err)
	}
	for _, size := range []int64{700, -1} {
		_, err = w.Upload(t.Context(), w.maker(), artifacts.SaveRequest{Name: "up"}, strings.NewReader(strings.Repeat("y", 700)), size, "")
		wantCode(t, err, "artifact_quota")
	}
	stranger := w.maker()
	stranger.TeamID = "team_other"
	_, err = w.Save(t.Context(), stranger, artifacts.SaveRequest{Path: filepath.Join(folder, "fits")})
	wantCode(t, err, "not_found")
	w.stray(1)
}

// growing is a file that is longer each time somebody looks.
type growing struct{ artifacts.Files }

func (g growing) Stat(name string) (homedir.Info, error) {
	i, err := g.Files.Stat(name)
	if err == nil && i.Regular() {
		grown.Add(1)
		i.Size += grown.Load()
	}
	return i, err
}

var grown atomic.Int64

type growingFolder struct{ *world }

func (g growingFolder) Of(ctx context.Context, ws string) ([]artifacts.Folder, string, func(), error) {
	f, root, done, err := g.world.Of(ctx, ws)
	f[0].Files = growing{f[0].Files}
	return f, root, done, err
}

func TestAFileThatGrowsForEverIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cfg.Folders = growingFolder{w}
	_, err := artifacts.New(w.cfg).Save(t.Context(), w.maker(), artifacts.SaveRequest{Path: w.put("log", "x")})
	wantCode(t, err, "artifact_changing")
	w.stray(0)
}

// cutFiles fails after some bytes, as a connection does.
type cutFiles struct {
	artifacts.Files
	after int64
	read  *atomic.Int64
}

type cutFile struct {
	homedir.File
	c cutFiles
}

func (c cutFiles) Open(name string) (homedir.File, error) {
	f, err := c.Files.Open(name)
	return cutFile{f, c}, err
}

func (f cutFile) ReadAt(p []byte, off int64) (int, error) {
	if off >= f.c.after {
		return 0, fault.New(fault.Unavailable, "sandbox_unreachable", "gone")
	}
	n, err := f.File.ReadAt(p, off)
	f.c.read.Add(int64(n))
	return n, err
}

type cutFolder struct {
	*world
	after int64
	read  *atomic.Int64
}

func (c cutFolder) Of(ctx context.Context, ws string) ([]artifacts.Folder, string, func(), error) {
	f, root, done, err := c.world.Of(ctx, ws)
	f[0].Files = cutFiles{f[0].Files, c.after, c.read}
	return f, root, done, err
}

// A copy that was cut goes on where it stopped, also in another server, and starts anew where the file is another one.
func TestACutCopyGoesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	content := strings.Repeat("0123456789abcdef", 4<<20/16)
	file := w.put("big.bin", content)
	var read atomic.Int64
	cut := w.cfg
	cut.Folders = cutFolder{w, 3 << 20, &read}
	_, err := artifacts.New(cut).Save(t.Context(), w.maker(), artifacts.SaveRequest{Path: file})
	if !fault.Is(err, fault.Unavailable) || read.Load() != 3<<20 {
		t.Fatalf("the cut copy: %v after %d bytes", err, read.Load())
	}
	read.Store(0)
	cut.Folders = cutFolder{w, 1 << 40, &read}
	next := artifacts.New(cut)
	if err := next.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	a, err := next.Save(t.Context(), w.maker(), artifacts.SaveRequest{Path: file})
	if err != nil || w.content(a) != content {
		t.Fatalf("resumed: %+v, %v", a, err)
	}
	if got := read.Load(); got > 1<<20+64<<10 {
		t.Errorf("%d bytes were read again", got)
	}
	w.stray(1)
}

// failing is a store whose row cannot be finished: as if the server were killed after the content was stored.
type failing struct{ *kept }

type kept = toolstore.Artifacts // the embedded field must not be called as a method

func (failing) FinishArtifact(context.Context, artifacts.Artifact) (artifacts.Artifact, error) {
	panic("killed")
}

func TestAServerKilledBetweenContentAndRowLeavesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dying := w.cfg
	dying.Store = failing{w.rows}
	dying.Blobs = noDelete{w.cfg.Blobs}
	func() {
		defer func() { _ = recover() }()
		_, _ = artifacts.New(dying).Upload(t.Context(), w.maker(), artifacts.SaveRequest{Name: "x"}, strings.NewReader("x"), 1, "")
	}()
	if kept, _ := filepath.Glob(filepath.Join(w.dir, "contents", "*", "*")); len(kept) != 1 || len(w.all()) != 0 {
		t.Fatalf("the server did not die between the two: %v", kept)
	}
	if err := os.WriteFile(filepath.Join(w.dir, "incoming", "art_stray"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := w.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.stray(0)
	if u, err := w.Use(t.Context(), w.w.TeamID); err != nil || u.Bytes != 0 || u.Count != 0 {
		t.Errorf("counted: %+v, %v", u, err)
	}
}

// noDelete keeps contents: a dead server deletes nothing.
type noDelete struct{ blobs.Store }

func (noDelete) Delete(context.Context, string) error { return nil }

// full is a storage on a full disk.
type full struct{ blobs.Store }

func (full) Put(context.Context, string, string) error {
	return &fs.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}
}

func TestAFullDiskIsNamedAndLeavesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *artifacts.Config) { c.Blobs = full{c.Blobs} })
	_, err := w.Upload(t.Context(), w.maker(), artifacts.SaveRequest{Name: "x"}, strings.NewReader("x"), 1, "")
	if !fault.Is(err, fault.DiskFull) {
		t.Errorf("%v", err)
	}
	w.stray(0)
}

func TestTheFolderIsCollected(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put("report.md", "done")
	w.put("a/b/c.txt", "deep")
	w.put("bad\nname", "x")
	if err := os.Symlink("/etc/passwd", filepath.Join(w.home, "artifacts", "link")); err != nil {
		t.Fatal(err)
	}
	collect := func(final bool, want int) {
		t.Helper()
		if err := w.Collect(t.Context(), w.w.TeamID, w.w.ID, final); err != nil {
			t.Fatal(err)
		}
		if all := w.all(); len(all) != want {
			t.Errorf("%d artifacts, want %d: %+v", len(all), want, all)
		}
	}
	w.now = time.Now()
	collect(false, 0) // they may still be written
	collect(true, 2)
	for _, a := range w.all() {
		if a.SessionID != "ses_1" || a.CreatedBy != w.user.ID {
			t.Errorf("collected as %+v", a)
		}
	}
	// What was deleted is not collected again unless it changes.
	for _, a := range w.all() {
		if err := w.Delete(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
	collect(true, 0)
	w.put("report.md", "done again")
	collect(true, 1)
}

func TestManyFilesAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 700 {
		w.put(fmt.Sprintf("%04d", i), fmt.Sprint(i))
	}
	for range 2 {
		if err := w.Collect(t.Context(), w.w.TeamID, w.w.ID, true); err != nil {
			t.Fatal(err)
		}
		if u, err := w.Use(t.Context(), w.w.TeamID); err != nil || u.Count != 500 {
			t.Errorf("%+v, %v", u, err)
		}
	}
}

func TestLinksShareOneArtifact(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, err := w.Upload(t.Context(), w.maker(), artifacts.SaveRequest{Name: "x"}, strings.NewReader("x"), 1, "")
	if err != nil {
		t.Fatal(err)
	}
	l, token, err := w.CreateLink(t.Context(), w.actor(accounts.Owner), a, "Ana", 0)
	if err != nil {
		t.Fatal(err)
	}
	if got, _, err := w.Shared(t.Context(), token); err != nil || got.ID != a.ID {
		t.Fatalf("%+v, %v", got, err)
	}
	if links, err := w.Links(t.Context(), a.ID); err != nil || len(links) != 1 || links[0].Uses != 1 {
		t.Errorf("%+v, %v", links, err)
	}
	for _, wrong := range []string{"", token + "x", strings.Repeat("x", len(token)), token[:len(token)-1] + "_"} {
		if _, _, err := w.Shared(t.Context(), wrong); !fault.Is(err, fault.Gone) {
			t.Errorf("with %q: %v", wrong, err)
		}
	}
	if err := w.RevokeLink(t.Context(), w.actor(accounts.Owner), l); err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.Shared(t.Context(), token); !fault.Is(err, fault.Gone) {
		t.Errorf("revoked: %v", err)
	}
	_, token, err = w.CreateLink(t.Context(), w.actor(accounts.Owner), a, "", 5)
	if err != nil {
		t.Fatal(err)
	}
	w.now = w.now.Add(6 * time.Minute)
	if _, _, err := w.Shared(t.Context(), token); !fault.Is(err, fault.Gone) {
		t.Errorf("expired: %v", err)
	}
	_, token, err = w.CreateLink(t.Context(), w.actor(accounts.Owner), a, "", 5)
	if err := errors.Join(err, w.Delete(t.Context(), a)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.Shared(t.Context(), token); !fault.Is(err, fault.Gone) {
		t.Errorf("of a deleted artifact: %v", err)
	}
}

func TestTools(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put("report.md", "# Report\n"+strings.Repeat("line\n", 10_000))
	c := tools.Caller{TeamID: w.w.TeamID, WorkspaceID: w.w.ID, SessionID: "ses_1", UserID: w.user.ID}
	stranger := tools.Caller{TeamID: "team_other", WorkspaceID: w.w.ID, UserID: "usr_other"}
	for i := range 30 {
		if _, err := w.Upload(t.Context(), w.maker(), artifacts.SaveRequest{Name: fmt.Sprint("part ", i)}, strings.NewReader(fmt.Sprint(i)), -1, ""); err != nil {
			t.Fatal(err)
		}
	}
	path, _ := json.Marshal(map[string]any{"path": filepath.Join(w.home, "artifacts", "report.md")})
	for _, tool := range w.Tools() {
		s := tooltest.Subject{Tool: tool, Caller: c, Stranger: stranger}
		switch tool.Spec().Name {
		case "artifact_save":
			s.Quick = path
		case "artifact_list":
			s.Quick, s.Large = json.RawMessage(`{}`), json.RawMessage(`{"limit": 100}`)
		case "artifact_read":
			s.Quick, s.Large = json.RawMessage(`{"artifact": "part 3"}`), json.RawMessage(`{"artifact": "report.md@1"}`)
		}
		t.Run(tool.Spec().Name, func(t *testing.T) { tooltest.Run(t, s) })
	}
}

// A text longer than an answer is read in pieces that are whole characters.
func TestReadingALongText(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	text := strings.Repeat("grün und blau\n", 1000)
	if _, err := w.Upload(t.Context(), w.maker(), artifacts.SaveRequest{Name: "long.txt"}, strings.NewReader(text), -1, ""); err != nil {
		t.Fatal(err)
	}
	set, err := tools.New(tools.Config{Tools: w.Tools()})
	if err != nil {
		t.Fatal(err)
	}
	c := tools.Caller{TeamID: w.w.TeamID, WorkspaceID: w.w.ID, UserID: w.user.ID, Limits: tools.Limits{ResultBytes: tools.MinResultBytes}}
	var got strings.Builder
	for offset := int64(0); ; {
		r, err := set.Call(t.Context(), c, "artifact_read", json.RawMessage(fmt.Sprintf(`{"artifact": "long.txt", "offset": %d}`, offset)))
		if err != nil {
			t.Fatal(err)
		}
		_, piece, _ := strings.Cut(r.Content[0].Text, "\n")
		got.WriteString(piece)
		var at struct {
			Next int64 `json:"next_offset"`
		}
		if err := json.Unmarshal(r.Structured, &at); err != nil {
			t.Fatal(err)
		}
		if offset = at.Next; offset == 0 {
			break
		}
	}
	if got.String() != text {
		t.Errorf("read %d bytes of %d", got.Len(), len(text))
	}
}

// BenchmarkSave copies a file of the artifacts folder to the server, and BenchmarkCopy copies the same file as cp does.
func BenchmarkSave(b *testing.B) {
	w := newWorld(b)
	content := bytes.Repeat([]byte("0123456789abcdef"), 64<<20/16)
	b.SetBytes(int64(len(content)))
	for i := 0; b.Loop(); i++ {
		b.StopTimer()
		content[0] = byte(i) // another content, or it is not stored
		file := w.put("big.bin", string(content))
		b.StartTimer()
		if _, err := w.Save(b.Context(), w.maker(), artifacts.SaveRequest{Path: file}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCopy(b *testing.B) {
	w := newWorld(b)
	content := bytes.Repeat([]byte("0123456789abcdef"), 64<<20/16)
	file := w.put("big.bin", string(content))
	b.SetBytes(int64(len(content)))
	for b.Loop() {
		in, err := os.Open(file)
		if err != nil {
			b.Fatal(err)
		}
		out, err := os.Create(filepath.Join(w.dir, "copy"))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(out, in); err != nil {
			b.Fatal(err)
		}
		if err := errors.Join(out.Sync(), out.Close(), in.Close()); err != nil {
			b.Fatal(err)
		}
	}
}
