package stage_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/testing/wstest"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/snapshot"
	"github.com/parawork/parawork/workspaces/stage"
)

// partsHarness has a workspace whose file a.txt has thirty lines, and serves files of worktrees.
func partsHarness(t *testing.T, before func(op, path string)) (*wstest.Env, workspaces.Workspace) {
	t.Helper()
	h := wstest.SQLiteEnv(t)
	h.S.Stage.ConnectFiles(wstest.TreeFiles{Paths: h.Path, Before: before})
	dir := h.Repo("app")
	wstest.Write(t, dir, "a.txt", wstest.Lines(30))
	wstest.CommitAll(t, dir, "thirty lines")
	return h, h.Ready(workspaces.NewWorkspace{ProjectID: h.PathProject(dir).ID})
}

func TestStageHunksAndLines(t *testing.T) {
	t.Parallel()
	h, w := partsHarness(t, nil)
	now := wstest.Lines(30, "line 03=three", "line 15=fifteen\nfifteen and a half", "line 16=sixteen\nx", "line 27=twenty seven")
	wstest.Write(t, w.Path, "a.txt", now)
	wstest.Write(t, w.Path, "new.txt", "1\n2\n3\n")
	r, hunks := h.Hunks(w, "a.txt", "head")
	if len(hunks) != 3 {
		t.Fatalf("%d hunks", len(hunks))
	}
	staged := func(path string) string { t.Helper(); return wstest.Git(t, w.Path, "show", ":"+path) + "\n" }
	stageParts := func(unstage bool, r stage.Parts) {
		t.Helper()
		wstest.Must(t, h.S.Stage.Stage(t.Context(), h.Actor, w.ID, r, unstage))
	}
	stageParts(false, wstest.With(r, stage.Part{Path: "a.txt", Hunks: hunks[1:2]}))
	if got, want := staged("a.txt"), wstest.Lines(30, "line 15=fifteen\nfifteen and a half", "line 16=sixteen\nx"); got != want {
		t.Fatalf("staged %s", got)
	}
	// Again is nothing; another joins it; the files are as they were.
	stageParts(false, wstest.With(r, stage.Part{Path: "a.txt", Hunks: hunks[1:2]}))
	stageParts(false, wstest.With(r, stage.Part{Path: "a.txt", Hunks: hunks[2:]}))
	if got := staged("a.txt"); got != wstest.Lines(30, "line 15=fifteen\nfifteen and a half", "line 16=sixteen\nx", "line 27=twenty seven") || wstest.Read(t, w.Path, "a.txt") != now {
		t.Fatalf("staged %s", got)
	}
	x, err := h.S.Stage.Index(t.Context(), w.ID)
	wstest.Must(t, err)
	if !x.Live || !slices.Contains(x.Files, stage.FileState{Path: "a.txt", Staged: "modified", Unstaged: "modified"}) ||
		!slices.Contains(x.Files, stage.FileState{Path: "new.txt", Unstaged: "added", Untracked: true}) {
		t.Errorf("%+v", x)
	}
	// One of them out again, by what is staged.
	f, err := h.S.Stage.Hunks(t.Context(), h.Actor.User.ID, w.ID, "a.txt", "head", "index")
	wstest.Must(t, err)
	stageParts(true, stage.Parts{List: []stage.Part{{Path: "a.txt", Hunks: []stage.Hunk{f.Hunks[0].Hunk}}}})
	if got := staged("a.txt"); got != wstest.Lines(30, "line 27=twenty seven") {
		t.Fatalf("staged %s", got)
	}
	err = h.S.Stage.Stage(t.Context(), h.Actor, w.ID, stage.Parts{List: []stage.Part{{Path: "a.txt", Hunks: []stage.Hunk{f.Hunks[0].Hunk}}}}, true)
	wstest.WantCode(t, err, "part_moved")
	stageParts(true, stage.Parts{List: []stage.Part{{Path: "a.txt"}}})
	if got := wstest.Git(t, w.Path, "status", "--porcelain", "a.txt"); got != " M a.txt" {
		t.Fatalf("status %q", got)
	}
	// Some lines: where as many lines came as went each stands for one, and of a new file there is what was chosen.
	stageParts(false, wstest.With(r, stage.Part{Path: "a.txt", New: []int{15}}, stage.Part{Path: "new.txt", New: []int{1, 3}}))
	if got := staged("new.txt"); got != "1\n3\n" {
		t.Errorf("new.txt %q", got)
	}
	if got := staged("a.txt"); got != wstest.Lines(30, "line 15=line 15\nline 16\nfifteen", "line 16=") && got != strings.Replace(wstest.Lines(30), "line 16\n", "line 16\nfifteen\n", 1) {
		t.Errorf("a.txt %q", got)
	}
	// Whole files, one that is gone among them.
	wstest.Must(t, os.Remove(filepath.Join(w.Path, "dir/b.txt")))
	stageParts(false, stage.Parts{List: []stage.Part{{Path: "a.txt"}, {Path: "new.txt"}, {Path: "dir/b.txt"}}})
	if got := wstest.Git(t, w.Path, "status", "--porcelain"); got != "M  a.txt\nD  dir/b.txt\nA  new.txt" {
		t.Errorf("status %q", got)
	}
	stageParts(true, stage.Parts{List: []stage.Part{{Path: "a.txt"}, {Path: "new.txt"}, {Path: "dir/b.txt"}}})
	if got := wstest.Git(t, w.Path, "status", "--porcelain"); got != " M a.txt\n D dir/b.txt\n?? new.txt" {
		t.Errorf("status %q", got)
	}
	if left, _ := filepath.Glob(filepath.Join(h.Roots, "app/.git/worktrees/*/*parawork*")); len(left) > 0 || wstest.Exists(h.Roots, "app/.git/worktrees/"+filepath.Base(w.Path)+"/index.lock") {
		t.Errorf("left behind: %v", left)
	}
}

func TestChangedPartIsRejected(t *testing.T) {
	t.Parallel()
	h, w := partsHarness(t, nil)
	wstest.Write(t, w.Path, "a.txt", wstest.Lines(30, "line 05=five", "line 20=twenty"))
	wstest.Write(t, w.Path, "new.txt", "new\n")
	r, hunks := h.Hunks(w, "a.txt", "head")
	all := []func(r stage.Parts) error{
		func(r stage.Parts) error { return h.S.Stage.Stage(t.Context(), h.Actor, w.ID, r, false) },
		func(r stage.Parts) error { _, err := h.S.Stage.Discard(t.Context(), h.Actor, w.ID, r); return err },
		func(r stage.Parts) error {
			_, err := h.S.Stage.Commit(t.Context(), h.Actor, w.ID, stage.CommitRequest{Message: "m", Parts: r})
			return err
		},
	}
	refused := func(code string, r stage.Parts) {
		t.Helper()
		state := func() string {
			return wstest.Git(t, w.Path, "rev-parse", "HEAD") + wstest.Git(t, w.Path, "status", "--porcelain") + wstest.Read(t, w.Path, "a.txt") + wstest.Git(t, w.Path, "diff", "--cached")
		}
		before := state()
		for i, op := range all {
			if got := fault.CodeOf(op(r)); got != code || state() != before {
				t.Errorf("operation %d: %q, want %q; %s", i, got, code, state())
			}
		}
	}
	second := stage.Part{Path: "a.txt", Hunks: hunks[1:]}
	wstest.Write(t, w.Path, "a.txt", wstest.Lines(30, "line 05=five", "line 20=twenty once more"))
	refused("part_moved", wstest.With(r, second))
	wstest.Write(t, w.Path, "a.txt", wstest.Lines(30, "line 05=five\nfive and a half", "line 20=twenty"))
	refused("part_moved", wstest.With(r, second))
	refused("part_changed", wstest.With(r, stage.Part{Path: "a.txt"}))
	wstest.Write(t, w.Path, "a.txt", wstest.Lines(30, "line 05=five", "line 20=twenty"))
	wstest.Write(t, w.Path, "new.txt", "newer\n")
	refused("part_changed", wstest.With(r, stage.Part{Path: "new.txt"}))
	wstest.Must(t, os.Remove(filepath.Join(w.Path, "a.txt")))
	wstest.Write(t, w.Path, "a.txt", wstest.Lines(30, "line 05=five", "line 20=twenty"))
	bad := hunks[0]
	bad.Hash = strings.Repeat("0", 64)
	refused("part_moved", wstest.With(r, stage.Part{Path: "a.txt", Hunks: []stage.Hunk{bad}}))
	bad = hunks[0]
	bad.NewStart = 1_000
	refused("hunk_invalid", wstest.With(r, stage.Part{Path: "a.txt", Hunks: []stage.Hunk{bad}}))
	refused("hunk_invalid", wstest.With(r, stage.Part{Path: "a.txt", Hunks: []stage.Hunk{hunks[1], hunks[0]}}))
	refused("part_empty", wstest.With(r, stage.Part{Path: "a.txt", New: []int{9}}))
	for _, p := range []string{"../x", "/etc/passwd", ".git/config", "dir/"} {
		refused("path_invalid", wstest.With(r, stage.Part{Path: p}))
	}
}

func TestDiscardTakesASnapshotFirst(t *testing.T) {
	t.Parallel()
	h, w := partsHarness(t, nil)
	p, err := h.S.Records.Project(t.Context(), w.ProjectID)
	wstest.Must(t, err)
	now := wstest.Lines(30, "line 05=five", "line 20=twenty")
	wstest.Write(t, w.Path, "a.txt", now)
	wstest.Write(t, w.Path, "folder/new.txt", "new\n")
	wstest.Must(t, os.Remove(filepath.Join(w.Path, "dir/b.txt")))
	wstest.Write(t, w.Path, "run.sh", "#!/bin/sh\n")
	wstest.Must(t, os.Symlink("a.txt", filepath.Join(w.Path, "link")))
	wstest.Git(t, w.Path, "add", "-A")
	wstest.Write(t, w.Path, "a.txt", now+"unstaged\n")
	r, hunks := h.Hunks(w, "a.txt", "head")
	d, err := h.S.Stage.Discard(t.Context(), h.Actor, w.ID, wstest.With(r, stage.Part{Path: "a.txt", Hunks: hunks[:1]}))
	wstest.Must(t, err)
	if got := wstest.Read(t, w.Path, "a.txt"); got != wstest.Lines(30, "line 20=twenty")+"unstaged\n" || len(d.Files) != 1 {
		t.Fatalf("%s %+v", got, d)
	}
	snap, err := h.S.Snapshots.Snap(t.Context(), w.ID, d.SnapshotID)
	wstest.Must(t, err)
	if got := wstest.Git(t, p.GitDir, "show", snap.Commit+":a.txt") + "\n"; got != now+"unstaged\n" {
		t.Errorf("kept %s", got)
	}
	// It is not staged any more either, the other one still is.
	if got := wstest.Git(t, w.Path, "show", ":a.txt") + "\n"; got != wstest.Lines(30, "line 20=twenty") {
		t.Errorf("staged %s", got)
	}
	r, _ = h.Hunks(w, "a.txt", "head")
	_, err = h.S.Stage.Discard(t.Context(), h.Actor, w.ID, wstest.With(r, stage.Part{Path: "a.txt"}, stage.Part{Path: "folder/new.txt"},
		stage.Part{Path: "dir/b.txt"}, stage.Part{Path: "run.sh"}, stage.Part{Path: "link"}))
	wstest.Must(t, err)
	if got := wstest.Git(t, w.Path, "status", "--porcelain"); got != "MM a.txt" && got != "" || wstest.Read(t, w.Path, "a.txt") != wstest.Lines(30) || wstest.Exists(w.Path, "folder") {
		t.Errorf("status %q", got)
	}
	// What snapshots leave out is not discarded.
	wstest.Write(t, w.Path, "ignored/x", "x")
	_, err = h.S.Stage.Discard(t.Context(), h.Actor, w.ID, stage.Parts{List: []stage.Part{{Path: "ignored/x"}}})
	wstest.WantCode(t, err, "part_not_in_snapshots")
	if !wstest.Exists(w.Path, "ignored/x") {
		t.Error("it is gone")
	}
}

func TestDiscardNeverWritesOverWhatIsNewer(t *testing.T) {
	t.Parallel()
	var h *wstest.Env
	var w workspaces.Workspace
	races := map[string]string{}
	h, w = partsHarness(t, func(op, path string) {
		if text := races[op+" "+path]; text != "" {
			if err := os.WriteFile(filepath.Join(w.Path, path), []byte(text), 0o644); err != nil {
				t.Error(err)
			}
		}
	})
	wstest.Write(t, w.Path, "a.txt", wstest.Lines(30, "line 05=five"))
	wstest.Write(t, w.Path, "new.txt", "new\n")
	r, hunks := h.Hunks(w, "a.txt", "head")
	races["put a.txt"], races["remove new.txt"] = "the agent's\n", "the agent's, too\n"
	_, err := h.S.Stage.Discard(t.Context(), h.Actor, w.ID, wstest.With(r, stage.Part{Path: "a.txt", Hunks: hunks}))
	wstest.WantCode(t, err, "part_changed")
	_, err = h.S.Stage.Discard(t.Context(), h.Actor, w.ID, wstest.With(r, stage.Part{Path: "new.txt"}))
	wstest.WantCode(t, err, "part_changed")
	if wstest.Read(t, w.Path, "a.txt") != "the agent's\n" || wstest.Read(t, w.Path, "new.txt") != "the agent's, too\n" {
		t.Error("something newer was written over")
	}
}

func TestCommitParts(t *testing.T) {
	t.Parallel()
	h, w := partsHarness(t, nil)
	now := wstest.Lines(30, "line 05=five", "line 15=fifteen", "line 25=twenty five")
	wstest.Write(t, w.Path, "a.txt", wstest.Lines(30, "line 25=twenty five"))
	wstest.Git(t, w.Path, "add", "a.txt") // the third hunk is staged
	wstest.Write(t, w.Path, "a.txt", now)
	wstest.Write(t, w.Path, "new.txt", "1\n2\n")
	wstest.Write(t, w.Path, "other.txt", "other\n")
	wstest.Git(t, w.Path, "add", "other.txt")
	r, hunks := h.Hunks(w, "a.txt", "head")
	commit := func(req stage.CommitRequest) workspaces.Commit {
		t.Helper()
		req.Message = "part"
		c, err := h.S.Stage.Commit(t.Context(), h.Actor, w.ID, req)
		wstest.Must(t, err)
		return c
	}
	c := commit(stage.CommitRequest{Parts: wstest.With(r, stage.Part{Path: "a.txt", Hunks: hunks[:1]}, stage.Part{Path: "new.txt"})})
	if c.Files != 2 || wstest.Git(t, w.Path, "show", "HEAD:a.txt")+"\n" != wstest.Lines(30, "line 05=five") || wstest.Git(t, w.Path, "show", "HEAD:new.txt") != "1\n2" {
		t.Errorf("%+v %s", c, wstest.Git(t, w.Path, "show", "HEAD"))
	}
	// Other staged changes stay staged, unstaged ones unstaged, and the files unchanged.
	if got := wstest.Git(t, w.Path, "show", ":a.txt") + "\n"; got != wstest.Lines(30, "line 05=five", "line 25=twenty five") {
		t.Errorf("staged %s", got)
	}
	if got := wstest.Git(t, w.Path, "status", "--porcelain"); got != "MM a.txt\nA  other.txt" || wstest.Read(t, w.Path, "a.txt") != now {
		t.Errorf("status %q", got)
	}
	// Only what is staged.
	c = commit(stage.CommitRequest{Staged: true})
	if got := wstest.Git(t, w.Path, "status", "--porcelain"); got != " M a.txt" || c.Files != 2 {
		t.Errorf("status %q %+v", got, c)
	}
	_, err := h.S.Stage.Commit(t.Context(), h.Actor, w.ID, stage.CommitRequest{Message: "m", Staged: true})
	wstest.WantCode(t, err, "nothing_to_commit")
	// What was shown against an older commit is still where it was.
	c = commit(stage.CommitRequest{Parts: wstest.With(r, stage.Part{Path: "a.txt", Hunks: hunks[1:2]})})
	if got := wstest.Git(t, w.Path, "status", "--porcelain"); got != "" || c.Files != 1 {
		t.Errorf("status %q %+v", got, c)
	}
	wstest.Git(t, w.Path, "fsck", "--strict")
}

func TestStagingTakesTurnsWithTheAgent(t *testing.T) {
	t.Parallel()
	h, w := partsHarness(t, nil)
	wstest.Write(t, w.Path, "a.txt", wstest.Lines(30, "line 05=five", "line 20=twenty"))
	r, hunks := h.Hunks(w, "a.txt", "head")
	lock := wstest.Git(t, w.Path, "rev-parse", "--git-path", "index.lock")
	held, moved := 0, false
	h.Sandboxes.OnRun = func(argv []string) {
		script := len(argv) > 2 && argv[0] == "sh" && strings.Contains(argv[2], "index.lock")
		switch {
		case script && held == 0: // another git has the lock
			held++
			wstest.Must(t, os.WriteFile(lock, nil, 0o644))
		case script && held == 1: // it lets go, and has staged something else
			held++
			wstest.Must(t, os.Remove(lock))
			if !moved {
				moved = true
				wstest.Write(t, w.Path, "agent.txt", "x\n")
				wstest.Git(t, w.Path, "add", "agent.txt")
				wstest.Git(t, w.Path, "update-index", "--cacheinfo", "100755,"+wstest.Git(t, w.Path, "rev-parse", "HEAD:a.txt")+",a.txt")
			}
		}
	}
	wstest.Must(t, h.S.Stage.Stage(t.Context(), h.Actor, w.ID, wstest.With(r, stage.Part{Path: "a.txt", Hunks: hunks[1:]}), false))
	if got := wstest.Git(t, w.Path, "show", ":a.txt") + "\n"; got != wstest.Lines(30, "line 20=twenty") {
		t.Errorf("staged %s", got)
	}
	if got := wstest.Git(t, w.Path, "ls-files", "-s", "a.txt", "agent.txt"); !strings.HasPrefix(got, "100755 ") || !strings.Contains(got, "agent.txt") {
		t.Errorf("the agent's own staging is lost: %s", got)
	}
}

func TestPartsOfFilesWithoutLines(t *testing.T) {
	t.Parallel()
	h, w := partsHarness(t, nil)
	wstest.Write(t, w.Path, ".gitattributes", "*.crlf text eol=crlf\n")
	wstest.Write(t, w.Path, "x.crlf", "1\r\n2\r\n")
	wstest.Write(t, w.Path, "image", "\x00\x01\x02")
	wstest.Must(t, os.Symlink("a.txt", filepath.Join(w.Path, "link")))
	f, err := h.S.Stage.Hunks(t.Context(), h.Actor.User.ID, w.ID, "image", "head", "now")
	wstest.Must(t, err)
	if !f.Binary {
		t.Errorf("%+v", f)
	}
	for _, name := range []string{"image", "link", "x.crlf"} {
		err := h.S.Stage.Stage(t.Context(), h.Actor, w.ID, stage.Parts{From: "head", List: []stage.Part{{Path: name, New: []int{1}}}}, false)
		wstest.WantCode(t, err, "part_whole_only")
	}
	now, err := h.S.Stage.Hunks(t.Context(), h.Actor.User.ID, w.ID, "a.txt", "head", "now")
	wstest.Must(t, err)
	r := stage.Parts{From: "head", To: now.To, List: []stage.Part{{Path: "image"}, {Path: "link"}, {Path: "x.crlf"}, {Path: ".gitattributes"}}}
	wstest.Must(t, h.S.Stage.Stage(t.Context(), h.Actor, w.ID, r, false))
	if got := wstest.Git(t, w.Path, "status", "--porcelain"); got != "A  .gitattributes\nA  image\nA  link\nA  x.crlf" {
		t.Errorf("status %q", got)
	}
	if got := wstest.Git(t, w.Path, "show", ":x.crlf"); got != "1\n2" {
		t.Errorf("%q", got)
	}
	wstest.CommitAll(t, w.Path, "all")
	wstest.Write(t, w.Path, "x.crlf", "3\r\n")
	wstest.Must(t, os.Remove(filepath.Join(w.Path, "link")))
	wstest.Write(t, w.Path, "image", "\x00")
	_, err = h.S.Stage.Discard(t.Context(), h.Actor, w.ID, stage.Parts{List: []stage.Part{{Path: "x.crlf"}, {Path: "link"}, {Path: "image"}}})
	wstest.Must(t, err)
	if wstest.Read(t, w.Path, "x.crlf") != "1\r\n2\r\n" || wstest.Git(t, w.Path, "status", "--porcelain") != "" {
		t.Errorf("%q %q", wstest.Read(t, w.Path, "x.crlf"), wstest.Git(t, w.Path, "status", "--porcelain"))
	}
}

func TestTakeFilesOfAnotherWorkspace(t *testing.T) {
	t.Parallel()
	h, to := partsHarness(t, nil)
	from := h.Ready(workspaces.NewWorkspace{ProjectID: to.ProjectID, Name: "The other"})
	wstest.Write(t, from.Path, "a.txt", wstest.Lines(30, "line 05=five"))
	wstest.Write(t, from.Path, "lib/new.sh", "#!/bin/sh\n")
	wstest.Must(t, os.Chmod(filepath.Join(from.Path, "lib/new.sh"), 0o755))
	wstest.Write(t, from.Path, "lib/both.txt", "theirs\n")
	wstest.Must(t, os.Remove(filepath.Join(from.Path, "dir/b.txt")))
	wstest.Write(t, to.Path, "lib/both.txt", "ours\n")
	_, err := h.S.Snapshots.Take(t.Context(), from.ID, snapshot.Request{Kind: snapshot.SnapPoll})
	wstest.Must(t, err)
	take := func(r stage.TakeRequest) (stage.Taken, error) {
		r.From, r.Paths = from.ID, []string{"a.txt", "lib", "dir/b.txt", ".gitignore"}
		return h.S.Stage.Take(t.Context(), h.Actor, to.ID, r)
	}
	states := func(d stage.Taken) string {
		var out []string
		for _, f := range d.Files {
			out = append(out, f.Path+" "+f.State+" "+f.KeptAs)
		}
		return strings.Join(out, ",")
	}
	d, err := take(stage.TakeRequest{DryRun: true})
	wstest.Must(t, err)
	if got := states(d); got != ".gitignore same ,a.txt changed ,dir/b.txt deleted ,lib/both.txt conflict ,lib/new.sh new " || wstest.Git(t, to.Path, "status", "--porcelain") != "?? lib/" {
		t.Errorf("%s", got)
	}
	_, err = take(stage.TakeRequest{})
	wstest.WantCode(t, err, "take_conflicts")
	if wstest.Git(t, to.Path, "status", "--porcelain") != "?? lib/" {
		t.Error("something was taken")
	}
	d, err = take(stage.TakeRequest{OnConflict: stage.TakeKeepBoth})
	wstest.Must(t, err)
	fi, err := os.Stat(filepath.Join(to.Path, "lib/new.sh"))
	wstest.Must(t, err)
	if wstest.Read(t, to.Path, "a.txt") != wstest.Lines(30, "line 05=five") || wstest.Exists(to.Path, "dir") || fi.Mode()&0o100 == 0 ||
		wstest.Read(t, to.Path, "lib/both.txt") != "ours\n" || wstest.Read(t, to.Path, "lib/both."+from.Key()+".txt") != "theirs\n" || d.SnapshotID == "" {
		t.Errorf("%s\n%s", states(d), wstest.Git(t, to.Path, "status", "--porcelain"))
	}
	_, err = take(stage.TakeRequest{OnConflict: stage.TakeOverwrite})
	wstest.Must(t, err)
	if wstest.Read(t, to.Path, "lib/both.txt") != "theirs\n" {
		t.Error("it was not written over")
	}
	h.S.Records.Connect(h.Sandboxes, wstest.SecretSessions{Setups: h.Ses, Files: workspaces.SecretFiles{Paths: map[string]bool{"lib/new.sh": true}}})
	_, err = take(stage.TakeRequest{})
	wstest.WantCode(t, err, "secret_file")
	sha1, sha256 := snapshot.BlobNames([]byte(wstest.Read(t, from.Path, "lib/new.sh")))
	h.S.Records.Connect(h.Sandboxes, wstest.SecretSessions{Setups: h.Ses, Files: workspaces.SecretFiles{Blobs: map[string]bool{sha1: true, sha256: true}}}) // a copy of one, by its content
	_, err = take(stage.TakeRequest{})
	wstest.WantCode(t, err, "secret_file")
	h.S.Records.Connect(h.Sandboxes, h.Ses)
	_, err = h.S.Stage.Take(t.Context(), h.Actor, to.ID, stage.TakeRequest{From: from.ID, Paths: []string{"none"}})
	wstest.WantCode(t, err, "file_not_found")
	_, err = h.S.Stage.Take(t.Context(), h.Actor, to.ID, stage.TakeRequest{From: to.ID, Paths: []string{"a.txt"}})
	wstest.WantCode(t, err, "same_workspace")
}
