package merge

import (
	"context"
	"fmt"
	"strings"

	"github.com/parawork/parawork/workspaces"
)

// message is the default text of a merge or squash commit.
func (m *merger) message(ctx context.Context, res workspaces.MergeResult, from string) (string, error) {
	if m.req.Strategy == workspaces.StrategyMerge {
		return fmt.Sprintf("Merge %s: %s\n\nBranch %s into %s", m.Workspace.Key(), m.Workspace.Name, m.Workspace.Branch, m.Target), nil
	}
	list, err := m.s.repo.ReadCommits(ctx, m.p, "--max-count=100", "--reverse", "--no-merges", res.Head, "^"+res.BaseCommit, "^"+from, "--")
	if err != nil {
		return "", err
	}
	if len(list) == 1 {
		return list[0].Subject + "\n\n" + list[0].Body, nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", m.Workspace.Name)
	for i, c := range list {
		if i == 0 {
			b.WriteString("\n")
		}
		b.WriteString("- " + c.Subject + "\n")
	}
	return b.String(), nil
}
