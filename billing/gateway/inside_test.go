package gateway

import (
	"encoding/json"
	"strings"
	"testing"
)

// Whatever pieces an answer comes in, the same is read.
func TestAnAnswerInPiecesOfAnySize(t *testing.T) {
	t.Parallel()
	stream := "\xef\xbb\xbfevent: x\r\n" + // a mark of byte order is part of the first field's name, which nobody knows
		": a comment\n\n" +
		"event: message_start\ndata: {\"type\":\"message_start\",\n" +
		"data: \"message\":{\"id\":\"msg_1\",\"model\":\"m\\u002d1\",\"usage\":{\"input_tokens\": 12 ,\"cache_creation_input_tokens\":5,\"cache_read_input_tokens\":3}}}\n\n" +
		"data:{\"type\":\"content_block_delta\",\"delta\":{\"text\":\"\\\"usage\\\":{\\\\\"},\"usage\":{\"output_tokens\":99},\"list\":[{\"usage\":{\"output_tokens\":98}},[],{}]}\r\n\r\n" +
		"data: not json at all }}}\n\n" +
		"data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\"},\"usage\":{\"output_tokens\":7,\"output_tokens_details\":{\"thinking_tokens\":2}}}\r\r" +
		"data: {\"type\":\"message_stop\"}\n\ndata: [DONE]\n\n"
	for size := 1; size < len(stream)+2; size = size*5/4 + 1 {
		tl := newTally(messages, true, "")
		for rest := stream; rest != ""; {
			n := min(size, len(rest))
			tl.take([]byte(rest[:n]))
			rest = rest[n:]
		}
		u, whole := tl.used()
		if !whole || u.model != "m-1" || u.external != "msg_1" || *u.Input != 12 || *u.Output != 7 || *u.CacheWrite != 5 || *u.CacheRead != 3 || *u.Reasoning != 2 {
			t.Fatalf("in pieces of %d: %+v, whole %v", size, u, whole)
		}
	}
}

func TestWhatIsKeptOfAnAnswerIsBounded(t *testing.T) {
	t.Parallel()
	p := newPicker("usage", "a.b")
	long := strings.Repeat("x", 1<<20)
	p.take([]byte(`{"` + long + `":1,"usage":{"x":"` + long + `"},"a":{"b":"` + long[:100] + `"}`))
	p.take([]byte(strings.Repeat(`,"n":[[[[`, 5000)))
	if len(p.key) > pickKeys || len(p.text) > pickMost || p.got["usage"] != nil || len(p.got["a.b"]) != 102 {
		t.Errorf("kept a key of %d, a value of %d, %d values", len(p.key), len(p.text), len(p.got))
	}
	p.reset()
	p.take([]byte(strings.Repeat("[", 20_000)))
	if !p.broken || len(p.stack) > pickNest {
		t.Errorf("%d levels are open", len(p.stack))
	}
}

// A team that holds as much as it can leaves room for others.
func TestATeamDoesNotHoldAllTheRoom(t *testing.T) {
	t.Parallel()
	r := capacity{sessions: map[string]int{}, teams: map[string]int64{}}
	n := int64(0)
	for r.hold("a", 32<<20) {
		n += 32 << 20
	}
	if n != mostTeamBytes || !r.hold("b", 32<<20) {
		t.Errorf("a team holds %d of %d bytes, and another one none", n, int64(mostBytes))
	}
	r.give("a", n)
	if !r.hold("a", 32<<20) || r.bytes != 64<<20 || len(r.teams) != 2 {
		t.Errorf("after it gave all back: %d, %v", r.bytes, r.teams)
	}
}

// The picker reads what encoding/json reads.
func FuzzPicker(f *testing.F) {
	for _, s := range []string{`{"usage":{"a":[1,{"b":null}]},"type":"x"}`, `{"a":{"usage":1},"usage":"\"\\"}`, ` { "usage" : -1.5e3 , "type":true}`, `[]`, `{}`, `{"usage":{}}`, `{"us\u0061ge":1}`} {
		f.Add(s, 3)
	}
	f.Fuzz(func(t *testing.T, s string, size int) {
		p := newPicker("usage", "a.usage")
		size = max(1, min(size, 1000))
		for rest := s; rest != ""; {
			n := min(size, len(rest))
			p.take([]byte(rest[:n]))
			rest = rest[n:]
		}
		var top map[string]json.RawMessage
		if !json.Valid([]byte(s)) || json.Unmarshal([]byte(s), &top) != nil || strings.Count(s, `sage`)+strings.Count(s, `\u`) > 1 {
			return // only what is right, and says each thing once
		}
		if raw, ok := top["usage"]; ok && len(raw) < pickMost {
			if got := p.got["usage"]; strings.TrimSpace(string(got)) != strings.TrimSpace(string(raw)) {
				t.Errorf("%q: %q, not %q", s, got, raw)
			}
		} else if len(p.got["usage"]) > 0 {
			t.Errorf("%q: found %q", s, p.got["usage"])
		}
	})
}

func FuzzLook(f *testing.F) {
	for _, s := range []string{`{"model":"a","stream":true}`, ` {"x":[{"model":"b"}],"model":"a\"\\"}`, `{"stream_options":{"a":1}, "model":"m"}`, `{}`, `{ }`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := look([]byte(s))
		if err != nil {
			return
		}
		var want struct {
			Model any `json:"model"`
		}
		var exact map[string]json.RawMessage
		if json.Unmarshal([]byte(s), &want) != nil || json.Unmarshal([]byte(s), &exact) != nil {
			t.Fatalf("%q was taken", s)
		}
		var model string
		_ = json.Unmarshal(exact["model"], &model)
		if model != a.model {
			t.Errorf("%q: model %q, not %q", s, a.model, model)
		}
		var on map[string]any
		if err := json.Unmarshal(a.withUsage([]byte(s)), &on); err != nil {
			t.Errorf("%q became %s", s, a.withUsage([]byte(s)))
		} else if o, ok := on["stream_options"].(map[string]any); !ok || o["include_usage"] != true {
			t.Errorf("%q became %v", s, on)
		}
	})
}

func TestEventsOfUsageAreTakenOutInPiecesOfAnySize(t *testing.T) {
	t.Parallel()
	usage := "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1}}\n\n"
	kept := "data: {\"choices\":[{}],\"usage\":{\"x\":1}}\n\n" + ": comment\r\n\r\n" + "data: {\"choices\":[],\"usage\":null}\n\n" + "data: " + strings.Repeat("y", mostHeld+10) + "\n\n" + "data: [DONE]\n\n"
	in := "data: {\"choices\":[{}],\"usage\":{\"x\":1}}\n\n" + usage + kept[len("data: {\"choices\":[{}],\"usage\":{\"x\":1}}\n\n"):]
	for size := 1; size < 2000; size = size*3/2 + 1 {
		h := &hider{}
		var out strings.Builder
		for rest := in; rest != ""; {
			n := min(size, len(rest))
			out.Write(h.take([]byte(rest[:n])))
			rest = rest[n:]
		}
		out.Write(h.rest())
		if out.String() != kept {
			t.Fatalf("in pieces of %d: %d bytes, not %d", size, out.Len(), len(kept))
		}
	}
}

func TestWhatARequestMayUse(t *testing.T) {
	t.Parallel()
	picture := `{"type":"image","source":{"type":"base64","data":"` + strings.Repeat("iVBORw0KGgo", 50_000) + `"}}`
	for _, c := range []struct {
		body    string
		in      [2]int64 // from, to
		of      api
		out     int64
		outside bool
		special bool
	}{
		{body: `{"model":"m","messages":"` + strings.Repeat("1.", 500) + `"}`, in: [2]int64{1000, 1100}, of: messages, out: 128_000},
		{body: `{"model":"m","max_tokens":32000,"messages":"` + strings.Repeat("word ", 1000) + `"}`, in: [2]int64{2500, 3200}, of: messages, out: 32_000},
		{body: `{"model":"m","messages":[` + picture + `]}`, in: [2]int64{5000, 5200}, of: messages, out: 128_000},
		{body: `{"model":"m","max_tokens":1,"max_output_tokens":2e3,"previous_response_id":"r"}`, of: responses, out: 2000, outside: true},
		{body: `{"model":"m","max_tokens":10,"max_completion_tokens":20,"n":3,"service_tier":"priority"}`, of: chat, out: 60, special: true},
		{body: `{"model":"m","max_output_tokens":null,"tools":[{"type":"function","name":"f"},{"type":"web_search_20250305"}]}`, of: responses, out: 128_000, outside: true},
		{body: `{"model":"m","max_tokens":5,"tools":[{"name":"f"},{"type":"bash_20250124","name":"bash"}],"speed":"fast"}`, of: messages, out: 5, special: true},
	} {
		a, err := look([]byte(c.body))
		if err != nil {
			t.Fatal(err)
		}
		in, out := boundPrompt([]byte(c.body)), a.most(c.of, 128_000)
		if out != c.out || a.outside != c.outside || a.special != c.special || c.in[1] > 0 && (in < c.in[0] || in > c.in[1]) {
			t.Errorf("%.80s: in %d, out %d, outside %v, special %v", c.body, in, out, a.outside, a.special)
		}
	}
	if _, err := look([]byte(`{"model":"m","max_tokens":5,"max_tokens":50}`)); err == nil {
		t.Error("a bound that is named twice is taken")
	}
}
