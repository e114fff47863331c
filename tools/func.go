package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/parawork/parawork/internal/fault"
)

// Func returns a tool that decodes its arguments into an A, and has call do the work. call is safe for concurrent use.
func Func[A any](spec Spec, call func(ctx context.Context, c Caller, args A) (Result, error)) Tool {
	return funcTool[A]{spec, call}
}

type funcTool[A any] struct {
	spec Spec
	call func(ctx context.Context, c Caller, args A) (Result, error)
}

// Spec implements Tool.
func (t funcTool[A]) Spec() Spec { return t.spec }

// Call implements Tool.
func (t funcTool[A]) Call(ctx context.Context, c Caller, raw json.RawMessage) (Result, error) {
	var args A
	if err := Decode(raw, &args); err != nil {
		return Result{}, err
	}
	return t.call(ctx, c, args)
}

// Decode reads the arguments of a call. They fit the schema, so an error is a number that is out of range, or a mistake in the tool.
func Decode(args json.RawMessage, into any) error {
	if err := json.Unmarshal(args, into); err != nil {
		return fault.Wrap(err, fault.Invalid, "tool_arguments_invalid", "The arguments cannot be read: %.200s.", err)
	}
	return nil
}

// Answer returns a result that says the same as a text for the agent and as an object for programs.
func Answer(text string, object any) (Result, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(object); err != nil {
		return Result{}, fmt.Errorf("encoding the answer of a tool: %w", err)
	}
	return Result{Content: Text(text), Structured: bytes.TrimSpace(b.Bytes())}, nil
}

// Hide masks the values of a team's secrets in texts that an agent or a person wrote, before they are stored. Without secrets, also
// nil, it changes nothing. An error means that they are unknown, so that the texts must not be stored.
func Hide(ctx context.Context, secrets Secrets, teamID string, texts ...*string) error {
	if secrets == nil {
		return nil
	}
	f, err := secrets.InAnswers(ctx, teamID)
	if err != nil {
		return fault.Wrap(err, fault.Unavailable, "secrets_unknown", "The team's secrets, which must be masked, could not be read. Try again in a moment.")
	}
	for _, t := range texts {
		if t != nil {
			*t = f.Text(*t, nil)
		}
	}
	return nil
}

// Fit returns a result of at most so many bytes: make is called with smaller and smaller shares of 64 of what there is, until its result fits.
func Fit(most int, make func(share int) (Result, error)) (Result, error) {
	for share := 64; ; share /= 2 {
		r, err := make(share)
		if err != nil {
			return r, err
		}
		r.Truncated = r.Truncated || share < 64
		if r.Bytes() <= most || share == 0 {
			return r, nil
		}
	}
}
