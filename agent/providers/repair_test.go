package providers_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/parawork/parawork/agent/providers"
)

func TestRepair(t *testing.T) {
	t.Parallel()
	thought := providers.Part{Kind: providers.Reasoning, Raw: json.RawMessage(`{"r":1}`), Provider: "p"}
	for name, test := range map[string]struct{ messages, want []providers.Message }{
		"as they should be": {[]providers.Message{user(text("a")), assistant(thought, call("1", "x", `{}`), call("2", "x", `{}`)), user(returned("1", text("b")), returned("2", text("c"))), assistant(text("d"))},
			[]providers.Message{user(text("a")), assistant(thought, call("1", "x", `{}`), call("2", "x", `{}`)), user(returned("1", text("b")), returned("2", text("c"))), assistant(text("d"))}},
		"a result twice":                    {[]providers.Message{assistant(call("1", "x", `{}`)), user(returned("1", text("a")), returned("1", text("b"))), user(returned("1", text("c")))}, []providers.Message{assistant(call("1", "x", `{}`)), user(returned("1", text("a")))}},
		"a result of nothing":               {[]providers.Message{user(returned("1", text("a")), text("b")), user(returned("2"))}, []providers.Message{user(text("b"))}},
		"a result before its call":          {[]providers.Message{user(returned("1", text("a"))), assistant(text("b"))}, []providers.Message{assistant(text("b"))}},
		"results in another order, late":    {[]providers.Message{assistant(call("1", "x", `{}`), call("2", "x", `{}`)), user(text("wait"), returned("2", text("b"))), assistant(text("ok")), user(returned("1", text("a")), text("go"))}, []providers.Message{assistant(call("1", "x", `{}`), call("2", "x", `{}`)), user(returned("1", text("a")), returned("2", text("b")), text("wait")), assistant(text("ok")), user(text("go"))}},
		"neighbours of one role":            {[]providers.Message{user(text("a")), user(text("b"), pixel), assistant(text("c")), assistant(), assistant(text("d"))}, []providers.Message{user(text("a"), text("b"), pixel), assistant(text("c"), text("d"))}},
		"empty parts":                       {[]providers.Message{user(text("a"), text(" \n"), providers.Part{Kind: providers.Image, MIME: "image/png"}, providers.Part{}), assistant(text("")), user(text("b"))}, []providers.Message{user(text("a"), text("b"))}},
		"reasoning that led to nothing":     {[]providers.Message{user(text("a")), assistant(thought), user(text("b")), assistant(text("c"), thought)}, []providers.Message{user(text("a"), text("b")), assistant(text("c"))}},
		"parts of the other role":           {[]providers.Message{user(call("1", "x", `{}`), thought, text("a")), assistant(returned("1"), pixel, text("b"))}, []providers.Message{user(text("a")), assistant(text("b"))}},
		"an image that no model sees":       {[]providers.Message{user(providers.Part{Kind: providers.Image, MIME: "image/tiff", Data: []byte("x")})}, []providers.Message{user(text("(An image of the type image/tiff, which models cannot see, is left out.)"))}},
		"a call twice":                      {[]providers.Message{assistant(call("1", "x", `{}`), call("1", "x", `{}`)), user(returned("1", text("a"))), assistant(call("1", "x", `{}`), text("b"))}, []providers.Message{assistant(call("1", "x", `{}`)), user(returned("1", text("a"))), assistant(text("b"))}},
		"a result with a result in it":      {[]providers.Message{assistant(call("1", "x", `{}`)), user(returned("1", text(""), call("2", "x", `{}`), returned("1"), text("a")))}, []providers.Message{assistant(call("1", "x", `{}`)), user(returned("1", text("a")))}},
		"results of two turns of the model": {[]providers.Message{assistant(call("1", "x", `{}`)), user(returned("1", text("a"))), assistant(call("2", "x", `{}`)), user(returned("2", text("b")))}, []providers.Message{assistant(call("1", "x", `{}`)), user(returned("1", text("a"))), assistant(call("2", "x", `{}`)), user(returned("2", text("b")))}},
	} {
		if got := providers.Repair(test.messages); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %s\nwant %s", name, asJSON(t, got), asJSON(t, test.want))
		}
	}
	got := providers.Repair([]providers.Message{user(text("a")), assistant(call("1", "x", `{}`))})
	if len(got) != 3 || !got[2].Parts[0].IsError || got[2].Parts[0].CallID != "1" || !strings.Contains(got[2].Parts[0].Content[0].Text, "unknown whether") {
		t.Errorf("a lost result: %s", asJSON(t, got))
	}
}

// Whatever is stored, what goes out is complete, and repairing it again changes nothing.
func TestRepairOfAnything(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 7))
	for n := range 2_000 {
		messages := anything(r)
		before := asJSON(t, messages)
		got := providers.Repair(messages)
		if why := wrong(messages, got); why != "" {
			t.Fatalf("seed %d, list %d: %s\n%s\nof %s", seed, n, why, asJSON(t, got), before)
		}
		if again := providers.Repair(got); !reflect.DeepEqual(again, got) {
			t.Fatalf("seed %d, list %d: repaired twice %s\nonce %s", seed, n, asJSON(t, again), asJSON(t, got))
		}
		if after := asJSON(t, messages); after != before {
			t.Fatalf("seed %d, list %d: what was given changed from %s to %s", seed, n, before, after)
		}
	}
}

func anything(r *rand.Rand) (out []providers.Message) {
	for range r.IntN(8) {
		m := providers.Message{Role: providers.User}
		if r.IntN(2) == 0 {
			m.Role = providers.Assistant
		}
		for range r.IntN(5) {
			id := fmt.Sprint(r.IntN(4))
			switch r.IntN(8) {
			case 0:
				m.Parts = append(m.Parts, text([]string{"", " ", "a", "b"}[r.IntN(4)]))
			case 1:
				m.Parts = append(m.Parts, pixel)
			case 2:
				m.Parts = append(m.Parts, providers.Part{Kind: providers.Reasoning, Raw: json.RawMessage(`{}`)})
			case 3, 4:
				m.Parts = append(m.Parts, call(id, "x", `{}`))
			case 5, 6:
				m.Parts = append(m.Parts, returned(id, text(fmt.Sprint(r.IntN(100)))))
			case 7:
				m.Parts = append(m.Parts, providers.Part{Kind: "other", CallID: id})
			}
		}
		out = append(out, m)
	}
	return out
}

// wrong tells why repaired messages are not as all providers want them, or lost something.
func wrong(before, after []providers.Message) string {
	calls, texts := map[string]bool{}, 0
	for i, m := range after {
		if len(m.Parts) == 0 || i > 0 && after[i-1].Role == m.Role {
			return "empty messages, or neighbours of one role"
		}
		var asked []string
		if i > 0 {
			for _, p := range after[i-1].Parts {
				if p.Kind == providers.ToolCall {
					asked = append(asked, p.CallID)
				}
			}
		}
		for n, p := range m.Parts {
			switch p.Kind {
			case providers.ToolCall:
				if calls[p.CallID] || m.Role != providers.Assistant {
					return "a call twice, or of the user"
				}
				calls[p.CallID] = true
			case providers.ToolResult:
				if n >= len(asked) || asked[n] != p.CallID || len(p.Content) == 0 {
					return "a result that is not where its call wants it"
				}
			case providers.Text:
				texts++
				if strings.TrimSpace(p.Text) == "" {
					return "an empty text"
				}
			}
			if n < len(asked) && p.Kind != providers.ToolResult {
				return "a call without a result"
			}
		}
		if len(m.Parts) < len(asked) || i == len(after)-1 && m.Parts[len(m.Parts)-1].Kind == providers.ToolCall {
			return "a call without a result"
		}
		if last := m.Parts[len(m.Parts)-1]; last.Kind == providers.Reasoning {
			return "reasoning at the end"
		}
	}
	made := map[string]bool{}
	for _, m := range before {
		for _, p := range m.Parts {
			if p.Kind == providers.Text && strings.TrimSpace(p.Text) != "" {
				texts--
			}
			if p.Kind == providers.ToolCall && m.Role == providers.Assistant {
				made[p.CallID] = true
			}
		}
	}
	if texts != 0 || !reflect.DeepEqual(made, calls) {
		return "a text or a call is lost"
	}
	return ""
}
