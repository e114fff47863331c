package filesync

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/client"
	"github.com/parawork/parawork/internal/homedir"
)

// What agents store in the home of a sandbox with its own disk (conversations, logins, settings) is copied to this server while
// they work and before the sandbox is suspended or ends. The server sends the copy to the workspace's next sandbox, so that the
// agents continue there. The copy stays with its workspace, readable only for the server's user.

// Bounds of the copy of a home.
const (
	homeMax     = 256 << 20 // bytes in all
	homeMaxFile = 64 << 20  // bytes of one file
	homeEvery   = time.Minute
	homeOverlap = 4 << 10 // bytes fetched again where a file has only grown
)

// homes copies the home of one sandbox.
type homes struct {
	s     *Service
	guest *client.Client
	id    string // of the workspace
	sbxID string
	dir   string
	log   *slog.Logger

	mu     sync.Mutex // one copy at a time
	at     int64      // by the guest's clock: output of programs before this is no reason to look again
	looked bool
	leftMu sync.Mutex
	left   []File // files that are not copied
}

func (s *Service) homesOf(p *executors.Place) *homes {
	if s.cfg.HomeDir == nil || p.Hello.Home == "" || !p.OwnDisk || p.SharedHome {
		return nil
	}
	return &homes{s: s, guest: p.Guest, id: p.WorkspaceID, sbxID: p.SandboxID, dir: s.cfg.HomeDir(p.WorkspaceID),
		log: s.cfg.Log.With("workspace_id", p.WorkspaceID, "sandbox_id", p.SandboxID)}
}

// run copies the home at intervals while programs print output, until ctx ends.
func (h *homes) run(ctx context.Context) {
	tick := time.NewTicker(homeEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		st, err := h.guest.Stats(ctx)
		if err != nil {
			continue // the sandbox is suspended or unreachable
		}
		h.mu.Lock()
		quiet := h.looked && st.LastOutput < h.at
		h.mu.Unlock()
		if quiet {
			continue
		}
		if err := h.copy(ctx); err != nil && ctx.Err() == nil {
			h.log.Warn("the agents' home could not be copied", "error", err)
		}
	}
}

// sentMark is the file that names the sandbox the home was sent to: a file missing in that sandbox was deleted there.
func (h *homes) sentMark() string { return h.dir + ".sent" }

// open opens the copy on this server, creating it when there is none.
func (h *homes) open() (*homedir.Dir, error) {
	if err := os.MkdirAll(h.dir, 0o700); err != nil {
		return nil, err
	}
	return homedir.Open(h.dir)
}

// copy brings the copy up to date.
func (h *homes) copy(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	st, err := h.guest.Stats(ctx)
	if err != nil {
		return fmt.Errorf("asking what runs: %w", err)
	}
	roots, skip := wireAll(h.s.cfg.HomeRoots), wireAll(h.s.cfg.HomeSkip)
	walk, err := h.guest.Walk(ctx, guest.WalkRequest{Roots: roots, Skip: skip})
	if err != nil {
		return fmt.Errorf("listing the home: %w", err)
	}
	d, err := h.open()
	if err != nil {
		return fmt.Errorf("opening the copy: %w", err)
	}
	defer d.Close()
	want := h.choose(walk)
	var fetch []guest.FileInfo
	for _, i := range want {
		if h.missing(d, i) {
			fetch = append(fetch, i)
		}
	}
	for len(fetch) > 0 {
		n := min(len(fetch), guest.MaxContents)
		rest, err := h.round(ctx, d, fetch[:n])
		if err != nil {
			return err
		}
		fetch = append(rest, fetch[n:]...)
	}
	if !walk.Truncated {
		h.forget(d, walk)
	}
	h.at, h.looked = st.LastOutput+1, true
	return nil
}

func wireAll(names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = guest.EncodePath(n)
	}
	return out
}

// choose picks the files to copy: the newest first, until the limit is reached.
func (h *homes) choose(walk guest.WalkAnswer) []guest.FileInfo {
	items := slices.DeleteFunc(slices.Clone(walk.Items), func(i guest.FileInfo) bool {
		return i.Type != "file" && i.Type != "symlink" || !below(guest.DecodePath(i.Path), h.s.cfg.HomeRoots)
	})
	slices.SortFunc(items, func(a, b guest.FileInfo) int {
		switch {
		case a.Mtime != b.Mtime && a.Mtime > b.Mtime:
			return -1
		case a.Mtime != b.Mtime:
			return 1
		}
		return strings.Compare(a.Path, b.Path)
	})
	var sum int64
	var keep []guest.FileInfo
	var left []File
	for _, i := range items {
		if i.Size > homeMaxFile || sum+i.Size > homeMax {
			left = append(left, File{Path: "~/" + guest.DecodePath(i.Path), Size: i.Size, State: FileTooLarge,
				Reason: fmt.Sprintf("It is in the agents' home, of which the server stores at most %d MB, and at most %d MB of one file.", homeMax>>20, homeMaxFile>>20)})
			continue
		}
		sum += i.Size
		keep = append(keep, i)
	}
	h.leftMu.Lock()
	h.left = left[:min(len(left), shownFiles)]
	h.leftMu.Unlock()
	return keep
}

// below reports whether a name is one of roots or below one.
func below(name string, roots []string) bool {
	return slices.ContainsFunc(roots, func(r string) bool { return name == r || strings.HasPrefix(name, r+"/") })
}

func (h *homes) notKept() []File {
	h.leftMu.Lock()
	defer h.leftMu.Unlock()
	return h.left
}

// missing reports whether the copy of a file differs. Files keep the times they have in the sandbox.
func (h *homes) missing(d *homedir.Dir, i guest.FileInfo) bool {
	have, err := d.Stat(guest.DecodePath(i.Path))
	if err != nil {
		return true
	}
	if i.Type == "symlink" {
		return have.Type != fs.ModeSymlink
	}
	return !have.Regular() || have.Size != i.Size || have.ModTime.UnixMilli() != i.Mtime
}

// round fetches some files, and returns those that did not arrive.
func (h *homes) round(ctx context.Context, d *homedir.Dir, items []guest.FileInfo) (rest []guest.FileInfo, err error) {
	req := guest.ContentsRequest{Scope: guest.ScopeHome}
	for _, i := range items {
		req.Items = append(req.Items, guest.ContentItem{Path: i.Path, Offset: grownFrom(d, i)})
	}
	x, err := h.guest.Contents(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("asking for files of the home: %w", err)
	}
	defer x.Close()
	next := 0
	for {
		c, r, err := x.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("reading files of the home: %w", err)
		}
		rest = append(rest, items[next:c.Index]...)
		next = c.Index + 1
		if err := h.take(ctx, d, items[c.Index], c, r); err != nil {
			if diskFull(err) || ctx.Err() != nil {
				return nil, fmt.Errorf("storing a file of the home: %w", err)
			}
			h.log.Info("a file of the agents' home could not be stored", "path", items[c.Index].Path, "error", err)
		}
	}
	if next == 0 {
		return nil, fmt.Errorf("%w: no contents", errLie)
	}
	return append(rest, items[next:]...), nil
}

// grownFrom is the offset from which to fetch a file that has only grown, as agents append to records; 0 = fetch all of it.
func grownFrom(d *homedir.Dir, i guest.FileInfo) int64 {
	if !strings.HasSuffix(i.Path, ".jsonl") {
		return 0
	}
	have, err := d.Stat(guest.DecodePath(i.Path))
	if err != nil || !have.Regular() || have.Size < 16*homeOverlap || have.Size >= i.Size {
		return 0
	}
	return have.Size - homeOverlap
}

// take stores one file.
func (h *homes) take(ctx context.Context, d *homedir.Dir, i guest.FileInfo, c guest.Content, r io.Reader) error {
	name := guest.DecodePath(i.Path)
	if c.Size > homeMaxFile {
		return nil // it has grown; the next look skips it
	}
	var src io.Reader
	switch c.State {
	case guest.ContentLink:
		to, err := io.ReadAll(r)
		if err != nil || len(to) == 0 {
			return err
		}
		if err := d.Mkdir(path.Dir(name)); err != nil {
			return err
		}
		_ = d.Remove(name)
		return d.Symlink(string(to), name)
	case guest.ContentWhole:
		src = r
	case guest.ContentPiece:
		rest := &pieces{ctx: ctx, h: h, item: i, c: c, r: r, off: c.Offset}
		defer rest.close()
		src = rest
		if c.Offset > 0 {
			head, err := h.grown(d, name, c.Offset, src)
			if err != nil {
				return err
			}
			if head == nil { // the file was replaced: fetch all of it
				return h.again(ctx, d, i)
			}
			defer head.Close()
			src = head
		}
	default:
		return nil // the file is gone or is being written to: the next look sees it
	}
	if err := d.Mkdir(path.Dir(name)); err != nil {
		return err
	}
	if err := d.Write(name, src, 0o600|fs.FileMode(c.Perm)&0o700); err != nil {
		return err
	}
	if err := d.Chtimes(name, time.UnixMilli(c.Mtime)); err != nil {
		return err
	}
	return h.own(name)
}

// grown joins the local part of a file with the part that arrived, when the two fit together.
func (h *homes) grown(d *homedir.Dir, name string, off int64, src io.Reader) (io.ReadCloser, error) {
	f, err := d.Open(name)
	if err != nil {
		return nil, nil //nolint:nilerr // then all of it is fetched
	}
	have, came := make([]byte, homeOverlap), make([]byte, homeOverlap)
	if _, err := io.ReadFull(src, came); err != nil {
		f.Close()
		return nil, err
	}
	if n, err := f.ReadAt(have, off); n != homeOverlap || err != nil && !errors.Is(err, io.EOF) || !bytes.Equal(have, came) {
		f.Close()
		return nil, nil
	}
	return limited{io.MultiReader(io.NewSectionReader(f, 0, off), bytes.NewReader(came), src), f}, nil
}

// again fetches a file from its beginning.
func (h *homes) again(ctx context.Context, d *homedir.Dir, i guest.FileInfo) error {
	if err := d.Remove(guest.DecodePath(i.Path)); err != nil {
		return err
	}
	_, err := h.round(ctx, d, []guest.FileInfo{i})
	return err
}

// pieces reads the rest of a large file, piece by piece.
type pieces struct {
	ctx  context.Context
	h    *homes
	item guest.FileInfo
	c    guest.Content
	r    io.Reader
	off  int64
	x    *client.Contents
}

func (p *pieces) close() {
	if p.x != nil {
		p.x.Close()
		p.x = nil
	}
}

func (p *pieces) Read(b []byte) (int, error) {
	for {
		n, err := p.r.Read(b)
		p.off += int64(n)
		if err != nil && !errors.Is(err, io.EOF) {
			return n, err
		}
		if n > 0 {
			return n, nil
		}
		p.close()
		if p.off >= p.c.Size {
			return 0, io.EOF
		}
		p.x, err = p.h.guest.Contents(p.ctx, guest.ContentsRequest{Scope: guest.ScopeHome, Items: []guest.ContentItem{{Path: p.item.Path, ID: p.c.ID, Offset: p.off}}})
		if err != nil {
			return 0, err
		}
		var c guest.Content
		if c, p.r, err = p.x.Next(); err != nil {
			return 0, err
		}
		if c.State != guest.ContentPiece || c.Length == 0 {
			return 0, errors.New("the file was written to while it was read")
		}
	}
}

// own gives a file the owner of the copy, where the server may.
func (h *homes) own(name string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	root, err := os.OpenRoot(h.dir)
	if err != nil {
		return err
	}
	defer root.Close()
	uid, gid, err := ownerOf(root)
	if err != nil || uid == 0 {
		return err
	}
	for ; name != "."; name = path.Dir(name) {
		if err := root.Lchown(name, uid, gid); err != nil {
			return err
		}
	}
	return nil
}

// forget removes from the copy what the sandbox has deleted, if this sandbox was sent the copy.
func (h *homes) forget(d *homedir.Dir, walk guest.WalkAnswer) {
	if sent, err := os.ReadFile(h.sentMark()); err != nil || string(sent) != h.sbxID {
		return
	}
	there := make(map[string]bool, len(walk.Items))
	for _, i := range walk.Items {
		there[guest.DecodePath(i.Path)] = true
	}
	for _, f := range h.files(d) {
		if !there[f.name] {
			_ = d.Remove(f.name) // the next look tries again
		}
	}
}
