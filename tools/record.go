package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/redact"
	"github.com/parawork/parawork/internal/tenant"
)

// Bounds of a Record.
const (
	recordedBytes = 4 << 10  // of the arguments, and of the result
	maskedBytes   = 64 << 10 // of a result in which secrets are looked for before it is cut
)

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
	Running   Outcome = "running" // it has not ended
	Unknown   Outcome = "unknown" // the server stopped meanwhile: it may have been done
)

// Record is the stored record of one call. Its texts are beginnings, with the team's secrets masked, and "" when those are unknown.
type Record struct {
	ID          string
	Tool        string
	Caller      Caller
	Arguments   string
	StartedAt   time.Time
	Duration    time.Duration
	Outcome     Outcome
	Code        string // of the error
	Cause       string // the error in words
	Result      string // the texts of the result
	ResultBytes int
	Truncated   bool
}

// Recorder stores calls. Neither method may block for long: the caller waits for it.
type Recorder interface {
	// Begin stores that a call begins. Only calls that change something are announced, so that none is forgotten that a dying server
	// cut off.
	Begin(ctx context.Context, r Record)
	// Record stores a call that has ended, whether or not it was announced.
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

// recording is the record of a call while it is made.
type recording struct {
	set     *Set
	ctx     context.Context // of the caller's team; it goes on when the caller has gone
	record  Record
	secrets *redact.Finder
	known   bool // secrets were read
}

// recording begins the record of a call.
func (s *Set) recording(ctx context.Context, c Caller, name string, args json.RawMessage) *recording {
	r := &recording{set: s, ctx: tenant.In(context.WithoutCancel(ctx), c.TeamID), record: Record{ID: id.New("tcl"), Tool: cut(name, 64), Caller: c, StartedAt: s.cfg.Now()}}
	if s.cfg.Recorder == nil || c.TeamID == "" {
		return r
	}
	r.known = true
	if s.cfg.Secrets != nil {
		var err error
		if r.secrets, err = s.cfg.Secrets.InAnswers(r.ctx, c.TeamID); err != nil {
			s.cfg.Log.WarnContext(ctx, "a tool's arguments are not recorded: the team's secrets could not be read", "team_id", c.TeamID, "error", err)
			r.known = false
		}
	}
	r.record.Arguments = r.arguments(args)
	return r
}

// begin announces a call that changes something.
func (r *recording) begin() {
	if r.set.cfg.Recorder != nil {
		announced := r.record
		announced.Outcome = Running
		r.set.cfg.Recorder.Begin(r.ctx, announced)
	}
}

// end records how the call ended.
func (r *recording) end(result Result, err error) {
	if r.set.cfg.Recorder == nil {
		return
	}
	row := r.record
	row.Duration, row.Outcome, row.Code = r.set.cfg.Now().Sub(row.StartedAt), outcomeOf(result, err), fault.CodeOf(err)
	row.ResultBytes, row.Truncated, row.Result = result.Bytes(), result.Truncated, r.text(result.text())
	switch {
	case err != nil && row.Outcome == Cancelled:
		row.Cause = "The caller left before it ended."
	case err != nil:
		row.Cause = r.text(fault.Words(err, "Something went wrong on the server. Its log says more."))
	}
	r.set.cfg.Recorder.Record(r.ctx, row)
}

// text masks a text, then cuts it: no beginning of a secret remains at the end.
func (r *recording) text(s string) string {
	if !r.known {
		return ""
	}
	s = strings.ReplaceAll(strings.ToValidUTF8(cut(s, maskedBytes), "\uFFFD"), "\x00", "\uFFFD")
	if r.secrets != nil {
		s = r.secrets.Text(s, nil)
	}
	return cut(s, recordedBytes)
}

// arguments is what is recorded of the arguments.
func (r *recording) arguments(args json.RawMessage) string {
	if len(args) > MaxArguments || !r.known {
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
	if r.secrets != nil {
		r.secrets.MaskJSON(args)
	}
	return cut(string(args), recordedBytes)
}

// text joins the texts of a result, and names its other parts.
func (r Result) text() string {
	var b strings.Builder
	for _, c := range r.Content {
		if b.Len() > maskedBytes {
			break
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		if c.MIME != "" {
			fmt.Fprintf(&b, "[%s, %d bytes]", c.MIME, len(c.Data))
			continue
		}
		b.WriteString(c.Text)
	}
	return b.String()
}
