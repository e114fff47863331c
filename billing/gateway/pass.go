package gateway

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/parawork/parawork/billing/tokens"
	"github.com/parawork/parawork/internal/egress"
	"github.com/parawork/parawork/internal/fault"
)

// refusedByRule reports whether an address was refused because it is not one the server reaches out to.
func refusedByRule(err error) bool { return errors.Is(err, egress.ErrRefused) }

// unanswered tells the agent why there is no answer. What used nothing for certain costs nothing; else it is unknown.
func (c *call) unanswered(ctx context.Context, err error) {
	cause := context.Cause(ctx)
	op, dialed := errors.AsType[*net.OpError](err)
	_, unknownName := errors.AsType[*net.DNSError](err)
	notSent := unknownName || dialed && op.Op == "dial" || refusedByRule(err)
	if notSent {
		c.record.Tokens = tokens.None()
	} else {
		c.guess(nil, 0)
	}
	host := c.record.Upstream
	var f *fault.Error
	switch {
	case c.r.Context().Err() != nil:
		c.finish(tokens.ErrClientGone)
		return
	case errors.Is(cause, errFirstByte):
		c.record.Error = tokens.ErrTimeout
		f = fault.New(fault.Timeout, "upstream_timeout", "%s did not begin to answer within %d s.", host, int(c.s.cfg.FirstByte.Seconds()))
	case refusedByRule(err):
		c.record.Error = tokens.ErrUnreachable
		f = fault.New(fault.Invalid, "url_not_public", "%s is inside a network this server does not reach out to. An operator can allow it with outgoing.allow.", host)
	case notSent:
		c.record.Error = tokens.ErrUnreachable
		f = fault.New(fault.Unavailable, "upstream_unreachable", "Parawork's server cannot reach %s: %s. Tried %d times.", host, egress.Words(err), c.record.Attempts)
	default:
		c.record.Error = tokens.ErrCut
		f = fault.New(fault.Unavailable, "upstream_connection_closed", "%s ended the connection without an answer.", host)
	}
	c.s.cfg.Log.Warn("model did not answer", "session_id", c.grant.SessionID, "upstream", host, "error", err)
	r := refuse(f)
	c.record.Status = r.status
	c.finish(c.record.Error)
	c.bound()
	r.write(c.w, c.route.dialect, c.route.api)
}

// finish keeps and counts what came of a request that was sent on.
func (c *call) finish(result string) {
	c.record.Error = result
	if c.route.api != other {
		c.keep()
		c.s.counts.used(c.record.Tokens)
		t := c.record.Tokens
		in, out := t.Input, t.Output
		if in == nil {
			in = c.record.Guess.Input
		}
		if out == nil {
			out = c.record.Guess.Output
		}
		n := sum(in, out, t.CacheWrite, t.CacheWriteHour)
		for _, b := range c.record.Additional {
			n += sum(b.Input, b.Output, b.CacheWrite, b.CacheWriteHour)
		}
		c.s.rules.used(c.grant.TeamID, c.asked.model, n)
	}
	c.s.counts.ended(c.route.api, result)
}

func sum(all ...*int64) (n int64) {
	for _, v := range all {
		if v != nil {
			n += *v
		}
	}
	return n
}

// mostError is how much of an error's text is passed on.
const mostError = 1 << 20

// pass streams the answer to the agent. It holds nothing back: the usage reader receives each piece after the agent.
func (c *call) pass(ctx context.Context, cancel context.CancelCauseFunc, first *time.Timer, resp *http.Response, hide bool) {
	first.Stop()
	stall := time.AfterFunc(stallMost, func() { cancel(errStall) })
	defer stall.Stop()
	c.record.Status = resp.StatusCode

	body := io.Reader(resp.Body)
	readable := true
	switch enc := strings.ToLower(resp.Header.Get("Content-Encoding")); enc {
	case "", "identity":
	case "gzip": // although it was asked not to
		z, err := gzip.NewReader(resp.Body)
		if err != nil {
			c.unanswered(ctx, fmt.Errorf("unpacking the answer: %w", err))
			return
		}
		body = z
		resp.Header.Del("Content-Encoding")
		resp.Header.Del("Content-Length")
	default:
		readable = false
	}
	streamed := strings.HasPrefix(strings.ToLower(resp.Header.Get("Content-Type")), "text/event-stream")
	backHeaders(c.w.Header(), resp.Header, c.account.Key)
	if resp.StatusCode >= 400 {
		c.passError(body, readable)
		return
	}
	var filter *hider
	if hide && streamed && readable {
		filter = &hider{}
		c.w.Header().Del("Content-Length")
	}
	var t tally
	if c.route.api != other && readable {
		t = newTally(c.route.api, streamed, c.asked.tier)
	}
	out := http.NewResponseController(c.w)
	c.bound()
	c.w.WriteHeader(resp.StatusCode)
	if streamed {
		_ = out.Flush()
	}
	// A client that leaves early would otherwise not be charged, since the usage comes last. Read on for a moment.
	c.stays()
	var once sync.Once
	left := func() {
		once.Do(func() {
			if t == nil {
				cancel(errLeft)
				return
			}
			time.AfterFunc(c.s.cfg.Linger, func() { cancel(errLeft) })
		})
	}
	defer context.AfterFunc(c.r.Context(), left)()
	buf := make([]byte, 32<<10)
	begun := false
	var read int64
	var readErr, writeErr error
	for {
		var n int
		n, readErr = body.Read(buf)
		if n > 0 {
			got := time.Now()
			stall.Reset(stallMost)
			piece := buf[:n]
			if filter != nil {
				piece = filter.take(piece)
			}
			if len(piece) > 0 && writeErr == nil {
				c.bound()
				if _, writeErr = c.w.Write(piece); writeErr == nil && streamed {
					writeErr = out.Flush()
				}
			}
			if !begun {
				begun = true
				now := time.Now()
				c.record.FirstByteMs = now.Sub(c.began).Milliseconds()
				c.s.counts.began(now.Sub(c.began), c.own+now.Sub(got))
			}
			c.count(t, buf[:n])
			read += int64(n)
		}
		if readErr != nil {
			break
		}
		if writeErr != nil {
			left()
			if c.whole(t) {
				break
			}
		}
	}
	if filter != nil && writeErr == nil && errors.Is(readErr, io.EOF) {
		if rest := filter.rest(); len(rest) > 0 {
			c.bound()
			_, writeErr = c.w.Write(rest)
		}
	}
	result := c.outcome(ctx, t, readErr, writeErr)
	if result != tokens.ErrUpstream { // what a provider could not finish it does not bill
		c.guess(t, read)
	}
	c.finish(result)
	if result != "" && !errors.Is(readErr, io.EOF) && result != tokens.ErrClientGone {
		panic(http.ErrAbortHandler) // an answer that was cut must not look like a whole one
	}
}

// writeTakes is how long an agent may take to read a piece of its answer.
const writeTakes = 2 * time.Minute

// count gives a piece to what reads the usage. Should that fail, what was used is unknown, and the answer goes on.
func (c *call) count(t tally, piece []byte) {
	if t == nil || c.record.Unpriced {
		return
	}
	defer func() {
		if err := recover(); err != nil {
			c.record.Unpriced = true
			c.s.cfg.Log.Error("usage of an answer not read", "api", c.route.api, "error", err)
		}
	}()
	t.take(piece)
}

// whole reports whether all is known that the answer used.
func (c *call) whole(t tally) bool {
	if t == nil || c.record.Unpriced {
		return true
	}
	_, whole := t.used()
	return whole
}

// outcome says what came of the answer, and notes what it used.
func (c *call) outcome(ctx context.Context, t tally, readErr, writeErr error) string {
	whole := false
	var u usage
	if t != nil && !c.record.Unpriced {
		u, whole = t.used()
		r := &c.record
		r.Tokens, r.Variant, r.Uses, r.Unpriced, r.Additional = u.Tokens, u.variant, u.uses, u.unpriced, u.additional
		if modelOK(u.model) {
			r.Model = u.model
		}
	}
	eof := errors.Is(readErr, io.EOF)
	gone := writeErr != nil || c.r.Context().Err() != nil
	switch {
	case u.failed:
		return tokens.ErrUpstream
	case t != nil && whole: // its last word was passed on; who asked may have hung up after it
		return ""
	case eof && !gone && (t == nil || u.Output != nil): // some providers end a stream without a last word
		return ""
	case gone:
		return tokens.ErrClientGone
	case errors.Is(context.Cause(ctx), errStall):
		return tokens.ErrTimeout
	}
	return tokens.ErrCut
}

// passError passes on what the provider says is wrong. It is not billed. A key in its text stays here.
func (c *call) passError(body io.Reader, readable bool) {
	text, err := io.ReadAll(io.LimitReader(body, mostError))
	if err != nil && len(text) == 0 {
		c.s.cfg.Log.Debug("error of the provider not read", "error", err)
	}
	if readable && c.account.Key != "" {
		text = bytes.ReplaceAll(text, []byte(c.account.Key), []byte("[key]"))
	}
	c.w.Header().Del("Content-Length")
	c.bound()
	c.w.WriteHeader(c.record.Status)
	_, _ = c.w.Write(text)
	c.record.Tokens = tokens.None()
	c.record.FirstByteMs = time.Since(c.began).Milliseconds()
	c.finish(tokens.ErrUpstream)
}

// hider takes out of a stream of chat completions the event that has the usage and nothing else, where the gateway asked for it and the
// agent did not. Events are passed on as soon as they are whole, which is how they come.
type hider struct {
	event  []byte
	line   int  // bytes of the line so far, without its end
	passes bool // the event is too long to be one of usage: it goes on as it comes
}

// mostHeld is how much of an event is held; one of usage is far smaller.
const mostHeld = 64 << 10

// take returns what of b, and of what came before, goes on now.
func (h *hider) take(b []byte) (out []byte) {
	for _, c := range b {
		h.event = append(h.event, c)
		switch {
		case c == '\n' && h.line == 0: // an empty line ends an event
			if h.passes || !onlyUsage(h.event) {
				out = append(out, h.event...)
			}
			h.event, h.passes = h.event[:0], false
		case c == '\n':
			h.line = 0
		case c != '\r':
			h.line++
		}
		if h.passes || len(h.event) > mostHeld {
			h.passes = true
			out = append(out, h.event...)
			h.event = h.event[:0]
		}
	}
	return out
}

// rest is what is held when the stream ends in the middle of an event.
func (h *hider) rest() []byte {
	if onlyUsage(h.event) {
		return nil
	}
	return h.event
}

// onlyUsage reports whether an event has usage and no choices.
func onlyUsage(event []byte) bool {
	var data []byte
	for line := range bytes.Lines(event) {
		if rest, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			data = append(data, rest...)
		}
	}
	var e struct {
		Choices *[]json.RawMessage `json:"choices"`
		Usage   map[string]any     `json:"usage"`
	}
	return json.Unmarshal(data, &e) == nil && e.Choices != nil && len(*e.Choices) == 0 && e.Usage != nil
}
