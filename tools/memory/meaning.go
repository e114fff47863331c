package memory

import (
	"cmp"
	"context"
	"encoding/binary"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tenant"
)

// Embedder asks the provider of a team for the vectors of texts, within the team's budgets and rules.
type Embedder interface {
	Embed(ctx context.Context, teamID, projectID, model string, texts []string) ([][]float32, error)
}

// Vector is what a model made of a fact: unit length, little-endian float32.
type Vector struct {
	FactID string
	Bytes  []byte
}

const (
	embedWorkers   = 2
	embedQueue     = 256 // projects; one more waits for its next recall
	embedBatch     = 32  // facts in one request
	embedTakes     = 30 * time.Second
	queryTakes     = 3 * time.Second // with the two seconds in which the gateway reads on for the usage, five
	embedPause     = time.Minute     // of a team after a failure
	mostPaused     = 10_000
	nearest        = 20 // facts that are found by meaning
	fusionConstant = 60 // https://plg.uwaterloo.ca/~gvcormac/cormacksigir09-rrf.pdf
)

// embedding computes vectors in the background.
type embedding struct {
	queue chan project

	mu     sync.Mutex
	paused map[string]time.Time // teams, until when
}

type project struct{ team, id string }

// byMeaning reports whether vectors are used at all.
func (s *Service) byMeaning() bool { return s.cfg.Embedder != nil && s.cfg.EmbeddingModel != "" }

// embedSoon has the vectors computed that a project's facts lack. It does not wait.
func (s *Service) embedSoon(teamID, projectID string) {
	if !s.byMeaning() || s.isPaused(teamID) {
		return
	}
	select {
	case s.embedding.queue <- project{teamID, projectID}:
	default: // the next recall asks again
	}
}

func (s *Service) isPaused(teamID string) bool {
	s.embedding.mu.Lock()
	defer s.embedding.mu.Unlock()
	return s.cfg.Now().Before(s.embedding.paused[teamID])
}

// embed asks for vectors. After a failure the team's provider is left alone for a while.
func (s *Service) embed(ctx context.Context, p project, takes time.Duration, texts []string) ([][]float32, error) {
	ctx, cancel := context.WithTimeout(ctx, takes)
	defer cancel()
	vectors, err := s.cfg.Embedder.Embed(ctx, p.team, p.id, s.cfg.EmbeddingModel, texts)
	if err == nil {
		return vectors, nil
	}
	level := slog.LevelWarn
	if fault.CodeOf(err) == "gateway_no_key" { // the team chose no account for it
		level = slog.LevelDebug
	}
	s.cfg.Log.Log(ctx, level, "no vectors for remembered facts: they are found by words alone", "team_id", p.team, "project_id", p.id, "error", err)
	s.embedding.mu.Lock()
	defer s.embedding.mu.Unlock()
	if len(s.embedding.paused) >= mostPaused {
		clear(s.embedding.paused)
	}
	s.embedding.paused[p.team] = s.cfg.Now().Add(embedPause)
	return nil, err
}

// embeds computes vectors until ctx ends.
func (s *Service) embeds(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case p := <-s.embedding.queue:
			if err := s.embedProject(tenant.In(ctx, p.team), p); err != nil && ctx.Err() == nil {
				s.cfg.Log.WarnContext(ctx, "vectors of remembered facts not stored", "project_id", p.id, "error", err)
			}
		}
	}
}

// embedProject computes the vectors that a project's facts lack, or that another model made.
func (s *Service) embedProject(ctx context.Context, p project) error {
	for ctx.Err() == nil && !s.isPaused(p.team) {
		facts, err := s.cfg.Store.WithoutVector(ctx, p.id, s.cfg.EmbeddingModel, embedBatch)
		if err != nil || len(facts) == 0 {
			return err
		}
		texts := make([]string, len(facts))
		for i, f := range facts {
			texts[i] = textOf(f)
		}
		vectors, err := s.embed(ctx, p, embedTakes, texts)
		if err != nil {
			return nil // it is logged, and the next recall tries again
		}
		made := make([]Vector, len(facts))
		for i, f := range facts {
			made[i] = Vector{f.ID, packed(vectors[i])}
		}
		if err := s.cfg.Store.SetVectors(ctx, s.cfg.EmbeddingModel, made); err != nil {
			return err
		}
	}
	return nil
}

// textOf is what a model is given of a fact.
func textOf(f Fact) string {
	text := strings.Join(append(append([]string{f.Key}, f.Tags...), f.Text), "\n")
	return strings.ToValidUTF8(text[:min(len(text), MaxText)], "")
}

// packed is a vector as it is stored. One without a direction, or with numbers that are none, is stored as a byte of zero: it is near no query, and
// not asked for again.
func packed(v []float32) []byte {
	var square float64
	for _, x := range v {
		square += float64(x) * float64(x)
	}
	if square == 0 || math.IsNaN(square) || math.IsInf(square, 0) {
		return []byte{0}
	}
	length := math.Sqrt(square)
	out := make([]byte, 0, 4*len(v))
	for _, x := range v {
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(float32(float64(x)/length)))
	}
	return out
}

// cosine of the angle between two stored vectors; false where they cannot be compared.
func cosine(a, b []byte) (sum float32, ok bool) {
	if len(a) != len(b) || len(a) == 0 {
		return 0, false
	}
	for i := 0; i+4 <= len(a); i += 4 {
		sum += math.Float32frombits(binary.LittleEndian.Uint32(a[i:])) * math.Float32frombits(binary.LittleEndian.Uint32(b[i:]))
	}
	return sum, true
}

// near returns the facts whose meaning is nearest to a query's, the nearest first. Where it cannot compare them, ok is false.
func (s *Service) near(ctx context.Context, p project, sessionID string, facts []Fact, query string) (found []Fact, ok bool) {
	if !s.byMeaning() || len(facts) == 0 {
		return nil, false
	}
	vectors, err := s.cfg.Store.Vectors(ctx, p.id, sessionID, s.cfg.EmbeddingModel)
	if err != nil {
		s.cfg.Log.WarnContext(ctx, "vectors of remembered facts not read", "project_id", p.id, "error", err)
		return nil, false
	}
	of := make(map[string][]byte, len(vectors))
	for _, v := range vectors {
		of[v.FactID] = v.Bytes
	}
	if slices.ContainsFunc(facts, func(f Fact) bool { return of[f.ID] == nil }) {
		s.embedSoon(p.team, p.id)
	}
	if len(of) == 0 || s.isPaused(p.team) {
		return nil, false
	}
	asked, err := s.embed(ctx, p, queryTakes, []string{query})
	if err != nil {
		return nil, false
	}
	q, by := packed(asked[0]), make(map[string]float32, len(facts))
	for _, f := range facts {
		if c, ok := cosine(q, of[f.ID]); ok {
			by[f.ID] = c
			found = append(found, f)
		}
	}
	slices.SortStableFunc(found, func(a, b Fact) int { return cmp.Compare(by[b.ID], by[a.ID]) })
	return found[:min(len(found), nearest)], len(found) > 0
}

// merge puts two rankings together: a fact has 1/(60 + place) from each that has it (reciprocal rank fusion).
func merge(rankings ...[]Fact) (out []Fact) {
	points := map[string]float64{}
	for _, facts := range rankings {
		for place, f := range facts {
			if _, there := points[f.ID]; !there {
				out = append(out, f)
			}
			points[f.ID] += 1 / float64(fusionConstant+place+1)
		}
	}
	slices.SortStableFunc(out, func(a, b Fact) int { return cmp.Compare(points[b.ID], points[a.ID]) })
	return out
}
