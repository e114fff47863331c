package models

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/parawork/parawork/internal/safetext"
)

const (
	mostPages  = 5
	mostAnswer = 8 << 20 // bytes of a page
	mostModels = 2000
	mostName   = 200
)

// row is a model in a provider's list. Servers that follow OpenAI's API name the bounds in several ways.
type row struct {
	ID          string  `json:"id"`
	Name        string  `json:"name"`
	DisplayName string  `json:"display_name"`
	MaxInput    float64 `json:"max_input_tokens"` // Anthropic
	MaxTokens   float64 `json:"max_tokens"`       // Anthropic: of an answer

	ContextLength    float64 `json:"context_length"`     // OpenRouter, Together
	ContextWindow    float64 `json:"context_window"`     // Groq
	MaxModelLen      float64 `json:"max_model_len"`      // vLLM, SGLang
	MaxContextLength float64 `json:"max_context_length"` // Mistral, LM Studio
	MaxCompletion    float64 `json:"max_completion_tokens"`
	MaxOutput        float64 `json:"max_output_tokens"`
	TopProvider      struct {
		MaxCompletion float64 `json:"max_completion_tokens"`
	} `json:"top_provider"` // OpenRouter
	Meta struct {
		Context float64 `json:"n_ctx"`
		Trained float64 `json:"n_ctx_train"`
	} `json:"meta"` // llama.cpp
}

func (r row) info() Info {
	title := cmp.Or(r.DisplayName, r.Name)
	if title == r.ID {
		title = ""
	}
	return Info{Name: r.ID, Title: safetext.Cut(safetext.Line(title), mostName),
		Window: tokens(r.ContextLength, r.ContextWindow, r.MaxModelLen, r.MaxContextLength, r.Meta.Context, r.Meta.Trained, r.MaxInput),
		Output: tokens(r.TopProvider.MaxCompletion, r.MaxCompletion, r.MaxOutput, r.MaxTokens)}
}

// tokens is the first of numbers that can be a number of tokens.
func tokens(numbers ...float64) int64 {
	for _, n := range numbers {
		if n >= 1 && n < math.MaxInt32 {
			return int64(n)
		}
	}
	return 0
}

// ask asks a provider for its models: GET /v1/models of Anthropic's API and of OpenAI's.
func ask(ctx context.Context, d Access, api string) (all []Info, err error) {
	base, after := strings.TrimSuffix(d.base(api), "/v1")+"/v1/models", ""
	for range mostPages {
		address := base
		if api == Messages {
			address += "?" + url.Values{"limit": {"1000"}}.Encode()
			if after != "" {
				address += "&" + url.Values{"after_id": {after}}.Encode()
			}
		}
		rows, next, err := page(ctx, d.Client, address)
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			if r.ID != "" && len(r.ID) <= mostName && !strings.ContainsFunc(r.ID, func(c rune) bool { return c <= ' ' || c > '~' }) && len(all) < mostModels {
				all = append(all, r.info())
			}
		}
		if next == "" || next == after || api != Messages {
			break
		}
		after = next
	}
	slices.SortFunc(all, func(a, b Info) int { return strings.Compare(a.Name, b.Name) })
	return slices.CompactFunc(all, func(a, b Info) bool { return a.Name == b.Name }), nil
}

// page reads one page of a list.
func page(ctx context.Context, client *http.Client, address string) (rows []row, next string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, "", err
	}
	r.Header.Set("Anthropic-Version", "2023-06-01")
	r.Header.Set("Accept", "application/json")
	resp, err := client.Do(r)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return nil, "", unavailable(err, "it did not answer in time.")
	case err != nil:
		return nil, "", unavailable(err, "it cannot be reached.")
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, mostAnswer+1))
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return nil, "", unavailable(err, "it did not answer in time.")
	case err != nil:
		return nil, "", unavailable(err, "its answer was cut.")
	case resp.StatusCode != http.StatusOK:
		return nil, "", unavailable(nil, "%s", refusal(resp.StatusCode, body))
	case len(body) > mostAnswer:
		return nil, "", unavailable(nil, "its answer is longer than %d MiB.", mostAnswer>>20)
	}
	var answer struct {
		Data   []row  `json:"data"`
		More   bool   `json:"has_more"`
		LastID string `json:"last_id"`
	}
	if err = json.Unmarshal(body, &answer); err != nil { // some answer with the list alone
		err = json.Unmarshal(body, &answer.Data)
	}
	if err != nil {
		return nil, "", unavailable(err, "its answer is not a list of models.")
	}
	if answer.More {
		next = answer.LastID
	}
	return answer.Data, next, nil
}

// refusal says why a provider did not answer with models.
func refusal(status int, body []byte) string {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return "it refuses the account's key."
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return "it has no such list."
	case http.StatusTooManyRequests:
		return "it was asked too often."
	}
	var e struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &e) == nil && e.Error.Message != "" {
		return strings.TrimSuffix(safetext.Cut(safetext.Line(e.Error.Message), 300), ".") + "."
	}
	return "it answered " + http.StatusText(status) + "."
}
