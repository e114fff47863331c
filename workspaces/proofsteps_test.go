package workspaces_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/testing/wstest"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/snapshot"
	"github.com/parawork/parawork/workspaces/stage"
)

// atOnce runs an agent, the looks and a person at the same time.
func (p *proof) atOnce(rng *rand.Rand, steps int) {
	for range 2 {
		p.arm(rng)
		pieces := slices.Clone(p.pieces)
		seeds := [3]uint64{rng.Uint64(), rng.Uint64(), rng.Uint64()}
		var wg sync.WaitGroup
		stop := make(chan struct{})
		actor := func(i int, step func(rng *rand.Rand, x *piece) bool) {
			own := rand.New(rand.NewPCG(seeds[i], 1)) //nolint:gosec // told by its seed
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					if _, dead := p.life.over(); dead || !step(own, pieces[own.IntN(len(pieces))]) {
						return
					}
				}
			})
		}
		written := 0
		actor(0, func(rng *rand.Rand, x *piece) bool { p.agent(rng, x); written++; return written < 4*steps })
		actor(1, func(_ *rand.Rand, x *piece) bool { p.look(x); return true })
		left := steps / 2
		actor(2, func(rng *rand.Rand, x *piece) bool {
			p.person(rng, x)
			if left--; left <= 0 {
				close(stop)
			}
			return left > 0
		})
		wg.Wait()
		p.heal()
	}
}

// arm chooses where the server ends next.
func (p *proof) arm(rng *rand.Rand) {
	if rng.IntN(2) == 0 {
		n := 1 + rng.IntN(60)
		p.step("dies at call %d", n)
		p.life.dieIn(n)
		return
	}
	words := []string{"update-ref", "fast-import", "diff-tree", "read-tree", "commit-tree", "ls-tree", "rev-parse", "cat-file", "worktree", "merge-tree"}
	word, when := words[rng.IntN(len(words))], []string{"before", "after"}[rng.IntN(2)]
	p.step("dies %s git %s", when, word)
	p.life.dieAtGit(p.t, word, when)
}

var proofNames = []string{"a.txt", "a.txt", "a.txt", "shared.txt", "shared.txt", "dir/b.txt", "new.txt", "new/deep/file", "swap", "swap/in", "odd \"name\"\n\xff", "-dash", "bin", "link", "ignored/x", ".env"}

// agent does one thing in a workspace's folder, as a program there does.
func (p *proof) agent(rng *rand.Rand, x *piece) {
	p.writing.Lock()
	defer p.writing.Unlock()
	dir := p.dir(x)
	if !folderThere(dir) || p.idle(x) {
		return
	}
	name := proofNames[rng.IntN(len(proofNames))]
	at := filepath.Join(dir, name)
	p.fresh++
	said := ""
	switch n := rng.IntN(20); {
	case n < 2:
		said = "removes"
		_ = os.RemoveAll(at)
	case n < 4:
		to := proofNames[rng.IntN(len(proofNames))]
		said = "renames to " + fmt.Sprintf("%q", to)
		_ = os.MkdirAll(filepath.Dir(filepath.Join(dir, to)), 0o755)
		if fi, err := os.Lstat(at); err == nil && !fi.IsDir() && os.Rename(at, filepath.Join(dir, to)) == nil {
			x.gen[to]++
		}
	case n < 5:
		said = "turns the x bit"
		if fi, err := os.Lstat(at); err == nil && fi.Mode().IsRegular() {
			_ = os.Chmod(at, fi.Mode().Perm()^0o111)
		}
	case n < 6:
		said = "links"
		_ = os.RemoveAll(at)
		_ = os.Symlink(fmt.Sprintf("nowhere/%d", p.fresh), at)
	case n < 8:
		said = "writes bytes into"
		text := make([]byte, 1+rng.IntN(9000))
		for i := range text {
			text[i] = byte(rng.Uint32())
		}
		p.replace(at, append(text, fmt.Sprintf("%d of %s", p.fresh, x.id)...))
	case n < 10 && rng.IntN(2) == 0:
		said = "commits, beginning with"
		if _, err := wstest.TryGit(dir, "add", "-A"); err == nil {
			_, _ = wstest.TryGit(dir, "commit", "-q", "-m", fmt.Sprintf("agent %d", p.fresh))
		}
	case n < 11 && rng.IntN(3) == 0:
		said = "has git take back all, and"
		_, _ = wstest.TryGit(dir, "reset", "-q", "--hard")
		x.all++
	default:
		said = "edits lines of"
		b, err := os.ReadFile(at)
		l := strings.SplitAfter(string(b), "\n")
		if err != nil || strings.ContainsRune(string(b), 0) {
			l = strings.SplitAfter(wstest.Lines(12), "\n")
		}
		for range 1 + rng.IntN(3) {
			i := rng.IntN(len(l))
			l[i] = fmt.Sprintf("%d of %s\n", p.fresh, x.id)
		}
		p.replace(at, []byte(strings.Join(l, "")))
	}
	for _, known := range proofNames { // what lay above or below goes with it
		if known == name || strings.HasPrefix(known, name+"/") || strings.HasPrefix(name, known+"/") {
			x.gen[known]++
		}
	}
	p.step("agent in %s %s %q", x.id, said, name)
}

// replace writes a file that may be a folder or a link, or lie below a file.
func (p *proof) replace(at string, text []byte) {
	if fi, err := os.Lstat(at); err == nil && !fi.Mode().IsRegular() {
		_ = os.RemoveAll(at)
	}
	if fi, err := os.Lstat(filepath.Dir(at)); err == nil && !fi.IsDir() {
		_ = os.Remove(filepath.Dir(at))
	}
	_ = os.MkdirAll(filepath.Dir(at), 0o755)
	_ = os.WriteFile(at, text, 0o644)
}

// person does one thing through the server, which may reject it. What the server changes of the files must be in the timeline.
func (p *proof) person(rng *rand.Rand, x *piece) {
	before, gen := p.scan(x)
	what := ""
	err := p.do(func(ctx context.Context) error {
		var err error
		what, err = p.act(ctx, rng, x, before)
		return err
	})
	outcome := "done"
	if err != nil {
		outcome = cmp.Or(fault.CodeOf(err), err.Error())
	}
	p.step("person in %s %s: %s", x.id, what, outcome)
	p.unexpected(what, err)
	why := fmt.Sprintf("changed by the server in step %d", p.at())
	owe := func() { p.owe(x, why, before, gen, func(was, is version) bool { return was != is }) }
	if errors.Is(err, errDied) {
		p.cut = append(p.cut, owe) // the next server settles it first
		return
	}
	owe()
}

func (p *proof) act(ctx context.Context, rng *rand.Rand, x *piece, on map[string]version) (string, error) {
	s, a := p.h.S, p.h.Actor
	other := p.pieces[(slices.Index(p.pieces, x)+1)%len(p.pieces)]
	var names []string
	for name := range on {
		if name != ".gitignore" { // what is ignored stays so
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if len(names) == 0 {
		names = []string{"a.txt"}
	}
	name := names[rng.IntN(len(names))]
	merge, update := []string{"merge", "squash", "rebase"}[rng.IntN(3)], []string{"merge", "rebase"}[rng.IntN(2)]
	parts := func() (stage.Parts, error) {
		name = []string{"a.txt", "shared.txt"}[rng.IntN(2)]
		f, err := s.Stage.Hunks(ctx, a.User.ID, x.id, name, "head", "now")
		if err == nil && len(f.Hunks) == 0 {
			err = fault.New(fault.NotFound, "nothing_chosen", "nothing differs")
		}
		if err != nil {
			return stage.Parts{}, err
		}
		return stage.Parts{From: f.From, To: f.To, List: []stage.Part{{Path: name, Hunks: []stage.Hunk{f.Hunks[rng.IntN(len(f.Hunks))].Hunk}}}}, nil
	}
	switch rng.IntN(19) {
	case 0:
		_, err := s.Stage.Commit(ctx, a, x.id, stage.CommitRequest{Message: "everything"})
		return "commits everything", err
	case 1:
		_, err := s.Stage.Commit(ctx, a, x.id, stage.CommitRequest{Message: "one file", Paths: []string{name}})
		return "commits " + name, err
	case 2:
		r, err := parts()
		if err == nil {
			_, err = s.Stage.Commit(ctx, a, x.id, stage.CommitRequest{Message: "a part", Parts: r})
		}
		return "commits a part of " + name, err
	case 3:
		r, err := parts()
		if err == nil {
			err = s.Stage.Stage(ctx, a, x.id, r, false)
		}
		return "stages a part of " + name, err
	case 4, 5:
		r, err := parts()
		if err == nil {
			_, err = s.Stage.Discard(ctx, a, x.id, r)
		}
		return "discards a part of " + name, err
	case 6, 7:
		_, err := s.Stage.Discard(ctx, a, x.id, stage.Parts{List: []stage.Part{{Path: name}}})
		return "discards " + name, err
	case 8, 9:
		snaps := p.snaps(x)
		if len(snaps) == 0 {
			return "restores nothing", nil
		}
		r := snapshot.RestoreRequest{}
		if rng.IntN(3) == 0 {
			r.Paths = []string{name}
		}
		_, err := s.Lifecycle.RestoreSnapshot(ctx, a, snaps[rng.IntN(len(snaps))], r)
		return "restores", err
	case 10, 11:
		_, err := s.Merging.Update(ctx, a, x.id, workspaces.UpdateRequest{Strategy: update})
		return "updates by " + update, err
	case 12:
		_, err := s.Merging.Merge(ctx, a, x.id, workspaces.MergeRequest{Strategy: merge})
		return "merges by " + merge, err
	case 13:
		_, err := s.Stage.Take(ctx, a, x.id, stage.TakeRequest{From: other.id, Paths: []string{name}, OnConflict: []string{"overwrite", "keep_both"}[rng.IntN(2)]})
		return "takes " + name, err
	case 14, 15:
		return "writes " + name, p.edit(ctx, x, name, rng)
	case 16:
		if rng.IntN(2) == 0 {
			return "begins to resolve", p.resolve(ctx, x, update)
		}
		return "gives up a merge", s.Conflicts.AbortResolve(ctx, a, x.id)
	case 17:
		putAway := s.Lifecycle.Archive
		if rng.IntN(2) == 0 {
			putAway = s.Lifecycle.Delete
		}
		x.away.Add(1)
		defer x.away.Add(1)
		if _, err := putAway(ctx, a, x.id); err != nil {
			return "puts away", err
		}
		w, err := s.Lifecycle.Restore(ctx, a, x.id)
		return "puts away and restores on " + w.Branch, err
	}
	p.writing.Lock()
	defer p.writing.Unlock()
	at := []string{"a.txt", "shared.txt", "theirs.txt"}[rng.IntN(3)]
	b, _ := os.ReadFile(filepath.Join(p.folder, at))
	l := strings.SplitAfter(string(b), "\n")
	l[rng.IntN(len(l))] = fmt.Sprintf("%d of somebody else\n", p.at())
	if err := os.WriteFile(filepath.Join(p.folder, at), []byte(strings.Join(l, "")), 0o600); err != nil {
		return "moves the base", err
	}
	_, _ = wstest.TryGit(p.folder, "add", "-A")
	_, _ = wstest.TryGit(p.folder, "commit", "-q", "-m", "theirs")
	return "moves the base", nil
}

// edit writes a file as the editor does.
func (p *proof) edit(ctx context.Context, x *piece, name string, rng *rand.Rand) error {
	var files stage.Files = mortalFiles{wstest.TreeFiles{Paths: p.h.Path}, p.life, &p.writing}
	if p.whole != nil {
		files = p.whole.files
	}
	r, info, err := files.Read(ctx, x.id, guest.EncodePath(name))
	if err != nil || info.Type != "file" {
		return fault.New(fault.NotFound, "file_not_found", "gone")
	}
	_ = r.Close()
	if _, err := p.h.S.Snapshots.Take(ctx, x.id, snapshot.Request{Reason: "edit"}); err != nil {
		return err
	}
	_, err = files.Put(ctx, x.id, guest.EncodePath(name), strings.NewReader(fmt.Sprintf("written by hand %d\n", rng.Uint64())), info.Hash, 0)
	return err
}

func (p *proof) resolve(ctx context.Context, x *piece, strategy string) error {
	_, err := p.h.S.Conflicts.BeginResolve(ctx, p.h.Actor, x.id, strategy)
	return err
}
