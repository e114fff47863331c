package providers_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/parawork/parawork/agent/providers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// api is a wire format under test.
type api struct {
	name   string
	origin string
	path   string
	make   func(providers.Config) providers.Provider
}

var apis = []api{
	{"messages", "anthropic", "/v1/messages", providers.Anthropic},
	{"responses", "openai", "/responses", providers.Responses},
	{"chat", "openai-chat", "/chat/completions", providers.Chat},
}

const token = "secret-token-of-the-session"

// transport answers requests without a network.
type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// answers returns a provider whose requests are answered with a text, in pieces of a size; 0 = in one.
func (a api) answers(text string, size int) providers.Provider {
	return a.make(providers.Config{Token: token, BaseURL: "http://model.test", HTTP: &http.Client{Transport: transport(func(*http.Request) (*http.Response, error) {
		h := http.Header{"Content-Type": {"text/event-stream; charset=utf-8"}}
		return &http.Response{StatusCode: http.StatusOK, Header: h, Body: io.NopCloser(&pieces{text, size})}, nil
	})}})
}

type pieces struct {
	text string
	size int
}

func (p *pieces) Read(b []byte) (int, error) {
	if p.text == "" {
		return 0, io.EOF
	}
	n := len(b)
	if p.size > 0 {
		n = min(n, p.size)
	}
	n = copy(b[:n], p.text)
	p.text = p.text[n:]
	return n, nil
}

// serve returns a provider that asks a server on loopback.
func (a api) serve(t testing.TB, h http.HandlerFunc) providers.Provider {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.URL.Path != a.path {
			t.Errorf("asked %s %s", r.Method, r.URL.Path)
		}
		h(w, r)
	}))
	t.Cleanup(func() { s.Client().CloseIdleConnections(); s.Close() })
	return a.make(providers.Config{Token: token, BaseURL: s.URL + "/", HTTP: s.Client()})
}

// result is an answer, put together from its events.
type result struct {
	Parts   []providers.Part
	Text    string // of all deltas
	Thought string
	Args    string
	Begun   []string // names of calls
	Stop    providers.Stop
	Usage   providers.Usage
	Retries int
	Err     error
}

func ask(ctx context.Context, t testing.TB, p providers.Provider, req providers.Request) (out result) {
	t.Helper()
	for e, err := range p.Stream(ctx, req) {
		if err != nil {
			out.Err = err
			continue
		}
		if out.Err != nil || out.Stop != "" {
			t.Fatalf("an event after the end: %+v", e)
		}
		switch e.Kind {
		case providers.TextDelta:
			out.Text += e.Text
		case providers.ReasoningDelta:
			out.Thought += e.Text
		case providers.CallDelta:
			out.Args += e.Text
		case providers.CallBegun:
			out.Begun = append(out.Begun, e.Part.Name)
		case providers.PartDone:
			out.Parts = append(out.Parts, e.Part)
		case providers.Retry:
			out = result{Retries: out.Retries + 1}
		case providers.Done:
			out.Stop, out.Usage = e.Stop, e.Usage
		}
	}
	if out.Err == nil && out.Stop == "" {
		t.Fatal("the answer has no end")
	}
	return out
}

func failed(t testing.TB, err error) *providers.Error {
	t.Helper()
	e, ok := errors.AsType[*providers.Error](err)
	if !ok {
		t.Fatalf("error %v", err)
	}
	return e
}

func hello() providers.Request {
	return providers.Request{Model: "model-1", Messages: []providers.Message{user(text("Hello"))}}
}

func user(parts ...providers.Part) providers.Message {
	return providers.Message{Role: providers.User, Parts: parts}
}

func assistant(parts ...providers.Part) providers.Message {
	return providers.Message{Role: providers.Assistant, Parts: parts}
}

func text(s string) providers.Part { return providers.Part{Kind: providers.Text, Text: s} }

func call(id, name, args string) providers.Part {
	return providers.Part{Kind: providers.ToolCall, CallID: id, Name: name, Args: json.RawMessage(args)}
}

func returned(id string, content ...providers.Part) providers.Part {
	return providers.Part{Kind: providers.ToolResult, CallID: id, Content: content}
}

// sse writes events, each JSON text as one.
func sse(events ...string) string {
	var b strings.Builder
	for _, e := range events {
		var typed struct{ Type string }
		if json.Unmarshal([]byte(e), &typed) == nil && typed.Type != "" {
			b.WriteString("event: " + typed.Type + "\n")
		}
		b.WriteString("data: " + e + "\n\n")
	}
	return b.String()
}

func asJSON(t testing.TB, v any) string {
	t.Helper()
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
