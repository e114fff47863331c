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

// The same answer as each API streams it: reasoning, a text, and two calls, one with arguments in pieces and one without any.
var whole = map[string]string{
	"messages": sse(
		`{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"model-1","content":[],"stop_reason":null,"usage":{"input_tokens":70,"cache_read_input_tokens":20,"cache_creation_input_tokens":10,"output_tokens":1}}}`,
		`{"type":"ping"}`,
		`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Let me "}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"see: ☃"}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2ln"}}`,
		`{"type":"content_block_stop","index":0}`,
		`{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}`,
		`{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"I lo"}}`,
		`{"type":"ping"}`,
		`{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"ok.\n\n𝄞"}}`,
		`{"type":"content_block_stop","index":1}`,
		`{"type":"a_kind_of_tomorrow","index":7}`,
		`{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"call_1","name":"read","input":{}}}`,
		`{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":""}}`,
		`{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"path\": \"a"}}`,
		`{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":".txt\"}"}}`,
		`{"type":"content_block_stop","index":2}`,
		`{"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"call_2","name":"list","input":{}}}`,
		`{"type":"content_block_stop","index":3}`,
		`{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":33,"output_tokens_details":{"thinking_tokens":9}}}`,
		`{"type":"message_stop"}`),
	"responses": sse(
		`{"type":"response.created","sequence_number":0,"response":{"id":"resp_1","status":"in_progress","output":[],"usage":null,"error":null,"incomplete_details":null}}`,
		`{"type":"response.in_progress","sequence_number":1,"response":{"id":"resp_1","output":[]}}`,
		`{"type":"response.output_item.added","output_index":0,"item":{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"part"}}`,
		`{"type":"response.reasoning_summary_part.added","item_id":"rs_1","output_index":0,"summary_index":0,"part":{"type":"summary_text","text":""}}`,
		`{"type":"response.reasoning_summary_text.delta","item_id":"rs_1","output_index":0,"summary_index":0,"delta":"Let me "}`,
		`{"type":"response.reasoning_summary_text.delta","item_id":"rs_1","output_index":0,"summary_index":0,"delta":"see: ☃"}`,
		`{"type":"response.output_item.done","output_index":0,"item":{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"Let me see: ☃"}],"encrypted_content":"gAAA","of_tomorrow":[1,2.50]}}`,
		`{"type":"response.output_item.added","output_index":1,"item":{"id":"msg_1","type":"message","role":"assistant","content":[],"status":"in_progress"}}`,
		`{"type":"response.content_part.added","item_id":"msg_1","output_index":1,"content_index":0,"part":{"type":"output_text","text":"","annotations":[]}}`,
		`{"type":"response.output_text.delta","item_id":"msg_1","output_index":1,"content_index":0,"delta":"I lo"}`,
		`{"type":"response.output_text.delta","item_id":"msg_1","output_index":1,"content_index":0,"delta":"ok.\n\n𝄞"}`,
		`{"type":"response.output_text.done","item_id":"msg_1","output_index":1,"content_index":0,"text":"I look.\n\n𝄞"}`,
		`{"type":"response.output_item.done","output_index":1,"item":{"id":"msg_1","type":"message","role":"assistant","phase":"commentary","status":"completed","content":[{"type":"output_text","text":"I look.\n\n𝄞","annotations":[]}]}}`,
		`{"type":"response.output_item.added","output_index":2,"item":{"id":"fc_1","type":"function_call","call_id":"call_1","name":"read","arguments":""}}`,
		`{"type":"response.output_item.added","output_index":3,"item":{"id":"fc_2","type":"function_call","call_id":"call_2","name":"list","arguments":""}}`,
		`{"type":"response.function_call_arguments.delta","item_id":"fc_1","output_index":2,"delta":"{\"path\": \"a"}`,
		`{"type":"response.function_call_arguments.delta","item_id":"fc_1","output_index":2,"delta":".txt\"}"}`,
		`{"type":"response.function_call_arguments.done","item_id":"fc_1","output_index":2,"arguments":"{\"path\": \"a.txt\"}"}`,
		`{"type":"response.output_item.done","output_index":2,"item":{"id":"fc_1","type":"function_call","call_id":"call_1","name":"read","arguments":"{\"path\": \"a.txt\"}","status":"completed"}}`,
		`{"type":"response.output_item.done","output_index":3,"item":{"id":"fc_2","type":"function_call","call_id":"call_2","name":"list","arguments":"{}","status":"completed"}}`,
		`{"type":"response.completed","response":{"id":"resp_1","status":"completed","error":null,"incomplete_details":null,"output":[],"usage":{"input_tokens":100,"input_tokens_details":{"cached_tokens":20,"cache_write_tokens":10},"output_tokens":33,"output_tokens_details":{"reasoning_tokens":9},"total_tokens":133}}}`),
	"chat": ": a comment\n\n" + sse(
		`{"id":"c1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`,
		`{"id":"c1","choices":[{"index":0,"delta":{"reasoning_content":"Let me "},"finish_reason":null}]}`,
		`{"id":"c1","choices":[{"index":0,"delta":{"reasoning_content":"see: ☃"}}]}`,
		`{"id":"c1","choices":[{"index":0,"delta":{"content":"I lo"}}]}`,
		`{"id":"c1","choices":[{"index":0,"delta":{"content":"ok.\n\n𝄞"}}]}`,
		`{"id":"c1","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"read","arguments":""}}]}}]}`,
		`{"id":"c1","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"path\": \"a"}}]}}]}`,
		`{"id":"c1","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":".txt\"}"}}]}}]}`,
		`{"id":"c1","choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"call_2","type":"function","function":{"name":"list","arguments":"{}"}}]}}]}`,
		`{"id":"c1","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`,
		`{"id":"c1","choices":[],"usage":{"prompt_tokens":100,"completion_tokens":33,"prompt_tokens_details":{"cached_tokens":20,"cache_write_tokens":10},"completion_tokens_details":{"reasoning_tokens":9}}}`,
		`[DONE]`),
}

// raw is what the reasoning of whole is sent back as.
var raw = map[string]string{
	"messages":  `{"signature":"c2ln","thinking":"Let me see: ☃","type":"thinking"}`,
	"responses": `{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"Let me see: ☃"}],"encrypted_content":"gAAA","of_tomorrow":[1,2.50]}`,
	"chat":      `{"reasoning_content":"Let me see: ☃"}`,
}

func wholeParts(a api) []providers.Part {
	said := text("I look.\n\n𝄞")
	if a.name == "responses" {
		said.Phase = "commentary"
	}
	return []providers.Part{{Kind: providers.Reasoning, Text: "Let me see: ☃", Raw: json.RawMessage(raw[a.name]), Provider: a.origin, Model: "model-1"},
		said, call("call_1", "read", `{"path": "a.txt"}`), call("call_2", "list", `{}`)}
}

var wholeUsage = providers.Usage{Input: 70, Output: 33, CacheRead: 20, CacheWrite: 10, Reasoning: 9}

func checkWhole(t *testing.T, a api, got result) {
	t.Helper()
	if got.Err != nil || got.Stop != providers.StopToolCalls {
		t.Fatalf("stop %q, error %v", got.Stop, got.Err)
	}
	for i := range got.Parts {
		got.Parts[i].Raw = json.RawMessage(strings.TrimSpace(string(got.Parts[i].Raw)))
		if len(got.Parts[i].Raw) == 0 {
			got.Parts[i].Raw = nil
		}
	}
	if want := wholeParts(a); !reflect.DeepEqual(got.Parts, want) {
		t.Errorf("parts %s\nwant %s", asJSON(t, got.Parts), asJSON(t, want))
	}
	if got.Text != "I look.\n\n𝄞" || got.Thought != "Let me see: ☃" || !strings.HasPrefix(got.Args, `{"path": "a.txt"}`) || !reflect.DeepEqual(got.Begun, []string{"read", "list"}) {
		t.Errorf("deltas: text %q, reasoning %q, arguments %q, calls %q", got.Text, got.Thought, got.Args, got.Begun)
	}
}

// All APIs tell the same answer the same way, in whatever pieces it comes, and with whatever line ends.
func TestAnswerInPiecesOfEverySize(t *testing.T) {
	t.Parallel()
	for _, a := range apis {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			stream := whole[a.name]
			for size := range 70 {
				got := ask(t.Context(), t, a.answers(stream, size), hello())
				checkWhole(t, a, got)
				if got.Usage != wholeUsage {
					t.Errorf("usage %+v", got.Usage)
				}
			}
			for how, stream := range map[string]string{
				"CRLF": strings.ReplaceAll(stream, "\n", "\r\n"), "CR": strings.ReplaceAll(stream, "\n", "\r"), "BOM": "\ufeff" + stream,
				"no space": strings.ReplaceAll(stream, "data: ", "data:"), "no end": strings.TrimRight(stream, "\n"), "two lines": strings.ReplaceAll(stream, `"delta":{`, "\"delta\":\ndata: {"),
				"comments": strings.ReplaceAll(stream, "\n\n", "\n: still here\nid: 7\nretry: 3\n\n: OPENROUTER PROCESSING\n\n"), "no names": strings.ReplaceAll(stream, "event: ", "x: "),
			} {
				for _, size := range []int{0, 1, 2, 3} {
					checkWhole(t, a, ask(t.Context(), t, a.answers(stream, size), hello()))
				}
				if t.Failed() {
					t.Fatal(how)
				}
			}
		})
	}
}

// An answer that is cut anywhere never looks like a whole one.
func TestAnswerCutAnywhere(t *testing.T) {
	t.Parallel()
	for _, a := range apis {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			stream := strings.TrimRight(whole[a.name], "\n")
			for n := rand.IntN(5); n < len(stream); n += 5 {
				got := ask(t.Context(), t, a.answers(stream[:n], 0), hello())
				if got.Err == nil { // only the usage is missing
					if a.name != "chat" || !strings.Contains(stream[:n], `"finish_reason":"tool_calls"`) {
						t.Fatalf("cut after %q, and complete: %+v", stream[:n], got)
					}
					checkWhole(t, a, got)
					if got.Usage != wholeUsage && !got.Usage.Estimated {
						t.Fatalf("cut after %q: usage %+v", stream[:n], got.Usage)
					}
					continue
				}
				if e := failed(t, got.Err); e.Kind != providers.ErrCut || !e.Retryable() {
					t.Fatalf("cut after %q: %+v", stream[:n], e)
				}
			}
		})
	}
}

// What stands in place of an event of the answer must not make it look like another one.
func TestBrokenEvents(t *testing.T) {
	t.Parallel()
	for _, a := range apis {
		events := strings.SplitAfter(whole[a.name], "\n\n")
		for i := range events {
			broken := strings.Join(events[:i], "") + "data: {\"type\":\"content_block_de\n\n" + strings.Join(events[i:], "")
			if got := ask(t.Context(), t, a.answers(broken, 0), hello()); got.Err != nil && failed(t, got.Err).Kind != providers.ErrCut {
				t.Errorf("%s: %v", a.name, got.Err)
			} else if got.Err == nil && i < len(events)-1 {
				t.Errorf("%s: an event that is no JSON before event %d was ignored", a.name, i)
			}
			strange := strings.Join(events[:i], "") + sse(`{"type":7,"index":"x","choices":{},"delta":[]}`, `{}`, `[]`, `null`, `"x"`, `7`) + "data:\n\n" + strings.Join(events[i:], "")
			checkWhole(t, a, ask(t.Context(), t, a.answers(strange, 0), hello()))
		}
	}
}

func TestStopReasons(t *testing.T) {
	t.Parallel()
	messages := func(reason string) string {
		return sse(`{"type":"message_start","message":{"usage":{"input_tokens":1}}}`, `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"Hi"}}`,
			`{"type":"content_block_stop","index":0}`, `{"type":"message_delta","delta":{"stop_reason":`+reason+`},"usage":{"output_tokens":1}}`, `{"type":"message_stop"}`)
	}
	responses := func(kind, details string) string {
		return sse(`{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"Hi"}`,
			`{"type":"`+kind+`","response":{"incomplete_details":`+details+`,"output":[{"type":"message","content":[{"type":"output_text","text":"Hi"}]}],"usage":{"input_tokens":1,"output_tokens":1}}}`)
	}
	chat := func(reason string) string {
		return sse(`{"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":`+reason+`}]}`, `[DONE]`)
	}
	for _, test := range []struct {
		api    int
		stream string
		want   providers.Stop
	}{
		{0, messages(`"end_turn"`), providers.StopEndTurn}, {0, messages(`"stop_sequence"`), providers.StopEndTurn}, {0, messages(`"max_tokens"`), providers.StopMaxOutput},
		{0, messages(`"tool_use"`), providers.StopEndTurn}, {0, messages(`"pause_turn"`), providers.StopPause}, {0, messages(`"refusal"`), providers.StopRefusal},
		{0, messages(`"model_context_window_exceeded"`), providers.StopMaxOutput}, {0, messages(`"of_tomorrow"`), providers.StopUnknown}, {0, messages(`null`), providers.StopUnknown},
		{1, responses("response.completed", "null"), providers.StopEndTurn}, {1, responses("response.incomplete", `{"reason":"max_output_tokens"}`), providers.StopMaxOutput},
		{1, responses("response.incomplete", `{"reason":"content_filter"}`), providers.StopRefusal}, {1, responses("response.incomplete", "null"), providers.StopUnknown},
		{1, sse(`{"type":"response.refusal.delta","output_index":0,"delta":"Hi"}`, `{"type":"response.output_item.done","output_index":0,"item":{"type":"message","content":[{"type":"refusal","refusal":"Hi"}]}}`,
			`{"type":"response.completed","response":{"output":[]}}`), providers.StopRefusal},
		{2, chat(`"stop"`), providers.StopEndTurn}, {2, chat(`"length"`), providers.StopMaxOutput}, {2, chat(`"content_filter"`), providers.StopRefusal}, {2, chat(`"tool_calls"`), providers.StopEndTurn},
		{2, chat(`null`), providers.StopUnknown}, {2, chat(`"of_tomorrow"`), providers.StopUnknown},
	} {
		got := ask(t.Context(), t, apis[test.api].answers(test.stream, 0), hello())
		if got.Err != nil || got.Stop != test.want || got.Text != "Hi" || len(got.Parts) != 1 || got.Parts[0].Text != "Hi" {
			t.Errorf("%s\n%+v, want %s", test.stream, got, test.want)
		}
	}
}

// Reasoning that cannot be read goes back as it came, too.
func TestHiddenReasoning(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		api         int
		stream, raw string
	}{
		{0, sse(`{"type":"content_block_start","index":0,"content_block":{"type":"redacted_thinking","data":"EmwK","of_tomorrow":1}}`, `{"type":"content_block_stop","index":0}`,
			`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1}}`, `{"type":"message_stop"}`), `{"type":"redacted_thinking","data":"EmwK","of_tomorrow":1}`},
		{0, sse(`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":"","of_tomorrow":1}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"a/b=="}}`, `{"type":"message_stop"}`), `{"of_tomorrow":1,"signature":"a/b==","thinking":"","type":"thinking"}`},
		{1, sse(`{"type":"response.completed","response":{"output":[{"type":"reasoning","id":"rs","summary":[],"encrypted_content":"x"}]}}`), `{"type":"reasoning","id":"rs","summary":[],"encrypted_content":"x"}`},
		{2, sse(`{"choices":[{"index":0,"delta":{"reasoning_details":[{"type":"reasoning.text","text":"a","index":0}]}}]}`, `{"choices":[{"index":0,"delta":{"reasoning_details":[{"type":"reasoning.text","text":"b","signature":"s","index":0}]}}]}`,
			`{"choices":[{"index":0,"delta":{"reasoning_details":[{"type":"reasoning.encrypted","data":"x","index":1}]},"finish_reason":"stop"}]}`, `[DONE]`),
			`{"reasoning_details":[{"index":0,"signature":"s","text":"ab","type":"reasoning.text"},{"data":"x","index":1,"type":"reasoning.encrypted"}]}`},
	} {
		got := ask(t.Context(), t, apis[test.api].answers(test.stream, 0), hello())
		if got.Err != nil || len(got.Parts) != 1 || got.Parts[0].Kind != providers.Reasoning || strings.TrimSpace(string(got.Parts[0].Raw)) != test.raw {
			t.Errorf("got %v %s\nwant %s", got.Err, asJSON(t, got.Parts), test.raw)
		}
	}
}

// Servers that speak Chat Completions in ways of their own.
func TestCallsOfOtherServers(t *testing.T) {
	t.Parallel()
	chunk := func(calls string) string { return `{"choices":[{"index":0,"delta":{"tool_calls":[` + calls + `]}}]}` }
	finish := `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
	for name, test := range map[string]struct {
		events []string
		want   []string // names and arguments
	}{
		"no index, whole calls":       {[]string{chunk(`{"id":"a","function":{"name":"one","arguments":"{\"n\":1}"}}`), chunk(`{"id":"b","function":{"name":"two","arguments":"{\"n\":2}"}}`)}, []string{`one {"n":1}`, `two {"n":2}`}},
		"no index, in one chunk":      {[]string{chunk(`{"id":"a","function":{"name":"one","arguments":"{}"}},{"id":"b","function":{"name":"two","arguments":"{}"}}`)}, []string{"one {}", "two {}"}},
		"no index, in pieces":         {[]string{chunk(`{"id":"a","function":{"name":"one","arguments":"{\"n\""}}`), chunk(`{"function":{"arguments":":1}"}}`), chunk(`{"id":"b","function":{"name":"two","arguments":"{"}}`), chunk(`{"id":"b","function":{"arguments":"}"}}`)}, []string{`one {"n":1}`, "two {}"}},
		"the same index":              {[]string{chunk(`{"index":0,"id":"a","function":{"name":"one","arguments":"{\"n\""}}`), chunk(`{"index":0,"function":{"arguments":":1}"}}`), chunk(`{"index":0,"id":"b","function":{"name":"two","arguments":"{"}}`), chunk(`{"index":0,"function":{"arguments":"}"}}`)}, []string{`one {"n":1}`, "two {}"}},
		"no ids, the same index":      {[]string{chunk(`{"index":0,"function":{"name":"one","arguments":"{}"}}`), chunk(`{"index":0,"function":{"name":"two","arguments":"{\"n\":2}"}}`)}, []string{"one {}", `two {"n":2}`}},
		"neither index nor ids":       {[]string{chunk(`{"function":{"name":"one","arguments":"{}"}}`), chunk(`{"function":{"name":"one","arguments":"{\"n\":2}"}}`)}, []string{"one {}", `one {"n":2}`}},
		"the same id, other indexes":  {[]string{chunk(`{"index":0,"id":"call_0","function":{"name":"one","arguments":"{}"}}`), chunk(`{"index":1,"id":"call_0","function":{"name":"two","arguments":"{}"}}`)}, []string{"one {}", "two {}"}},
		"the id in each piece":        {[]string{chunk(`{"index":0,"id":"a","function":{"name":"one","arguments":"{\"n\""}}`), chunk(`{"index":0,"id":"a","function":{"name":"one","arguments":":1}"}}`)}, []string{`one {"n":1}`}},
		"the whole call again":        {[]string{chunk(`{"index":0,"id":"a","function":{"name":"one","arguments":"{\"n\":1}"}}`), chunk(`{"index":0,"id":"a","function":{"name":"one","arguments":"{\"n\":1}"}}`)}, []string{`one {"n":1}`}},
		"an object as arguments":      {[]string{chunk(`{"index":0,"id":"a","function":{"name":"one","arguments":{"n":1}}}`)}, []string{`one {"n":1}`}},
		"arguments encoded twice":     {[]string{chunk(`{"index":0,"id":"a","function":{"name":"one","arguments":"\"{\\\"n\\\":1}\""}}`)}, []string{`one {"n":1}`}},
		"null and no arguments":       {[]string{chunk(`{"index":0,"id":"a","function":{"name":"one","arguments":null}},{"index":1,"id":"b","function":{"name":"two"}}`)}, []string{"one {}", "two {}"}},
		"the name after the id":       {[]string{chunk(`{"index":0,"id":"a","function":{"arguments":""}}`), chunk(`{"index":0,"function":{"name":"one","arguments":"{}"}}`)}, []string{"one {}"}},
		"indexes from one, backwards": {[]string{chunk(`{"index":2,"id":"a","function":{"name":"one","arguments":"{"}},{"index":1,"id":"b","function":{"name":"two","arguments":"{"}}`), chunk(`{"index":2,"function":{"arguments":"}"}},{"index":1,"function":{"arguments":"}"}}`)}, []string{"one {}", "two {}"}},
		"pieces at another index":     {[]string{chunk(`{"index":0,"id":"a","function":{"name":"one","arguments":"{\"n\""}}`), chunk(`{"index":3,"function":{"arguments":":1}"}}`)}, []string{`one {"n":1}`}},
		"no JSON":                     {[]string{chunk(`{"index":0,"id":"a","function":{"name":"one","arguments":"{\"n\": 1,}"}}`)}, []string{`one {"n": 1,}!`}},
		"a list":                      {[]string{chunk(`{"index":0,"id":"a","function":{"name":"one","arguments":"[1]"}}`)}, []string{`one [1]!`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ask(t.Context(), t, apis[2].answers(sse(append(test.events, finish, `[DONE]`)...), 0), hello())
			if got.Err != nil || got.Stop != providers.StopToolCalls || !got.Usage.Estimated || got.Usage.Input == 0 || got.Usage.Output == 0 {
				t.Errorf("stop %q, usage %+v, error %v", got.Stop, got.Usage, got.Err)
			}
			var calls []string
			ids := map[string]bool{}
			for _, p := range got.Parts {
				c := fmt.Sprintf("%s %s", p.Name, p.Args)
				if p.RawArgs != "" {
					c += p.RawArgs + "!"
				}
				calls, ids[p.CallID] = append(calls, c), true
			}
			if !reflect.DeepEqual(calls, test.want) || len(ids) != len(calls) || ids[""] {
				t.Errorf("calls %q with ids %v, want %q", calls, ids, test.want)
			}
		})
	}
}

// Some servers name the calls of each answer call_0, call_1: in a conversation they must differ.
func TestCallIDsDifferFromEarlierOnes(t *testing.T) {
	t.Parallel()
	req := hello()
	req.Messages = append(req.Messages, assistant(call("call_1", "read", `{}`)), user(returned("call_1", text("x"))))
	for _, a := range apis {
		got := ask(t.Context(), t, a.answers(whole[a.name], 0), req)
		if got.Err != nil || len(got.Parts) != 4 || got.Parts[2].CallID == "call_1" || got.Parts[2].CallID == "" || got.Parts[3].CallID != "call_2" {
			t.Errorf("%s: %v %s", a.name, got.Err, asJSON(t, got.Parts))
		}
	}
}

func TestOtherChatAnswers(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		stream, text, thought string
		usage                 providers.Usage
	}{
		"Ollama":           {sse(`{"choices":[{"index":0,"delta":{"reasoning":"Hm"}}]}`, `{"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":2}}`, `[DONE]`), "Hi", "Hm", providers.Usage{Input: 7, Output: 2}},
		"no DONE":          {sse(`{"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}]}`), "Hi", "", providers.Usage{Input: 6, Output: 1, Estimated: true}},
		"usage of zero":    {sse(`{"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":0,"completion_tokens":0}}`, `[DONE]`), "Hi", "", providers.Usage{Input: 6, Output: 1, Estimated: true}},
		"usage every time": {sse(`{"choices":[{"index":0,"delta":{"content":"H"}}],"usage":{"prompt_tokens":7,"completion_tokens":1}}`, `{"choices":[{"index":0,"delta":{"content":"i"},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":2}}`, `[DONE]`), "Hi", "", providers.Usage{Input: 7, Output: 2}},
		"finish every time": {sse(`{"choices":[{"index":0,"delta":{"content":"H"},"finish_reason":"stop"}]}`, `{"choices":[{"index":0,"delta":{"content":"i"},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":2}}`, `[DONE]`), "Hi", "",
			providers.Usage{Input: 7, Output: 2}},
		"a list of texts": {sse(`{"choices":[{"index":0,"delta":{"content":[{"type":"text","text":"H"},{"type":"text","text":"i"}]},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":2}}`), "Hi", "", providers.Usage{Input: 7, Output: 2}},
		"two choices":     {sse(`{"choices":[{"index":0,"delta":{"content":"Hi"}},{"index":1,"delta":{"content":"Ho"},"finish_reason":"stop"}]}`, `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":2}}`), "Hi", "", providers.Usage{Input: 7, Output: 2}},
	} {
		got := ask(t.Context(), t, apis[2].answers(test.stream, 0), hello())
		if got.Err != nil || got.Text != test.text || got.Thought != test.thought || got.Usage != test.usage || got.Stop != providers.StopEndTurn {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// An answer without end is ended, and not asked for again.
func TestAnswersAreBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1<<20)
	for i, piece := range []string{
		sse(`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"` + long + `"}}`),
		sse(`{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"` + long + `"}`),
		sse(`{"choices":[{"index":0,"delta":{"content":"` + long + `"}}]}`),
		sse(`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`),
		sse(`{"type":"response.output_item.done","output_index":%d,"item":{"type":"reasoning","encrypted_content":"x"}}`),
		sse(`{"choices":[{"index":0,"delta":{"tool_calls":[{"id":"%d","function":{"name":"read","arguments":"{}"}}]}}]}`),
	} {
		var stream strings.Builder
		for n := 0; n < 600 && stream.Len() < 9<<20; n++ {
			stream.WriteString(strings.ReplaceAll(piece, "%d", fmt.Sprint(n)))
		}
		got := ask(t.Context(), t, apis[i%3].answers(stream.String(), 0), hello())
		if e := failed(t, got.Err); e.Code != "answer_too_large" || e.Retryable() {
			t.Errorf("%s: %+v", piece[:60], e)
		}
	}
	got := ask(t.Context(), t, apis[0].answers("data: "+strings.Repeat("x", 25<<20), 0), hello())
	if e := failed(t, got.Err); e.Code != "answer_too_large" || e.Retryable() {
		t.Errorf("an event without end: %+v", e)
	}
}

// Reasoning that a server leaves in the text is reasoning, in whatever pieces it comes, and no text that goes back.
func TestReasoningInTheText(t *testing.T) {
	t.Parallel()
	for said, want := range map[string][2]string{
		"<think>Hm.</think>\n\nHi":      {"Hm.", "Hi"},
		"\n <think>a < b</thin</think>": {"a < b</thin", ""},
		"<think>cut </thi":              {"cut </thi", ""},
		"<thin":                         {"", "<thin"},
		"Use <think>x</think>.":         {"", "Use <think>x</think>."},
		"<think>Hm,</think><think>b":    {"Hm,", "<think>b"},
		" \n":                           {"", " \n"},
	} {
		for size := 1; size <= len(said); size++ {
			var events []string
			for rest := said; rest != ""; rest = rest[min(size, len(rest)):] {
				events = append(events, `{"choices":[{"index":0,"delta":{"content":`+asJSON(t, rest[:min(size, len(rest))])+`}}]}`)
			}
			got := ask(t.Context(), t, apis[2].answers(sse(append(events, `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`, `[DONE]`)...), 0), hello())
			if got.Err != nil || got.Thought != want[0] || got.Text != want[1] {
				t.Errorf("%q by %d: reasoning %q, text %q, %v", said, size, got.Thought, got.Text, got.Err)
			}
			req := hello()
			req.Messages = append(req.Messages, assistant(append(got.Parts, call("c", "read", "{}"))...), user(returned("c", text("x"))))
			if _, body := apis[2].sent(t, req); want[0] != "" && strings.Contains(asJSON(t, body), want[0]) {
				t.Errorf("%q: the reasoning is sent back: %s", said, asJSON(t, body))
			}
		}
	}
}

// A call that a server sends twice is made once, and one whose end nobody knows is no whole one.
func TestCallsThatComeTwice(t *testing.T) {
	t.Parallel()
	block := func(index int, id, args string) string {
		return sse(fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":{"type":"tool_use","id":%q,"name":"write","input":{}}}`, index, id),
			fmt.Sprintf(`{"type":"content_block_delta","index":%d,"delta":{"type":"input_json_delta","partial_json":%q}}`, index, args), fmt.Sprintf(`{"type":"content_block_stop","index":%d}`, index))
	}
	item := func(id, callID, args string) string {
		return fmt.Sprintf(`{"type":"function_call","id":%q,"call_id":%q,"name":"write","arguments":%q}`, id, callID, args)
	}
	completed := func(kind, items string) string {
		return `{"type":"response.` + kind + `","response":{"output":[` + items + `],"usage":{"input_tokens":1,"output_tokens":1}}}`
	}
	for name, test := range map[string]struct {
		api    int
		stream string
		calls  int
		stop   providers.Stop
	}{
		"the same block twice":           {0, block(0, "a", `{"n":1}`) + block(1, "a", `{"n":1}`) + sse(`{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":1}}`, `{"type":"message_stop"}`), 1, providers.StopToolCalls},
		"one id for two calls":           {0, block(0, "a", `{"n":1}`) + block(1, "a", `{"n":2}`) + sse(`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1}}`, `{"type":"message_stop"}`), 2, providers.StopToolCalls},
		"repeated at the end":            {1, sse(`{"type":"response.output_item.done","output_index":1,"item":`+item("fc_1", "a", `{"n":1}`)+`}`, completed("completed", item("fc_1", "a", `{"n":1}`))), 1, providers.StopToolCalls},
		"repeated without the item's id": {1, sse(`{"type":"response.output_item.done","output_index":1,"item":`+item("", "a", `{"n":1}`)+`}`, completed("completed", item("", "a", `{"n":1}`))), 1, providers.StopToolCalls},
		"incomplete, nobody says why":    {1, sse(completed("incomplete", item("fc_1", "a", `{"n":[1,2`))), 1, providers.StopMaxOutput},
		"incomplete, but whole":          {1, sse(completed("incomplete", item("fc_1", "a", `{"n":1}`))), 1, providers.StopToolCalls},
		"no reason, then the end":        {2, sse(`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"write","arguments":"{\"n\":[1"}}]}}]}`, `[DONE]`), 1, providers.StopMaxOutput},
		"another reason at the end":      {2, sse(`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"write","arguments":"{}"}}]},"finish_reason":"stop"}]}`, `{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`, `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`, `[DONE]`), 1, providers.StopToolCalls},
	} {
		got := ask(t.Context(), t, apis[test.api].answers(test.stream, 0), hello())
		calls := 0
		for _, p := range got.Parts {
			if p.Kind == providers.ToolCall {
				calls++
			}
		}
		if got.Err != nil || calls != test.calls || got.Stop != test.stop {
			t.Errorf("%s: %d calls, stop %q, %v", name, calls, got.Stop, got.Err)
		}
	}
}
