package filesync

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/homedir"
)

// kept is one file of the copy.
type kept struct {
	name string
	info homedir.Info
}

// files lists the copy.
func (h *homes) files(d *homedir.Dir) []kept {
	var out []kept
	for _, r := range h.s.cfg.HomeRoots {
		todo := []string{r}
		for len(todo) > 0 {
			name := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			i, err := d.Stat(name)
			if err != nil || slices.Contains(h.s.cfg.HomeSkip, name) {
				continue
			}
			if !i.IsDir() {
				out = append(out, kept{name, i})
				continue
			}
			list, err := d.List(name)
			if err != nil {
				continue
			}
			for _, e := range list {
				todo = append(todo, path.Join(name, e.Name))
			}
		}
	}
	return out
}

// send sends the copy to a new sandbox.
func (h *homes) send(ctx context.Context) error {
	d, err := homedir.Open(h.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return h.noteSent()
	}
	if err != nil {
		return err
	}
	defer d.Close()
	files := slices.DeleteFunc(h.files(d), func(f kept) bool {
		return !f.info.Regular() && f.info.Type != fs.ModeSymlink || f.info.Size > homeMaxFile
	})
	var open *os.File
	defer func() {
		if open != nil {
			open.Close()
		}
	}()
	err = h.guest.FillHome(ctx, func() (guest.Packed, io.Reader, error) {
		if open != nil {
			open.Close()
			open = nil
		}
		for len(files) > 0 {
			f := files[0]
			files = files[1:]
			file, link, err := d.OpenFile(f.name)
			p := guest.Packed{Path: guest.EncodePath(f.name), Perm: uint32(f.info.Perm & 0o700), Mtime: f.info.ModTime.UnixMilli()}
			switch {
			case err != nil:
				continue // it was deleted meanwhile
			case file == nil:
				p.Link = guest.EncodePath(link)
				return p, nil, nil
			}
			st, err := file.Stat()
			if err != nil {
				file.Close()
				return p, nil, err
			}
			open, p.Length = file, st.Size()
			return p, file, nil
		}
		return guest.Packed{}, nil, io.EOF
	})
	if err != nil {
		return fmt.Errorf("sending the agents' home: %w", err)
	}
	return h.noteSent()
}

func (h *homes) noteSent() error {
	if err := os.MkdirAll(filepath.Dir(h.dir), 0o700); err != nil {
		return err
	}
	return os.WriteFile(h.sentMark(), []byte(h.sbxID), 0o600)
}

// ownerOf returns the owner of a folder.
func ownerOf(root *os.Root) (uid, gid int, err error) {
	fi, err := root.Lstat(".")
	if err != nil {
		return 0, 0, err
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, nil
	}
	return int(st.Uid), int(st.Gid), nil
}
