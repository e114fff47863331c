package gateway

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"
)

const (
	mostVectors    = 16 << 20 // bytes of an answer with vectors
	mostDimensions = 4096
)

// Embed returns a vector for each text, by a model at the provider of the team's account. It is for the server's own use: no session
// asks, so the request belongs to the team and its project. Budgets, rules, bounds and counts are those of agents' requests.
func (s *Service) Embed(ctx context.Context, teamID, projectID, model string, texts []string) (vectors [][]float32, err error) {
	if s.cfg.TeamAccount == nil {
		return nil, errNoTeamKey
	}
	accountID, err := s.cfg.TeamAccount(ctx, teamID)
	if err != nil {
		return nil, err
	}
	// Base64 is the shortest; servers that do not know it answer with numbers.
	body, err := json.Marshal(map[string]any{"model": model, "input": texts, "encoding_format": "base64"})
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "/openai/v1/embeddings", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	w := &inMemory{header: http.Header{}}
	defer s.counts.begin()()
	c := &call{s: s, w: w, r: r, began: time.Now(), grant: Grant{TeamID: teamID, ProjectID: projectID, AccountID: accountID}}
	if c.route, err = routeOf(r); err != nil {
		return nil, err
	}
	defer func() {
		switch p := recover(); p {
		case nil:
		case http.ErrAbortHandler: // how a cut answer is ended
			vectors, err = nil, errors.New("the answer with the vectors was cut")
		default:
			panic(p)
		}
	}()
	c.serve()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return w.vectors(len(texts))
}

// inMemory keeps an answer for the server itself.
type inMemory struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *inMemory) Header() http.Header    { return w.header }
func (w *inMemory) WriteHeader(status int) { w.status = status }

func (w *inMemory) Write(p []byte) (int, error) {
	if w.body.Len()+len(p) > mostVectors {
		return 0, fmt.Errorf("the answer is larger than %d MiB", mostVectors>>20)
	}
	return w.body.Write(p)
}

// vectors reads n of them: https://developers.openai.com/api/reference/resources/embeddings.
func (w *inMemory) vectors(n int) ([][]float32, error) {
	if w.status != http.StatusOK {
		var e struct {
			Error struct{ Message string } `json:"error"`
		}
		_ = json.Unmarshal(w.body.Bytes(), &e)
		return nil, fmt.Errorf("no vectors (HTTP %d, %s): %.300s", w.status, w.header.Get("X-Parawork-Error"), e.Error.Message)
	}
	var answer struct {
		Data []struct {
			Index     int             `json:"index"`
			Embedding json.RawMessage `json:"embedding"`
		} `json:"data"`
	}
	if err := json.Unmarshal(w.body.Bytes(), &answer); err != nil {
		return nil, fmt.Errorf("the provider's answer with vectors is not readable: %w", err)
	}
	if len(answer.Data) != n {
		return nil, fmt.Errorf("the provider answered with %d vectors for %d texts", len(answer.Data), n)
	}
	out := make([][]float32, n)
	for _, d := range answer.Data {
		if d.Index < 0 || d.Index >= n || out[d.Index] != nil {
			return nil, errors.New("the provider's vectors are not numbered as the texts are")
		}
		v, err := vectorOf(d.Embedding)
		if err != nil {
			return nil, err
		}
		out[d.Index] = v
	}
	return out, nil
}

// vectorOf reads a list of numbers, or little-endian float32 in base64.
func vectorOf(raw json.RawMessage) (v []float32, err error) {
	var packed string
	if json.Unmarshal(raw, &packed) == nil {
		b, err := base64.StdEncoding.DecodeString(packed)
		if err != nil || len(b)%4 != 0 {
			return nil, errors.New("a vector of the provider is not float32 in base64")
		}
		v = make([]float32, len(b)/4)
		for i := range v {
			v[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
		}
	} else if err := json.Unmarshal(raw, &v); err != nil {
		return nil, fmt.Errorf("a vector of the provider is not readable: %w", err)
	}
	if len(v) == 0 || len(v) > mostDimensions {
		return nil, fmt.Errorf("a vector of the provider has %d dimensions, not 1 to %d", len(v), mostDimensions)
	}
	return v, nil
}
