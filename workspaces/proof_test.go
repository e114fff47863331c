package workspaces_test

import (
	"context"
	"crypto/sha1" //nolint:gosec // git's names of objects
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/workspaces"
)

var (
	proofFor  = flag.Duration("proof", 0, "how long to look for a walk that loses something, beyond the few that always run")
	proofSeed = flag.Uint64("proof.seed", 0, "the one walk to go again")
)

// Whatever an agent and people do to a workspace's files, and wherever the server ends without warning: every version of a file that was on
// disk when the files were looked at, and every one the server itself changed, is in the timeline until its time is over. When that is, its
// space is given back, and nothing else is lost.
//
// Each walk is random and told by its seed: go test ./workspaces -run TestNothingIsLost -proof.seed=N goes it again, -proof=10m goes on
// with new ones. Where agent and people act at once the order of their steps is the machine's.
func TestNothingIsLost(t *testing.T) {
	t.Parallel()
	if *proofSeed != 0 {
		walk(t, storetest.SQLite(t), *proofSeed, 60)
		return
	}
	for i, seed := range []uint64{2, uint64(time.Now().UnixNano()) | 1<<40} { //nolint:gosec // any number does
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			db := storetest.SQLite
			if i == 1 && os.Getenv(storetest.EnvPostgres) != "" {
				db = storetest.Postgres
			}
			walk(t, db(t), seed, 4)
		})
	}
	for end := time.Now().Add(*proofFor); time.Now().Before(end) && !t.Failed(); {
		seed := rand.Uint64() //nolint:gosec // any number does
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { walk(t, storetest.SQLite(t), seed, 60) })
	}
}

// version is what a file was: git's name of its bytes stands for them.
type version struct{ path, mode, oid string }

// piece is a workspace under proof.
type piece struct {
	id, path string
	known    map[string]version // when it was looked at last
	whole    bool               // the next look tells of everything, as that of a server that begins
	gen      map[string]int     // how often the agent has written each file
	all      int                // how often it had git do so
	must     map[version]string // what the timeline must have, and why
	away     atomic.Int64       // counts how often it began or ended to be put away
}

// proof is one walk.
type proof struct {
	t      testing.TB
	h      *house
	life   *mortal
	ctx    context.Context
	seed   uint64
	folder string       // the repository people work in beside
	ahead  atomic.Int64 // ns

	writing sync.Mutex // nobody writes between a check and the write it is for
	mu      sync.Mutex
	steps   []string
	pieces  []*piece
	trees   map[string]map[version]bool // by commit
	cut     []func()                    // what is owed for steps a server died over
	fresh   int
}

func walk(t *testing.T, db *store.DB, seed uint64, steps int) {
	p := &proof{t: t, life: newMortal(t), seed: seed, trees: make(map[string]map[version]bool)}
	p.h = newHouse(t, db, func(c *workspaces.Config) {
		c.GitPath = filepath.Join(p.life.dir, "git")
		c.Now = func() time.Time { return time.Now().Add(time.Duration(p.ahead.Load())) }
		c.After = func(time.Duration) <-chan time.Time { return nil } // what is done each hour is done by hand
	})
	defer func() {
		if testing.Verbose() {
			t.Log(p.summary())
		}
		if t.Failed() {
			t.Logf("go test ./workspaces -run TestNothingIsLost -proof.seed=%d\n%s", seed, strings.Join(p.steps, "\n"))
		}
	}()
	rng := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // told by its seed
	p.folder = p.h.repo("app")
	write(t, p.folder, "a.txt", lines(30))
	write(t, p.folder, "shared.txt", lines(12))
	commitAll(t, p.folder, "thirty lines")
	p.reborn()
	project := p.h.pathProject(p.folder)
	if seed%2 == 0 { // a clone, which is ours to collect
		project = p.h.urlProject(p.folder)
	}
	for _, name := range []string{"One", "Two"} {
		p.add(p.h.ready(workspaces.NewWorkspace{ProjectID: project.ID, Name: name}))
	}
	for round := range 3 {
		if round == 1 {
			p.atOnce(rng, steps)
		} else {
			p.inTurns(rng, steps)
		}
		p.settle()
		p.verify()
		p.ahead.Add(int64(5 * time.Hour))
	}
	p.fsck(project)
	p.afterwards(project)
}

func (p *proof) add(w workspaces.Workspace) *piece {
	x := &piece{id: w.ID, path: w.Path, whole: true, gen: make(map[string]int), must: make(map[version]string)}
	p.pieces = append(p.pieces, x)
	return x
}

// at is how many steps were gone.
func (p *proof) at() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.steps)
}

func (p *proof) step(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.steps = append(p.steps, fmt.Sprintf(format, args...))
}

// summary counts what people did and what came of it.
func (p *proof) summary() string {
	n := make(map[string]int)
	for _, s := range p.steps {
		if f := strings.Fields(s); f[0] == "person" {
			n[f[3]+" "+f[len(f)-1]]++
		} else {
			n[f[0]]++
		}
	}
	return fmt.Sprint(n)
}

// reborn starts a server where one ended, or the first.
func (p *proof) reborn() {
	p.h.stop()
	p.ctx = p.life.born(p.t)
	p.h.cfg.Store = mortalStore{p.h.store, p.life}
	p.h.start()
	_, ses := p.h.box, p.h.ses
	p.h.s.Connect(mortalBoxes{p.h.box, p.life}, ses)
	p.h.s.ConnectFiles(mortalFiles{treeFiles{paths: p.h.path}, p.life, &p.writing})
	if p.seed%3 != 0 { // else the host reads worktrees itself
		p.h.s.Watch(p)
	}
	for _, x := range p.pieces {
		x.whole = true
	}
}

// Look stands for the guest: it tells what differs from the base.
func (p *proof) Look(ctx context.Context, id string) (workspaces.Seen, bool, error) {
	base, err := p.h.s.BaseCommit(ctx, id)
	if err != nil {
		return workspaces.Seen{}, false, err
	}
	dir, err := p.h.path(id)
	if err != nil {
		return workspaces.Seen{}, false, err
	}
	paths, err := differing(dir, base)
	return workspaces.Seen{Base: base, Paths: paths}, err == nil, err
}

// differing lists what differs from a commit in a worktree.
func differing(dir, base string) ([]string, error) {
	if !folderThere(dir) {
		return nil, fault.New(fault.Conflict, "workspace_not_ready", "It is put away.")
	}
	tracked, err := tryGit(dir, "diff", "--name-only", "--no-renames", "-z", base)
	if err != nil {
		return nil, fmt.Errorf("git diff: %w: %s", err, tracked)
	}
	others, err := tryGit(dir, "ls-files", "--others", "--exclude-standard", "-z")
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w: %s", err, others)
	}
	return strings.FieldsFunc(tracked+others, func(r rune) bool { return r == 0 }), nil
}

// proofLimit bounds one operation.
const proofLimit = time.Minute

var errDied = errors.New("the server died")

// do has the server do something; it may die over it.
func (p *proof) do(fn func(ctx context.Context) error) error {
	err := errDied
	done := make(chan struct{})
	go func() { defer close(done); err = fn(p.ctx) }()
	select {
	case <-done:
	case <-time.After(proofLimit):
		all := make([]byte, 1<<20)
		panic(fmt.Sprintf("the server does not come to an end:\n%s\n%s", strings.Join(p.steps, "\n"), all[:runtime.Stack(all, true)]))
	}
	if _, dead := p.life.over(); dead {
		return errDied
	}
	return err
}

// scan reads what is on disk, and how often the agent has written it.
func (p *proof) scan(x *piece) (map[string]version, map[string]int) {
	p.writing.Lock()
	defer p.writing.Unlock()
	out, gen := make(map[string]version), make(map[string]int)
	_ = filepath.WalkDir(x.path, func(name string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(x.path, name)
		switch {
		case err != nil:
			return nil // it goes away meanwhile
		case d.IsDir() && (rel == "ignored" || rel == ".git"):
			return fs.SkipDir
		case d.IsDir() || rel == ".git" || rel == ".env":
			return nil
		case strings.HasPrefix(d.Name(), ".parawork-tmp_"): // on its way
			return nil
		}
		v := version{path: rel, mode: "100644"}
		var text []byte
		if d.Type()&fs.ModeSymlink != 0 {
			to, err := os.Readlink(name)
			if err != nil {
				return nil
			}
			v.mode, text = "120000", []byte(to)
		} else {
			fi, err := d.Info()
			if err != nil {
				return nil
			}
			if fi.Mode()&0o100 != 0 {
				v.mode = "100755"
			}
			if text, err = os.ReadFile(name); err != nil {
				return nil
			}
		}
		sum := sha1.New() //nolint:gosec // git's names of objects
		fmt.Fprintf(sum, "blob %d\x00%s", len(text), text)
		v.oid = hex.EncodeToString(sum.Sum(nil))
		out[rel], gen[rel] = v, x.all<<20+x.gen[rel]
		return nil
	})
	return out, gen
}

// owe notes that the timeline must have what was on disk, of the files that kept says and the agent has not written meanwhile.
func (p *proof) owe(x *piece, why string, before map[string]version, gen map[string]int, kept func(was, is version) bool) {
	after, now := p.scan(x)
	p.writing.Lock() // before mu, as agents do
	defer p.writing.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, v := range before {
		g := now[name]
		if _, there := after[name]; !there {
			g = x.all<<20 + x.gen[name]
		}
		if gen[name] == g && kept(v, after[name]) {
			x.must[v] = why
		}
	}
}

// look has the server told of what changed, as the look of a guest does.
func (p *proof) look(x *piece) {
	before, gen := p.scan(x)
	whole, away := x.whole, x.away.Load()
	err := p.do(func(ctx context.Context) error {
		var base string
		var paths []string
		if whole {
			var err error
			if base, err = p.h.s.BaseCommit(ctx, x.id); err != nil {
				return err
			}
			if paths, err = differing(x.path, base); err != nil {
				return err
			}
		} else {
			for name, v := range before {
				if x.known[name] != v {
					paths = append(paths, name)
				}
			}
			for name := range x.known {
				if _, there := before[name]; !there {
					paths = append(paths, name)
				}
			}
		}
		return p.h.s.Polled(ctx, x.id, base, paths, whole)
	})
	p.step("look at %s, whole %v: %v", x.id, whole, err)
	if err != nil {
		x.whole = true
		p.unexpected("a look", err)
		return
	}
	x.known, x.whole = before, false
	if away%2 != 0 || away != x.away.Load() {
		return // there may have been nothing to look at
	}
	p.owe(x, fmt.Sprintf("seen by the look of step %d", p.at()), before, gen, func(was, is version) bool { return was == is })
}

// unexpected reports errors nobody is told of in words.
func (p *proof) unexpected(what string, err error) {
	if err != nil && !errors.Is(err, errDied) && !errors.Is(err, context.Canceled) && fault.CodeOf(err) == "" {
		p.t.Errorf("%s, step %d: %v", what, p.at(), err)
	}
}

// settle has the server live, and the workspaces with their files.
func (p *proof) settle() {
	if at, dead := p.life.over(); dead {
		p.step("the server died: %s; another takes over", at)
	}
	p.reborn()
	for _, x := range p.pieces {
		w, err := p.h.s.Workspace(p.ctx, x.id)
		must(p.t, err)
		if w.DeletedAt == 0 && w.State == workspaces.Ready && folderThere(w.Path) {
			continue
		}
		p.step("%s is %s, its folder is there: %v", x.id, w.State, folderThere(w.Path))
		if w.DeletedAt == 0 && w.State != workspaces.Archived { // it was cut while it was put away
			if _, err := p.h.s.Delete(p.ctx, p.h.actor, x.id); err != nil {
				p.t.Fatalf("deleting what was cut: %v", err)
			}
		}
		w, err = p.h.s.Restore(p.ctx, p.h.actor, x.id)
		if err != nil {
			p.t.Fatalf("restoring what was cut: %v", err)
		}
		x.path = w.Path
	}
	for _, owe := range p.cut {
		owe()
	}
	p.cut = nil
}

func folderThere(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && fi.IsDir()
}

// snaps is all of a workspace's timeline that has files.
func (p *proof) snaps(x *piece) []workspaces.Snap {
	var out []workspaces.Snap
	for pg := (page.Page{Limit: page.MaxLimit}); ; {
		items, next, err := p.h.s.Timeline(p.ctx, x.id, []string{"poll", "turn", "commit", "kept", "manual"}, pg)
		must(p.t, err)
		for _, it := range items {
			out = append(out, *it.Snap)
		}
		if pg.Cursor = next; next == "" {
			return out
		}
	}
}

// has is what a commit holds.
func (p *proof) has(dir, commit string) map[version]bool {
	if t := p.trees[commit]; t != nil {
		return t
	}
	t := make(map[version]bool)
	for _, rec := range strings.Split(git(p.t, dir, "ls-tree", "-r", "-z", "--full-tree", commit), "\x00") {
		meta, name, _ := strings.Cut(rec, "\t")
		if f := strings.Fields(meta); len(f) == 3 {
			t[version{name, f[0], f[2]}] = true
		}
	}
	p.trees[commit] = t
	return t
}

// verify looks for all there must be in the timelines. The files are looked at before, as by any server that begins.
func (p *proof) verify() {
	p.t.Helper()
	for _, x := range p.pieces {
		p.look(x)
		w, err := p.h.s.Workspace(p.ctx, x.id)
		must(p.t, err)
		snaps := p.snaps(x)
		found := make(map[version]workspaces.Snap)
		for _, sn := range snaps {
			for v := range p.has(x.path, sn.Commit) {
				found[v] = sn
			}
		}
		asked := 0
		for v, why := range x.must {
			sn, ok := found[v]
			if !ok {
				p.t.Errorf("%s: the timeline of %d snapshots has not %q (%s, %s), %s", x.id, len(snaps), v.path, v.mode, v.oid, why)
				continue
			}
			if asked++; asked <= 3 { // the others are found in the same way
				t, err := p.h.s.Resolve(p.ctx, w, sn.ID, "")
				must(p.t, err)
				r, _, err := p.h.s.FileAt(p.ctx, x.id, t, v.path)
				must(p.t, err)
				must(p.t, r.Close())
			}
		}
	}
}

func (p *proof) fsck(project workspaces.Project) {
	p.t.Helper()
	if out, err := tryGit(project.GitDir, "fsck", "--full", "--no-dangling", "--no-progress"); err != nil {
		p.t.Errorf("git fsck: %v\n%s", err, out)
	}
}

// afterwards lets the time of what was kept be over, in two steps.
func (p *proof) afterwards(project workspaces.Project) {
	p.t.Helper()
	x := p.pieces[0]
	gone := filepath.Join(x.path, "only-polled")
	must(p.t, os.WriteFile(gone, []byte(strings.Repeat(fmt.Sprint("of no use later ", p.seed), 1<<14)), 0o600))
	p.look(x)
	last := p.snaps(x)[0]
	lone := git(p.t, x.path, "rev-parse", last.Commit+":only-polled")
	must(p.t, os.Remove(gone))
	p.look(x)
	pinned, err := p.h.s.PinSnapshot(p.ctx, p.snaps(x)[len(p.snaps(x))-1], true)
	must(p.t, err)
	on := make(map[*piece]map[string]version)
	heads := make(map[*piece]string)
	for _, x := range p.pieces {
		on[x], _ = p.scan(x)
		heads[x] = git(p.t, x.path, "rev-parse", "HEAD")
	}
	for _, days := range []int{9, 60} {
		p.ahead.Store(int64(time.Duration(days) * 24 * time.Hour))
		_, err := p.h.s.PruneSnapshots(p.ctx)
		must(p.t, err)
		p.collect(project)
		for _, x := range p.pieces {
			for _, sn := range p.snaps(x) {
				if end := sn.ExpiresAt; end != 0 && end <= p.h.cfg.Now().UnixMilli() {
					p.t.Errorf("after %d days a snapshot of %s is still there that ended", days, sn.Kind)
				}
				if days == 60 && sn.ID != pinned.ID {
					p.t.Errorf("after %d days there is still %+v", days, sn)
				}
				if out, err := tryGit(x.path, "rev-list", "--objects", "--quiet", sn.Commit); err != nil {
					p.t.Errorf("after %d days a snapshot that is kept is not whole: %s", days, out)
				}
			}
		}
	}
	if out, err := tryGit(project.GitDir, "cat-file", "-e", lone); err == nil {
		p.t.Errorf("what only an ended snapshot had takes space: %s %s", lone, out)
	}
	for _, x := range p.pieces {
		if is, _ := p.scan(x); fmt.Sprint(is) != fmt.Sprint(on[x]) || git(p.t, x.path, "rev-parse", "HEAD") != heads[x] {
			p.t.Errorf("what is on disk or on the branch was touched")
		}
		if out, err := tryGit(x.path, "status", "--porcelain"); err != nil {
			p.t.Errorf("git status: %v %s", err, out)
		}
	}
	p.fsck(project)
	for _, x := range p.pieces {
		x.must = make(map[version]string)
		x.whole = true
	}
	p.verify() // with nothing before it, the next one is of everything again
	items := p.snaps(x)
	want, _ := p.scan(x)
	for v := range p.has(x.path, items[0].Commit) {
		if want[v.path] != v {
			p.t.Errorf("the first snapshot after all others ended has %+v, on disk is %+v", v, want[v.path])
		}
	}
}

// collect has git remove what nothing names: in a clone of ours by ourselves, in a folder of a person's as that person may.
func (p *proof) collect(project workspaces.Project) {
	p.t.Helper()
	_ = filepath.WalkDir(filepath.Join(project.GitDir, "objects"), func(name string, _ fs.DirEntry, err error) error {
		if err == nil { // nothing is young
			old := time.Now().Add(-48 * time.Hour)
			_ = os.Chtimes(name, old, old)
		}
		return nil
	})
	if project.SourceKind == workspaces.SourcePath {
		git(p.t, project.GitDir, "-c", "gc.reflogExpire=now", "-c", "gc.reflogExpireUnreachable=now", "gc", "--quiet", "--prune=now")
		return
	}
	if _, err := p.h.s.Collect(p.ctx, project); err != nil {
		p.t.Errorf("collecting: %v", err)
	}
}
