package models_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/agent"
	"github.com/parawork/parawork/agent/models"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions"
)

// harness is a provider, and the service that asks it.
type harness struct {
	*models.Service
	asked  atomic.Int64
	now    atomic.Int64 // s
	access models.Access
	denied string
}

func newHarness(t *testing.T, answer http.HandlerFunc) *harness {
	t.Helper()
	h := &harness{}
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.asked.Add(1)
		answer(w, r)
	}))
	t.Cleanup(provider.Close)
	h.access = models.Access{Client: provider.Client(), Anthropic: provider.URL + "/anthropic", OpenAI: provider.URL + "/openai/v1"}
	h.Service = models.New(models.Config{
		Account: func(_ context.Context, _ accounts.Actor, _, id string) (accounts.AgentAccount, error) {
			if id == "acc_of_others" {
				return accounts.AgentAccount{}, fault.New(fault.NotFound, "agent_account_not_found", "There is none.")
			}
			return accounts.AgentAccount{ID: "acc_1"}, nil
		},
		Direct:  func(context.Context, sessions.Session, string) (models.Access, error) { return h.access, nil },
		Project: func(context.Context, string) (string, error) { return "prj_1", nil },
		Allowed: func(_ context.Context, _ string, all []string) ([]string, error) {
			return slices.DeleteFunc(slices.Clone(all), func(m string) bool { return m == h.denied }), nil
		},
		Now: func() time.Time { return time.Unix(1_800_000_000+h.now.Load(), 0) },
	})
	return h
}

func (h *harness) list(t *testing.T) models.List {
	t.Helper()
	l, err := h.List(t.Context(), accounts.Actor{}, "team_1", "", "")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func (h *harness) of(t *testing.T, o agent.Options) agent.Model {
	t.Helper()
	m, err := h.Of(t.Context(), sessions.Session{ID: "ses_1", TeamID: "team_1", AccountID: "acc_1"}, o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestAnthropicsModels(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/anthropic/v1/models" || r.Header.Get("Anthropic-Version") == "" {
			t.Errorf("asked %s %v", r.URL, r.Header)
		}
		if r.URL.Query().Get("after_id") == "" {
			fmt.Fprint(w, `{"data":[{"id":"claude-b","display_name":"Claude B","max_input_tokens":1000000,"max_tokens":64000}],"has_more":true,"last_id":"claude-b"}`)
			return
		}
		fmt.Fprint(w, `{"data":[{"id":"claude-a","display_name":"Claude A"},{"id":"no good"},{"id":"denied"}],"has_more":false,"last_id":"denied"}`)
	})
	h.access.ForAnthropic, h.denied = true, "denied"
	l := h.list(t)
	want := []models.Info{{Name: "claude-a", Title: "Claude A", Window: 200_000, Output: 64_000}, {Name: "claude-b", Title: "Claude B", Window: 1_000_000, Output: 64_000}}
	if l.AccountID != "acc_1" || l.API != "messages" || l.Default != "claude-sonnet-4-5" || !slices.Equal(l.Models, want) {
		t.Errorf("%+v", l)
	}
	if m := h.of(t, agent.Options{Model: "claude-b"}); m.Window != 1_000_000 || m.Output != 32_000 {
		t.Errorf("a turn's model: %+v", m)
	}
	if n := h.asked.Load(); n != 2 {
		t.Errorf("the provider was asked %d times for 2 pages", n)
	}
	h.now.Add(int64((11 * time.Minute).Seconds()))
	h.list(t)
	if n := h.asked.Load(); n != 4 {
		t.Errorf("an old list is believed: asked %d times", n)
	}
	if _, err := h.List(t.Context(), accounts.Actor{}, "team_1", "acc_of_others", ""); fault.CodeOf(err) != "agent_account_not_found" {
		t.Errorf("an account of others: %v", err)
	}
}

// An account says which API its address speaks; a session may say another.
func TestAPIOfAnAddress(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"data":[]}`) })
	h.access.Says = "responses"
	if l := h.list(t); l.API != "responses" || l.Default != "gpt-5" {
		t.Errorf("as the account says: %+v", l)
	}
	l, err := h.List(t.Context(), accounts.Actor{}, "team_1", "", "messages")
	if err != nil || l.API != "messages" {
		t.Errorf("as the session says: %+v %v", l, err)
	}
}

// Servers that follow OpenAI's API name the bounds in their own ways, or not at all.
func TestModelsOfCompatibleServers(t *testing.T) {
	t.Parallel()
	for server, c := range map[string]struct {
		body           string
		window, output int64
	}{
		"openrouter": {`{"data":[{"id":"m","name":"M","context_length":131072,"top_provider":{"context_length":131072,"max_completion_tokens":16384}}]}`, 131_072, 16_384},
		"vllm":       {`{"object":"list","data":[{"id":"m","object":"model","max_model_len":32768}]}`, 32_768, 8_000},
		"groq":       {`{"data":[{"id":"m","context_window":131072,"max_completion_tokens":1024}]}`, 131_072, 1_024},
		"mistral":    {`{"data":[{"id":"m","max_context_length":4096}]}`, 4_096, 2_048},
		"llama.cpp":  {`{"data":[{"id":"m","meta":{"n_ctx":8192,"n_ctx_train":131072}}]}`, 8_192, 4_096},
		"together":   {`[{"id":"m","context_length":100000}]`, 100_000, 8_000},
		"ollama":     {`{"object":"list","data":[{"id":"m","object":"model","created":1,"owned_by":"library"}]}`, 128_000, 8_000},
		"odd":        {`{"data":[{"id":"m","context_length":-5,"max_output_tokens":1e300}]}`, 128_000, 8_000},
	} {
		t.Run(server, func(t *testing.T) {
			h := newHarness(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, c.body) })
			if l := h.list(t); l.API != "chat" || l.Default != "" || len(l.Models) != 1 || l.Models[0].Name != "m" {
				t.Errorf("%+v", l)
			}
			if m := h.of(t, agent.Options{Model: "m"}); m.Window != c.window || int64(m.Output) != c.output {
				t.Errorf("window %d, output %d; want %d, %d", m.Window, m.Output, c.window, c.output)
			}
		})
	}
}

func TestOpenAIsOwnListIsCutToWhatWrites(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"data":[{"id":"gpt-5"},{"id":"text-embedding-3-large"},{"id":"whisper-1"},{"id":"gpt-image-1"}]}`)
	})
	h.access.Own = true
	if l := h.list(t); l.API != "responses" || len(l.Models) != 1 || l.Models[0] != (models.Info{Name: "gpt-5", Window: 400_000, Output: 128_000}) {
		t.Errorf("%+v", l)
	}
}

// A provider that gives no list is an error for people, and none for turns.
func TestProvidersWithoutAList(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		answer http.HandlerFunc
		words  string
	}{
		"a bad key": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }, "refuses the account's key"},
		"no list":   {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }, "no such list"},
		"trouble": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadGateway)
			fmt.Fprint(w, `{"error":{"message":"Nobody is at home"}}`)
		}, "Nobody is at home."},
		"a page": {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }, "not a list"},
		"too much": {func(w http.ResponseWriter, _ *http.Request) {
			for range 9 << 10 {
				fmt.Fprint(w, strings.Repeat(" ", 1<<10))
			}
		}, "longer than"},
	} {
		t.Run(what, func(t *testing.T) {
			h := newHarness(t, c.answer)
			_, err := h.List(t.Context(), accounts.Actor{}, "team_1", "", "")
			if fault.CodeOf(err) != "models_unavailable" || !strings.Contains(err.Error(), c.words) {
				t.Errorf("%v", err)
			}
			if m := h.of(t, agent.Options{Model: "m"}); m.Window != 128_000 || m.Output != 8_000 || m.Provider == nil {
				t.Errorf("a turn's model: %+v", m)
			}
			if n := h.asked.Load(); n != 1 {
				t.Errorf("asked %d times within seconds", n)
			}
		})
	}
}

// Who leaves does not leave behind that the provider is out of reach.
func TestGivenUp(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{}, 1)
	var slow atomic.Bool
	slow.Store(true)
	h := newHarness(t, func(w http.ResponseWriter, r *http.Request) {
		if slow.Load() {
			begun <- struct{}{}
			<-r.Context().Done()
			return
		}
		fmt.Fprint(w, `{"data":[{"id":"m"}]}`)
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-begun
		cancel()
	}()
	if _, err := h.List(ctx, accounts.Actor{}, "team_1", "", ""); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	slow.Store(false)
	if l := h.list(t); len(l.Models) != 1 {
		t.Errorf("%+v", l)
	}
}

func TestSessionsThatMustNameAModel(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"data":[]}`) })
	if _, err := h.Of(t.Context(), sessions.Session{}, agent.Options{}); fault.CodeOf(err) != "model_not_chosen" {
		t.Errorf("%v", err)
	}
	if m := h.of(t, agent.Options{API: "messages"}); m.Name != "claude-sonnet-4-5" || m.Window != 200_000 {
		t.Errorf("an API that has a default: %+v", m)
	}
}
