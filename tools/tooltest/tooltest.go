// Package tooltest tests the rules that every tool must follow; a tool's package calls it in its own tests. It calls the tool
// through a Set, as the server does, and checks the answers against the schemas the tool declares.
package tooltest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/tools"
)

// Subject is a tool under test and the arguments to call it with.
type Subject struct {
	Tool   tools.Tool
	Caller tools.Caller // who may call it

	// Stranger is a caller of another team who names the workspace of Caller.
	Stranger tools.Caller

	// Quick are arguments of a call that succeeds at once, repeatedly, and in parallel. The suite replaces them by wrong ones.
	Quick json.RawMessage

	// Slow are arguments of a call that lasts for minutes unless it is stopped; nil for a tool that has none. Began returns once
	// its work is under way; Stopped once it has stopped; each gives up when ctx ends.
	Slow    json.RawMessage
	Began   func(ctx context.Context) error
	Stopped func(ctx context.Context) error

	// Large are arguments of a call whose whole result would not fit into tools.MinResultBytes; nil for a tool that has none.
	Large json.RawMessage

	// StopWithin is how long a cancelled call may take to return; 0 = 20 s.
	StopWithin time.Duration
}

// patience bounds each wait: the suite fails and does not hang.
const patience = 2 * time.Minute

// book is a Recorder that stores everything.
type book struct {
	mu   sync.Mutex
	rows []tools.Record
}

func (*book) Begin(context.Context, tools.Record) {}

func (b *book) Record(_ context.Context, r tools.Record) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rows = append(b.rows, r)
}

func (b *book) last(t *testing.T) tools.Record {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.rows) == 0 {
		t.Fatal("the call was not recorded")
	}
	return b.rows[len(b.rows)-1]
}

// suite is one run over a subject.
type suite struct {
	Subject
	spec tools.Spec
	set  *tools.Set
	book *book
}

// Run tests a tool.
func Run(t *testing.T, subject Subject) {
	t.Helper()
	if subject.StopWithin == 0 {
		subject.StopWithin = 20 * time.Second
	}
	s := &suite{Subject: subject, spec: subject.Tool.Spec(), book: &book{}}
	var err error
	if s.set, err = tools.New(tools.Config{Tools: []tools.Tool{subject.Tool}, Recorder: s.book}); err != nil {
		t.Fatalf("the Set refuses the tool: %v", err)
	}
	t.Run("Spec", s.testSpec)
	t.Run("Result", s.testResult)
	t.Run("UnknownField", s.testUnknownField)
	t.Run("WrongTypes", s.testWrongTypes)
	t.Run("HugeArguments", s.testHugeArguments)
	t.Run("Stranger", s.testStranger)
	t.Run("Concurrent", s.testConcurrent)
	t.Run("LargeResult", s.testLargeResult)
	t.Run("Cancel", s.testCancel)
	t.Run("Timeout", s.testTimeout)
}

func (s *suite) call(ctx context.Context, c tools.Caller, args json.RawMessage) (tools.Result, error) {
	return s.set.Call(ctx, c, s.spec.Name, args)
}

// with returns Quick with one field set.
func (s *suite) with(t *testing.T, field string, value any) json.RawMessage {
	t.Helper()
	args := map[string]any{}
	if err := json.Unmarshal(s.Quick, &args); err != nil {
		t.Fatalf("Quick is no object: %v", err)
	}
	args[field] = value
	raw, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// Texts and schemas must be complete: an unknown keyword is a mistyped one.
func (s *suite) testSpec(t *testing.T) {
	again, err := json.Marshal(s.Tool.Spec())
	if err != nil {
		t.Fatal(err)
	}
	if first, _ := json.Marshal(s.spec); !bytes.Equal(first, again) {
		t.Error("the spec is another one when it is asked for again")
	}
	if strings.TrimSpace(s.spec.Title) != s.spec.Title || strings.TrimSpace(s.spec.Description) != s.spec.Description {
		t.Error("the title or the description begins or ends with space")
	}
	for what, raw := range map[string]json.RawMessage{"arguments": s.spec.Arguments, "result": s.spec.Result} {
		if len(raw) == 0 {
			continue
		}
		var schema jsonschema.Schema
		if err := json.Unmarshal(raw, &schema); err != nil {
			t.Fatalf("schema of the %s: %v", what, err)
		}
		known(t, what, &schema)
	}
	for name, p := range s.arguments(t).Properties {
		if p.Description == "" {
			t.Errorf("the argument %s has no description: an agent must guess what it is", name)
		}
	}
}

func (s *suite) arguments(t *testing.T) *jsonschema.Schema {
	t.Helper()
	var schema jsonschema.Schema
	if err := json.Unmarshal(s.spec.Arguments, &schema); err != nil {
		t.Fatal(err)
	}
	return &schema
}

// known fails on unknown keywords.
func known(t *testing.T, at string, s *jsonschema.Schema) {
	t.Helper()
	for keyword := range s.Extra {
		t.Errorf("schema of the %s: %q is no keyword", at, keyword)
	}
	for name, p := range s.Properties {
		known(t, at+"."+name, p)
	}
	if s.Items != nil {
		known(t, at+"[]", s.Items)
	}
	for _, some := range [][]*jsonschema.Schema{s.AllOf, s.AnyOf, s.OneOf} {
		for i, p := range some {
			known(t, fmt.Sprintf("%s/%d", at, i), p)
		}
	}
}

// fits fails when a result does not match the spec.
func (s *suite) fits(t *testing.T, r tools.Result) {
	t.Helper()
	if len(r.Content) == 0 {
		t.Error("the result has no content: an agent that reads no structured results sees nothing")
	}
	for _, c := range r.Content {
		if (c.MIME == "") != (c.Data == nil) || c.MIME != "" && c.Text != "" {
			t.Errorf("content must be a text, or data with its MIME type: %.200q %q %d bytes", c.Text, c.MIME, len(c.Data))
		}
	}
	if len(s.spec.Result) == 0 {
		if len(r.Structured) > 0 {
			t.Error("there is a structured result and no schema of it")
		}
		return
	}
	var schema jsonschema.Schema
	if err := json.Unmarshal(s.spec.Result, &schema); err != nil {
		t.Fatal(err)
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	var value any
	if err := json.Unmarshal(r.Structured, &value); err != nil {
		t.Fatalf("the structured result is not JSON: %v", err)
	}
	if err := resolved.Validate(value); err != nil {
		t.Errorf("the result does not fit its schema: %.1000s", err)
	}
}

func (s *suite) testResult(t *testing.T) {
	r, err := s.call(t.Context(), s.Caller, s.Quick)
	if err != nil || r.IsError {
		t.Fatalf("the quick call: %.1000v, %v", r, err)
	}
	s.fits(t, r)
	row := s.book.last(t)
	if row.Tool != s.spec.Name || row.Outcome != tools.Done || row.ResultBytes != r.Bytes() || row.Caller.UserID != s.Caller.UserID || row.Arguments == "" {
		t.Errorf("recorded as %+v", row)
	}
}

// refused fails unless an error is of a kind and, where one is named, about a field.
func refused(t *testing.T, what string, err error, kind fault.Kind, field string) {
	t.Helper()
	f, ok := errors.AsType[*fault.Error](err)
	if !ok || f.Kind != kind {
		t.Errorf("%s: %v, want %s", what, err, kind)
		return
	}
	if field != "" && (f.Details["field"] != field || !strings.Contains(f.Message, field)) {
		t.Errorf("%s: %q with details %v does not name the field %s", what, f.Message, f.Details, field)
	}
	if len(f.Message) > 1000 {
		t.Errorf("%s: the message has %d bytes", what, len(f.Message))
	}
}

func (s *suite) testUnknownField(t *testing.T) {
	_, err := s.call(t.Context(), s.Caller, s.with(t, "no_such_field", 1))
	refused(t, "an unknown field", err, fault.Invalid, "no_such_field")
	if row := s.book.last(t); row.Outcome != tools.Refused || row.Code == "" {
		t.Errorf("recorded as %+v", row)
	}
	for _, raw := range []string{"[]", "null", "7", `"x"`, "{", "{} {}", "nonsense", strings.Repeat("[", 100_000)} {
		_, err := s.call(t.Context(), s.Caller, json.RawMessage(raw))
		refused(t, fmt.Sprintf("%.20s", raw), err, fault.Invalid, "")
	}
	deep := json.RawMessage(`{"no_such_field":` + strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5001))
	_, err = s.call(t.Context(), s.Caller, deep)
	refused(t, "deep nesting", err, fault.Invalid, "no_such_field")
}

// wrong has values of all JSON types.
var wrong = map[string]any{"null": nil, "boolean": true, "number": 1.5, "string": "\u00e4", "array": []any{[]any{nil}}, "object": map[string]any{"a": []any{nil}}}

// testWrongTypes gives each argument values of types that it does not take.
func (s *suite) testWrongTypes(t *testing.T) {
	for name, p := range s.arguments(t).Properties {
		takes := p.Types
		if p.Type != "" {
			takes = append(takes, p.Type)
		}
		if len(takes) == 0 {
			t.Errorf("the argument %s has no type", name)
			continue
		}
		for _, typ := range slices.Sorted(maps.Keys(wrong)) {
			if slices.Contains(takes, typ) {
				continue
			}
			_, err := s.call(t.Context(), s.Caller, s.with(t, name, wrong[typ]))
			refused(t, name+" with a value of type "+typ, err, fault.Invalid, name)
		}
	}
}

func (s *suite) testHugeArguments(t *testing.T) {
	huge := s.with(t, "no_such_field", strings.Repeat("x", 10<<20))
	_, err := s.call(t.Context(), s.Caller, huge)
	refused(t, "10 MiB of arguments", err, fault.TooLarge, "")
	long := s.with(t, "no_such_field_"+strings.Repeat("y", 900_000), strings.Repeat("x", 1000))
	_, err = s.call(t.Context(), s.Caller, long)
	refused(t, "a long field", err, fault.Invalid, "")
	if row := s.book.last(t); len(row.Arguments) > 64<<10 {
		t.Errorf("%d bytes of arguments were recorded", len(row.Arguments))
	}
}

// testStranger calls as a member of another team, and as nobody, for the workspace.
func (s *suite) testStranger(t *testing.T) {
	for what, c := range map[string]tools.Caller{"another team": s.Stranger, "no team": {WorkspaceID: s.Caller.WorkspaceID, UserID: s.Caller.UserID},
		"no user": {WorkspaceID: s.Caller.WorkspaceID, TeamID: s.Caller.TeamID}} {
		r, err := s.call(t.Context(), c, s.Quick)
		if !fault.Is(err, fault.NotFound) && !fault.Is(err, fault.Forbidden) {
			t.Errorf("a caller of %s: %.500v, %v", what, r, err)
		}
	}
	if s.spec.Needs.Workspace {
		c := s.Caller
		c.WorkspaceID = "ws_nobodys"
		if r, err := s.call(t.Context(), c, s.Quick); err == nil {
			t.Errorf("in a workspace that is none: %.500v", r)
		}
		c.WorkspaceID = ""
		_, err := s.call(t.Context(), c, s.Quick)
		refused(t, "without a workspace", err, fault.Invalid, "")
	}
}

func (s *suite) testConcurrent(t *testing.T) {
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 3 {
				if r, err := s.call(t.Context(), s.Caller, s.Quick); err != nil || r.IsError {
					t.Errorf("one of many: %.500v, %v", r, err)
				}
			}
		})
	}
	all.Wait()
}

func (s *suite) testLargeResult(t *testing.T) {
	if s.Large == nil {
		t.Skip("no result of it is large")
	}
	c := s.Caller
	c.Limits.ResultBytes = tools.MinResultBytes
	r, err := s.call(t.Context(), c, s.Large)
	if err != nil {
		t.Fatalf("a large result: %v", err)
	}
	if r.Bytes() > tools.MinResultBytes || !r.Truncated {
		t.Errorf("%d bytes, truncated %v: more than %d, or it does not say so", r.Bytes(), r.Truncated, tools.MinResultBytes)
	}
	s.fits(t, r)
}

// testCancel cancels the call while the work is under way: the call returns, and the work stops.
func (s *suite) testCancel(t *testing.T) {
	if s.Slow == nil {
		t.Skip("no call of it lasts")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := s.call(ctx, s.Caller, s.Slow)
		ended <- err
	}()
	s.await(t, "the slow call began", s.Began)
	cancel()
	s.ended(t, ended, func(err error) bool { return errors.Is(err, context.Canceled) }, tools.Cancelled)
}

// testTimeout lets the call's time run out while the work is under way.
func (s *suite) testTimeout(t *testing.T) {
	if s.Slow == nil {
		t.Skip("no call of it lasts")
	}
	c := s.Caller
	c.Limits.Timeout = 2 * time.Second
	ended := make(chan error, 1)
	go func() {
		_, err := s.call(t.Context(), c, s.Slow)
		ended <- err
	}()
	s.ended(t, ended, func(err error) bool { return fault.Is(err, fault.Timeout) }, tools.TimedOut)
}

func (s *suite) await(t *testing.T, what string, wait func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := wait(ctx); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func (s *suite) ended(t *testing.T, ended <-chan error, as func(error) bool, outcome tools.Outcome) {
	t.Helper()
	select {
	case err := <-ended:
		if !as(err) {
			t.Errorf("the stopped call: %v", err)
		}
	case <-time.After(s.StopWithin):
		t.Fatalf("the stopped call had not returned after %s", s.StopWithin)
	}
	s.await(t, "the work stopped", s.Stopped)
	if row := s.book.last(t); row.Outcome != outcome {
		t.Errorf("recorded as %s, want %s", row.Outcome, outcome)
	}
}
