package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/tools"
)

// Call calls a tool. What the API refuses is an error with the API's code, message and details.
func (a *API) Call(ctx context.Context, name string, args json.RawMessage) (tools.Result, error) {
	if given := string(bytes.TrimSpace(args)); given == "" || given == "null" {
		args = json.RawMessage("{}")
	}
	for _, t := range table {
		if t.spec.Name != name {
			continue
		}
		if err := t.check(args); err != nil {
			return tools.Result{}, err
		}
		within, cancel := context.WithTimeout(ctx, t.spec.Timeout)
		defer cancel()
		out, err := t.call(within, a, args)
		if err != nil {
			return tools.Result{}, err
		}
		return result(out)
	}
	return tools.Result{}, fault.New(fault.NotFound, "tool_not_found", "There is no tool %q.", cut(name, 64))
}

// result bounds an answer. Its parts are bounded already: only many long names make it too long.
func result(out answer) (tools.Result, error) {
	raw, err := json.Marshal(out.object)
	if err != nil {
		return tools.Result{}, fmt.Errorf("writing a result: %w", err)
	}
	r := tools.Result{Structured: raw, Content: tools.Text(cut(out.text, tools.DefaultResultBytes/2))}
	if r.Bytes() > tools.DefaultResultBytes {
		r.Structured, r.Truncated = nil, true
	}
	return r, nil
}
