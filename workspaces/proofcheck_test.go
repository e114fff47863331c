package workspaces_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/testing/wstest"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/snapshot"
)

// snaps is all of a workspace's timeline that has files.
func (p *proof) snaps(x *piece) []snapshot.Snap {
	var out []snapshot.Snap
	for pg := (page.Page{Limit: page.MaxLimit}); ; {
		items, next, err := p.h.S.Snapshots.Timeline(p.ctx, x.id, []string{"poll", "turn", "commit", "kept", "manual"}, pg)
		wstest.Must(p.t, err)
		for _, it := range items {
			out = append(out, *it.Snap)
		}
		if pg.Cursor = next; next == "" {
			return out
		}
	}
}

// has is the files of a commit.
func (p *proof) has(dir, commit string) map[version]bool {
	if t := p.trees[commit]; t != nil {
		return t
	}
	t := make(map[version]bool)
	for _, rec := range strings.Split(wstest.Git(p.t, dir, "ls-tree", "-r", "-z", "--full-tree", commit), "\x00") {
		meta, name, _ := strings.Cut(rec, "\t")
		if f := strings.Fields(meta); len(f) == 3 {
			t[version{name, f[0], f[2]}] = true
		}
	}
	p.trees[commit] = t
	return t
}

// verify checks that the timelines have everything they must. It reads the files before, like any starting server.
func (p *proof) verify() {
	p.t.Helper()
	for _, x := range p.pieces {
		p.look(x)
		w, err := p.h.S.Records.Workspace(p.ctx, x.id)
		wstest.Must(p.t, err)
		snaps := p.snaps(x)
		found := make(map[version]snapshot.Snap)
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
				t, err := p.h.S.Snapshots.Resolve(p.ctx, w, sn.ID, "")
				wstest.Must(p.t, err)
				r, _, err := p.h.S.Snapshots.FileAt(p.ctx, x.id, t, v.path)
				wstest.Must(p.t, err)
				wstest.Must(p.t, r.Close())
			}
		}
	}
}

func (p *proof) fsck(project workspaces.Project) {
	p.t.Helper()
	if out, err := wstest.TryGit(project.GitDir, "fsck", "--full", "--no-dangling", "--no-progress"); err != nil {
		p.t.Errorf("git fsck: %v\n%s", err, out)
	}
}

// afterwards lets the snapshots' retention end, in two steps.
func (p *proof) afterwards(project workspaces.Project) {
	p.t.Helper()
	x := p.pieces[0]
	gone := filepath.Join(x.path, "only-polled")
	wstest.Must(p.t, os.WriteFile(gone, []byte(strings.Repeat(fmt.Sprint("of no use later ", p.seed), 1<<14)), 0o600))
	p.look(x)
	last := p.snaps(x)[0]
	lone := wstest.Git(p.t, x.path, "rev-parse", last.Commit+":only-polled")
	wstest.Must(p.t, os.Remove(gone))
	p.look(x)
	pinned, err := p.h.S.Snapshots.PinSnapshot(p.ctx, p.snaps(x)[len(p.snaps(x))-1], true)
	wstest.Must(p.t, err)
	on := make(map[*piece]map[string]version)
	heads := make(map[*piece]string)
	for _, x := range p.pieces {
		on[x], _ = p.scan(x)
		heads[x] = wstest.Git(p.t, x.path, "rev-parse", "HEAD")
	}
	for _, days := range []int{9, 60} {
		p.ahead.Store(int64(time.Duration(days) * 24 * time.Hour))
		_, err := p.h.S.Snapshots.PruneSnapshots(p.ctx)
		wstest.Must(p.t, err)
		p.collect(project)
		for _, x := range p.pieces {
			for _, sn := range p.snaps(x) {
				if end := sn.ExpiresAt; end != 0 && end <= p.h.Cfg.Now().UnixMilli() {
					p.t.Errorf("after %d days a snapshot of %s is still there that ended", days, sn.Kind)
				}
				if days == 60 && sn.ID != pinned.ID {
					p.t.Errorf("after %d days there is still %+v", days, sn)
				}
				if out, err := wstest.TryGit(x.path, "rev-list", "--objects", "--quiet", sn.Commit); err != nil {
					p.t.Errorf("after %d days a snapshot that is kept is not whole: %s", days, out)
				}
			}
		}
	}
	if out, err := wstest.TryGit(project.GitDir, "cat-file", "-e", lone); err == nil {
		p.t.Errorf("what only an ended snapshot had takes space: %s %s", lone, out)
	}
	for _, x := range p.pieces {
		if is, _ := p.scan(x); fmt.Sprint(is) != fmt.Sprint(on[x]) || wstest.Git(p.t, x.path, "rev-parse", "HEAD") != heads[x] {
			p.t.Errorf("what is on disk or on the branch was touched")
		}
		if out, err := wstest.TryGit(x.path, "status", "--porcelain"); err != nil {
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

// collect has git remove unreachable objects: in a clone the server does it, in somebody's folder git gc.
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
		wstest.Git(p.t, project.GitDir, "-c", "gc.reflogExpire=now", "-c", "gc.reflogExpireUnreachable=now", "gc", "--quiet", "--prune=now")
		return
	}
	if _, err := p.h.S.Reclaim.Collect(p.ctx, project); err != nil {
		p.t.Errorf("collecting: %v", err)
	}
}
