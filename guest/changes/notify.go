package changes

import (
	"bytes"
	"context"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

// notifier listens to the file system, so that a write is seen at once even when no output flows. Its events are only hints: a
// missed event costs a delay, never a change.
type notifier struct {
	w    *fsnotify.Watcher
	done sync.WaitGroup

	// The fields below are used only with the Poller's turn.
	from     fileStat // of the index the folders were listed from
	listedAt time.Time
	followed uint64 // version whose untracked files were followed

	mu      sync.Mutex
	dirs    map[string]bool // absolute, watched
	covered bool            // every folder with tracked files is watched
	extra   int             // folders watched because they appeared
}

// The most folders that are watched. kqueue opens every file of a folder, so except on Linux only the first folders are watched.
const (
	maxDirsLinux = 2000
	maxDirsOther = 16
	maxExtra     = 200
	relist       = 10 * time.Second // between two listings of the index
	calm         = 50 * time.Millisecond
)

func maxDirs() int {
	if runtime.GOOS == "linux" {
		return maxDirsLinux
	}
	return maxDirsOther
}

// attach starts the notifier with the first watcher. If that fails, only polling remains.
func (p *Poller) attach() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watchers++
	if p.notify != nil {
		return
	}
	w, err := fsnotify.NewWatcher()
	if err != nil {
		p.cfg.Log.Debug("watching the file system is not possible", "error", err)
		return
	}
	n := &notifier{w: w, dirs: make(map[string]bool)}
	p.notify = n
	n.done.Go(func() { n.run(p.hint) })
}

// detach ends the notifier with the last watcher, and waits for it.
func (p *Poller) detach() {
	p.mu.Lock()
	p.watchers--
	var n *notifier
	if p.watchers == 0 {
		n, p.notify = p.notify, nil
	}
	p.mu.Unlock()
	if n != nil {
		_ = n.w.Close()
		n.done.Wait()
	}
}

// covered reports whether the file system reports writes wherever tracked files are.
func (p *Poller) covered() bool {
	p.mu.Lock()
	n := p.notify
	p.mu.Unlock()
	if n == nil {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.covered
}

// run turns events into hints until the watcher is closed. It pauses after each hint: meanwhile the kernel merges further events
// of the same files, and a program that writes without pause costs us nothing.
func (n *notifier) run(hint func(strong bool)) {
	for {
		select {
		case ev, ok := <-n.w.Events:
			if !ok {
				return
			}
			if strings.HasSuffix(ev.Name, ".lock") {
				continue
			}
			if ev.Has(fsnotify.Create) {
				n.appeared(ev.Name)
			} else if ev.Has(fsnotify.Remove) || ev.Has(fsnotify.Rename) {
				n.vanished(ev.Name)
			}
			hint(true)
		case _, ok := <-n.w.Errors: // an overflow: something was written
			if !ok {
				return
			}
			hint(true)
		}
		time.Sleep(calm)
	}
}

// appeared watches a folder that was just created next to watched ones, within bounds.
func (n *notifier) appeared(name string) {
	st, err := os.Lstat(name)
	if err != nil || !st.IsDir() {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.extra < maxExtra && !n.dirs[name] && n.w.Add(name) == nil {
		n.dirs[name] = true
		n.extra++
	}
}

// vanished forgets a deleted folder: the kernel has dropped its watch.
func (n *notifier) vanished(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.dirs, name)
}

// follow watches the folders of tracked and untracked files. It lists the index again only when that has changed.
func (p *Poller) follow(ctx context.Context, t *tracker) {
	p.mu.Lock()
	n := p.notify
	p.mu.Unlock()
	if n == nil {
		return
	}
	done, err := p.turn.Lock(ctx)
	if err != nil {
		return
	}
	defer done()
	s := p.shadow
	if s == nil {
		return
	}
	if s.indexFrom != n.from && time.Since(n.listedAt) > relist {
		if err := n.list(ctx, s); err != nil {
			p.cfg.Log.Debug("listing folders to watch failed", "error", err)
		}
	}
	version, _, _ := t.current()
	if version == n.followed {
		return
	}
	n.followed = version
	for raw, e := range t.entries {
		if e.change.Status == "untracked" {
			n.add(s.repo.root, path.Dir(raw))
		}
	}
}

// list watches the folders of tracked files, the outermost first, and the git directory.
func (n *notifier) list(ctx context.Context, s *shadow) error {
	n.listedAt = time.Now()
	out, err := s.run(ctx, nil, call{args: []string{"ls-files", "-z"}})
	if err != nil {
		return err
	}
	n.from = s.indexFrom
	seen := map[string]bool{".": true}
	dirs := []string{"."}
	last := ""
	for rec := range bytes.SplitSeq(out, []byte{0}) {
		i := bytes.LastIndexByte(rec, '/')
		if i < 0 || string(rec[:i]) == last {
			continue
		}
		last = string(rec[:i])
		for dir := last; dir != "." && !seen[dir]; dir = path.Dir(dir) {
			seen[dir] = true
			dirs = append(dirs, dir)
		}
	}
	sort.SliceStable(dirs, func(i, j int) bool { return strings.Count(dirs[i], "/") < strings.Count(dirs[j], "/") })
	all := len(dirs) <= maxDirs()
	_ = n.w.Add(s.repo.gitDir)
	for _, dir := range dirs[:min(len(dirs), maxDirs())] {
		if !n.add(s.repo.root, dir) {
			all = false
		}
	}
	n.mu.Lock()
	n.covered = all
	n.mu.Unlock()
	return nil
}

// add watches one folder of the worktree, and reports whether it is watched.
func (n *notifier) add(root, dir string) bool {
	abs := filepath.Join(root, dir)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.dirs[abs] {
		return true
	}
	if len(n.dirs) >= maxDirs() {
		return false
	}
	st, err := os.Lstat(abs)
	if err != nil || !st.IsDir() {
		return err != nil // a missing folder needs no watch: its parent has one
	}
	if n.w.Add(abs) != nil {
		return false
	}
	n.dirs[abs] = true
	return true
}
