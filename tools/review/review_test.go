package review_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/redact"
	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/tools/review"
	"github.com/parawork/parawork/tools/tooltest"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/reviews"
)

// room notes what agents say.
type room struct {
	mu   sync.Mutex
	said []string
	last reviews.NewComment
}

func (r *room) Workspace(_ context.Context, id string) (workspaces.Workspace, error) {
	if id != "ws_1" {
		return workspaces.Workspace{}, fault.New(fault.NotFound, "workspace_not_found", "There is none.")
	}
	return workspaces.Workspace{ID: id, TeamID: "team_1"}, nil
}

func (r *room) AgentComment(_ context.Context, sessionID string, _ workspaces.Workspace, n reviews.NewComment) (reviews.Comment, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n.Line == 99 {
		return reviews.Comment{}, fault.New(fault.Invalid, "not_in_diff", "Lines 99 to 99 are not in the diff. It shows lines 1 to 4.")
	}
	r.said, r.last = append(r.said, sessionID+": "+n.Body), n
	return reviews.Comment{ID: "rcm_1", Path: n.Path, Line: n.Line, EndLine: n.EndLine}, nil
}

func (r *room) AgentSummary(_ context.Context, sessionID string, _ workspaces.Workspace, text string) (reviews.Review, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said = append(r.said, sessionID+": "+text)
	return reviews.Review{ID: "rev_1", Comments: make([]reviews.Comment, 2)}, nil
}

type hidden string

func (h hidden) InAnswers(context.Context, string) (*redact.Finder, error) {
	return redact.NewJSONFinder(string(h)), nil
}

var agent = tools.Caller{TeamID: "team_1", WorkspaceID: "ws_1", SessionID: "ses_1", UserID: "usr_1"}

func TestReviewFollowsTheRulesOfTools(t *testing.T) {
	r := &room{}
	tool := review.New(review.Config{Reviews: r, Workspaces: r})[0] // the other one is alike
	tooltest.Run(t, tooltest.Subject{Tool: tool, Caller: agent, Stranger: tools.Caller{TeamID: "team_2", WorkspaceID: "ws_1", SessionID: "ses_2"}, Quick: json.RawMessage(`{"path":"a.go","line":3,"text":"wrong"}`)})
}

// The session is the author, secrets are masked, and the model reads why a place is refused.
func TestAgentsComment(t *testing.T) {
	r := &room{}
	const secret = "correct-horse-battery"
	set, err := tools.New(tools.Config{Tools: review.New(review.Config{Reviews: r, Workspaces: r, Secrets: hidden(secret)})})
	if err != nil {
		t.Fatal(err)
	}
	call := func(c tools.Caller, name, args string) (string, error) {
		got, err := set.Call(t.Context(), c, name, json.RawMessage(args))
		if err != nil {
			return "", err
		}
		return got.Content[0].Text, nil
	}
	if words, err := call(agent, "review_comment", `{"path":"a.go","line":3,"end_line":4,"text":"prints `+secret+`\nRemove it."}`); err != nil || words != "Commented on a.go:3." {
		t.Errorf("%q, %v", words, err)
	}
	if r.last.Side != reviews.NewSide || r.last.EndLine != 4 || strings.Contains(r.said[0], secret) || !strings.HasPrefix(r.said[0], "ses_1: prints ") || !strings.HasSuffix(r.said[0], "\nRemove it.") {
		t.Errorf("%+v, %q", r.last, r.said)
	}
	if _, err := call(agent, "review_comment", `{"path":"a.go","line":99,"text":"x"}`); fault.CodeOf(err) != "not_in_diff" || !strings.Contains(fault.Words(err, ""), "lines 1 to 4") {
		t.Errorf("%v", err)
	}
	if words, err := call(agent, "review_summary", `{"text":"Two faults."}`); err != nil || words != "The review is complete, with 2 comments." {
		t.Errorf("%q, %v", words, err)
	}
	person := agent
	person.SessionID = ""
	if _, err := call(person, "review_summary", `{"text":"x"}`); fault.CodeOf(err) != "not_in_a_session" {
		t.Errorf("%v", err)
	}
}
