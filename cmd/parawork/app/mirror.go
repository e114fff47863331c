package app

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/parawork/parawork/internal/hostgit"
	filesync "github.com/parawork/parawork/sync"
	"github.com/parawork/parawork/workspaces"
)

// trees shows filesync the repositories and worktrees in the shape it needs.
type trees struct{ s *workspaces.Service }

func (t trees) Worktree(ctx context.Context, workspaceID string) (string, error) {
	return t.s.Worktree(ctx, workspaceID)
}

func (t trees) Team(ctx context.Context, workspaceID string) (string, error) {
	w, err := t.s.Workspace(ctx, workspaceID)
	return w.TeamID, err
}

func (t trees) BaseFiles(ctx context.Context, workspaceID, commit string, paths []string) ([]filesync.BaseFile, error) {
	files, err := t.s.BaseFiles(ctx, workspaceID, commit, paths)
	out := make([]filesync.BaseFile, 0, len(files))
	for _, f := range files {
		out = append(out, filesync.BaseFile{Path: f.Path, Mode: fmt.Sprintf("%06o", f.Mode), Size: f.Size, OID: f.OID})
	}
	return out, err
}

func (t trees) BaseDiff(ctx context.Context, workspaceID, from, to string) ([]string, error) {
	return t.s.BaseDiff(ctx, workspaceID, from, to)
}

func (t trees) BaseBlobs(ctx context.Context, workspaceID string, files []filesync.BaseFile, fn func(filesync.BaseFile, io.Reader) error) error {
	ask := make([]hostgit.TreeFile, 0, len(files))
	for _, f := range files {
		mode, err := strconv.ParseUint(f.Mode, 8, 32)
		if err != nil {
			return fmt.Errorf("%q is no mode: %w", f.Mode, err)
		}
		ask = append(ask, hostgit.TreeFile{Path: f.Path, Mode: uint32(mode), Size: f.Size, OID: f.OID})
	}
	i := 0
	return t.s.BaseBlobs(ctx, workspaceID, ask, func(_ hostgit.TreeFile, r io.Reader) error {
		i++
		return fn(files[i-1], r)
	})
}

func (t trees) HostDiff(ctx context.Context, workspaceID string, d filesync.HostDiff, w io.Writer) error {
	return t.s.HereDiff(ctx, workspaceID, workspaces.HereDiff(d), w)
}
