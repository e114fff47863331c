package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
)

// Limits on a machine's answers.
const (
	maxAnswer    = 4 << 20 // bytes of one answer
	maxLine      = 64 << 10
	maxLines     = 100_000 // bytes of the progress of one making
	maxSandboxes = 10_000
	maxName      = 100
	maxWords     = 600
	maxToken     = 200
	maxPath      = 4096
	shortTime    = 30 * time.Second // for every call but a making
)

// none is the body of a command without data.
type none struct{}

// link is the machine's connection now.
func (e *member) link() (Link, error) {
	if l, ok := e.f.cfg.Machines.Link(e.m.ID); ok {
		return l, nil
	}
	if err := e.away(); err != nil {
		return nil, err
	}
	return nil, e.offline(e.m)
}

// ask makes a short call, or sends a command if body is not nil. It decodes the answer into v unless that is nil.
func (e *member) ask(ctx context.Context, method, path string, body, v any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, shortTime, fault.New(fault.Unavailable, "runner_unresponsive", "%s does not answer.", e.name()))
	defer cancel()
	resp, err := e.send(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return e.cut(ctx, err)
	case len(b) > maxAnswer:
		return e.wrong(fmt.Errorf("more than %d bytes", maxAnswer))
	case v == nil:
		return nil
	}
	if err := json.Unmarshal(b, v); err != nil {
		return e.wrong(err)
	}
	return nil
}

// send makes a call and returns a successful response, whose body the caller closes.
func (e *member) send(ctx context.Context, method, path string, body any) (*http.Response, error) {
	l, err := e.link()
	if err != nil {
		return nil, err
	}
	req := (&http.Request{Method: method, URL: &url.URL{Scheme: "http", Host: "runner", Path: path}, Host: "runner", Header: http.Header{}}).
		WithContext(e.ordered(ctx))
	if body != nil {
		payload := []byte{}
		if _, empty := body.(none); !empty {
			if payload, err = json.Marshal(body); err != nil {
				return nil, fmt.Errorf("calling a machine: %w", err)
			}
			req.Header.Set("Content-Type", "application/json")
			req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(payload)), int64(len(payload))
		}
		if err := e.f.cfg.Machines.Sign(req.Context(), e.m.ID, req, payload); err != nil {
			return nil, fmt.Errorf("signing a command for machine %s: %w", e.m.ID, err)
		}
	}
	resp, err := l.RoundTrip(req)
	if err != nil {
		return nil, e.cut(ctx, err)
	}
	if resp.StatusCode >= 400 {
		defer resp.Body.Close()
		return nil, e.refusal(resp)
	}
	return resp, nil
}

// ordered marks calls under ctx as made for the user who wants the sandbox.
func (e *member) ordered(ctx context.Context) context.Context {
	if wire.OrderOf(ctx) != (wire.Order{}) {
		return ctx
	}
	purpose, userID := executors.AskerOf(ctx)
	if userID == "" {
		return ctx
	}
	return wire.WithOrder(ctx, wire.Order{UserID: userID, User: e.f.cfg.Machines.UserName(ctx, userID), Purpose: string(purpose)})
}

// cut returns the error of a call without an answer: the machine went offline, where it did.
func (e *member) cut(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if away := e.away(); away != nil {
		return away
	}
	return fault.Wrap(err, fault.Unavailable, "runner_connection_lost", "The connection to %s was cut. The server tries again in a moment.", e.name())
}

func (e *member) wrong(err error) error {
	return fault.Wrap(err, fault.Unavailable, "runner_wrong_answer", "%s gave an answer that cannot be right. Update the program there: parawork runner update.", e.name())
}

var plainCode = regexp.MustCompile(`^[a-z][a-z0-9_]{1,59}$`)

// kinds are the kinds of errors a machine may answer with. It has no say about authentication on the server.
var kinds = []fault.Kind{fault.Invalid, fault.Forbidden, fault.NotFound, fault.Conflict, fault.TooLarge, fault.RateLimited, fault.Unavailable, fault.Gone,
	fault.Unsupported, fault.Timeout, fault.DiskFull}

// refusal reads the error of an answer.
func (e *member) refusal(resp *http.Response) error {
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxLine))
	var w wire.Error
	if err != nil || json.Unmarshal(b, &w) != nil {
		return e.wrong(fmt.Errorf("status %d", resp.StatusCode))
	}
	return e.remoteError(w)
}

// reported converts a machine's error to one of ours.
func (e *member) remoteError(w wire.Error) error {
	kind, words := fault.Kind(w.Kind), clean(w.Message, maxWords)
	if !slices.Contains(kinds, kind) || !plainCode.MatchString(w.Code) || words == "" {
		return e.wrong(fmt.Errorf("an error of kind %q and code %q", clean(w.Kind, maxName), clean(w.Code, maxName)))
	}
	f := fault.New(kind, w.Code, "%s", words).With("runner_id", e.m.ID)
	if reason, ok := w.Details["reason"].(string); ok && plainCode.MatchString(reason) {
		f = f.With("reason", reason)
	}
	return f
}

func checkID(id string) error {
	if err := guest.CheckID(id); err != nil {
		return fmt.Errorf("the id of a sandbox: %w", err)
	}
	return nil
}

// clean makes one short line of untrusted text.
func clean(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "..."
	}
	return strings.TrimSpace(s)
}

// since says since when a machine is offline: by the server's clock, in UTC.
func since(at int64, now time.Time) string {
	if at <= 0 {
		return "offline"
	}
	t, now := time.UnixMilli(at).UTC(), now.UTC()
	if t.YearDay() == now.YearDay() && t.Year() == now.Year() {
		return "offline since " + t.Format("15:04 UTC")
	}
	return "offline since " + t.Format("2 Jan 2006, 15:04 UTC")
}

var errTooMuch = errors.New("it sent more progress of the making than is accepted")
