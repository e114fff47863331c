package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// edit100 changes 100 files of a worktree of the repository of n files, each time to something else.
func edit100(dir string, n, round int) error {
	for i := range 100 {
		k := i * n / 100
		p := filepath.Join(dir, fmt.Sprintf("src/d%03d/f%05d.txt", k/100, k))
		if err := os.WriteFile(p, []byte(fmt.Sprintf("round %d of file %d\n%s", round, k, time.Now())), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// plumbing is what a snapshot cannot do without, by bare git: an index of its own, all files, a tree, a commit, a ref.
func plumbing(dir string) (time.Duration, error) {
	index, err := git(dir, "rev-parse", "--git-path", "index")
	if err != nil {
		return 0, err
	}
	index = index[:len(index)-1]
	if !filepath.IsAbs(index) {
		index = filepath.Join(dir, index)
	}
	t0 := time.Now()
	b, err := os.ReadFile(index)
	if err != nil {
		return 0, err
	}
	own := index + ".bench"
	if err := os.WriteFile(own, b, 0o600); err != nil {
		return 0, err
	}
	defer os.Remove(own)
	text, err := gitWith(dir, []string{"GIT_INDEX_FILE=" + own}, "add", "--all")
	if err == nil {
		text, err = gitWith(dir, []string{"GIT_INDEX_FILE=" + own}, "write-tree")
	}
	if err == nil {
		text, err = git(dir, "commit-tree", "-m", "snapshot", "-p", "HEAD", text[:len(text)-1])
	}
	if err == nil {
		_, err = git(dir, "update-ref", "refs/bench/snapshot", text[:len(text)-1])
	}
	return time.Since(t0), err
}

// snapshots compares a snapshot of 10,000 files of which 100 changed, from the request to the answer, with bare plumbing and with
// git stash create, which keeps no new file.
func (b *bench) snapshots() error {
	h, err := b.harness()
	if err != nil {
		return err
	}
	n := b.size(10000, 500)
	dir, err := b.repository("snapshots", n)
	if err != nil {
		return err
	}
	project, err := h.pathProject(fmt.Sprintf("snapshots %d", n), dir)
	if err != nil {
		return err
	}
	w, err := h.openWorkspace(project, "snapshots")
	if err != nil {
		return err
	}
	plain := filepath.Join(b.dir, "plain-snapshots")
	if _, err := git(dir, "worktree", "add", "--no-track", "-q", "-b", "plain-snapshots", plain, "main"); err != nil {
		return err
	}
	var asked, polled, looked, bare, stash []float64
	for round := range b.size(11, 2) {
		for _, at := range []string{w.path, plain} {
			if err := edit100(at, n, 2*round); err != nil {
				return err
			}
		}
		d, err := plumbing(plain)
		if err != nil {
			return err
		}
		t0 := time.Now()
		if err := h.do("POST", "/workspaces/"+w.id+"/snapshots", map[string]any{"title": "bench"}, nil); err != nil {
			return err
		}
		ours := time.Since(t0)
		t0 = time.Now()
		if _, err := git(plain, "stash", "create"); err != nil {
			return err
		}
		st := time.Since(t0)
		// By a poll: what git status says, and then the snapshot.
		for _, at := range []string{w.path, plain} {
			if err := edit100(at, n, 2*round+1); err != nil {
				return err
			}
		}
		t0 = time.Now()
		if err := h.do("POST", "/workspaces/"+w.id+"/sync", nil, nil); err != nil {
			return err
		}
		poll := time.Since(t0)
		t0 = time.Now()
		if _, err := git(plain, "status", "--porcelain=v2", "-z", "--untracked-files=all"); err != nil {
			return err
		}
		status := time.Since(t0)
		d2, err := plumbing(plain)
		if err != nil {
			return err
		}
		if round == 0 {
			continue // caches fill
		}
		asked, polled = append(asked, ours.Seconds()), append(polled, poll.Seconds())
		bare, looked, stash = append(bare, d.Seconds()), append(looked, (status+d2).Seconds()), append(stash, st.Seconds())
	}
	ms := func(s []float64) string { return f1(median(s) * 1e3) }
	if len(asked) == 0 {
		return nil
	}
	r := median(asked) / median(bare)
	b.figure(fmt.Sprintf("snapshot of %d files, 100 changed, ms", n), ms(asked), ms(bare), r, "<= 1.3", r <= 1.3)
	r = median(polled) / median(looked)
	b.figure("the same by a poll, its look included, ms", ms(polled), ms(looked), r, "<= 1.3", r <= 1.3)
	r = median(asked) / median(stash)
	b.figure("against git stash create, ms", ms(asked), ms(stash), r, "-", true)
	return nil
}

// compare measures how long the server takes to say what differs, and to give the lines, for 4,000 changed lines.
func (b *bench) compare() error {
	h, err := b.harness()
	if err != nil {
		return err
	}
	var files []madeFile
	for i := range b.size(20, 2) {
		files = append(files, madeFile{fmt.Sprintf("src/part%02d/module%03d.ts", i/10, i), 600, 6})
	}
	w, err := b.changed(h, "compare", files)
	if err != nil {
		return err
	}
	var fresh, again, patch []float64
	for round := range b.size(15, 3) {
		// Another tree each time: nothing of it is known.
		if err := os.WriteFile(filepath.Join(w.path, "round.ts"), []byte(source(0, round, "round")), 0o644); err != nil {
			return err
		}
		if err := h.do("POST", "/workspaces/"+w.id+"/sync", nil, nil); err != nil {
			return err
		}
		for _, of := range []*[]float64{&fresh, &again} {
			t0 := time.Now()
			if err := h.do("GET", "/workspaces/"+w.id+"/compare?from=base&to=now", nil, nil); err != nil {
				return err
			}
			*of = append(*of, time.Since(t0).Seconds()*1e3)
		}
		var c struct {
			From, To struct {
				Commit   string
				Snapshot string `json:"snapshot_id"`
			}
		}
		if err := h.do("GET", "/workspaces/"+w.id+"/compare?from=base&to=now", nil, &c); err != nil {
			return err
		}
		t0 := time.Now()
		if err := h.raw("/workspaces/" + w.id + "/compare/patch?from=" + c.From.Commit + "&to=" + c.To.Snapshot); err != nil {
			return err
		}
		patch = append(patch, time.Since(t0).Seconds()*1e3)
	}
	b.within("what differs in 4,000 lines, first time", fresh, 60)
	b.within("what differs in 4,000 lines, again", again, 60)
	b.within("the 4,000 lines", patch, 60)
	return nil
}
