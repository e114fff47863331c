package filesync

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/client"
	"github.com/parawork/parawork/guest/search"
	"github.com/parawork/parawork/internal/fault"
)

// Bounds of lists of all paths of a worktree.
const (
	maxPaths      = guest.MaxListed
	maxPathsBytes = 16 << 20
	listedFor     = 3 * time.Second // a list is as good as new for so long
	listsKept     = 8
	listTime      = 30 * time.Second
)

// Paths are all files of a worktree that git does not ignore, in order.
type Paths struct {
	Items     []string // in wire form
	Truncated bool     // there are more
}

// pathList is one list being made, or made a moment ago.
type pathList struct {
	done  chan struct{} // closed once the rest is set
	at    time.Time
	paths Paths
	err   error
}

// Paths lists the files of the worktree. Who asks at the same time, or a moment later, gets the same list.
func (s *Service) Paths(ctx context.Context, workspaceID string) (Paths, error) {
	for {
		s.mu.Lock()
		l := s.lists[workspaceID]
		if l == nil || l.at.Before(s.cfg.Now().Add(-listedFor)) && closed(l.done) {
			l = s.beginList(workspaceID)
			s.mu.Unlock()
			l.paths, l.err = s.listPaths(ctx, workspaceID)
			s.mu.Lock()
			l.at = s.cfg.Now()
			if l.err != nil && s.lists[workspaceID] == l {
				delete(s.lists, workspaceID)
			}
			s.mu.Unlock()
			close(l.done)
			return l.paths, l.err
		}
		s.mu.Unlock()
		select {
		case <-l.done:
		case <-ctx.Done():
			return Paths{}, context.Cause(ctx)
		}
		if !errors.Is(l.err, context.Canceled) { // who made it has left: make it anew
			return l.paths, l.err
		}
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// beginList notes a new list, in the place of the oldest if there are many. The caller holds s.mu.
func (s *Service) beginList(workspaceID string) *pathList {
	l := &pathList{done: make(chan struct{}), at: s.cfg.Now()}
	delete(s.lists, workspaceID)
	for len(s.lists) >= listsKept {
		oldest := ""
		for id, other := range s.lists {
			if oldest == "" || other.at.Before(s.lists[oldest].at) {
				oldest = id
			}
		}
		delete(s.lists, oldest)
	}
	s.lists[workspaceID] = l
	return l
}

func (s *Service) listPaths(ctx context.Context, workspaceID string) (Paths, error) {
	out := Paths{Items: []string{}}
	size := 0
	end, err := s.Search(ctx, workspaceID, guest.SearchRequest{Hidden: true, Limit: maxPaths, TimeoutMs: listTime.Milliseconds()}, func(f guest.Found) error {
		if size += len(f.Path); size > maxPathsBytes {
			return errEnough
		}
		out.Items = append(out.Items, f.Path)
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return Paths{}, err
	}
	slices.Sort(out.Items)
	out.Truncated = err != nil || end.Partial != ""
	return out, nil
}

var errEnough = errors.New("more than is listed")

// Search finds files of the worktree by name, or lines in them, and calls fn with each as soon as it was found, in no order. The answer has the totals.
// Where there is no running sandbox it searches the server's copy, which has no file that git ignores.
func (s *Service) Search(ctx context.Context, workspaceID string, req guest.SearchRequest, fn func(guest.Found) error) (guest.SearchAnswer, error) {
	if req.Path == "." {
		req.Path = ""
	}
	if req.Path != "" {
		var err error
		if req.Path, err = wirePath(req.Path); err != nil {
			return guest.SearchAnswer{}, err
		}
	}
	here, _, err := s.here(ctx, workspaceID)
	if err != nil {
		return guest.SearchAnswer{}, err
	}
	if here {
		dir, err := s.cfg.Trees.Worktree(ctx, workspaceID)
		if err != nil {
			return guest.SearchAnswer{}, err
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			return guest.SearchAnswer{}, hereFault(err, req.Path)
		}
		defer root.Close()
		req.Ignored = true // git is not asked: its settings there are the sandbox's
		return search.New(root).Stream(ctx, req, fn)
	}
	p, err := s.cfg.Places.Ensure(ctx, workspaceID)
	if err != nil {
		return guest.SearchAnswer{}, err
	}
	return p.Guest.SearchStream(ctx, req, func(f guest.Found) error {
		if !validPath(f.Path) {
			return lieAsFault(fmt.Errorf("%w: an invalid path", errLie))
		}
		return fn(f)
	})
}

// Unsaved are files that no snapshot holds, because git ignores them.
type Unsaved struct {
	Paths []string // some of them, in wire form
	More  bool     // there are more, or there may be
}

const unsavedNamed = 5

// Unsaved returns what git ignores at or below a path of the worktree.
func (s *Service) Unsaved(ctx context.Context, workspaceID, path string) (Unsaved, error) {
	info, err := s.Stat(ctx, workspaceID, path)
	if err != nil {
		return Unsaved{}, err
	}
	if here, _, err := s.here(ctx, workspaceID); err != nil || here {
		return Unsaved{}, err // the server's copy has none
	}
	parent := ""
	if i := strings.LastIndexByte(info.Path, '/'); i >= 0 {
		parent = info.Path[:i]
	}
	folder, err := s.Tree(ctx, workspaceID, parent)
	if err != nil {
		return Unsaved{}, err
	}
	for _, e := range folder.Entries {
		if e.Path == info.Path && e.Ignored {
			return Unsaved{Paths: []string{e.Path}}, nil
		}
	}
	if info.Type != "dir" {
		return Unsaved{}, nil
	}
	known := make(map[string]bool)
	req := guest.SearchRequest{Path: info.Path, Hidden: true, Limit: guest.MaxListed, TimeoutMs: listTime.Milliseconds()}
	plain, err := s.Search(ctx, workspaceID, req, func(f guest.Found) error { known[f.Path] = true; return nil })
	if err != nil {
		return Unsaved{}, err
	}
	out := Unsaved{More: plain.Partial != ""}
	req.Ignored = true
	all, err := s.Search(ctx, workspaceID, req, func(f guest.Found) error {
		switch {
		case known[f.Path]:
		case len(out.Paths) < unsavedNamed:
			out.Paths = append(out.Paths, f.Path)
		default:
			out.More = true
			return errEnough
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return Unsaved{}, err
	}
	out.More = out.More || all.Partial != ""
	return out, nil
}

// running returns the sandbox in which something is done that the server's copy cannot have done to it.
func (s *Service) running(ctx context.Context, workspaceID string) (*executors.Place, error) {
	if here, _, err := s.here(ctx, workspaceID); err != nil {
		return nil, err
	} else if here {
		return nil, fault.New(fault.Conflict, "sandbox_not_running", "Folders are created and moved in the sandbox, which does not run. Start the workspace first.")
	}
	return s.cfg.Places.Ensure(ctx, workspaceID)
}

// MakeFolder creates a folder of the worktree with its parents. The error's code is file_exists where there is something already.
func (s *Service) MakeFolder(ctx context.Context, workspaceID, path string) (guest.FileInfo, error) {
	path, err := wirePath(path)
	if err != nil {
		return guest.FileInfo{}, err
	}
	p, err := s.running(ctx, workspaceID)
	if err != nil {
		return guest.FileInfo{}, err
	}
	if _, err := p.Guest.Stat(ctx, path); err == nil {
		return guest.FileInfo{}, thereFault(path)
	}
	if err := p.Guest.Mkdir(ctx, path); err != nil {
		return guest.FileInfo{}, err
	}
	info, err := p.Guest.Stat(ctx, path)
	if err != nil {
		return guest.FileInfo{}, err
	}
	return info, lieAsFault(checkInfo(&info))
}

// RemoveFolder removes a folder of the worktree with all its contents, or what else is at the path, in the sandbox. It removes links and follows none.
func (s *Service) RemoveFolder(ctx context.Context, workspaceID, path string) error {
	path, err := wirePath(path)
	if err != nil {
		return err
	}
	if inGit(guest.DecodePath(path)) {
		return fault.New(fault.Forbidden, "git_directory", "Files of .git cannot be read or written here.")
	}
	p, err := s.running(ctx, workspaceID)
	if err != nil {
		return err
	}
	if _, err := p.Guest.Stat(ctx, path); err != nil {
		return err
	}
	return p.Guest.RemoveAll(ctx, path)
}

// ReadEach reads files that a search found, one after the other, and calls fn with each. why says why a file cannot be read; then it has no body. An
// error of fn ends it.
func (s *Service) ReadEach(ctx context.Context, workspaceID string, files []guest.Found, fn func(f guest.Found, mode uint32, body io.Reader, why string) error) error {
	here, _, err := s.here(ctx, workspaceID)
	if err != nil {
		return err
	}
	if here {
		for _, f := range files {
			if err := one(ctx, f, s.readHere, workspaceID, fn); err != nil {
				return err
			}
		}
		return nil
	}
	p, err := s.cfg.Places.Ensure(ctx, workspaceID)
	if err != nil {
		return err
	}
	read := func(ctx context.Context, _, path string) (io.ReadCloser, guest.FileInfo, error) {
		return p.Guest.ReadFile(ctx, path)
	}
	for len(files) > 0 {
		if files[0].Size > guest.MaxContentPiece {
			if err := one(ctx, files[0], read, workspaceID, fn); err != nil {
				return err
			}
			files = files[1:]
			continue
		}
		n := 0
		for n < len(files) && n < guest.MaxContents && files[n].Size <= guest.MaxContentPiece {
			n++
		}
		done, err := several(ctx, p.Guest, files[:n], fn)
		if err != nil {
			return err
		}
		files = files[done:]
	}
	return nil
}

const (
	whyLink    = "It is a link."
	whyChanged = "It was removed or written while it was read."
	whyOther   = "It is not a regular file, or may not be read."
)

// one reads one file by a request of its own.
func one(ctx context.Context, f guest.Found, read func(ctx context.Context, workspaceID, path string) (io.ReadCloser, guest.FileInfo, error), workspaceID string,
	fn func(guest.Found, uint32, io.Reader, string) error) error {
	r, info, err := read(ctx, workspaceID, f.Path)
	switch {
	case fault.Is(err, fault.NotFound), fault.Is(err, fault.Forbidden), fault.Is(err, fault.Conflict), fault.Is(err, fault.Invalid):
		return fn(f, 0, nil, whyOther)
	case err != nil:
		return err
	}
	defer r.Close()
	f.Size, f.Mtime = info.Size, info.Mtime
	return fn(f, info.Mode, r, "")
}

// several reads small files by one request, and returns how many of them the guest got to.
func several(ctx context.Context, c *client.Client, files []guest.Found, fn func(guest.Found, uint32, io.Reader, string) error) (done int, err error) {
	req := guest.ContentsRequest{Items: make([]guest.ContentItem, len(files))}
	for i, f := range files {
		req.Items[i].Path = f.Path
	}
	contents, err := c.Contents(ctx, req)
	if err != nil {
		return 0, err
	}
	defer contents.Close()
	for {
		got, body, err := contents.Next()
		if errors.Is(err, io.EOF) {
			if done == 0 {
				return 0, lieAsFault(fmt.Errorf("%w: no contents", errLie))
			}
			return done, nil
		}
		if err != nil {
			return done, err
		}
		f := files[got.Index]
		done = got.Index + 1
		why := ""
		switch got.State {
		case guest.ContentWhole:
			f.Size, f.Mtime = got.Size, got.Mtime
		case guest.ContentLink:
			why = whyLink
		case guest.ContentMoved, guest.ContentGone, guest.ContentPiece: // it has grown
			why = whyChanged
		default:
			why = whyOther
		}
		if why != "" {
			body = nil
		}
		if err := fn(f, got.Perm, body, why); err != nil {
			return done, err
		}
	}
}
