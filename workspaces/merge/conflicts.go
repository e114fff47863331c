package merge

import (
	"context"
	"errors"
	"strings"

	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
)

// showConflicts adds the conflicting hunks of the first files. tree is merge-tree's result for ours and theirs: where a file's contents
// conflict, it has both between markers that name them.
func (m *merger) showConflicts(ctx context.Context, list []workspaces.Conflict, tree, ours, theirs string) {
	if m.brief {
		return
	}
	shown := 0
	for i := range list {
		c := &list[i]
		if shown == git.MaxConflictFiles || c.Ours == "deleted" || c.Theirs == "deleted" || !strings.Contains("content add/add", c.Kind) {
			continue
		}
		shown++
		raw, err := m.scratch.Run(ctx, hostgit.Call{Args: []string{"cat-file", "blob", tree + ":" + c.Path}, Max: git.MaxConflictBlob})
		if err != nil { // shown without hunks
			if errors.Is(err, hostgit.ErrTooMuch) {
				continue
			}
			return
		}
		c.Hunks, c.MoreHunks = git.ConflictHunks(string(raw), ours, theirs)
	}
}
