package workspaces_test

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/testing/wstest"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/snapshot"
)

// version identifies a file's content by git's object id.
type version struct{ path, mode, oid string }

// piece is a workspace under test.
type piece struct {
	id, path string
	known    map[string]version // when it was looked at last
	whole    bool               // the next look reports everything, like the first one after a start
	gen      map[string]int     // how often the agent has written each file
	all      int                // how often it had git do so
	must     map[version]string // what the timeline must have, and why
	away     atomic.Int64       // counts how often it began or ended to be put away
}

// proof is one walk.
type proof struct {
	t      testing.TB
	h      *wstest.Env
	life   *mortal
	ctx    context.Context
	seed   uint64
	whole  *whole       // the server's other services, where sandboxes are remote; nil = only worktrees on this server
	folder string       // the repository people work in beside
	ahead  atomic.Int64 // ns

	writing sync.Mutex // nobody writes between a check and the write it is for
	mu      sync.Mutex
	steps   []string
	pieces  []*piece
	trees   map[string]map[version]bool // by commit
	cut     []func()                    // what is owed for steps a server died in
	fresh   int
}

func (p *proof) add(w workspaces.Workspace) *piece {
	x := &piece{id: w.ID, path: w.Path, whole: true, gen: make(map[string]int), must: make(map[version]string)}
	p.pieces = append(p.pieces, x)
	return x
}

// at is how many steps were done.
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

// summary counts what people did and the results.
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
	p.h.Stop()
	p.ctx = p.life.born(p.t)
	if p.whole != nil {
		p.whole.born(p.ctx)
		return
	}
	p.h.Cfg.Store = mortalStore{p.h.Store, p.life}
	p.h.Start()
	_, ses := p.h.Sandboxes, p.h.Ses
	p.h.S.Records.Connect(mortalBoxes{p.h.Sandboxes, p.life}, ses)
	p.h.S.Stage.ConnectFiles(mortalFiles{wstest.TreeFiles{Paths: p.h.Path}, p.life, &p.writing})
	if p.seed%3 != 0 { // else the host reads worktrees itself
		p.h.S.Snapshots.Watch(p)
	}
	for _, x := range p.pieces {
		x.whole = true
	}
}

// Look replaces the guest: it reports what differs from the base.
func (p *proof) Look(ctx context.Context, id string) (snapshot.Seen, bool, error) {
	base, err := p.h.S.Repo.BaseCommit(ctx, id)
	if err != nil {
		return snapshot.Seen{}, false, err
	}
	dir, err := p.h.Path(id)
	if err != nil {
		return snapshot.Seen{}, false, err
	}
	paths, err := differing(dir, base)
	return snapshot.Seen{Base: base, Paths: paths}, err == nil, err
}

// differing lists what differs from a commit in a worktree.
func differing(dir, base string) ([]string, error) {
	if !folderThere(dir) {
		return nil, fault.New(fault.Conflict, "workspace_not_ready", "It is put away.")
	}
	tracked, err := wstest.TryGit(dir, "diff", "--name-only", "--no-renames", "-z", base)
	if err != nil {
		return nil, fmt.Errorf("git diff: %w: %s", err, tracked)
	}
	others, err := wstest.TryGit(dir, "ls-files", "--others", "--exclude-standard", "-z")
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w: %s", err, others)
	}
	return strings.FieldsFunc(tracked+others, func(r rune) bool { return r == 0 }), nil
}

// proofLimit bounds one operation.
const proofLimit = time.Minute

var (
	errDied   = errors.New("the server died")
	errUnseen = fault.New(fault.Unavailable, "not_seen", "the sandbox could not be looked at")
)

// do has the server do something; it may die in it.
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

// dir is the folder of the files that people and agents work with.
func (p *proof) dir(x *piece) string {
	if p.whole != nil {
		return p.whole.root(workspaces.Workspace{ID: x.id, Path: x.path})
	}
	return x.path
}

// still reports whether the files are where nobody can look at them now.
func (p *proof) still(x *piece) bool { return p.whole != nil && p.whole.still(x.id) }

// idle reports whether no agent can be working: its sandbox has its own disk and is suspended, or there is none.
func (p *proof) idle(x *piece) bool {
	if p.whole == nil || p.whole.sandbox(x.id) != "" {
		return p.still(x)
	}
	w, err := p.h.Store.Workspace(context.Background(), x.id)
	wstest.Must(p.t, err)
	return w.Executor != string(hereKind)
}

// scan reads what is on disk, and how often the agent has written it.
func (p *proof) scan(x *piece) (map[string]version, map[string]int) {
	p.writing.Lock()
	defer p.writing.Unlock()
	out, gen, dir := make(map[string]version), make(map[string]int), p.dir(x)
	_ = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, name)
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

// owe records that the timeline must have what was on disk, for the files that kept accepts and the agent has not written meanwhile.
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

// look reports changed files to the server, as a guest does.
func (p *proof) look(x *piece) {
	before, gen := p.scan(x)
	whole, away, still := x.whole, x.away.Load(), p.still(x)
	err := p.do(func(ctx context.Context) error {
		var base string
		var paths []string
		if p.whole != nil {
			sn, err := p.h.S.Snapshots.Take(ctx, x.id, snapshot.Request{Kind: snapshot.SnapPoll})
			if err == nil && slices.ContainsFunc(sn.Missing, func(m workspaces.Missing) bool { return m.Path == "" }) {
				err = errUnseen
			}
			return err
		}
		if whole {
			var err error
			if base, err = p.h.S.Repo.BaseCommit(ctx, x.id); err != nil {
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
		return p.h.S.Snapshots.Polled(ctx, x.id, base, paths, whole)
	})
	p.step("look at %s, whole %v: %v", x.id, whole, err)
	if err != nil {
		x.whole = true
		p.unexpected("a look", err)
		return
	}
	x.known, x.whole = before, false
	if away%2 != 0 || away != x.away.Load() || still || p.still(x) {
		return // there may have been nothing to look at
	}
	p.owe(x, fmt.Sprintf("seen by the look of step %d", p.at()), before, gen, func(was, is version) bool { return was == is })
}

// unexpected reports errors without a message for people.
func (p *proof) unexpected(what string, err error) {
	if err != nil && !errors.Is(err, errDied) && !errors.Is(err, context.Canceled) && fault.CodeOf(err) == "" {
		p.t.Errorf("%s, step %d: %v", what, p.at(), err)
	}
}

// settle runs the server, and ends with a worktree for each workspace.
func (p *proof) settle() {
	if at, dead := p.life.over(); dead {
		p.step("the server died: %s; another takes over", at)
	}
	p.reborn()
	for _, x := range p.pieces {
		if p.whole != nil { // one that was cut goes on, or back
			_, err := p.moveEnd(p.ctx, x.id)
			wstest.Must(p.t, err)
		}
		w, err := p.h.S.Records.Workspace(p.ctx, x.id)
		wstest.Must(p.t, err)
		if w.DeletedAt == 0 && w.State == workspaces.Ready && folderThere(w.Path) {
			continue
		}
		p.step("%s is %s, its folder is there: %v", x.id, w.State, folderThere(w.Path))
		if w.DeletedAt == 0 && w.State != workspaces.Archived { // it was cut while it was put away
			if _, err := p.h.S.Lifecycle.Delete(p.ctx, p.h.Actor, x.id); err != nil {
				p.t.Fatalf("deleting what was cut: %v", err)
			}
		}
		w, err = p.h.S.Lifecycle.Restore(p.ctx, p.h.Actor, x.id)
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
