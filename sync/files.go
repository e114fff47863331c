package filesync

import (
	"cmp"
	"context"
	"io"
	"regexp"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/client"
	"github.com/parawork/parawork/internal/fault"
)

// Read opens a file of the worktree. The caller closes it. The error's kind is NotFound when there is no such file, Invalid when
// it is a folder.
func (s *Service) Read(ctx context.Context, workspaceID, path string) (io.ReadCloser, guest.FileInfo, error) {
	path, err := wirePath(path)
	if err != nil {
		return nil, guest.FileInfo{}, err
	}
	if here, _, err := s.here(ctx, workspaceID); err != nil {
		return nil, guest.FileInfo{}, err
	} else if here {
		return s.readHere(ctx, workspaceID, path)
	}
	p, err := s.cfg.Places.Ensure(ctx, workspaceID)
	if err != nil {
		return nil, guest.FileInfo{}, err
	}
	r, info, err := p.Guest.ReadFile(ctx, path)
	if err != nil {
		return nil, guest.FileInfo{}, err
	}
	if err := checkInfo(&info); err != nil {
		r.Close()
		return nil, guest.FileInfo{}, lieAsFault(err)
	}
	return r, info, nil
}

var ifMatchForm = regexp.MustCompile(`^"?([0-9a-f]{64})"?$`)

// WriteOptions say how a file is written.
type WriteOptions struct {
	IfMatch string // sha256 in hex, quoted or not, of the current contents; a mismatch fails with kind Precondition
	New     bool   // the file must not exist yet; otherwise the error's code is file_exists
	Mode    uint32 // permission bits; 0 = those of the current file, else 0644
}

func hashOf(ifMatch string) (string, error) {
	if ifMatch == "" {
		return "", nil
	}
	m := ifMatchForm.FindStringSubmatch(ifMatch)
	if m == nil {
		return "", fault.New(fault.Invalid, "invalid_if_match", "If-Match must be the sha256 of the file in 64 hex digits.")
	}
	return m[1], nil
}

// Write writes a file of the worktree and creates parent folders. With ifMatch (sha256 in hex, quoted or not) it fails with kind
// Precondition when the file's contents have changed since.
func (s *Service) Write(ctx context.Context, workspaceID, path string, r io.Reader, ifMatch string) (guest.FileInfo, error) {
	return s.WriteWith(ctx, workspaceID, path, r, WriteOptions{IfMatch: ifMatch})
}

// WriteWith is Write with all its options.
func (s *Service) WriteWith(ctx context.Context, workspaceID, path string, r io.Reader, o WriteOptions) (guest.FileInfo, error) {
	path, err := wirePath(path)
	if err != nil {
		return guest.FileInfo{}, err
	}
	if o.IfMatch, err = hashOf(o.IfMatch); err != nil {
		return guest.FileInfo{}, err
	}
	if here, err := s.mayWriteHere(ctx, workspaceID); err != nil {
		return guest.FileInfo{}, err
	} else if here {
		return s.writeHere(ctx, workspaceID, path, r, o)
	}
	p, err := s.cfg.Places.Ensure(ctx, workspaceID)
	if err != nil {
		return guest.FileInfo{}, err
	}
	if o.New { // an older guest does not know this option
		if _, err := p.Guest.Stat(ctx, path); err == nil {
			return guest.FileInfo{}, thereFault(path)
		}
	}
	info, err := p.Guest.WriteFile(ctx, path, r, client.WriteOptions{IfMatch: o.IfMatch, New: o.New, Mode: o.Mode})
	if err != nil {
		return guest.FileInfo{}, err
	}
	return info, lieAsFault(checkInfo(&info))
}

// Put writes a file whose current contents have this sha256; with "" the file must not exist yet. mode 0 = that of the current
// file, else 0644.
func (s *Service) Put(ctx context.Context, workspaceID, path string, r io.Reader, ifMatch string, mode uint32) (guest.FileInfo, error) {
	return s.WriteWith(ctx, workspaceID, path, r, WriteOptions{IfMatch: ifMatch, New: ifMatch == "", Mode: mode})
}

func thereFault(wire string) error {
	return fault.New(fault.Conflict, "file_exists", "There is a file %q already. Choose another name, or open that one.", wire)
}

// Stat describes what is at a path of the worktree. It neither follows links nor hashes contents.
func (s *Service) Stat(ctx context.Context, workspaceID, path string) (guest.FileInfo, error) {
	path, err := wirePath(path)
	if err != nil {
		return guest.FileInfo{}, err
	}
	if here, _, err := s.here(ctx, workspaceID); err != nil {
		return guest.FileInfo{}, err
	} else if here {
		return s.statHere(ctx, workspaceID, path)
	}
	p, err := s.cfg.Places.Ensure(ctx, workspaceID)
	if err != nil {
		return guest.FileInfo{}, err
	}
	info, err := p.Guest.Stat(ctx, path)
	if err != nil {
		return guest.FileInfo{}, err
	}
	return info, lieAsFault(checkInfo(&info))
}

// Remove removes a file of the worktree.
func (s *Service) Remove(ctx context.Context, workspaceID, path string) error {
	return s.RemoveIf(ctx, workspaceID, path, "")
}

// RemoveIf is Remove, but fails with kind Precondition when the file's contents no longer match ifMatch; "" matches any contents.
func (s *Service) RemoveIf(ctx context.Context, workspaceID, path, ifMatch string) error {
	path, err := wirePath(path)
	if err != nil {
		return err
	}
	if ifMatch, err = hashOf(ifMatch); err != nil {
		return err
	}
	if here, err := s.mayWriteHere(ctx, workspaceID); err != nil {
		return err
	} else if here {
		return s.removeHere(ctx, workspaceID, path, ifMatch)
	}
	p, err := s.cfg.Places.Ensure(ctx, workspaceID)
	if err != nil {
		return err
	}
	return p.Guest.RemoveFileIf(ctx, path, ifMatch)
}

// RemoveAll removes what is at a path of the worktree with all its contents, in the sandbox, which it starts when there is none. It removes
// links and follows none. "." empties the worktree, which stays with its .git.
func (s *Service) RemoveAll(ctx context.Context, workspaceID, path string) (err error) {
	if path != "." {
		if path, err = wirePath(path); err != nil {
			return err
		}
	}
	p, err := s.cfg.Places.Ensure(ctx, workspaceID)
	if err != nil {
		return err
	}
	if path != "." {
		return p.Guest.RemoveAll(ctx, path)
	}
	for more := true; more; { // a list has a bound
		all, err := p.Guest.List(ctx, "")
		if err != nil {
			return err
		}
		for _, f := range all.Items {
			if err := p.Guest.RemoveAll(ctx, f.Path); err != nil {
				return err
			}
		}
		more = all.Truncated && len(all.Items) > 0
	}
	return nil
}

// Rename gives a file, a link or a folder of the worktree another path, with the folders on the way. Nothing may exist at the new path. At every moment
// a file exists under at least one of the two names. Links and folders are moved by the sandbox alone.
func (s *Service) Rename(ctx context.Context, workspaceID, from, to string) (guest.FileInfo, error) {
	from, err := wirePath(from)
	if err != nil {
		return guest.FileInfo{}, err
	}
	if to, err = wirePath(to); err != nil {
		return guest.FileInfo{}, err
	}
	at, err := s.Stat(ctx, workspaceID, from)
	if err != nil {
		return guest.FileInfo{}, err
	}
	if here, _, err := s.here(ctx, workspaceID); err != nil {
		return guest.FileInfo{}, err
	} else if !here || at.Type != "file" {
		p, err := s.running(ctx, workspaceID)
		if err != nil {
			return guest.FileInfo{}, err
		}
		info, err := p.Guest.Move(ctx, from, to)
		if fault.CodeOf(err) != "guest_wrong_answer" || at.Type != "file" { // else it is an older guest, which cannot
			return info, cmp.Or(err, lieAsFault(checkInfo(&info)))
		}
	}
	r, info, err := s.Read(ctx, workspaceID, from)
	if err != nil {
		return guest.FileInfo{}, err
	}
	defer r.Close()
	made, err := s.WriteWith(ctx, workspaceID, to, r, WriteOptions{New: true, Mode: info.Mode & 0o777})
	if err != nil {
		return guest.FileInfo{}, err
	}
	if err := s.RemoveIf(ctx, workspaceID, from, info.Hash); err != nil {
		// Somebody wrote to the file meanwhile: both files stay, and the caller gets the error.
		return made, err
	}
	return made, nil
}

// Folder lists the contents of a folder of the worktree, ordered by name.
type Folder struct {
	Entries   []guest.FileInfo
	Truncated bool // the folder has more entries, which are left out
	Copy      bool // it is the server's copy of the files of a sandbox that does not run
}

// Tree lists a folder of the worktree; "" is the root.
func (s *Service) Tree(ctx context.Context, workspaceID, path string) (Folder, error) {
	if path == "." {
		path = ""
	}
	if path != "" {
		var err error
		if path, err = wirePath(path); err != nil {
			return Folder{}, err
		}
	}
	if here, _, err := s.here(ctx, workspaceID); err != nil {
		return Folder{}, err
	} else if here {
		f, err := s.treeHere(ctx, workspaceID, path)
		f.Copy = true
		return f, err
	}
	p, err := s.cfg.Places.Ensure(ctx, workspaceID)
	if err != nil {
		return Folder{}, err
	}
	list, err := p.Guest.ListMarked(ctx, path)
	if err != nil {
		return Folder{}, err
	}
	for i := range list.Items {
		if err := checkInfo(&list.Items[i]); err != nil {
			return Folder{}, lieAsFault(err)
		}
	}
	return Folder{Entries: list.Items, Truncated: list.Truncated}, nil
}
