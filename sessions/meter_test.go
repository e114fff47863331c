package sessions_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/billing/tokens"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/agents"
)

// meterDouble stores each request once, as the real meter does, and fails as often as the test wants.
type meterDouble struct {
	mu       sync.Mutex
	refuse   int
	reported map[string]string
}

func (m *meterDouble) Record(_ context.Context, r tokens.Request) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.refuse > 0 {
		m.refuse--
		return errors.New("no room")
	}
	n := func(v *int64) string {
		if v == nil {
			return "?"
		}
		return fmt.Sprint(*v)
	}
	key := r.SessionID + " " + r.ExternalID
	if m.reported[key] == "" {
		m.reported[key] = fmt.Sprintf("%s %s %s %s: %s in, %s out, %s+%s+%s, subscription %v, project %v", r.Source, r.ExternalID, r.API, r.Model, n(r.Input), n(r.Output), n(r.CacheRead),
			n(r.CacheWrite), n(r.CacheWriteHour), r.Subscription, r.ProjectID != "")
	}
	return nil
}

func (m *meterDouble) all() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []string
	for _, v := range m.reported {
		out = append(out, v)
	}
	slices.Sort(out)
	return out
}

// Of agents that do not go through the gateway their records are counted: each answer once, over refusals and restarts.
func TestRecordsAreCounted(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	meter := &meterDouble{refuse: 1, reported: map[string]string{}}
	h.tune = func(c *sessions.Config) { c.Meter = meter }
	path := filepath.Join(h.dir, "scribe")
	if err := os.WriteFile(path, []byte(scribe), 0o700); err != nil {
		t.Fatal(err)
	}
	h.settings[agents.ClaudeCode] = agents.Settings{Enabled: true, Command: path}
	s := h.start()
	row := s.begin(t, sessions.StartRequest{Agent: agents.ClaudeCode})
	eventually(t, "it is ready", func() bool { return strings.Contains(s.output(t, row.ID), "ready") })
	line := func(uuid, id, stop, usage string) string {
		return fmt.Sprintf(`{"type":"assistant","uuid":"%s","timestamp":"2099-01-02T03:04:05Z","message":{"id":"%s","model":"claude-opus-4-8","stop_reason":%s,"content":[{"type":"text","text":"%s"}],"usage":%s}}`,
			uuid, id, stop, uuid, usage)
	}
	s.typesLine(t, h, row.ID, line("a", "msg_1", "null", `{"input_tokens":10,"output_tokens":1}`)) // it may still grow
	s.typesLine(t, h, row.ID, line("b", "msg_1", `"tool_use"`, `{"input_tokens":10,"output_tokens":7,"cache_creation_input_tokens":50,"cache_creation":{"ephemeral_1h_input_tokens":20}}`))
	s.typesLine(t, h, row.ID, line("c", "msg_1", `"tool_use"`, `{"input_tokens":10,"output_tokens":7,"cache_creation_input_tokens":50,"cache_creation":{"ephemeral_1h_input_tokens":20}}`))
	s.typesLine(t, h, row.ID, line("d", "msg_2", `"end_turn"`, `{"input_tokens":-5,"output_tokens":9,"cache_read_input_tokens":3}`)) // what cannot be is unknown
	want := []string{"transcript msg_1 messages claude-opus-4-8: 10 in, 7 out, 0+30+20, subscription true, project true",
		"transcript msg_2 messages claude-opus-4-8: ? in, 9 out, 3+0+0, subscription true, project true"}
	eventually(t, "both answers are counted", func() bool { return slices.Equal(meter.all(), want) })
	s.end()
	s = h.start()
	s.typesLine(t, h, row.ID, line("e", "msg_3", `"end_turn"`, `{"input_tokens":1,"output_tokens":1}`))
	eventually(t, "the next server counts on", func() bool { return len(meter.all()) == 3 })
	if got := meter.all(); !slices.Equal(got[:2], want) {
		t.Errorf("%q", got)
	}

	// A key that goes along is no login: its answers have a price.
	h.accounts[agents.ClaudeCode] = accounts.AgentAccount{ID: "acc", Agent: agents.ClaudeCode, Kind: accounts.APIKey}
	h.secrets[agents.ClaudeCode] = "sk-ant-api03-key"
	keyed := s.begin(t, sessions.StartRequest{Agent: agents.ClaudeCode})
	eventually(t, "it is ready", func() bool { return strings.Contains(s.output(t, keyed.ID), "ready") })
	s.typesLine(t, h, keyed.ID, line("f", "msg_9", `"end_turn"`, `{"input_tokens":1,"output_tokens":2}`))
	eventually(t, "it is counted", func() bool {
		return slices.Contains(meter.all(), "transcript msg_9 messages claude-opus-4-8: 1 in, 2 out, 0+0+0, subscription false, project true")
	})
}
