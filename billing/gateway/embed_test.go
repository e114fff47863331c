package gateway_test

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/billing/gateway"
	"github.com/parawork/parawork/internal/fault"
)

// embeds answers as OpenAI's embeddings do: last vector first, to see that they are put in order by their index.
func embeds(packed bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			Model    string
			Input    []string
			Encoding string `json:"encoding_format"`
		}
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil && len(q.Input) == 0 {
			q.Input = []string{"one", "three"} // the harness has read the body
		}
		var data []map[string]any
		for i, text := range slices.Backward(q.Input) {
			v := []float32{float32(len(text)), -0.5}
			var e any = v
			if packed {
				var b []byte
				for _, x := range v {
					b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
				}
				e = base64.StdEncoding.EncodeToString(b)
			}
			data = append(data, map[string]any{"object": "embedding", "index": i, "embedding": e})
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"object": "list", "data": data, "model": "text-embedding-3-small", "usage": map[string]int{"prompt_tokens": 500_000, "total_tokens": 500_000}})
	}
}

func openAI(h *harness) {
	h.use(func(a *gateway.Account) { a.Provider, a.Key = "openai", "sk-the-teams-own-key" })
}

func TestAgentsEmbeddingsAreCounted(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	openAI(h)
	h.answers(embeds(false))
	resp, text := h.post("/openai/v1/embeddings", `{"model":"text-embedding-3-small","input":["one","three"]}`)
	if resp.StatusCode != 200 || !strings.Contains(text, `"embedding":[5,-0.5]`) {
		t.Fatalf("%d %s", resp.StatusCode, text)
	}
	r := h.row()
	wants(t, r, `200 "" in 500000 out 0 read 0 write 0 hour 0 reasoning ? cost 10000000`)
	if r.API != "embeddings" || r.SessionID != "ses_1" {
		t.Errorf("%+v", r)
	}
}

func TestTheServerAsksForVectorsItself(t *testing.T) {
	t.Parallel()
	for _, packed := range []bool{true, false} {
		h := newHarness(t, func(c *gateway.Config) {
			c.TeamAccount = func(context.Context, string) (string, error) { return "acc_1", nil }
		})
		openAI(h)
		h.answers(embeds(packed))
		got, err := h.service.Embed(h.ctx, h.team, "prj_1", "text-embedding-3-small", []string{"one", "three"})
		if err != nil || fmt.Sprint(got) != "[[3 -0.5] [5 -0.5]]" {
			t.Fatalf("packed %v: %v %v", packed, got, err)
		}
		asked, bodies := h.asked()
		if asked[0].URL.Path != "/embeddings" || asked[0].Header.Get("Authorization") != "Bearer sk-the-teams-own-key" || asked[0].Header.Get("Content-Type") != "application/json" ||
			bodies[0] != `{"encoding_format":"base64","input":["one","three"],"model":"text-embedding-3-small"}` {
			t.Errorf("asked %s %v with %s", asked[0].URL, asked[0].Header, bodies[0])
		}
		r := h.row()
		wants(t, r, `200 "" in 500000 out 0 read 0 write 0 hour 0 reasoning ? cost 10000000`)
		if r.SessionID != "" || r.TeamID != h.team || r.ProjectID != "prj_1" || r.AccountID != "acc_1" {
			t.Errorf("%+v", r)
		}
	}
}

// What stops an agent's request stops the server's own.
func TestTheServersOwnRequestsFollowTheRules(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(c *gateway.Config) {
		c.TeamAccount = func(context.Context, string) (string, error) { return "acc_1", nil }
	})
	openAI(h)
	h.answers(embeds(true))
	embed := func(model string) error {
		_, err := h.service.Embed(h.ctx, h.team, "prj_1", model, []string{"one", "three"})
		return err
	}
	if err := h.service.SetLimits(h.ctx, h.team, h.user, []gateway.Limit{{Model: "text-embedding-3-large"}}); err != nil {
		t.Fatal(err)
	}
	if err := embed("text-embedding-3-large"); err == nil || !strings.Contains(err.Error(), "model_not_allowed") {
		t.Errorf("a model that is not allowed: %v", err)
	}
	h.mu.Lock()
	h.admit = budget
	h.mu.Unlock()
	if err := embed("text-embedding-3-small"); err == nil || !strings.Contains(err.Error(), "budget_exceeded") {
		t.Errorf("a budget that is spent: %v", err)
	}
	h.mu.Lock()
	h.admit = nil
	h.mu.Unlock()
	if asked, _ := h.asked(); len(asked) != 0 {
		t.Errorf("the provider was asked %d times", len(asked))
	}
	for _, answer := range []http.HandlerFunc{
		func(w http.ResponseWriter, _ *http.Request) { http.Error(w, `{"error":{"message":"no"}}`, 500) },
		func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"data":[{"index":0,"embedding":[1]}]}`) },
		func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"data":[{"index":0,"embedding":[1]},{"index":0,"embedding":[1]}]}`)
		},
		func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"data":[{"index":0,"embedding":"AAA="},{"index":1,"embedding":[1]}]}`)
		},
		func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "99")
			fmt.Fprint(w, `{"da`)
		},
	} {
		h.answers(answer)
		if err := embed("text-embedding-3-small"); err == nil {
			t.Error("a bad answer was taken for vectors")
		}
	}
}

type teamAccounts []accounts.AgentAccount

func (a teamAccounts) TeamAgentAccounts(context.Context, string) ([]accounts.AgentAccount, error) {
	return a, nil
}

// Only a key for OpenAI's API is sent there.
func TestWhichAccountTheServerAsksWith(t *testing.T) {
	t.Parallel()
	provider := func(agent string) string {
		return map[string]string{"codex": "openai", "claude-code": "anthropic"}[agent]
	}
	all := teamAccounts{{ID: "login", Agent: "codex", Kind: "terminal", Default: true}, {ID: "claude", Agent: "claude-code", Kind: accounts.APIKey, Default: true}, {ID: "gemini", Agent: "gemini", Kind: accounts.APIKey, Default: true}}
	if id, err := gateway.OpenAIOf(all, provider)(t.Context(), "t"); fault.CodeOf(err) != "gateway_no_key" {
		t.Errorf("%s %v", id, err)
	}
	all = append(all, accounts.AgentAccount{ID: "first", Agent: "codex", Kind: accounts.APIKey}, accounts.AgentAccount{ID: "default", Agent: "codex", Kind: accounts.APIKey, Default: true}, accounts.AgentAccount{ID: "last", Agent: "codex", Kind: accounts.APIKey})
	if id, err := gateway.OpenAIOf(all, provider)(t.Context(), "t"); id != "default" || err != nil {
		t.Errorf("%s %v", id, err)
	}
}
