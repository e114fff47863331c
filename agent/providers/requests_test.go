package providers_test

import (
	"bytes"
	"encoding/json"
	"image"
	"image/png"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/parawork/parawork/agent/providers"
)

// sent returns the headers and the body of the request that a provider makes.
func (a api) sent(t testing.TB, req providers.Request) (http.Header, map[string]any) {
	t.Helper()
	var header http.Header
	var body map[string]any
	p := a.make(providers.Config{Token: token, BaseURL: "http://model.test", ReasoningSummaries: true, HTTP: &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
		header = r.Header
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(whole[a.name]))}, nil
	})}})
	if got := ask(t.Context(), t, p, req); got.Err != nil {
		t.Error(got.Err)
	}
	return header, body
}

func same(t testing.TB, what string, got any, want string) {
	t.Helper()
	var w any
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, w) {
		t.Errorf("%s: %s\nwant %s", what, asJSON(t, got), asJSON(t, w))
	}
}

var pixel = providers.Part{Kind: providers.Image, MIME: "image/png", Data: []byte("png")}

// conversation has all that a conversation can have, except for the reasoning of each API.
func conversation(a api) providers.Request {
	thought := providers.Part{Kind: providers.Reasoning, Text: "Hm", Raw: json.RawMessage(raw[a.name]), Provider: a.origin, Model: "model-1"}
	foreign, older := thought, thought
	foreign.Provider, older.Model = "another", "model-0"
	said := text("I look.")
	said.Phase = "commentary"
	broken := call("call_2", "list", "")
	broken.RawArgs, broken.Args = `{"a":`, nil
	failure := returned("call_2", text("no such folder"))
	failure.IsError = true
	return providers.Request{
		Model: "model-1", MaxOutput: 9000, Effort: "high", CacheKey: "thread-1",
		System: []providers.System{{Text: "You are <an> agent.", Cache: true}, {Text: "Today is Friday."}},
		Tools:  []providers.Tool{{Name: "read", Description: "Reads.", Schema: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}}}`)}, {Name: "list"}},
		Messages: []providers.Message{user(text("Look"), pixel), assistant(text("Yes?")), user(text("Go")),
			assistant(foreign, older, thought, said, call("call_1", "read", `{"path":"a"}`), broken),
			user(failure, returned("call_1", text("A"), pixel), text("Hurry"))},
	}
}

func TestMessagesRequest(t *testing.T) {
	t.Parallel()
	h, got := apis[0].sent(t, conversation(apis[0]))
	if h.Get("X-Api-Key") != token || h.Get("Anthropic-Version") == "" || h.Get("Content-Type") != "application/json" {
		t.Errorf("headers %v", h)
	}
	same(t, "body", got, `{"model":"model-1","max_tokens":9000,"stream":true,"thinking":{"type":"enabled","budget_tokens":4500},
		"system":[{"type":"text","text":"You are <an> agent.","cache_control":{"type":"ephemeral"}},{"type":"text","text":"Today is Friday."}],
		"tools":[{"name":"read","description":"Reads.","input_schema":{"type":"object","properties":{"path":{"type":"string"}}}},{"name":"list","input_schema":{"type":"object","properties":{}},"cache_control":{"type":"ephemeral"}}],
		"messages":[
			{"role":"user","content":[{"type":"text","text":"Look"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"cG5n"}}]},
			{"role":"assistant","content":[{"type":"text","text":"Yes?"}]},
			{"role":"user","content":[{"type":"text","text":"Go","cache_control":{"type":"ephemeral"}}]},
			{"role":"assistant","content":[`+raw["messages"]+`,{"type":"text","text":"I look."},{"type":"tool_use","id":"call_1","name":"read","input":{"path":"a"}},{"type":"tool_use","id":"call_2","name":"list","input":{"invalid_json":"{\"a\":"}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_1","content":[{"type":"text","text":"A"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"cG5n"}}]},
				{"type":"tool_result","tool_use_id":"call_2","is_error":true,"content":[{"type":"text","text":"no such folder"}]},{"type":"text","text":"Hurry","cache_control":{"type":"ephemeral"}}]}]}`)

	req := conversation(apis[0])
	for range 5 {
		req.System = append(req.System, providers.System{Text: "More.", Cache: true})
	}
	_, got = apis[0].sent(t, req)
	if n := strings.Count(asJSON(t, got), "cache_control"); n != 4 {
		t.Errorf("%d breakpoints of the cache", n)
	}
	if last := got["system"].([]any)[6].(map[string]any); last["cache_control"] == nil {
		t.Error("the end of the system prompt is not kept in the cache")
	}

	req = hello()
	picture := returned("c", text("bad"), pixel)
	picture.IsError = true
	req.Messages = []providers.Message{assistant(call("c", "read", "{}")), user(picture)}
	_, got = apis[0].sent(t, req)
	same(t, "messages", got["messages"], `[{"role":"user","content":[{"type":"text","text":"(The conversation before is left out.)","cache_control":{"type":"ephemeral"}}]},{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"read","input":{}}]},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","cache_control":{"type":"ephemeral"},"content":[{"type":"text","text":"Error:"},{"type":"text","text":"bad"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"cG5n"}}]}]}]`)
	if got["max_tokens"] != 16384.0 || got["thinking"] != nil || got["system"] != nil || got["tools"] != nil {
		t.Errorf("body %s", asJSON(t, got))
	}
}

// Claude decides itself how much to think since 4.6; older ones take a number of tokens.
func TestThinkingOfModels(t *testing.T) {
	t.Parallel()
	const adaptive, fixed = `{"type":"adaptive","display":"summarized"}`, `{"type":"enabled","budget_tokens":4096}`
	for model, want := range map[string]string{"claude-opus-4-8": adaptive, "claude-opus-4-6-20260201": adaptive, "claude-sonnet-5": adaptive, "claude-fable-5-1": adaptive, "claude-mythos-preview": adaptive,
		"anthropic/claude-sonnet-4.6": adaptive, "claude-haiku-4-5-20251001": fixed, "claude-sonnet-4-20250514": fixed, "claude-3-7-sonnet-20250219": fixed, "glm-5": fixed} {
		req := hello()
		req.Model, req.Effort = model, "low"
		_, got := apis[0].sent(t, req)
		same(t, model, got["thinking"], want)
		if output, ok := got["output_config"]; ok != (want == adaptive) || ok && output.(map[string]any)["effort"] != "low" {
			t.Errorf("%s: output_config %v", model, output)
		}
		// A turn that began without thinking cannot go on with a fixed number of tokens.
		req.Messages = append(req.Messages, assistant(call("c", "read", "{}")), user(returned("c", text("x"))))
		_, got = apis[0].sent(t, req)
		if (got["thinking"] != nil) != (want == adaptive) {
			t.Errorf("%s: thinking %v in the middle of a turn without", model, got["thinking"])
		}
	}
}

func TestResponsesRequest(t *testing.T) {
	t.Parallel()
	h, got := apis[1].sent(t, conversation(apis[1]))
	if h.Get("Authorization") != "Bearer "+token {
		t.Errorf("headers %v", h)
	}
	same(t, "body", got, `{"model":"model-1","instructions":"You are <an> agent.\n\nToday is Friday.","max_output_tokens":9000,"store":false,"stream":true,"parallel_tool_calls":true,
		"prompt_cache_key":"thread-1","include":["reasoning.encrypted_content"],"reasoning":{"effort":"high","summary":"auto"},
		"tools":[{"type":"function","name":"read","description":"Reads.","strict":false,"parameters":{"type":"object","properties":{"path":{"type":"string"}}}},{"type":"function","name":"list","strict":false,"parameters":{"type":"object","properties":{}}}],
		"input":[
			{"type":"message","role":"user","content":[{"type":"input_text","text":"Look"},{"type":"input_image","image_url":"data:image/png;base64,cG5n"}]},
			{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Yes?"}]},
			{"type":"message","role":"user","content":[{"type":"input_text","text":"Go"}]},
			`+raw["responses"]+`,
			{"type":"message","role":"assistant","phase":"commentary","content":[{"type":"output_text","text":"I look."}]},
			{"type":"function_call","call_id":"call_1","name":"read","arguments":"{\"path\":\"a\"}"},
			{"type":"function_call","call_id":"call_2","name":"list","arguments":"{\"invalid_json\":\"{\\\"a\\\":\"}"},
			{"type":"function_call_output","call_id":"call_1","output":[{"type":"input_text","text":"A"},{"type":"input_image","image_url":"data:image/png;base64,cG5n"}]},
			{"type":"function_call_output","call_id":"call_2","output":"Error: no such folder"},
			{"type":"message","role":"user","content":[{"type":"input_text","text":"Hurry"}]}]}`)

	req := hello()
	req.Model = "gpt-4.1" // which never reasons
	_, got = apis[1].sent(t, req)
	same(t, "body", got, `{"model":"gpt-4.1","store":false,"stream":true,"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"Hello"}]}]}`)
}

func TestChatRequest(t *testing.T) {
	t.Parallel()
	h, got := apis[2].sent(t, conversation(apis[2]))
	if h.Get("Authorization") != "Bearer "+token {
		t.Errorf("headers %v", h)
	}
	same(t, "body", got, `{"model":"model-1","max_tokens":9000,"stream":true,"stream_options":{"include_usage":true},"reasoning_effort":"high",
		"tools":[{"type":"function","function":{"name":"read","description":"Reads.","parameters":{"type":"object","properties":{"path":{"type":"string"}}}}},{"type":"function","function":{"name":"list","parameters":{"type":"object","properties":{}}}}],
		"messages":[
			{"role":"system","content":"You are <an> agent.\n\nToday is Friday."},
			{"role":"user","content":[{"type":"text","text":"Look"},{"type":"image_url","image_url":{"url":"data:image/png;base64,cG5n"}}]},
			{"role":"assistant","content":"Yes?"},
			{"role":"user","content":"Go"},
			{"role":"assistant","content":"I look.","reasoning_content":"Let me see: ☃","tool_calls":[{"id":"call_1","type":"function","function":{"name":"read","arguments":"{\"path\":\"a\"}"}},{"id":"call_2","type":"function","function":{"name":"list","arguments":"{\"invalid_json\":\"{\\\"a\\\":\"}"}}]},
			{"role":"tool","tool_call_id":"call_1","content":"A"},
			{"role":"tool","tool_call_id":"call_2","content":"Error: no such folder"},
			{"role":"user","content":[{"type":"text","text":"Images of the result of call_1:"},{"type":"image_url","image_url":{"url":"data:image/png;base64,cG5n"}},{"type":"text","text":"Hurry"}]}]}`)

	req := conversation(apis[2])
	req.Model = "gpt-5.5"
	req.Messages = append(req.Messages, assistant(text("Done.")), user(text("Thanks")))
	_, got = apis[2].sent(t, req)
	if got["max_completion_tokens"] != 9000.0 || got["max_tokens"] != nil || strings.Contains(asJSON(t, got), "reasoning_content") {
		t.Errorf("body %s", asJSON(t, got)) // reasoning is of its turn only
	}
}

// What one provider made goes to another one: ids and names that it takes, and no reasoning.
func TestConversationsMove(t *testing.T) {
	t.Parallel()
	for _, from := range apis {
		for _, to := range apis {
			req := conversation(from)
			req.Messages[3].Parts = append(req.Messages[3].Parts, call("functions.read:0|fc_"+strings.Repeat("x", 80), "functions.read the "+strings.Repeat("ö", 80), `{}`))
			_, got := to.sent(t, req)
			sent := asJSON(t, got)
			if strings.Contains(sent, "Let me see") != (from.name == to.name) {
				t.Errorf("reasoning of %s sent to %s: %s", from.name, to.name, sent)
			}
			if strings.Contains(sent, "fc_") || strings.Contains(sent, "functions.read") || strings.Count(sent, "functions_read") != 1 || strings.Count(sent, `"call_`) < 6 {
				t.Errorf("sent to %s: %s", to.name, sent)
			}
		}
	}
}

// What is stored is sent as what came.
func TestPartsAreStored(t *testing.T) {
	t.Parallel()
	for _, a := range apis {
		req := conversation(a)
		req.Messages[3].Parts[4].Args = json.RawMessage(`{ "path": "a <b> & \u003cc \\u003c" }`)
		req.Messages = append(req.Messages, assistant(ask(t.Context(), t, a.answers(whole[a.name], 0), req).Parts...))
		stored, err := json.Marshal(req.Messages)
		if err != nil {
			t.Fatal(err)
		}
		_, before := a.sent(t, req)
		req.Messages = nil
		if err := json.Unmarshal(stored, &req.Messages); err != nil {
			t.Fatal(err)
		}
		_, after := a.sent(t, req)
		same(t, a.name, after, asJSON(t, before))
	}
	got := asJSON(t, providers.Part{Kind: providers.ToolCall, CallID: "c", Name: "n", Args: json.RawMessage(`{}`)})
	same(t, "a call", map[string]any{"kind": "tool_call", "call_id": "c", "name": "n", "args": map[string]any{}}, got)
}

func TestRequestsThatCannotBeSent(t *testing.T) {
	t.Parallel()
	for _, a := range apis {
		req := hello()
		req.Tools = []providers.Tool{{Name: "read", Schema: json.RawMessage(`{`)}}
		if e := failed(t, ask(t.Context(), t, a.answers(whole[a.name], 0), req).Err); e.Kind != providers.ErrInvalidRequest {
			t.Errorf("%s: %+v", a.name, e)
		}
		p := a.make(providers.Config{HTTP: http.DefaultClient, BaseURL: "http://[bad"})
		if e := failed(t, ask(t.Context(), t, p, hello()).Err); e.Kind != providers.ErrInvalidRequest {
			t.Errorf("%s: %+v", a.name, e)
		}
	}
}

func TestEstimate(t *testing.T) {
	t.Parallel()
	picture := func(w, h int) providers.Part {
		var b bytes.Buffer
		if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, w, h))); err != nil {
			t.Fatal(err)
		}
		return providers.Part{Kind: providers.Image, MIME: "image/png", Data: b.Bytes()}
	}
	for _, test := range []struct {
		part        providers.Part
		least, most int64
	}{
		{text(strings.Repeat("word ", 800)), 950, 1050},
		{text(strings.Repeat("文", 500)), 450, 550},
		{picture(750, 100), 95, 110},
		{picture(4000, 3000), 1500, 1700},
		{pixel, 1500, 1700}, // whose size is unknown
		{returned("c", picture(4000, 3000), text(strings.Repeat("word ", 800))), 2450, 2750},
		{call("c", "read", `{"path":"`+strings.Repeat("a", 400)+`"}`), 95, 120},
	} {
		req := providers.Request{Messages: []providers.Message{user(test.part)}}
		if got := providers.Estimate(req); got < test.least || got > test.most {
			t.Errorf("%s: %d tokens, want %d to %d", test.part.Kind, got, test.least, test.most)
		}
		req.System, req.Tools = []providers.System{{Text: strings.Repeat("word ", 80)}}, []providers.Tool{{Name: "read", Schema: json.RawMessage(`{"type":"object"}`)}}
		if got := providers.Estimate(req); got < test.least+100 {
			t.Errorf("%d tokens with a system prompt and a tool", got)
		}
	}
}

// Reasoning that the provider cannot read, because the account or the model behind its name changed, is left out, and the request is
// made once more; from then on it is left out at once.
func TestReasoningThatIsRefused(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		api    int
		status int
		body   string
		again  bool
	}{
		{0, 400, `{"type":"error","error":{"type":"invalid_request_error","message":"messages.3.content.0: Invalid ` + "`signature` in `thinking`" + ` block"}}`, true},
		{0, 400, `{"type":"error","error":{"type":"invalid_request_error","message":"messages.3.content.0: ` + "`thinking` or `redacted_thinking`" + ` blocks in the latest assistant message cannot be modified."}}`, true},
		{0, 400, `{"type":"error","error":{"type":"invalid_request_error","message":"max_tokens must be greater than thinking.budget_tokens"}}`, false},
		{0, 529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, false},
		{1, 400, `{"error":{"message":"The encrypted content gAAA... could not be verified. Reason: Encrypted content could not be decrypted or parsed.","type":"invalid_request_error","code":"invalid_encrypted_content"}}`, true},
		{1, 400, `{"error":{"message":"Encrypted content organization_id did not match the target organization.","type":"invalid_request_error","code":null}}`, true},
		{1, 400, `{"error":{"message":"Item 'rs_1' of type 'reasoning' was provided without its required following item.","type":"invalid_request_error"}}`, true},
		{1, 200, sse(`{"type":"response.failed","response":{"status":"failed","error":{"code":"invalid_encrypted_content","message":"No."}}}`), true},
		{1, 400, `{"error":{"message":"Unknown parameter: 'x'.","type":"invalid_request_error"}}`, false},
	} {
		a := apis[test.api]
		var bodies []string
		p := a.serve(t, func(w http.ResponseWriter, r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			bodies = append(bodies, string(b))
			if strings.Contains(string(b), "Let me see") || !test.again {
				w.WriteHeader(test.status)
				_, _ = io.WriteString(w, test.body)
				return
			}
			_, _ = io.WriteString(w, whole[a.name])
		})
		got := ask(t.Context(), t, p, conversation(a))
		if !test.again {
			if failed(t, got.Err); len(bodies) != 1 {
				t.Errorf("%s: asked %d times", test.body, len(bodies))
			}
			continue
		}
		if got.Err != nil || len(bodies) != 2 || !strings.Contains(bodies[1], "I look.") || strings.Contains(bodies[1], "Let me see") {
			t.Errorf("%s: %v, sent %q", test.body, got.Err, bodies)
		}
		if got := ask(t.Context(), t, p, conversation(a)); got.Err != nil || len(bodies) != 3 {
			t.Errorf("%s: %v, asked %d times", test.body, got.Err, len(bodies))
		}
		if test.status == 400 { // refused even without reasoning: that is the answer
			n := 0
			p = a.serve(t, func(w http.ResponseWriter, _ *http.Request) {
				n++
				w.WriteHeader(test.status)
				_, _ = io.WriteString(w, test.body)
			})
			if e := failed(t, ask(t.Context(), t, p, conversation(a)).Err); n != 2 || e.Retryable() {
				t.Errorf("asked %d times: %+v", n, e)
			}
		}
	}
}

// Claude 4 before 4.6 thinks between its calls when it is asked to think; nobody else is sent the header.
func TestThinkingBetweenCalls(t *testing.T) {
	t.Parallel()
	for model, want := range map[string]bool{"claude-sonnet-4-5": true, "claude-opus-4-1-20250805": true, "claude-sonnet-4-20250514": true, "anthropic/claude-opus-4.5": true,
		"claude-opus-4-6": false, "claude-sonnet-5": false, "claude-3-7-sonnet-20250219": false, "claude-mythos-preview": false, "glm-5": false} {
		req := hello()
		req.Model = model
		for effort, want := range map[string]bool{"": false, "high": want} {
			req.Effort = effort
			if h, _ := apis[0].sent(t, req); (h.Get("Anthropic-Beta") == "interleaved-thinking-2025-05-14") != want {
				t.Errorf("%s, effort %q: %q", model, effort, h.Get("Anthropic-Beta"))
			}
		}
	}
}
