package report_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/conversation"
	"github.com/parawork/parawork/sessions/report"
	"github.com/parawork/parawork/sessions/transcript"
	"github.com/parawork/parawork/workspaces"
)

func placed(items ...conversation.Item) (out []conversation.Placed) {
	for _, it := range items {
		out = append(out, conversation.Placed{Item: it})
	}
	return out
}

func sources() report.Sources {
	summaries := map[string][][]conversation.Placed{
		// The newest page comes first.
		"ses_1": {placed(
			conversation.Item{Kind: conversation.Tool, Tool: "Bash", Title: "go test ./...", Status: conversation.OK, At: 40},
			conversation.Item{Kind: conversation.Tool, Tool: "Read", Title: "/etc/passwd", Status: conversation.OK, At: 41},
			conversation.Item{Kind: conversation.Edit, Path: "/root/.bashrc", Status: conversation.OK, At: 42},
			conversation.Item{Kind: conversation.Edit, Path: "/root/.profile", Status: conversation.Denied, At: 43},
		), placed(
			conversation.Item{Kind: conversation.Prompt, Text: "Fix the bug\n# and be quick", At: 10},
			conversation.Item{Kind: conversation.Tool, Tool: "Bash", Title: "go test ./...", Status: conversation.Failed, At: 20},
			conversation.Item{Kind: conversation.Edit, Path: "main.go", Status: conversation.OK, At: 30},
		)},
	}
	return report.Sources{
		Workspace: func(context.Context, string) (workspaces.Workspace, error) {
			return workspaces.Workspace{ID: "ws_1", Num: 7, Name: "Fix [it](http://evil) @all", Branch: "pw/fix`it", Base: "main", Executor: "docker"}, nil
		},
		Project: func(context.Context, string) (workspaces.Project, error) {
			return workspaces.Project{Name: "shop"}, nil
		},
		Place:   func(context.Context, string) string { return "Docker" },
		Commits: func(context.Context, string) ([]workspaces.Commit, error) { return make([]workspaces.Commit, 2), nil },
		Changes: func(context.Context, string) ([]report.Change, error) {
			return []report.Change{{Path: "z.go", Status: "added", Additions: 3}, {Path: "main.go", Status: "modified", Additions: 2, Deletions: 1}}, nil
		},
		Sessions: func(context.Context, string) ([]sessions.Session, error) {
			return []sessions.Session{{ID: "ses_2", Agent: "shell", StartedAt: 9, EndedAt: 10, CreatedBy: "usr_1"},
				{ID: "ses_1", Agent: "claude-code", AgentName: "Claude Code", StartedAt: 5, CreatedBy: "usr_1", Permissions: "all"},
				{ID: "ses_3", Agent: "own", StartedAt: 11, EndedAt: 12, CreatedBy: "usr_1"}}, nil
		},
		Conversation: func(_ context.Context, id string, q conversation.Query) (sessions.Conversation, error) {
			pages := summaries[id]
			if len(pages) == 0 {
				return sessions.Conversation{Record: transcript.None}, nil
			}
			at := 0
			if q.Before != 0 {
				at = int(q.Before)
			}
			c := sessions.Conversation{Record: transcript.Kept}
			c.Items = pages[at]
			if at+1 < len(pages) {
				c.Before = int64(at + 1)
			}
			return c, nil
		},
		Checks: func(context.Context, string) ([]report.Test, error) {
			return []report.Test{{Name: "unit", Command: "make test", State: "passed", Check: true, Commit: strings.Repeat("a", 40), At: 50}}, nil
		},
		Hosts: func(context.Context, string) ([]report.Host, []report.Host, bool, error) {
			return []report.Host{{Host: "proxy.golang.org", Port: 443, Times: 3}}, []report.Host{{Host: "evil.example", Port: 443, Times: 1, Reason: "not_listed"}}, true, nil
		},
		Costs: func(context.Context, string) (report.Costs, error) {
			return report.Costs{RunMs: 90_000, CostNano: 12_300_000, TokensCostNano: 45_000_000, TokensUnknown: 1, Input: 100, Output: 20}, nil
		},
		Names: func(context.Context, string) (map[string]string, error) {
			return map[string]string{"usr_1": "Ana"}, nil
		},
		Now: func() time.Time { return time.UnixMilli(1_800_000_000_000) },
	}
}

func TestAReportTellsWhatWasDone(t *testing.T) {
	t.Parallel()
	r, err := report.New(sources()).Of(t.Context(), "ws_1")
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Prompts) != 1 || len(r.Commands) != 2 || r.Commands[0].Status != conversation.Failed || r.Totals.Failed != 1 {
		t.Errorf("asked %+v, ran %+v, %+v", r.Prompts, r.Commands, r.Totals)
	}
	if len(r.Outside) != 1 || r.Outside[0].Path != "/root/.bashrc" {
		t.Errorf("outside: %+v", r.Outside)
	}
	// The project's check first; of an agent's own runs the last one counts.
	if len(r.Tests) != 2 || !r.Tests[0].Check || r.Tests[1].Command != "go test ./..." || r.Tests[1].State != conversation.OK {
		t.Errorf("tests: %+v", r.Tests)
	}
	if r.Totals.Changes != 2 || r.Totals.Additions != 5 || r.Totals.Deletions != 1 || r.Changes[0].Path != "main.go" {
		t.Errorf("files: %+v %+v", r.Totals, r.Changes)
	}
	if len(r.Sessions) != 3 || r.Sessions[0].ID != "ses_1" || r.Sessions[0].StartedBy != "Ana" || !r.Sessions[0].Recorded || r.Sessions[2].Recorded {
		t.Errorf("sessions: %+v", r.Sessions)
	}
	for _, want := range []string{"The cost of 1 request to a model is unknown", "1 session keeps no record", "typed in 1 shell", "what their commands wrote"} {
		if !strings.Contains(strings.Join(r.Unknown, "\n"), want) {
			t.Errorf("%q is not among what is unknown: %q", want, r.Unknown)
		}
	}
}

// What agents and repositories say must not become more than text where the report is pasted.
func TestMarkdownOfHostileNamesStaysText(t *testing.T) {
	t.Parallel()
	from := sources()
	from.Changes = func(context.Context, string) ([]report.Change, error) {
		return []report.Change{{Path: "a`` b\n# Heading\n![x](http://evil/x.png)", Status: "added"}, {Path: "rtl\u202egnp.exe", Status: "added"}}, nil
	}
	r, err := report.New(from).Of(t.Context(), "ws_1")
	if err != nil {
		t.Fatal(err)
	}
	text := r.Markdown()
	for _, want := range []string{`Fix \[it\]\(http\://evil\) \@all`, "`` pw/fix`it ``", "``` a`` b # Heading ![x](http://evil/x.png) ```", "rtl\uFFFDgnp.exe", "without asking for permissions",
		"` Fix the bug # and be quick `", "**passed** unit", "evil.example:443 `, 1 time, not listed", "$0.0123 sandbox, $0.0450 models and 1 request of unknown cost", "1m30s"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	for line := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(line, "# ") && !strings.HasPrefix(line, "# PW-7") || strings.Contains(line, "\u202e") {
			t.Errorf("a name made a line: %q", line)
		}
	}
}

func TestCommandsThatRunTests(t *testing.T) {
	t.Parallel()
	for _, c := range []string{"go test ./...", "cd x && npm test", "CI=1 npx vitest run", "python -m pytest -q", "make test-go", "cargo test --all", "./gradlew :app:test", "npm run test:unit",
		"docker run x -- go test ./..."} {
		if !report.LooksLikeTest(c) {
			t.Errorf("%q is one", c)
		}
	}
	for _, c := range []string{"ls test", "cat go.test", "git commit -m 'test it'", "echo go testing", "rm -rf tests", ""} {
		if report.LooksLikeTest(c) {
			t.Errorf("%q is none", c)
		}
	}
}
