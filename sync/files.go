package filesync

import (
	"context"
	"io"
	"regexp"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/client"
	"github.com/parawork/parawork/internal/fault"
)

// Read opens a file of the worktree. The caller closes it. kind NotFound when there is none, Invalid when it is a folder.
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

// Write writes a file of the worktree, making parent folders. With ifMatch (sha256 hex, in quotes or not) it fails with kind
// Precondition when the file's bytes are others by now.
func (s *Service) Write(ctx context.Context, workspaceID, path string, r io.Reader, ifMatch string) (guest.FileInfo, error) {
	path, err := wirePath(path)
	if err != nil {
		return guest.FileInfo{}, err
	}
	if ifMatch != "" {
		m := ifMatchForm.FindStringSubmatch(ifMatch)
		if m == nil {
			return guest.FileInfo{}, fault.New(fault.Invalid, "invalid_if_match", "If-Match must be the sha256 of the file in 64 hex digits.")
		}
		ifMatch = m[1]
	}
	if here, err := s.mayWriteHere(ctx, workspaceID); err != nil {
		return guest.FileInfo{}, err
	} else if here {
		return s.writeHere(ctx, workspaceID, path, r, ifMatch)
	}
	p, err := s.cfg.Places.Ensure(ctx, workspaceID)
	if err != nil {
		return guest.FileInfo{}, err
	}
	info, err := p.Guest.WriteFile(ctx, path, r, client.WriteOptions{IfMatch: ifMatch})
	if err != nil {
		return guest.FileInfo{}, err
	}
	return info, lieAsFault(checkInfo(&info))
}

// Remove removes a file of the worktree.
func (s *Service) Remove(ctx context.Context, workspaceID, path string) error {
	path, err := wirePath(path)
	if err != nil {
		return err
	}
	if here, err := s.mayWriteHere(ctx, workspaceID); err != nil {
		return err
	} else if here {
		return s.removeHere(ctx, workspaceID, path)
	}
	p, err := s.cfg.Places.Ensure(ctx, workspaceID)
	if err != nil {
		return err
	}
	return p.Guest.RemoveFile(ctx, path)
}

// Tree lists a folder of the worktree; "" is the root.
func (s *Service) Tree(ctx context.Context, workspaceID, path string) ([]guest.FileInfo, error) {
	if path == "." {
		path = ""
	}
	if path != "" {
		var err error
		if path, err = wirePath(path); err != nil {
			return nil, err
		}
	}
	if here, _, err := s.here(ctx, workspaceID); err != nil {
		return nil, err
	} else if here {
		return s.treeHere(ctx, workspaceID, path)
	}
	p, err := s.cfg.Places.Ensure(ctx, workspaceID)
	if err != nil {
		return nil, err
	}
	entries, err := p.Guest.List(ctx, path)
	if err != nil {
		return nil, err
	}
	for i := range entries {
		if err := checkInfo(&entries[i]); err != nil {
			return nil, lieAsFault(err)
		}
	}
	return entries, nil
}
