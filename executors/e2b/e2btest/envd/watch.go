package envd

import (
	"context"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

type (
	watchRequest struct {
		Path               string `json:"path"`
		Recursive          bool   `json:"recursive"`
		IncludeEntry       bool   `json:"includeEntry"`
		AllowNetworkMounts bool   `json:"allowNetworkMounts"`
	}
	fileEvent struct {
		Name  string     `json:"name,omitempty"`
		Type  string     `json:"type,omitempty"`
		Entry *entryInfo `json:"entry,omitempty"`
	}
	watchEvent struct {
		Start      *struct{}  `json:"start,omitempty"`
		Filesystem *fileEvent `json:"filesystem,omitempty"`
		Keepalive  *struct{}  `json:"keepalive,omitempty"`
	}
	watcherRequest struct {
		WatcherID string `json:"watcherId"`
	}
)

// watcher follows one folder.
type watcher struct {
	root     string
	in       watchRequest
	describe *fsnotify.Watcher
	mu       sync.Mutex
	waiting  []fileEvent
}

func newWatcher(u *account, in *watchRequest) (*watcher, error) {
	root, err := u.resolve(in.Path)
	if err != nil {
		return nil, err
	}
	st, err := os.Stat(root)
	if err != nil {
		return nil, fileError(root, err)
	}
	if !st.IsDir() {
		return nil, refuse("invalid_argument", "path %s not a directory", root)
	}
	n, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, refuse("internal", "error creating watcher: %v", err)
	}
	w := &watcher{root: root, in: *in, describe: n}
	w.add(root)
	return w, nil
}

func (w *watcher) add(dir string) {
	_ = w.describe.Add(dir)
	if !w.in.Recursive {
		return
	}
	_ = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && p != dir {
			_ = w.describe.Add(p)
		}
		return nil
	})
}

// events are those of the protocol that one of the kernel's means.
func (w *watcher) events(e fsnotify.Event) []fileEvent {
	rel, err := filepath.Rel(w.root, e.Name)
	if err != nil {
		return nil
	}
	var out []fileEvent
	for _, op := range []struct {
		op   fsnotify.Op
		name string
	}{{fsnotify.Create, "CREATE"}, {fsnotify.Rename, "RENAME"}, {fsnotify.Chmod, "CHMOD"}, {fsnotify.Write, "WRITE"}, {fsnotify.Remove, "REMOVE"}} {
		if !e.Has(op.op) {
			continue
		}
		f := fileEvent{Name: rel, Type: "EVENT_TYPE_" + op.name}
		if w.in.IncludeEntry {
			f.Entry, _ = describe(e.Name)
		}
		out = append(out, f)
	}
	if e.Has(fsnotify.Create) && w.in.Recursive {
		if st, err := os.Lstat(e.Name); err == nil && st.IsDir() {
			w.add(e.Name)
		}
	}
	return out
}

func (s *server) watchDir(ctx context.Context, r *http.Request, u *account, in *watchRequest, _ time.Duration, out *stream) error {
	w, err := newWatcher(u, in)
	if err != nil {
		return err
	}
	defer w.describe.Close()
	if err := out.send(watchEvent{Start: &struct{}{}}); err != nil {
		return err
	}
	every := keepalive(r)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return refuse("canceled", "%v", ctx.Err())
		case <-tick.C:
			if err := out.send(watchEvent{Keepalive: &struct{}{}}); err != nil {
				return err
			}
		case err := <-w.describe.Errors:
			return refuse("internal", "watcher error: %v", err)
		case e, ok := <-w.describe.Events:
			if !ok {
				return nil
			}
			for _, f := range w.events(e) {
				if err := out.send(watchEvent{Filesystem: &f}); err != nil {
					return err
				}
			}
			tick.Reset(every)
		}
	}
}

func (s *server) createWatcher(_ context.Context, u *account, in *watchRequest) (any, error) {
	w, err := newWatcher(u, in)
	if err != nil {
		return nil, err
	}
	go func() {
		for e := range w.describe.Events {
			found := w.events(e)
			w.mu.Lock()
			w.waiting = append(w.waiting, found...)
			w.mu.Unlock()
		}
	}()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastID++
	id := "w" + strconv.Itoa(s.lastID)
	s.watchers[id] = w
	return map[string]string{"watcherId": id}, nil
}

func (s *server) watcher(id string) (*watcher, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w, ok := s.watchers[id]
	if !ok {
		return nil, refuse("not_found", "watcher with id %s not found", id)
	}
	return w, nil
}

func (s *server) watcherEvents(_ context.Context, _ *account, in *watcherRequest) (any, error) {
	w, err := s.watcher(in.WatcherID)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	events := w.waiting
	w.waiting = nil
	return struct {
		Events []fileEvent `json:"events,omitempty"`
	}{events}, nil
}

func (s *server) removeWatcher(_ context.Context, _ *account, in *watcherRequest) (any, error) {
	w, err := s.watcher(in.WatcherID)
	if err != nil {
		return nil, err
	}
	_ = w.describe.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.watchers, in.WatcherID)
	return empty{}, nil
}
