package reviews

import (
	"context"
	"io"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/snapshot"
)

// Files implements Trees with repositories and snapshots.
type Files struct {
	Repo      *git.Repo
	Snapshots *snapshot.Service
}

// Resolve resolves the name of a tree.
func (f Files) Resolve(ctx context.Context, w workspaces.Workspace, rev, userID string) (Tree, error) {
	t, err := f.Snapshots.Resolve(ctx, w, rev, userID)
	return Tree{Commit: t.Commit, Tree: t.Tree, SnapshotID: t.SnapshotID}, err
}

// Hold calls fn while nothing removes a workspace's snapshot.
func (f Files) Hold(ctx context.Context, workspaceID, snapshotID string, fn func() error) error {
	return f.Snapshots.Hold(ctx, workspaceID, snapshotID, fn)
}

func treeOf(t Tree) git.Tree {
	return git.Tree{Commit: t.Commit, Tree: t.Tree, SnapshotID: t.SnapshotID}
}

// Changed lists the differences between two trees, with renames detected.
func (f Files) Changed(ctx context.Context, workspaceID string, from, to Tree) ([]File, error) {
	c, err := f.Repo.Compare(ctx, workspaceID, treeOf(from), treeOf(to), git.CompareOptions{Renames: true})
	if err != nil {
		return nil, err
	}
	out := make([]File, 0, len(c.Files))
	for _, d := range c.Files {
		file := File{Path: guest.EncodePath(d.Path), Status: d.Status}
		if d.OldPath != "" && d.OldPath != d.Path {
			file.OldPath = guest.EncodePath(d.OldPath)
		}
		out = append(out, file)
	}
	return out, nil
}

// Patch is the unified diff of some paths, without context.
func (f Files) Patch(ctx context.Context, workspaceID string, from, to Tree, paths []string) (io.ReadCloser, error) {
	return f.Snapshots.Patch(ctx, workspaceID, treeOf(from), treeOf(to), paths, 0, false)
}

// FileAt returns a file of a tree and its size.
func (f Files) FileAt(ctx context.Context, workspaceID string, t Tree, path string) (io.ReadCloser, int64, error) {
	return f.Snapshots.FileAt(ctx, workspaceID, treeOf(t), path)
}
