package stage

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/sandboxgit"
)

// blobText reads a file of the repository of which parts are taken; a missing one is empty.
func (s *Service) blobText(ctx context.Context, p workspaces.Project, name string, e git.FileEntry) ([]byte, error) {
	if !e.Is() {
		return nil, nil
	}
	if err := sandboxgit.RefuseBinary(name, e); err != nil {
		return nil, err
	}
	out, err := s.git.Run(ctx, hostgit.Call{GitDir: p.GitDir, Args: []string{"cat-file", "blob", e.OID}, Max: sandboxgit.MaxPartBytes + 1})
	if errors.Is(err, hostgit.ErrTooMuch) {
		return nil, sandboxgit.WholeOnly(name, "it is larger than 8 MiB")
	}
	if err != nil {
		return nil, git.GitFault(err, fault.Unavailable, "repository_unreadable", "Reading a file of the repository")
	}
	return out, sandboxgit.TextOnly(name, out)
}

// PresentFile is what is at a path of a worktree now.
type PresentFile struct {
	git.FileEntry
	hash string // sha256
	text []byte // if requested
	What string // file, symlink, dir, other; "" = nothing
}

// Present reads what is at a path. With text, it includes the bytes of a file up to MaxPartBytes.
func (s *Service) Present(ctx context.Context, files Files, w workspaces.Workspace, name, like string, text bool) (PresentFile, error) {
	wire := guest.EncodePath(name)
	info, err := files.Stat(ctx, w.ID, wire)
	if fault.Is(err, fault.NotFound) || fault.CodeOf(err) == "not_a_directory" {
		return PresentFile{}, nil
	}
	if err != nil {
		return PresentFile{}, err
	}
	out := PresentFile{What: info.Type}
	switch info.Type {
	case "symlink":
		to := []byte(guest.DecodePath(info.Link))
		out.FileEntry = git.FileEntry{Mode: "120000", OID: git.GitName(like, to), Size: int64(len(to))}
		return out, nil
	case "file":
	default:
		return out, nil
	}
	r, info, err := files.Read(ctx, w.ID, wire)
	if fault.Is(err, fault.NotFound) {
		return PresentFile{}, nil
	}
	if err != nil {
		return PresentFile{}, err
	}
	defer r.Close()
	out.Mode, out.Size, out.hash = "100644", info.Size, info.Hash
	if info.Mode&0o100 != 0 {
		out.Mode = "100755"
	}
	h := git.BlobHash(like, info.Size)
	var keep bytes.Buffer
	if text && info.Size > sandboxgit.MaxPartBytes {
		return out, sandboxgit.WholeOnly(name, "it is larger than 8 MiB")
	}
	var to io.Writer = h
	if text {
		to = io.MultiWriter(h, &keep)
	}
	if _, err := io.Copy(to, r); err != nil {
		return out, fmt.Errorf("reading %q: %w", name, err)
	}
	out.OID, out.text = hex.EncodeToString(h.Sum(nil)), keep.Bytes()
	return out, nil
}

// Filtered returns which files git changes between the worktree and the repository: line ends, large files stored elsewhere, encryption.
func Filtered(ctx context.Context, b *sandboxgit.Sandbox, paths []string) (map[string]bool, error) {
	out := make(map[string]bool)
	all := false
	for key, changes := range map[string]string{"core.autocrlf": "true input", "core.eol": "crlf"} {
		v, err := b.Git(ctx, nil, "config", "--get", key)
		if err != nil && git.ExitCode(err) != 1 {
			return nil, git.SandboxFault(err, "worktree_unreadable", "Reading the config")
		}
		if v = strings.ToLower(strings.TrimSpace(v)); v != "" && strings.Contains(changes, v) {
			all = true
		}
	}
	list, err := b.Git(ctx, []byte(strings.Join(paths, "\x00")+"\x00"), "check-attr", "-z", "--stdin", "filter", "eol", "crlf", "text", "ident", "working-tree-encoding")
	if err != nil {
		return nil, git.SandboxFault(err, "worktree_unreadable", "Reading the attributes of files")
	}
	f := strings.Split(list, "\x00")
	for i := 0; i+2 < len(f); i += 3 {
		name, attr, v := f[i], f[i+1], f[i+2]
		if v == "unspecified" || v == "unset" || attr == "eol" && v == "lf" || (attr == "text" || attr == "crlf") && v != "set" && v != "auto" {
			continue
		}
		if (attr == "text" || attr == "crlf") && !all {
			continue // line feeds stay line feeds
		}
		out[name] = true
	}
	for _, p := range paths {
		if all {
			out[p] = true
		}
	}
	return out, nil
}
