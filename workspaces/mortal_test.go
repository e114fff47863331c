package workspaces_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/testing/wstest"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/assembly"
	"github.com/parawork/parawork/workspaces/snapshot"
)

// mortal is the life of a server that ends without warning before or after a chosen call of the store, of a sandbox, of filesync or of git
// on the host. From then on nothing that server tries has any effect, and its goroutines end where they are, as those of a killed process
// do.
type mortal struct {
	dir  string // of git's wrapper
	left atomic.Int64

	mu   sync.Mutex
	dead bool
	end  context.CancelFunc
	ends []func()
	at   string
}

// newMortal makes a life, with a git that dies with it.
func newMortal(t testing.TB) *mortal {
	t.Helper()
	m := &mortal{dir: t.TempDir()}
	script := `#!/bin/sh
D=` + m.dir + `
[ -e $D/dead ] && exit 129
if [ -e $D/arm ]; then
	read what when <$D/arm
	case " $* " in *" $what "*)
		rm -f $D/arm
		[ $when = after ] && git "$@"
		: >$D/dead
		exit 129 ;;
	esac
fi
exec git "$@"
`
	syscall.ForkLock.RLock() // a child forked meanwhile would hold the script open, which could not be run then
	defer syscall.ForkLock.RUnlock()
	wstest.Must(t, os.WriteFile(filepath.Join(m.dir, "git"), []byte(script), 0o755))
	return m
}

// born begins a life; what it does is to end with ctx.
func (m *mortal) born(t testing.TB) context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dead, m.end, m.at, m.ends = false, cancel, "", nil
	m.left.Store(0)
	_ = os.Remove(filepath.Join(m.dir, "dead"))
	_ = os.Remove(filepath.Join(m.dir, "arm"))
	return ctx
}

// dieIn has the life end at the n-th call from now.
func (m *mortal) dieIn(n int) { m.left.Store(int64(n)) }

// dieAtGit has it end before or after the next git on the host that has this word.
func (m *mortal) dieAtGit(t testing.TB, word, when string) {
	wstest.Must(t, os.WriteFile(filepath.Join(m.dir, "arm.new"), []byte(word+" "+when+"\n"), 0o644))
	wstest.Must(t, os.Rename(filepath.Join(m.dir, "arm.new"), filepath.Join(m.dir, "arm")))
}

// over reports whether the life has ended, and where.
func (m *mortal) over() (string, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := os.Stat(filepath.Join(m.dir, "dead")); err == nil && !m.dead {
		m.ended("git")
	}
	return m.at, m.dead
}

// die ends it.
func (m *mortal) die(at string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.dead {
		_ = os.WriteFile(filepath.Join(m.dir, "dead"), nil, 0o644)
		m.ended(at)
	}
}

// ended notes the end. Only with mu.
func (m *mortal) ended(at string) {
	m.dead, m.at = true, at
	for _, fn := range m.ends {
		fn()
	}
	m.end()
}

// atEnd has fn called when this life ends: what the server holds is taken from it. It must not block.
func (m *mortal) atEnd(fn func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead {
		fn()
		return
	}
	m.ends = append(m.ends, fn)
}

// reach stands before and after whatever a server does that others see.
func (m *mortal) reach(at string) {
	if m.left.Load() > 0 && m.left.Add(-1) == 0 {
		m.die(at)
	}
	if _, dead := m.over(); dead {
		runtime.Goexit()
	}
}

// mortalStore is the storage as a mortal server uses it.
type mortalStore struct {
	assembly.Store
	m *mortal
}

func (s mortalStore) Workspace(ctx context.Context, id string) (workspaces.Workspace, error) {
	s.m.reach("reading a workspace")
	return s.Store.Workspace(ctx, id)
}

func (s mortalStore) Project(ctx context.Context, id string) (workspaces.Project, error) {
	s.m.reach("reading a project")
	return s.Store.Project(ctx, id)
}

func (s mortalStore) Snapshots(ctx context.Context, id string, kinds []string, pg page.Page) ([]snapshot.Snap, string, error) {
	s.m.reach("reading snapshots")
	return s.Store.Snapshots(ctx, id, kinds, pg)
}

func (s mortalStore) InsertWorkspace(ctx context.Context, w workspaces.Workspace) (workspaces.Workspace, error) {
	s.m.reach("before storing a new workspace")
	w, err := s.Store.InsertWorkspace(ctx, w)
	s.m.reach("after storing a new workspace")
	return w, err
}

func (s mortalStore) EditWorkspace(ctx context.Context, id string, fn func(*workspaces.Workspace) error) (workspaces.Workspace, error) {
	s.m.reach("before storing a workspace")
	w, err := s.Store.EditWorkspace(ctx, id, fn)
	s.m.reach("after storing a workspace")
	return w, err
}

func (s mortalStore) InsertSnapshot(ctx context.Context, sn snapshot.Snap) error {
	s.m.reach("before storing a snapshot")
	err := s.Store.InsertSnapshot(ctx, sn)
	s.m.reach("after storing a snapshot")
	return err
}

func (s mortalStore) EditSnapshot(ctx context.Context, id string, fn func(*snapshot.Snap) error) (snapshot.Snap, error) {
	s.m.reach("before storing a change of a snapshot")
	sn, err := s.Store.EditSnapshot(ctx, id, fn)
	s.m.reach("after storing a change of a snapshot")
	return sn, err
}

func (s mortalStore) DeleteSnapshots(ctx context.Context, ids []string) error {
	s.m.reach("before removing rows of snapshots")
	err := s.Store.DeleteSnapshots(ctx, ids)
	s.m.reach("after removing rows of snapshots")
	return err
}

func (s mortalStore) InsertActivity(ctx context.Context, a workspaces.Activity) error {
	s.m.reach("before storing an activity")
	return s.Store.InsertActivity(ctx, a)
}

// mortalBoxes are sandboxes as a mortal server uses them.
type mortalBoxes struct {
	*wstest.Sandboxes
	m *mortal
}

func (b mortalBoxes) Ensure(ctx context.Context, id string) error {
	b.m.reach("making a sandbox")
	return b.Sandboxes.Ensure(ctx, id)
}

func (b mortalBoxes) Destroy(ctx context.Context, id string) error {
	b.m.reach("before ending a sandbox")
	err := b.Sandboxes.Destroy(ctx, id)
	b.m.reach("after ending a sandbox")
	return err
}

func (b mortalBoxes) RunInSandbox(ctx context.Context, id string, c executors.SandboxCommand) (executors.SandboxResult, error) {
	b.m.reach("before a command in a sandbox")
	r, err := b.Sandboxes.RunInSandbox(context.WithoutCancel(ctx), id, c) // it ends there, whoever dies here
	b.m.reach("after a command in a sandbox")
	return r, err
}

// mortalFiles are files of worktrees as a mortal server uses them; nobody writes between a check and the write it is for.
type mortalFiles struct {
	wstest.TreeFiles
	m  *mortal
	mu *sync.Mutex
}

func (f mortalFiles) Put(ctx context.Context, id, wire string, r io.Reader, ifMatch string, mode uint32) (guest.FileInfo, error) {
	b, err := io.ReadAll(r)
	if err != nil {
		return guest.FileInfo{}, err
	}
	f.m.reach("before writing a file")
	info, err := func() (guest.FileInfo, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.TreeFiles.Put(ctx, id, wire, bytes.NewReader(b), ifMatch, mode)
	}()
	f.m.reach("after writing a file")
	return info, inWords(err)
}

func (f mortalFiles) RemoveIf(ctx context.Context, id, wire, ifMatch string) error {
	f.m.reach("before removing a file")
	err := func() error {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.TreeFiles.RemoveIf(ctx, id, wire, ifMatch)
	}()
	f.m.reach("after removing a file")
	return inWords(err)
}

func (f mortalFiles) Stat(ctx context.Context, id, wire string) (guest.FileInfo, error) {
	info, err := f.TreeFiles.Stat(ctx, id, wire)
	return info, inWords(err)
}

func (f mortalFiles) Read(ctx context.Context, id, wire string) (io.ReadCloser, guest.FileInfo, error) {
	r, info, err := f.TreeFiles.Read(ctx, id, wire)
	return r, info, inWords(err)
}

// inWords words a system error as filesync does.
func inWords(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fault.Wrap(err, fault.NotFound, "file_not_found", "There is no such file.")
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, fs.ErrExist):
		return fault.Wrap(err, fault.Conflict, "not_a_directory", "A part of it is a file, not a folder.")
	case errors.Is(err, syscall.EISDIR), errors.Is(err, syscall.ENOTEMPTY):
		return fault.Wrap(err, fault.Conflict, "is_a_directory", "It is a folder.")
	}
	return err
}

// forgetful is a storage that fails to store a snapshot, once.
type forgetful struct {
	assembly.Store
	fail atomic.Bool
}

func (s *forgetful) InsertSnapshot(ctx context.Context, sn snapshot.Snap) error {
	if s.fail.CompareAndSwap(true, false) {
		return errors.New("the database is busy")
	}
	return s.Store.InsertSnapshot(ctx, sn)
}

// A snapshot whose row could not be stored is in the timeline with the next one, without a restart.
func TestUnstoredSnapshotIsRecovered(t *testing.T) {
	t.Parallel()
	h := wstest.SQLiteEnv(t)
	h.Stop()
	db := &forgetful{Store: h.Store}
	h.Cfg.Store = db
	h.Start()
	w := h.Workspace()
	wstest.Write(t, w.Path, "a.txt", "one\n")
	h.Keep(w.ID, snapshot.Request{Reason: "stop"})
	wstest.Write(t, w.Path, "a.txt", "two\n")
	db.fail.Store(true)
	if _, err := h.S.Snapshots.Take(t.Context(), w.ID, snapshot.Request{Reason: "stop"}); err == nil {
		t.Fatal("what was not stored is said to be")
	}
	wstest.Write(t, w.Path, "a.txt", "three\n")
	h.Keep(w.ID, snapshot.Request{Reason: "stop"})
	items, _, err := h.S.Snapshots.Snapshots(t.Context(), w.ID, nil, page.Page{})
	wstest.Must(t, err)
	var got []string
	for _, sn := range items {
		got = append(got, h.FileOf(w, sn.ID, "a.txt"))
	}
	if want := []string{"three\n", "two\n", "one\n"}; !slices.Equal(got, want) {
		t.Errorf("the timeline has %q, want %q", got, want)
	}
}
