package memory_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/tools/memory"
)

func TestWhatIsFound(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "correct-horse-battery")
	who := by("p", "")
	for _, text := range []string{"Call parseConfigFile first", "The table user_accounts is sharded", "Le café est fermé", "运行测试之前先启动数据库", "テストの前にデータベースを起動する", "HTTPServer listens on 8080", "한국어 설명서"} {
		r.remember(who, map[string]any{"text": text})
	}
	for query, want := range map[string]string{
		"config": "Call parseConfigFile first", "parse_config_file": "Call parseConfigFile first", "PARSECONFIG": "Call parseConfigFile first",
		"userAccounts": "The table user_accounts is sharded", "accounts": "The table user_accounts is sharded",
		"cafe": "Le café est fermé", "CAFÉ": "Le café est fermé", "ferme": "Le café est fermé",
		"数据库": "运行测试之前先启动数据库", "测试": "运行测试之前先启动数据库",
		"データベース": "テストの前にデータベースを起動する", "起動する": "テストの前にデータベースを起動する", "httpserver": "HTTPServer listens on 8080", "8080": "HTTPServer listens on 8080",
		"설명": "한국어 설명서", "onfig": "", "猫": "",
	} {
		if got := r.recall(who, query); got != want {
			t.Errorf("%q: %q, not %q", query, got, want)
		}
	}
	// More of the words come first, and the same word in a key before one in a text.
	r.remember(who, map[string]any{"text": "Deploy with care"})
	r.remember(who, map[string]any{"text": "Ask the owner", "key": "deploy"})
	r.remember(who, map[string]any{"text": "Deploy the docs with make docs"})
	if got := r.recall(who, "deploy"); !strings.HasPrefix(got, "Ask the owner | ") {
		t.Errorf("a key: %q", got)
	}
	if got := r.recall(who, "deploy docs make care"); !strings.HasPrefix(got, "Deploy the docs with make docs | ") {
		t.Errorf("more words: %q", got)
	}
}

type published struct{ got []events.Event }

func (p *published) Publish(_ context.Context, e events.Event) { p.got = append(p.got, e) }

func TestChangesArePublished(t *testing.T) {
	t.Parallel()
	p := &published{}
	s := memory.New(memory.Config{Store: &shelf{}, Workspaces: rows{}, Events: p})
	set, err := tools.New(tools.Config{Tools: s.Tools()})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ tool, args string }{{"remember", `{"text":"a","key":"k"}`}, {"remember", `{"text":"mine","scope":"session"}`}, {"recall", `{}`}, {"forget", `{"key":"k"}`}, {"forget", `{"key":"k"}`}} {
		if _, err := set.Call(tenant.In(t.Context(), "team_1"), by("p", "s1"), c.tool, json.RawMessage(c.args)); err != nil {
			t.Fatal(err)
		}
	}
	if len(p.got) != 2 || p.got[0].Type != memory.Changed || p.got[0].ID != "p" || p.got[0].TeamID != "team_1" {
		t.Errorf("%+v", p.got)
	}
}

// BenchmarkRecall looks at as many facts as a project may have: as they are, and as large as they may be.
func BenchmarkRecall(b *testing.B) {
	for _, size := range []int{300, memory.MaxText} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			facts := &shelf{}
			for i := range memory.MaxFacts {
				facts.facts = append(facts.facts, memory.Fact{ID: fmt.Sprint(i), TeamID: "team_1", ProjectID: "p", Text: strings.Repeat(fmt.Sprintf("Run makeTarget%d before the tests of the server. ", i), size/50)})
			}
			s := memory.New(memory.Config{Store: facts, Workspaces: rows{}})
			for b.Loop() {
				if _, err := s.Tools()[1].Call(tenant.In(b.Context(), "team_1"), by("p", ""), json.RawMessage(`{"query":"target 77 server"}`)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
