package reviews

import (
	"context"
	"io"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/workspaces"
)

// Files shows a room of workspaces as Trees.
type Files struct{ *workspaces.Service }

// Resolve names a tree.
func (f Files) Resolve(ctx context.Context, w workspaces.Workspace, rev, userID string) (Tree, error) {
	t, err := f.Service.Resolve(ctx, w, rev, userID)
	return Tree{Commit: t.Commit, Tree: t.Tree, SnapshotID: t.SnapshotID}, err
}

func treeOf(t Tree) workspaces.Tree {
	return workspaces.Tree{Commit: t.Commit, Tree: t.Tree, SnapshotID: t.SnapshotID}
}

// Changed lists what differs between two trees, renames found.
func (f Files) Changed(ctx context.Context, workspaceID string, from, to Tree) ([]File, error) {
	c, err := f.Compare(ctx, workspaceID, treeOf(from), treeOf(to), workspaces.CompareOptions{Renames: true})
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

// Patch is the unified diff, without context, of some paths.
func (f Files) Patch(ctx context.Context, workspaceID string, from, to Tree, paths []string) (io.ReadCloser, error) {
	return f.Service.Patch(ctx, workspaceID, treeOf(from), treeOf(to), paths, 0, false)
}

// FileAt is a file of a tree and its size.
func (f Files) FileAt(ctx context.Context, workspaceID string, t Tree, path string) (io.ReadCloser, int64, error) {
	return f.Service.FileAt(ctx, workspaceID, treeOf(t), path)
}
