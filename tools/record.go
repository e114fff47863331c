package tools

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/redact"
)

// recordedArguments is how many bytes of a call's arguments a Record stores.
const recordedArguments = 4 << 10

// Outcome is how a call ended.
type Outcome string

// The outcomes.
const (
	Done      Outcome = "done"
	Failed    Outcome = "failed"  // the work was done and failed: Result.IsError
	Refused   Outcome = "refused" // a wrong or forbidden request
	Broken    Outcome = "broken"  // the tool or the server failed
	Cancelled Outcome = "cancelled"
	TimedOut  Outcome = "timed_out"
)

// Record is the stored record of one call.
type Record struct {
	Tool        string
	Caller      Caller
	Arguments   string // the beginning, with the team's secrets masked; "" when those are unknown
	StartedAt   time.Time
	Duration    time.Duration
	Outcome     Outcome
	Code        string // of the error
	ResultBytes int
	Truncated   bool
}

// Recorder stores calls. Record must not block for long: the caller waits for it.
type Recorder interface {
	Record(ctx context.Context, r Record)
}

// Secrets knows which values of a team must not be shown.
type Secrets interface {
	// InAnswers finds the values of a team's secrets; nil when it has none.
	InAnswers(ctx context.Context, teamID string) (*redact.Finder, error)
}

// outcomeOf returns how a call ended. err is the error returned to the caller.
func outcomeOf(r Result, err error) Outcome {
	switch kind := fault.KindOf(err); {
	case err == nil && r.IsError:
		return Failed
	case err == nil:
		return Done
	case errors.Is(err, context.Canceled):
		return Cancelled
	case kind == fault.Timeout, errors.Is(err, context.DeadlineExceeded):
		return TimedOut
	case kind == fault.Internal, kind == fault.Unavailable, kind == fault.DiskFull:
		return Broken
	}
	return Refused
}

// shown returns the part of the arguments that a record stores. They are masked before they are cut, so that no beginning of a
// secret remains at the end.
func (s *Set) shown(ctx context.Context, teamID string, args json.RawMessage) string {
	if len(args) > MaxArguments || teamID == "" {
		return ""
	}
	var value any
	if err := json.Unmarshal(args, &value); err != nil {
		return ""
	}
	args, err := json.Marshal(value) // a client may escape letters that we do not: secrets are looked for in one form
	if err != nil {
		return ""
	}
	if s.cfg.Secrets != nil {
		f, err := s.cfg.Secrets.InAnswers(ctx, teamID)
		if err != nil {
			s.cfg.Log.WarnContext(ctx, "a tool's arguments are not recorded: the team's secrets could not be read", "team_id", teamID, "error", err)
			return ""
		}
		if f != nil {
			f.MaskJSON(args)
		}
	}
	return cut(string(args), recordedArguments)
}
