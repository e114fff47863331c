package tools

import (
	"context"
	"errors"

	"github.com/parawork/parawork/internal/fault"
)

// Problem is an error as agents and programs are shown it, the same as over the HTTP API.
type Problem struct {
	Code    string         `json:"code"`
	Message string         `json:"message"`
	Details map[string]any `json:"details,omitempty"`
}

// ProblemOf returns the problem that an error of a call is. The text of an error that is no fault stays in the log.
func ProblemOf(err error) Problem {
	f, ok := errors.AsType[*fault.Error](err)
	switch {
	case ok:
		return Problem{f.Code, f.Message, f.Details}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return Problem{Code: "tool_cancelled", Message: "The call was cancelled. What it did until then stays done."}
	}
	return Problem{Code: "internal", Message: "Something went wrong on the server. Its log has the details."}
}
