package wstest

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/stage"
)

// TreeFiles are files of worktrees on this machine.
type TreeFiles struct {
	Paths  func(string) (string, error)
	Before func(op, path string) // before something is written
}

func (f TreeFiles) at(id, wire string) (string, error) {
	dir, err := f.Paths(id)
	return filepath.Join(dir, guest.DecodePath(wire)), err
}

func (f TreeFiles) Stat(_ context.Context, id, wire string) (guest.FileInfo, error) {
	p, err := f.at(id, wire)
	if err != nil {
		return guest.FileInfo{}, err
	}
	fi, err := os.Lstat(p)
	if errors.Is(err, fs.ErrNotExist) {
		return guest.FileInfo{}, fault.New(fault.NotFound, "file_not_found", "no file")
	}
	if err != nil {
		return guest.FileInfo{}, err
	}
	out := guest.FileInfo{Path: wire, Type: "other", Mode: uint32(fi.Mode().Perm()), Size: fi.Size()}
	switch {
	case fi.Mode().IsRegular():
		out.Type = "file"
	case fi.IsDir():
		out.Type = "dir"
	case fi.Mode()&fs.ModeSymlink != 0:
		out.Type = "symlink"
		to, _ := os.Readlink(p)
		out.Link = guest.EncodePath(to)
	}
	return out, nil
}

func (f TreeFiles) Read(ctx context.Context, id, wire string) (io.ReadCloser, guest.FileInfo, error) {
	info, err := f.Stat(ctx, id, wire)
	if err != nil {
		return nil, info, err
	}
	p, _ := f.at(id, wire)
	b, err := os.ReadFile(p)
	sum := sha256.Sum256(b)
	info.Hash, info.Size = hex.EncodeToString(sum[:]), int64(len(b))
	return io.NopCloser(strings.NewReader(string(b))), info, err
}

func (f TreeFiles) match(ctx context.Context, id, wire, want string) error {
	r, info, err := f.Read(ctx, id, wire)
	if err == nil {
		_ = r.Close()
	}
	if err != nil || info.Hash != want {
		return fault.New(fault.Precondition, "file_changed", "changed")
	}
	return nil
}

func (f TreeFiles) Put(ctx context.Context, id, wire string, r io.Reader, ifMatch string, mode uint32) (guest.FileInfo, error) {
	if f.Before != nil {
		f.Before("put", guest.DecodePath(wire))
	}
	p, err := f.at(id, wire)
	if err != nil {
		return guest.FileInfo{}, err
	}
	if ifMatch == "" {
		if _, err := os.Lstat(p); err == nil {
			return guest.FileInfo{}, fault.New(fault.Conflict, "file_exists", "exists")
		}
	} else if err := f.match(ctx, id, wire, ifMatch); err != nil {
		return guest.FileInfo{}, err
	}
	b, err := io.ReadAll(r)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(p), 0o755)
	}
	if err == nil {
		err = os.WriteFile(p, b, 0o644)
	}
	if err == nil && mode != 0 {
		err = os.Chmod(p, fs.FileMode(mode))
	}
	return guest.FileInfo{}, err
}

func (f TreeFiles) RemoveIf(ctx context.Context, id, wire, ifMatch string) error {
	if f.Before != nil && ifMatch != "" {
		f.Before("remove", guest.DecodePath(wire))
	}
	if ifMatch != "" {
		if err := f.match(ctx, id, wire, ifMatch); err != nil {
			return err
		}
	}
	p, err := f.at(id, wire)
	if err != nil {
		return err
	}
	return os.Remove(p)
}

// Lines are n numbered lines, some of them changed.
func Lines(n int, changed ...string) string {
	var b strings.Builder
	for i := 1; i <= n; i++ {
		l := "line " + string(rune('0'+i/10)) + string(rune('0'+i%10))
		for _, c := range changed {
			if was, now, _ := strings.Cut(c, "="); was == l {
				l = now
			}
		}
		b.WriteString(l + "\n")
	}
	return b.String()
}

// Hunks are the hunks of a file as they would be shown now, and their parts request.
func (h *Env) Hunks(w workspaces.Workspace, path, from string) (stage.Parts, []stage.Hunk) {
	h.T.Helper()
	f, err := h.S.Stage.Hunks(h.T.Context(), h.Actor.User.ID, w.ID, path, from, "now")
	Must(h.T, err)
	var out []stage.Hunk
	for _, x := range f.Hunks {
		out = append(out, x.Hunk)
	}
	f.From = cmp.Or(f.From, from)
	return stage.Parts{From: f.From, To: f.To}, out
}

func With(r stage.Parts, list ...stage.Part) stage.Parts {
	r.List = list
	return r
}
