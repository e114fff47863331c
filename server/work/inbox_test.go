package work

import (
	"testing"

	"github.com/parawork/parawork/sessions/question"
	"github.com/parawork/parawork/workspaces"
)

// A merge closes what had been finished by then, and nothing that came later or that still fails or asks.
func TestAMergeSettlesWhatWasFinished(t *testing.T) {
	t.Parallel()
	merged := workspaces.Workspace{MergedAt: 10}
	for _, c := range []struct {
		kind  string
		since int64
		w     workspaces.Workspace
		want  bool
	}{
		{question.InboxFinished, 9, merged, true},
		{question.InboxReview, 10, merged, true},
		{question.InboxFinished, 11, merged, false},
		{question.InboxQuestion, 9, merged, false},
		{question.InboxFailed, 9, merged, false},
		{question.InboxFinished, 0, workspaces.Workspace{}, false},
	} {
		if got := settled(question.InboxItem{Kind: c.kind, Since: c.since}, c.w); got != c.want {
			t.Errorf("%s since %d, merged at %d: settled %t", c.kind, c.since, c.w.MergedAt, got)
		}
	}
}
