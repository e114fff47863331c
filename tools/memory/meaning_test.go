package memory_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/tools/memory"
)

// provider makes vectors of three meanings.
type provider struct {
	mu    sync.Mutex
	fails error
	asked []string // team, project and model, and how many texts
	texts []string
}

func (p *provider) Embed(_ context.Context, team, project, model string, texts []string) (out [][]float32, _ error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked, p.texts = append(p.asked, fmt.Sprint(team, " ", project, " ", model, " ", len(texts))), append(p.texts, texts...)
	if p.fails != nil {
		return nil, p.fails
	}
	for _, text := range texts {
		v := make([]float32, 3)
		for i, words := range []string{"database postgres storage", "car automobile engine", "deploy release ship"} {
			for _, w := range strings.Fields(words) {
				if strings.Contains(strings.ToLower(text), w) {
					v[i] += 2
				}
			}
		}
		out = append(out, v)
	}
	return out, nil
}

func (p *provider) set(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fails = err
}

func (p *provider) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.asked)
}

// meaningRoom is a Service that runs, with a provider.
type meaningRoom struct {
	*room
	shelf    *shelf
	provider *provider
}

func newMeaningRoom(t *testing.T, kept *shelf, model string) *meaningRoom {
	t.Helper()
	kept.stored = make(chan struct{}, 100)
	r := &meaningRoom{&room{t: t, now: time.Unix(1_800_000_000, 0)}, kept, &provider{}}
	var mu sync.Mutex
	now := r.now
	s := memory.New(memory.Config{Store: kept, Workspaces: rows{}, Secrets: hidden("correct-horse-battery"), Embedder: r.provider, EmbeddingModel: model, Now: func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		now = now.Add(time.Second)
		return now
	}})
	var err error
	if r.set, err = tools.New(tools.Config{Tools: s.Tools()}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = s.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	return r
}

func (r *meaningRoom) stored() {
	r.t.Helper()
	select {
	case <-r.shelf.stored:
	case <-time.After(time.Minute):
		r.t.Fatal("no vectors were stored")
	}
}

func (r *meaningRoom) wants(c tools.Caller, query, ranking, want string) {
	r.t.Helper()
	res, err := r.call(c, "recall", map[string]any{"query": query})
	if err != nil {
		r.t.Fatal(err)
	}
	var a struct {
		Ranking string
		Items   []struct{ Text string }
	}
	if err := json.Unmarshal(res.Structured, &a); err != nil {
		r.t.Fatal(err)
	}
	var texts []string
	for _, f := range a.Items {
		texts = append(texts, f.Text)
	}
	if got := strings.Join(texts, " | "); got != want || a.Ranking != ranking {
		r.t.Errorf("%q: by %s %q, not by %s %q", query, a.Ranking, got, ranking, want)
	}
}

func TestFactsAreFoundByMeaning(t *testing.T) {
	t.Parallel()
	r := newMeaningRoom(t, &shelf{}, "m1")
	who := by("p", "s1")
	for _, text := range []string{"Postgres must run", "The engine is in src", "We ship on Fridays"} {
		r.remember(who, map[string]any{"text": text})
		r.stored()
	}
	r.remember(who, map[string]any{"text": "An automobile of this session alone", "scope": "session"})
	r.stored()
	r.remember(by("q", "s3"), map[string]any{"text": "The car of another project"})
	r.stored()
	r.wants(who, "car correct-horse-battery", "meaning", "An automobile of this session alone | The engine is in src | We ship on Fridays | Postgres must run")
	r.wants(by("p", "s2"), "automobile", "meaning", "The engine is in src | We ship on Fridays | Postgres must run")
	r.wants(by("p", "s2"), "storage fridays", "meaning", "We ship on Fridays | Postgres must run | The engine is in src")
	r.wants(by("q", "s3"), "automobile", "meaning", "The car of another project")
	r.provider.mu.Lock()
	defer r.provider.mu.Unlock()
	if got := r.provider.asked[0]; got != "team_1 p m1 1" {
		t.Errorf("asked for %s", got)
	}
	if all := strings.Join(r.provider.texts, "\n"); strings.Contains(all, "correct-horse-battery") {
		t.Errorf("a secret went to the provider: %s", all)
	}
}

// A provider that is down, or a budget that is spent, leaves words, and is left alone for a minute.
func TestWordsWhereThereAreNoVectors(t *testing.T) {
	t.Parallel()
	r := newMeaningRoom(t, &shelf{}, "m1")
	who := by("p", "s1")
	r.remember(who, map[string]any{"text": "Postgres must run"})
	r.stored()
	r.provider.set(errors.New("budget_exceeded"))
	r.wants(who, "storage", "words", "")
	before := r.provider.count()
	r.wants(who, "postgres", "words", "Postgres must run")
	r.remember(who, map[string]any{"text": "The engine is in src"})
	if n := r.provider.count(); n != before {
		t.Errorf("a provider that just failed was asked again %d times", n-before)
	}
	r.provider.set(nil)
	for range 60 { // each looks at the clock
		r.wants(who, "src", "words", "The engine is in src")
		if r.provider.count() > before {
			break
		}
	}
	r.stored()
	r.wants(who, "automobile", "meaning", "The engine is in src | Postgres must run")
}

func TestAnotherModelMakesVectorsAnew(t *testing.T) {
	t.Parallel()
	kept := &shelf{}
	r := newMeaningRoom(t, kept, "m1")
	who := by("p", "s1")
	r.remember(who, map[string]any{"text": "Postgres must run"})
	r.stored()
	r = newMeaningRoom(t, kept, "m2")
	r.wants(who, "storage", "words", "")
	r.stored()
	r.wants(who, "storage", "meaning", "Postgres must run")
}

// BenchmarkMeaning compares a query with as many vectors as a project may have.
func BenchmarkMeaning(b *testing.B) {
	kept, vectors := &shelf{}, []memory.Vector{}
	for i := range memory.MaxFacts {
		id := fmt.Sprint(i)
		kept.facts = append(kept.facts, memory.Fact{ID: id, TeamID: "team_1", ProjectID: "p", Text: "fact"})
		v := make([]byte, 4*1536)
		for j := range v {
			v[j] = byte(i * j)
		}
		vectors = append(vectors, memory.Vector{FactID: id, Bytes: v})
	}
	_ = kept.SetVectors(b.Context(), "m", vectors)
	s := memory.New(memory.Config{Store: kept, Workspaces: rows{}, Embedder: wide{}, EmbeddingModel: "m"})
	for b.Loop() {
		if _, err := s.Tools()[1].Call(tenant.In(b.Context(), "team_1"), by("p", ""), json.RawMessage(`{"query":"zebra"}`)); err != nil {
			b.Fatal(err)
		}
	}
}

type wide struct{}

func (wide) Embed(context.Context, string, string, string, []string) ([][]float32, error) {
	v := make([]float32, 1536)
	for i := range v {
		v[i] = float32(math.Sin(float64(i)))
	}
	return [][]float32{v}, nil
}
