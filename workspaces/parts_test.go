package workspaces_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/workspaces"
)

// treeFiles are files of worktrees on this machine.
type treeFiles struct {
	paths  func(string) (string, error)
	before func(op, path string) // before something is written
}

func (f treeFiles) at(id, wire string) (string, error) {
	dir, err := f.paths(id)
	return filepath.Join(dir, guest.DecodePath(wire)), err
}

func (f treeFiles) Stat(_ context.Context, id, wire string) (guest.FileInfo, error) {
	p, err := f.at(id, wire)
	if err != nil {
		return guest.FileInfo{}, err
	}
	fi, err := os.Lstat(p)
	if errors.Is(err, fs.ErrNotExist) {
		return guest.FileInfo{}, fault.New(fault.NotFound, "file_not_found", "no file")
	}
	if err != nil {
		return guest.FileInfo{}, err
	}
	out := guest.FileInfo{Path: wire, Type: "other", Mode: uint32(fi.Mode().Perm()), Size: fi.Size()}
	switch {
	case fi.Mode().IsRegular():
		out.Type = "file"
	case fi.IsDir():
		out.Type = "dir"
	case fi.Mode()&fs.ModeSymlink != 0:
		out.Type = "symlink"
		to, _ := os.Readlink(p)
		out.Link = guest.EncodePath(to)
	}
	return out, nil
}

func (f treeFiles) Read(ctx context.Context, id, wire string) (io.ReadCloser, guest.FileInfo, error) {
	info, err := f.Stat(ctx, id, wire)
	if err != nil {
		return nil, info, err
	}
	p, _ := f.at(id, wire)
	b, err := os.ReadFile(p)
	sum := sha256.Sum256(b)
	info.Hash, info.Size = hex.EncodeToString(sum[:]), int64(len(b))
	return io.NopCloser(strings.NewReader(string(b))), info, err
}

func (f treeFiles) match(ctx context.Context, id, wire, want string) error {
	r, info, err := f.Read(ctx, id, wire)
	if err == nil {
		_ = r.Close()
	}
	if err != nil || info.Hash != want {
		return fault.New(fault.Precondition, "file_changed", "changed")
	}
	return nil
}

func (f treeFiles) Put(ctx context.Context, id, wire string, r io.Reader, ifMatch string, mode uint32) (guest.FileInfo, error) {
	if f.before != nil {
		f.before("put", guest.DecodePath(wire))
	}
	p, err := f.at(id, wire)
	if err != nil {
		return guest.FileInfo{}, err
	}
	if ifMatch == "" {
		if _, err := os.Lstat(p); err == nil {
			return guest.FileInfo{}, fault.New(fault.Conflict, "file_exists", "exists")
		}
	} else if err := f.match(ctx, id, wire, ifMatch); err != nil {
		return guest.FileInfo{}, err
	}
	b, err := io.ReadAll(r)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(p), 0o755)
	}
	if err == nil {
		err = os.WriteFile(p, b, 0o644)
	}
	if err == nil && mode != 0 {
		err = os.Chmod(p, fs.FileMode(mode))
	}
	return guest.FileInfo{}, err
}

func (f treeFiles) RemoveIf(ctx context.Context, id, wire, ifMatch string) error {
	if f.before != nil && ifMatch != "" {
		f.before("remove", guest.DecodePath(wire))
	}
	if ifMatch != "" {
		if err := f.match(ctx, id, wire, ifMatch); err != nil {
			return err
		}
	}
	p, err := f.at(id, wire)
	if err != nil {
		return err
	}
	return os.Remove(p)
}

// lines are n numbered lines, of which some were changed.
func lines(n int, changed ...string) string {
	var b strings.Builder
	for i := 1; i <= n; i++ {
		l := "line " + string(rune('0'+i/10)) + string(rune('0'+i%10))
		for _, c := range changed {
			if was, now, _ := strings.Cut(c, "="); was == l {
				l = now
			}
		}
		b.WriteString(l + "\n")
	}
	return b.String()
}

// partsHouse has a workspace whose file a.txt has thirty lines, and hands files of worktrees out.
func partsHouse(t *testing.T, before func(op, path string)) (*house, workspaces.Workspace) {
	t.Helper()
	h := sqliteHouse(t)
	h.s.ConnectFiles(treeFiles{h.path, before})
	dir := h.repo("app")
	write(t, dir, "a.txt", lines(30))
	commitAll(t, dir, "thirty lines")
	return h, h.ready(workspaces.NewWorkspace{ProjectID: h.pathProject(dir).ID})
}

// hunks are the hunks of a file as they would be shown now, and the parts request they belong to.
func (h *house) hunks(w workspaces.Workspace, path, from string) (workspaces.Parts, []workspaces.Hunk) {
	h.t.Helper()
	f, err := h.s.Hunks(h.t.Context(), h.actor.User.ID, w.ID, path, from, "now")
	must(h.t, err)
	var out []workspaces.Hunk
	for _, x := range f.Hunks {
		out = append(out, x.Hunk)
	}
	if f.From == "" {
		f.From = from
	}
	return workspaces.Parts{From: f.From, To: f.To}, out
}

func with(r workspaces.Parts, list ...workspaces.Part) workspaces.Parts {
	r.List = list
	return r
}

func TestStageHunksAndLines(t *testing.T) {
	t.Parallel()
	h, w := partsHouse(t, nil)
	now := lines(30, "line 03=three", "line 15=fifteen\nfifteen and a half", "line 16=sixteen\nx", "line 27=twenty seven")
	write(t, w.Path, "a.txt", now)
	write(t, w.Path, "new.txt", "1\n2\n3\n")
	r, hunks := h.hunks(w, "a.txt", "head")
	if len(hunks) != 3 {
		t.Fatalf("%d hunks", len(hunks))
	}
	staged := func(path string) string { t.Helper(); return git(t, w.Path, "show", ":"+path) + "\n" }
	stage := func(unstage bool, r workspaces.Parts) {
		t.Helper()
		must(t, h.s.Stage(t.Context(), h.actor, w.ID, r, unstage))
	}
	stage(false, with(r, workspaces.Part{Path: "a.txt", Hunks: hunks[1:2]}))
	if got, want := staged("a.txt"), lines(30, "line 15=fifteen\nfifteen and a half", "line 16=sixteen\nx"); got != want {
		t.Fatalf("staged %s", got)
	}
	// Again is nothing; another joins it; the files are as they were.
	stage(false, with(r, workspaces.Part{Path: "a.txt", Hunks: hunks[1:2]}))
	stage(false, with(r, workspaces.Part{Path: "a.txt", Hunks: hunks[2:]}))
	if got := staged("a.txt"); got != lines(30, "line 15=fifteen\nfifteen and a half", "line 16=sixteen\nx", "line 27=twenty seven") || read(t, w.Path, "a.txt") != now {
		t.Fatalf("staged %s", got)
	}
	x, err := h.s.Index(t.Context(), w.ID)
	must(t, err)
	if !x.Live || !slices.Contains(x.Files, workspaces.FileState{Path: "a.txt", Staged: "modified", Unstaged: "modified"}) ||
		!slices.Contains(x.Files, workspaces.FileState{Path: "new.txt", Unstaged: "added", Untracked: true}) {
		t.Errorf("%+v", x)
	}
	// One of them out again, by what is staged.
	f, err := h.s.Hunks(t.Context(), h.actor.User.ID, w.ID, "a.txt", "head", "index")
	must(t, err)
	stage(true, workspaces.Parts{List: []workspaces.Part{{Path: "a.txt", Hunks: []workspaces.Hunk{f.Hunks[0].Hunk}}}})
	if got := staged("a.txt"); got != lines(30, "line 27=twenty seven") {
		t.Fatalf("staged %s", got)
	}
	err = h.s.Stage(t.Context(), h.actor, w.ID, workspaces.Parts{List: []workspaces.Part{{Path: "a.txt", Hunks: []workspaces.Hunk{f.Hunks[0].Hunk}}}}, true)
	wantCode(t, err, "part_moved")
	stage(true, workspaces.Parts{List: []workspaces.Part{{Path: "a.txt"}}})
	if got := git(t, w.Path, "status", "--porcelain", "a.txt"); got != " M a.txt" {
		t.Fatalf("status %q", got)
	}
	// Some lines: where as many lines came as went each stands for one, and of a new file there is what was chosen.
	stage(false, with(r, workspaces.Part{Path: "a.txt", New: []int{15}}, workspaces.Part{Path: "new.txt", New: []int{1, 3}}))
	if got := staged("new.txt"); got != "1\n3\n" {
		t.Errorf("new.txt %q", got)
	}
	if got := staged("a.txt"); got != lines(30, "line 15=line 15\nline 16\nfifteen", "line 16=") && got != strings.Replace(lines(30), "line 16\n", "line 16\nfifteen\n", 1) {
		t.Errorf("a.txt %q", got)
	}
	// Whole files, one that is gone among them.
	must(t, os.Remove(filepath.Join(w.Path, "dir/b.txt")))
	stage(false, workspaces.Parts{List: []workspaces.Part{{Path: "a.txt"}, {Path: "new.txt"}, {Path: "dir/b.txt"}}})
	if got := git(t, w.Path, "status", "--porcelain"); got != "M  a.txt\nD  dir/b.txt\nA  new.txt" {
		t.Errorf("status %q", got)
	}
	stage(true, workspaces.Parts{List: []workspaces.Part{{Path: "a.txt"}, {Path: "new.txt"}, {Path: "dir/b.txt"}}})
	if got := git(t, w.Path, "status", "--porcelain"); got != " M a.txt\n D dir/b.txt\n?? new.txt" {
		t.Errorf("status %q", got)
	}
	if left, _ := filepath.Glob(filepath.Join(h.roots, "app/.git/worktrees/*/*parawork*")); len(left) > 0 || exists(h.roots, "app/.git/worktrees/"+filepath.Base(w.Path)+"/index.lock") {
		t.Errorf("left behind: %v", left)
	}
}

func TestAPartThatIsNoLongerWhatWasShownIsRefused(t *testing.T) {
	t.Parallel()
	h, w := partsHouse(t, nil)
	write(t, w.Path, "a.txt", lines(30, "line 05=five", "line 20=twenty"))
	write(t, w.Path, "new.txt", "new\n")
	r, hunks := h.hunks(w, "a.txt", "head")
	all := []func(r workspaces.Parts) error{
		func(r workspaces.Parts) error { return h.s.Stage(t.Context(), h.actor, w.ID, r, false) },
		func(r workspaces.Parts) error { _, err := h.s.Discard(t.Context(), h.actor, w.ID, r); return err },
		func(r workspaces.Parts) error {
			_, err := h.s.Commit(t.Context(), h.actor, w.ID, workspaces.CommitRequest{Message: "m", Parts: r})
			return err
		},
	}
	refused := func(code string, r workspaces.Parts) {
		t.Helper()
		state := func() string {
			return git(t, w.Path, "rev-parse", "HEAD") + git(t, w.Path, "status", "--porcelain") + read(t, w.Path, "a.txt") + git(t, w.Path, "diff", "--cached")
		}
		before := state()
		for i, op := range all {
			if got := fault.CodeOf(op(r)); got != code || state() != before {
				t.Errorf("operation %d: %q, want %q; %s", i, got, code, state())
			}
		}
	}
	second := workspaces.Part{Path: "a.txt", Hunks: hunks[1:]}
	write(t, w.Path, "a.txt", lines(30, "line 05=five", "line 20=twenty once more"))
	refused("part_moved", with(r, second))
	write(t, w.Path, "a.txt", lines(30, "line 05=five\nfive and a half", "line 20=twenty"))
	refused("part_moved", with(r, second))
	refused("part_changed", with(r, workspaces.Part{Path: "a.txt"}))
	write(t, w.Path, "a.txt", lines(30, "line 05=five", "line 20=twenty"))
	write(t, w.Path, "new.txt", "newer\n")
	refused("part_changed", with(r, workspaces.Part{Path: "new.txt"}))
	must(t, os.Remove(filepath.Join(w.Path, "a.txt")))
	write(t, w.Path, "a.txt", lines(30, "line 05=five", "line 20=twenty"))
	bad := hunks[0]
	bad.Hash = strings.Repeat("0", 64)
	refused("part_moved", with(r, workspaces.Part{Path: "a.txt", Hunks: []workspaces.Hunk{bad}}))
	bad = hunks[0]
	bad.NewStart = 1_000
	refused("hunk_invalid", with(r, workspaces.Part{Path: "a.txt", Hunks: []workspaces.Hunk{bad}}))
	refused("hunk_invalid", with(r, workspaces.Part{Path: "a.txt", Hunks: []workspaces.Hunk{hunks[1], hunks[0]}}))
	refused("part_empty", with(r, workspaces.Part{Path: "a.txt", New: []int{9}}))
	for _, p := range []string{"../x", "/etc/passwd", ".git/config", "dir/"} {
		refused("path_invalid", with(r, workspaces.Part{Path: p}))
	}
}

func TestDiscardIsKeptFirst(t *testing.T) {
	t.Parallel()
	h, w := partsHouse(t, nil)
	p, err := h.s.Project(t.Context(), w.ProjectID)
	must(t, err)
	now := lines(30, "line 05=five", "line 20=twenty")
	write(t, w.Path, "a.txt", now)
	write(t, w.Path, "folder/new.txt", "new\n")
	must(t, os.Remove(filepath.Join(w.Path, "dir/b.txt")))
	write(t, w.Path, "run.sh", "#!/bin/sh\n")
	must(t, os.Symlink("a.txt", filepath.Join(w.Path, "link")))
	git(t, w.Path, "add", "-A")
	write(t, w.Path, "a.txt", now+"unstaged\n")
	r, hunks := h.hunks(w, "a.txt", "head")
	d, err := h.s.Discard(t.Context(), h.actor, w.ID, with(r, workspaces.Part{Path: "a.txt", Hunks: hunks[:1]}))
	must(t, err)
	if got := read(t, w.Path, "a.txt"); got != lines(30, "line 20=twenty")+"unstaged\n" || len(d.Files) != 1 {
		t.Fatalf("%s %+v", got, d)
	}
	snap, err := h.s.Snap(t.Context(), w.ID, d.SnapshotID)
	must(t, err)
	if got := git(t, p.GitDir, "show", snap.Commit+":a.txt") + "\n"; got != now+"unstaged\n" {
		t.Errorf("kept %s", got)
	}
	// It is not staged any more either, the other one still is.
	if got := git(t, w.Path, "show", ":a.txt") + "\n"; got != lines(30, "line 20=twenty") {
		t.Errorf("staged %s", got)
	}
	r, _ = h.hunks(w, "a.txt", "head")
	_, err = h.s.Discard(t.Context(), h.actor, w.ID, with(r, workspaces.Part{Path: "a.txt"}, workspaces.Part{Path: "folder/new.txt"},
		workspaces.Part{Path: "dir/b.txt"}, workspaces.Part{Path: "run.sh"}, workspaces.Part{Path: "link"}))
	must(t, err)
	if got := git(t, w.Path, "status", "--porcelain"); got != "MM a.txt" && got != "" || read(t, w.Path, "a.txt") != lines(30) || exists(w.Path, "folder") {
		t.Errorf("status %q", got)
	}
	// What snapshots do not keep is not discarded.
	write(t, w.Path, "ignored/x", "x")
	_, err = h.s.Discard(t.Context(), h.actor, w.ID, workspaces.Parts{List: []workspaces.Part{{Path: "ignored/x"}}})
	wantCode(t, err, "part_not_kept")
	if !exists(w.Path, "ignored/x") {
		t.Error("it is gone")
	}
}

func TestDiscardNeverWritesOverWhatIsNewer(t *testing.T) {
	t.Parallel()
	var h *house
	var w workspaces.Workspace
	races := map[string]string{}
	h, w = partsHouse(t, func(op, path string) {
		if text := races[op+" "+path]; text != "" {
			if err := os.WriteFile(filepath.Join(w.Path, path), []byte(text), 0o644); err != nil {
				t.Error(err)
			}
		}
	})
	write(t, w.Path, "a.txt", lines(30, "line 05=five"))
	write(t, w.Path, "new.txt", "new\n")
	r, hunks := h.hunks(w, "a.txt", "head")
	races["put a.txt"], races["remove new.txt"] = "the agent's\n", "the agent's, too\n"
	_, err := h.s.Discard(t.Context(), h.actor, w.ID, with(r, workspaces.Part{Path: "a.txt", Hunks: hunks}))
	wantCode(t, err, "part_changed")
	_, err = h.s.Discard(t.Context(), h.actor, w.ID, with(r, workspaces.Part{Path: "new.txt"}))
	wantCode(t, err, "part_changed")
	if read(t, w.Path, "a.txt") != "the agent's\n" || read(t, w.Path, "new.txt") != "the agent's, too\n" {
		t.Error("something newer was written over")
	}
}

func TestCommitParts(t *testing.T) {
	t.Parallel()
	h, w := partsHouse(t, nil)
	now := lines(30, "line 05=five", "line 15=fifteen", "line 25=twenty five")
	write(t, w.Path, "a.txt", lines(30, "line 25=twenty five"))
	git(t, w.Path, "add", "a.txt") // the third hunk is staged
	write(t, w.Path, "a.txt", now)
	write(t, w.Path, "new.txt", "1\n2\n")
	write(t, w.Path, "other.txt", "other\n")
	git(t, w.Path, "add", "other.txt")
	r, hunks := h.hunks(w, "a.txt", "head")
	commit := func(req workspaces.CommitRequest) workspaces.Commit {
		t.Helper()
		req.Message = "part"
		c, err := h.s.Commit(t.Context(), h.actor, w.ID, req)
		must(t, err)
		return c
	}
	c := commit(workspaces.CommitRequest{Parts: with(r, workspaces.Part{Path: "a.txt", Hunks: hunks[:1]}, workspaces.Part{Path: "new.txt"})})
	if c.Files != 2 || git(t, w.Path, "show", "HEAD:a.txt")+"\n" != lines(30, "line 05=five") || git(t, w.Path, "show", "HEAD:new.txt") != "1\n2" {
		t.Errorf("%+v %s", c, git(t, w.Path, "show", "HEAD"))
	}
	// What was staged beside it still is, what was not is not, the files are as they were.
	if got := git(t, w.Path, "show", ":a.txt") + "\n"; got != lines(30, "line 05=five", "line 25=twenty five") {
		t.Errorf("staged %s", got)
	}
	if got := git(t, w.Path, "status", "--porcelain"); got != "MM a.txt\nA  other.txt" || read(t, w.Path, "a.txt") != now {
		t.Errorf("status %q", got)
	}
	// What is staged, and nothing else.
	c = commit(workspaces.CommitRequest{Staged: true})
	if got := git(t, w.Path, "status", "--porcelain"); got != " M a.txt" || c.Files != 2 {
		t.Errorf("status %q %+v", got, c)
	}
	_, err := h.s.Commit(t.Context(), h.actor, w.ID, workspaces.CommitRequest{Message: "m", Staged: true})
	wantCode(t, err, "nothing_to_commit")
	// What was shown against an older commit still stands where it did.
	c = commit(workspaces.CommitRequest{Parts: with(r, workspaces.Part{Path: "a.txt", Hunks: hunks[1:2]})})
	if got := git(t, w.Path, "status", "--porcelain"); got != "" || c.Files != 1 {
		t.Errorf("status %q %+v", got, c)
	}
	git(t, w.Path, "fsck", "--strict")
}

func TestStagingTakesTurnsWithTheAgent(t *testing.T) {
	t.Parallel()
	h, w := partsHouse(t, nil)
	write(t, w.Path, "a.txt", lines(30, "line 05=five", "line 20=twenty"))
	r, hunks := h.hunks(w, "a.txt", "head")
	lock := git(t, w.Path, "rev-parse", "--git-path", "index.lock")
	held, moved := 0, false
	h.box.onRun = func(argv []string) {
		script := len(argv) > 2 && argv[0] == "sh" && strings.Contains(argv[2], "index.lock")
		switch {
		case script && held == 0: // another git has the lock
			held++
			must(t, os.WriteFile(lock, nil, 0o644))
		case script && held == 1: // it lets go, and has staged something else
			held++
			must(t, os.Remove(lock))
			if !moved {
				moved = true
				write(t, w.Path, "agent.txt", "x\n")
				git(t, w.Path, "add", "agent.txt")
				git(t, w.Path, "update-index", "--cacheinfo", "100755,"+git(t, w.Path, "rev-parse", "HEAD:a.txt")+",a.txt")
			}
		}
	}
	must(t, h.s.Stage(t.Context(), h.actor, w.ID, with(r, workspaces.Part{Path: "a.txt", Hunks: hunks[1:]}), false))
	if got := git(t, w.Path, "show", ":a.txt") + "\n"; got != lines(30, "line 20=twenty") {
		t.Errorf("staged %s", got)
	}
	if got := git(t, w.Path, "ls-files", "-s", "a.txt", "agent.txt"); !strings.HasPrefix(got, "100755 ") || !strings.Contains(got, "agent.txt") {
		t.Errorf("the agent's own staging is lost: %s", got)
	}
}

func TestPartsOfFilesWithoutLines(t *testing.T) {
	t.Parallel()
	h, w := partsHouse(t, nil)
	write(t, w.Path, ".gitattributes", "*.crlf text eol=crlf\n")
	write(t, w.Path, "x.crlf", "1\r\n2\r\n")
	write(t, w.Path, "image", "\x00\x01\x02")
	must(t, os.Symlink("a.txt", filepath.Join(w.Path, "link")))
	f, err := h.s.Hunks(t.Context(), h.actor.User.ID, w.ID, "image", "head", "now")
	must(t, err)
	if !f.Binary {
		t.Errorf("%+v", f)
	}
	for _, name := range []string{"image", "link", "x.crlf"} {
		err := h.s.Stage(t.Context(), h.actor, w.ID, workspaces.Parts{From: "head", List: []workspaces.Part{{Path: name, New: []int{1}}}}, false)
		wantCode(t, err, "part_whole_only")
	}
	now, err := h.s.Hunks(t.Context(), h.actor.User.ID, w.ID, "a.txt", "head", "now")
	must(t, err)
	r := workspaces.Parts{From: "head", To: now.To, List: []workspaces.Part{{Path: "image"}, {Path: "link"}, {Path: "x.crlf"}, {Path: ".gitattributes"}}}
	must(t, h.s.Stage(t.Context(), h.actor, w.ID, r, false))
	if got := git(t, w.Path, "status", "--porcelain"); got != "A  .gitattributes\nA  image\nA  link\nA  x.crlf" {
		t.Errorf("status %q", got)
	}
	if got := git(t, w.Path, "show", ":x.crlf"); got != "1\n2" {
		t.Errorf("%q", got)
	}
	commitAll(t, w.Path, "all")
	write(t, w.Path, "x.crlf", "3\r\n")
	must(t, os.Remove(filepath.Join(w.Path, "link")))
	write(t, w.Path, "image", "\x00")
	_, err = h.s.Discard(t.Context(), h.actor, w.ID, workspaces.Parts{List: []workspaces.Part{{Path: "x.crlf"}, {Path: "link"}, {Path: "image"}}})
	must(t, err)
	if read(t, w.Path, "x.crlf") != "1\r\n2\r\n" || git(t, w.Path, "status", "--porcelain") != "" {
		t.Errorf("%q %q", read(t, w.Path, "x.crlf"), git(t, w.Path, "status", "--porcelain"))
	}
}

func TestTakeFilesOfAnotherWorkspace(t *testing.T) {
	t.Parallel()
	h, to := partsHouse(t, nil)
	from := h.ready(workspaces.NewWorkspace{ProjectID: to.ProjectID, Name: "The other"})
	write(t, from.Path, "a.txt", lines(30, "line 05=five"))
	write(t, from.Path, "lib/new.sh", "#!/bin/sh\n")
	must(t, os.Chmod(filepath.Join(from.Path, "lib/new.sh"), 0o755))
	write(t, from.Path, "lib/both.txt", "theirs\n")
	must(t, os.Remove(filepath.Join(from.Path, "dir/b.txt")))
	write(t, to.Path, "lib/both.txt", "ours\n")
	_, err := h.s.Keep(t.Context(), from.ID, workspaces.KeepFor{Kind: workspaces.SnapPoll})
	must(t, err)
	take := func(r workspaces.TakeRequest) (workspaces.Taken, error) {
		r.From, r.Paths = from.ID, []string{"a.txt", "lib", "dir/b.txt", ".gitignore"}
		return h.s.Take(t.Context(), h.actor, to.ID, r)
	}
	states := func(d workspaces.Taken) string {
		var out []string
		for _, f := range d.Files {
			out = append(out, f.Path+" "+f.State+" "+f.KeptAs)
		}
		return strings.Join(out, ",")
	}
	d, err := take(workspaces.TakeRequest{DryRun: true})
	must(t, err)
	if got := states(d); got != ".gitignore same ,a.txt changed ,dir/b.txt deleted ,lib/both.txt conflict ,lib/new.sh new " || git(t, to.Path, "status", "--porcelain") != "?? lib/" {
		t.Errorf("%s", got)
	}
	_, err = take(workspaces.TakeRequest{})
	wantCode(t, err, "take_conflicts")
	if git(t, to.Path, "status", "--porcelain") != "?? lib/" {
		t.Error("something was taken")
	}
	d, err = take(workspaces.TakeRequest{OnConflict: workspaces.TakeKeepBoth})
	must(t, err)
	fi, err := os.Stat(filepath.Join(to.Path, "lib/new.sh"))
	must(t, err)
	if read(t, to.Path, "a.txt") != lines(30, "line 05=five") || exists(to.Path, "dir") || fi.Mode()&0o100 == 0 ||
		read(t, to.Path, "lib/both.txt") != "ours\n" || read(t, to.Path, "lib/both."+from.Key()+".txt") != "theirs\n" || d.SnapshotID == "" {
		t.Errorf("%s\n%s", states(d), git(t, to.Path, "status", "--porcelain"))
	}
	_, err = take(workspaces.TakeRequest{OnConflict: workspaces.TakeOverwrite})
	must(t, err)
	if read(t, to.Path, "lib/both.txt") != "theirs\n" {
		t.Error("it was not written over")
	}
	h.s.Connect(h.box, secretSessions{h.ses, workspaces.SecretFiles{Paths: map[string]bool{"lib/new.sh": true}}})
	_, err = take(workspaces.TakeRequest{})
	wantCode(t, err, "secret_file")
	sha1, sha256 := workspaces.BlobNames([]byte(read(t, from.Path, "lib/new.sh")))
	h.s.Connect(h.box, secretSessions{h.ses, workspaces.SecretFiles{Blobs: map[string]bool{sha1: true, sha256: true}}}) // a copy of one, by its content
	_, err = take(workspaces.TakeRequest{})
	wantCode(t, err, "secret_file")
	h.s.Connect(h.box, h.ses)
	_, err = h.s.Take(t.Context(), h.actor, to.ID, workspaces.TakeRequest{From: from.ID, Paths: []string{"none"}})
	wantCode(t, err, "file_not_found")
	_, err = h.s.Take(t.Context(), h.actor, to.ID, workspaces.TakeRequest{From: to.ID, Paths: []string{"a.txt"}})
	wantCode(t, err, "same_workspace")
}
