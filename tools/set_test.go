package tools_test

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/redact"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/tools"
)

// stub is a tool that does what a test says.
type stub struct {
	spec tools.Spec
	call func(ctx context.Context, c tools.Caller, args json.RawMessage) (tools.Result, error)
}

func (s stub) Spec() tools.Spec { return s.spec }
func (s stub) Call(ctx context.Context, c tools.Caller, args json.RawMessage) (tools.Result, error) {
	return s.call(ctx, c, args)
}

func spec(change ...func(*tools.Spec)) tools.Spec {
	s := tools.Spec{Name: "greet", Title: "Greet", Description: "Greets somebody.", Group: "commands", Permission: tools.Allow,
		Arguments: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["name"],"properties":{
			"name":{"type":"string","maxLength":20},"times":{"type":"integer","minimum":1},
			"properties":{"type":"object","additionalProperties":{"type":"string"}},
			"of":{"type":"object","additionalProperties":false,"properties":{"list":{"type":"array","items":{"type":"string"}}}}}}`)}
	for _, fn := range change {
		fn(&s)
	}
	return s
}

type recorder []tools.Record

func (*recorder) Begin(context.Context, tools.Record) {}

func (r *recorder) Record(_ context.Context, row tools.Record) { *r = append(*r, row) }

type hidden struct {
	values []string
	err    error
}

func (h hidden) InAnswers(context.Context, string) (*redact.Finder, error) {
	if h.err != nil {
		return nil, h.err
	}
	return redact.NewJSONFinder(h.values...), nil
}

func set(t *testing.T, cfg tools.Config) *tools.Set {
	t.Helper()
	s, err := tools.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func greets(context.Context, tools.Caller, json.RawMessage) (tools.Result, error) {
	return tools.Result{Content: tools.Text("Hello.")}, nil
}

var somebody = tools.Caller{TeamID: "team_1", UserID: "usr_1"}

// A tool with a wrong spec is found before it is released: agents would only find out by failing.
func TestWrongSpecsAreRefused(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*tools.Spec){
		"name":                 func(s *tools.Spec) { s.Name = "Greet!" },
		"group":                func(s *tools.Spec) { s.Group = "" },
		"title":                func(s *tools.Spec) { s.Title = strings.Repeat("x", tools.MaxTitle+1) },
		"description":          func(s *tools.Spec) { s.Description = "" },
		"permission":           func(s *tools.Spec) { s.Permission = "perhaps" },
		"not a JSON Schema":    func(s *tools.Spec) { s.Arguments = json.RawMessage(`{"type":`) },
		`"object"`:             func(s *tools.Spec) { s.Arguments = json.RawMessage(`{"type":"array"}`) },
		"additionalProperties": func(s *tools.Spec) { s.Arguments = json.RawMessage(`{"type":"object"}`) },
		"of the result":        func(s *tools.Spec) { s.Result = json.RawMessage(`{"type":"string"}`) },
	} {
		s, err := tools.New(tools.Config{Tools: []tools.Tool{stub{spec(change), greets}}})
		if err == nil {
			err = s.Compile()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if _, err := tools.New(tools.Config{Tools: []tools.Tool{stub{spec(), greets}, stub{spec(), greets}}}); err == nil {
		t.Error("two tools of one name are taken")
	}
}

// Agents read the list from the top: groups have an order, and so have the tools of a group.
func TestToolsAreListedByGroup(t *testing.T) {
	t.Parallel()
	named := func(group, name string) tools.Tool {
		return stub{spec(func(s *tools.Spec) { s.Group, s.Name = group, name }), greets}
	}
	s := set(t, tools.Config{Tools: []tools.Tool{named("commands", "a"), named("tasks", "z"), named("tasks", "b")}})
	var got []string
	for _, spec := range s.Specs() {
		got = append(got, spec.Group+"/"+spec.Name)
	}
	if strings.Join(got, " ") != "tasks/z tasks/b commands/a" {
		t.Errorf("%v", got)
	}
}

// Arguments that do not fit are refused before the tool sees them, and the error names the field.
func TestWrongArguments(t *testing.T) {
	t.Parallel()
	s := set(t, tools.Config{Tools: []tools.Tool{stub{spec(), func(context.Context, tools.Caller, json.RawMessage) (tools.Result, error) {
		t.Error("the tool was called")
		return tools.Result{}, nil
	}}}})
	for args, field := range map[string]string{
		`{}`:                                     "name",
		``:                                       "name",
		`{"name":7}`:                             "name",
		`{"name":null}`:                          "name",
		`{"Name":"a","name":"a"}`:                "Name",
		`{"name":"a","x":1}`:                     "x",
		`{"name":"a","of":{"list":["a",1]}}`:     "of.list",
		`{"name":"a","of":{"lost":[]}}`:          "of.lost",
		`{"name":"a","properties":{"deep":1}}`:   "properties",
		`{"name":"a","\u00e4 \\ b":1}`:           "\u00e4 \\ b",
		`{"name":"a","times":0}`:                 "times",
		`{"name":"a","times":1.5}`:               "times",
		`{"name":"a\u0000b"}`:                    "name",
		`{"name":"a","of":{"list":["\u0000"]}}`:  "of.list",
		`{"name":"validating /properties/x: y"}`: "name",
		`{"name":"` + strings.Repeat("long", 10000) + `"}`: "name",
	} {
		_, err := s.Call(t.Context(), somebody, "greet", json.RawMessage(args))
		f, ok := errors.AsType[*fault.Error](err)
		if !ok || f.Code != "tool_arguments_invalid" || f.Details["field"] != field || !strings.Contains(f.Message, strconv.Quote(field)) || len(f.Message) > 500 {
			t.Errorf("%.60s: %.700v with %v, want the field %s", args, err, f, field)
		}
	}
	_, err := s.Call(t.Context(), somebody, "bye", nil)
	if !fault.Is(err, fault.NotFound) {
		t.Errorf("an unknown tool: %v", err)
	}
}

// A tool works for its caller's team alone, within the time and size the caller and the tool allow.
func TestCallsAreBounded(t *testing.T) {
	t.Parallel()
	var got tools.Caller
	var teams []string
	var left time.Duration
	s := set(t, tools.Config{Tools: []tools.Tool{stub{spec(func(s *tools.Spec) { s.Timeout = time.Hour }), func(ctx context.Context, c tools.Caller, _ json.RawMessage) (tools.Result, error) {
		got = c
		scope, _ := tenant.Of(ctx)
		teams = scope.Teams()
		end, _ := ctx.Deadline()
		left = time.Until(end)
		return tools.Result{Content: tools.Text(strings.Repeat("x", tools.MinResultBytes+1))}, nil
	}}}})
	args := json.RawMessage(`{"name":"a"}`)
	if _, err := s.Call(t.Context(), somebody, "greet", args); err != nil {
		t.Fatal(err)
	}
	if len(teams) != 1 || teams[0] != "team_1" || got.Limits.ResultBytes != tools.DefaultResultBytes || got.Limits.Timeout != time.Hour || left > time.Hour || left < 59*time.Minute {
		t.Errorf("teams %v, limits %+v, %s left", teams, got.Limits, left)
	}
	c := somebody
	c.Limits = tools.Limits{Timeout: 2 * time.Hour, ResultBytes: 1}
	if _, err := s.Call(t.Context(), c, "greet", args); fault.CodeOf(err) != "tool_result_too_large" {
		t.Errorf("a result that is too large: %v", err)
	}
	if got.Limits.Timeout != time.Hour || got.Limits.ResultBytes != tools.MinResultBytes {
		t.Errorf("limits %+v", got.Limits)
	}
}

// What a tool does wrong ends its call and nothing else.
func TestAPanicIsAnError(t *testing.T) {
	t.Parallel()
	var rows recorder
	s := set(t, tools.Config{Recorder: &rows, Tools: []tools.Tool{stub{spec(), func(context.Context, tools.Caller, json.RawMessage) (tools.Result, error) {
		panic("secret state")
	}}}})
	_, err := s.Call(t.Context(), somebody, "greet", json.RawMessage(`{"name":"a"}`))
	if fault.CodeOf(err) != "tool_failed" || strings.Contains(err.Error(), "secret") {
		t.Errorf("%v", err)
	}
	if len(rows) != 1 || rows[0].Outcome != tools.Broken || rows[0].Code != "tool_failed" {
		t.Errorf("recorded as %+v", rows)
	}
}

func TestATimeoutIsNoCancellation(t *testing.T) {
	t.Parallel()
	var rows recorder
	s := set(t, tools.Config{Recorder: &rows, Tools: []tools.Tool{stub{spec(), func(ctx context.Context, _ tools.Caller, _ json.RawMessage) (tools.Result, error) {
		<-ctx.Done()
		return tools.Result{}, context.Cause(ctx)
	}}}})
	c := somebody
	c.Limits.Timeout = time.Millisecond
	args := json.RawMessage(`{"name":"a"}`)
	if _, err := s.Call(t.Context(), c, "greet", args); fault.CodeOf(err) != "tool_timeout" {
		t.Errorf("a timeout: %v", err)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if _, err := s.Call(gone, somebody, "greet", args); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller who has gone: %v", err)
	}
	if len(rows) != 2 || rows[0].Outcome != tools.TimedOut || rows[1].Outcome != tools.Cancelled {
		t.Errorf("recorded as %+v", rows)
	}
}

// A record holds the beginning of the arguments, and never a secret: not whole, not cut, and not when nobody knows which there are.
func TestRecordsHoldNoSecrets(t *testing.T) {
	t.Parallel()
	const secret = "correct-horse-battery"
	long := spec(func(s *tools.Spec) {
		s.Arguments = json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{"name":{"type":"string"}}}`)
	})
	args := json.RawMessage(`{"name":"` + secret + strings.Repeat("x", 4096-len(`{"name":"`+secret)-10) + secret + `"}`)
	before := string(args)
	var rows recorder
	failing := func(context.Context, tools.Caller, json.RawMessage) (tools.Result, error) {
		return tools.Result{Content: tools.Text("no"), IsError: true}, nil
	}
	s := set(t, tools.Config{Recorder: &rows, Secrets: hidden{values: []string{secret}}, Tools: []tools.Tool{stub{long, failing}}})
	if _, err := s.Call(t.Context(), somebody, "greet", args); err != nil {
		t.Fatal(err)
	}
	if string(args) != before {
		t.Error("the caller's arguments were changed")
	}
	r := rows[0]
	if r.Outcome != tools.Failed || len(r.Arguments) != 4096 || strings.Contains(r.Arguments, "correct") || strings.Contains(r.Arguments, "horse") || r.ResultBytes != 2 {
		t.Errorf("recorded %d bytes as %.100q ... %q, %s", len(r.Arguments), r.Arguments, r.Arguments[max(0, len(r.Arguments)-30):], r.Outcome)
	}
	s = set(t, tools.Config{Recorder: &rows, Secrets: hidden{err: errors.New("no database")}, Tools: []tools.Tool{stub{long, failing}}})
	if _, err := s.Call(t.Context(), somebody, "greet", args); err != nil || rows[1].Arguments != "" {
		t.Errorf("when the secrets are not known: %v, recorded %.50q", err, rows[1].Arguments)
	}
}

// JSON may be nested thousands deep: what a call costs grows with its length alone.
func TestDeepArgumentsCostWhatTheyWeigh(t *testing.T) {
	const depth = 5000
	s := set(t, tools.Config{Tools: []tools.Tool{stub{spec(), greets}}})
	key := `{"` + strings.Repeat("k", 100) + `":`
	args := json.RawMessage(strings.Repeat(key, depth) + `"x"` + strings.Repeat("}", depth))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := s.Call(t.Context(), somebody, "greet", args); fault.CodeOf(err) != "tool_arguments_invalid" {
		t.Errorf("got %v", err)
	}
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 100*uint64(len(args)) {
		t.Errorf("%d bytes of arguments took %d bytes of memory", len(args), used)
	}
	if _, err := s.Call(t.Context(), somebody, "greet", json.RawMessage(`{"name":"a","of":{"list":["a\u0000"]}}`)); err == nil || !strings.Contains(err.Error(), "of.list") {
		t.Errorf("a NUL deep inside: %v", err)
	}
}
