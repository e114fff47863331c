package providers

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parawork/parawork/internal/egress"
	"github.com/parawork/parawork/internal/safetext"
)

// Config says how a provider is reached.
type Config struct {
	HTTP    *http.Client // required; without a time-out of its own, because answers take as long as they take
	BaseURL string       // what the paths of the API are added to: .../anthropic, .../openai/v1
	Token   string       // "": none is sent
	// RequestHeader names the header of answers that says what the request is called where its cost is recorded; "" = there is none.
	RequestHeader string
	Account       string // sets accounts apart which cannot read each other's reasoning; "": there is one

	FirstByte time.Duration // how long an answer may take to begin: 11 minutes if 0, a minute more than the gateway waits
	Silence   time.Duration // how long nothing may come in an answer: 5 minutes if 0

	// ReasoningSummaries asks OpenAI for readable summaries of the reasoning, which it gives to verified organizations only.
	ReasoningSummaries bool
}

// format is a wire format.
type format interface {
	// name is the provider of reasoning that was made in this format.
	name() string
	// request returns the path of the API, and the body.
	request(req Request) (path string, body any)
	headers(h http.Header, req Request, token string)
	// reader returns what reads one answer.
	reader(a *answer) reader
}

// reader makes parts of the events of one answer.
type reader interface {
	// read reads the data of an event. It reports whether the answer is complete, and why it ended.
	read(data []byte) (stop Stop, err error)
	// end is called when the stream ended: "" if the answer is not complete.
	end() Stop
}

// client is a provider: it does what all formats have in common.
type client struct {
	cfg Config
	format

	mu      sync.Mutex
	refused map[[sha256.Size]byte]bool // reasoning that the provider could not read
	blind   bool                       // the model takes no images
}

func newClient(cfg Config, f format) *client {
	cfg.BaseURL = strings.TrimRight(cfg.BaseURL, "/")
	cfg.FirstByte = cmp.Or(cfg.FirstByte, 11*time.Minute)
	cfg.Silence = cmp.Or(cfg.Silence, 5*time.Minute)
	return &client{cfg: cfg, format: f, refused: map[[sha256.Size]byte]bool{}}
}

// errStalled is why a request is ended of which nothing comes.
var errStalled = errors.New("nothing came for too long")

// drainTime is how long the end of a stream may take after the end of the answer.
const drainTime = time.Second

func (c *client) origin() string {
	if c.cfg.Account == "" {
		return c.name()
	}
	return c.name() + "/" + c.cfg.Account
}

// Stream implements Provider. Where the provider refuses the reasoning of earlier answers, or images, it asks once more without them.
func (c *client) Stream(ctx context.Context, req Request) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		messages := req.Messages
		req.Messages = Repair(c.readable(messages, req.Model))
		a := newAnswer(req, c.origin(), yield)
		err := c.ask(ctx, cancel, req, a)
		if e, ok := errors.AsType[*Error](err); ok && e.reasoning && a.parts == 0 && c.forget(req.Messages) {
			req.Messages = Repair(c.readable(messages, req.Model))
			a = newAnswer(req, c.origin(), yield)
			err = c.ask(ctx, cancel, req, a)
		}
		if e, ok := errors.AsType[*Error](err); ok && e.images && (e.Kind == ErrInvalidRequest || e.Kind == ErrUnavailable) && a.parts == 0 && c.goBlind(req.Messages) {
			req.Messages = Repair(c.readable(messages, req.Model))
			a = newAnswer(req, c.origin(), yield)
			err = c.ask(ctx, cancel, req, a)
		}
		switch {
		case a.left || err == nil && a.err == nil:
		case a.err != nil:
			yield(Event{}, a.err)
		default:
			yield(Event{}, err)
		}
	}
}

// forget notes that the provider cannot read the reasoning in messages. It returns false when there is none.
func (c *client) forget(messages []Message) (some bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range messages {
		for _, p := range m.Parts {
			if p.Kind == Reasoning {
				c.refused[sha256.Sum256(p.Raw)], some = true, true
			}
		}
	}
	return some
}

// goBlind notes that the model takes no images. It returns false when there are none in messages.
func (c *client) goBlind(messages []Message) (some bool) {
	for _, m := range messages {
		for _, p := range m.Parts {
			some = some || p.Kind == Image || slices.ContainsFunc(p.Content, func(p Part) bool { return p.Kind == Image })
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.blind = c.blind || some
	return some
}

// unseen has texts in place of images.
func unseen(parts []Part) []Part {
	out := slices.Clone(parts)
	for i, p := range out {
		if p.Kind == Image {
			out[i] = Part{Kind: Text, Text: "[An image is left out: the model cannot be sent images.]"}
		} else if len(p.Content) > 0 {
			out[i].Content = unseen(p.Content)
		}
	}
	return out
}

// readable drops the reasoning that another provider or model made, which this one would refuse, and what it has refused.
func (c *client) readable(messages []Message, model string) []Message {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]Message, len(messages))
	for i, m := range messages {
		out[i].Role = m.Role
		for _, p := range m.Parts {
			if p.Kind != Reasoning || p.Provider == c.origin() && p.Model == model && len(p.Raw) > 0 && (len(c.refused) == 0 || !c.refused[sha256.Sum256(p.Raw)]) {
				out[i].Parts = append(out[i].Parts, p)
			}
		}
		if c.blind {
			out[i].Parts = unseen(out[i].Parts)
		}
	}
	return out
}

// ask makes the request and reads its answer. Its error is that of the context, or an *Error.
func (c *client) ask(ctx context.Context, cancel context.CancelCauseFunc, req Request, a *answer) error {
	path, content := c.request(req)
	body, err := encode(content)
	if err != nil {
		return &Error{Kind: ErrInvalidRequest, Code: "invalid_request", Message: fmt.Sprintf("The request cannot be written as JSON: %v.", err)}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.cfg.BaseURL+path, bytes.NewReader(body))
	if err != nil {
		return &Error{Kind: ErrInvalidRequest, Code: "invalid_url", Message: "The address of the provider's API is not valid."}
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "text/event-stream")
	r.Header.Set("Accept-Encoding", "identity") // pieces must not wait for each other
	r.Header.Set("User-Agent", "Parawork")
	c.headers(r.Header, req, c.cfg.Token)
	silent := time.AfterFunc(c.cfg.FirstByte, func() { cancel(errStalled) })
	defer silent.Stop()
	resp, err := c.cfg.HTTP.Do(r)
	if err != nil {
		return c.broken(ctx, err, ErrUnavailable)
	}
	defer resp.Body.Close()
	if c.cfg.RequestHeader != "" {
		a.request = resp.Header.Get(c.cfg.RequestHeader)
	}
	in := bufio.NewReaderSize(&watched{resp.Body, silent, c.cfg.Silence}, 16<<10)
	if resp.StatusCode >= 300 || !streams(in) {
		text, err := io.ReadAll(io.LimitReader(in, mostErrorBody))
		if err != nil && resp.StatusCode < 400 {
			return c.broken(ctx, err, ErrCut)
		}
		return c.masked(refusedBy(resp, text))
	}
	if a.request != "" {
		a.emit(Event{Kind: Begun, Request: a.request})
	}
	stop, err := c.read(newEvents(in), c.reader(a), a)
	switch {
	case a.left || a.err != nil:
		return nil
	case err != nil:
		if e, ok := errors.AsType[*Error](err); ok {
			return c.masked(e)
		}
		return c.broken(ctx, err, ErrCut)
	}
	a.done(req, stop)
	if !a.left {
		silent.Reset(drainTime) // the end of the stream follows at once, and whoever counts the usage waits for its reader
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
	}
	return nil
}

// read reads the events of an answer until it is complete.
func (c *client) read(events *events, format reader, a *answer) (Stop, error) {
	for !a.left && a.err == nil {
		data, err := events.next()
		if err != nil {
			if stop := format.end(); stop != "" {
				return stop, nil
			}
			return "", err
		}
		if len(bytes.TrimSpace(data)) == 0 {
			continue
		}
		if stop, err := format.read(data); err != nil || stop != "" {
			return stop, err
		}
	}
	return "", nil
}

// broken makes the error of a connection that failed.
func (c *client) broken(ctx context.Context, err error, kind ErrorKind) error {
	cause := context.Cause(ctx)
	switch {
	case errors.Is(cause, errStalled):
		return &Error{Kind: ErrStalled, Code: "stalled", Message: "The provider sent nothing for too long."}
	case cause != nil:
		return ctx.Err()
	case errors.Is(err, errEventTooLarge) || errors.Is(err, errStreamTooLarge):
		return &Error{Kind: ErrCut, Code: "answer_too_large", Message: fmt.Sprintf("The provider's answer is too large to read: %v.", err), final: true}
	case kind == ErrCut:
		return &Error{Kind: ErrCut, Code: "cut", Message: "The provider's answer ended before it was complete."}
	}
	return &Error{Kind: kind, Code: "unreachable", Message: fmt.Sprintf("The provider cannot be reached: %s.", egress.Words(err))}
}

// parse reads JSON of an event. A member of another type than it should have is left out; after a text that is no JSON something would be
// missing.
func parse(data []byte, v any) error {
	err := json.Unmarshal(data, v)
	if _, ok := errors.AsType[*json.UnmarshalTypeError](err); ok || err == nil {
		return nil
	}
	return &Error{Kind: ErrCut, Code: "invalid_event", Message: fmt.Sprintf("The provider sent an event that is not JSON: %s", safetext.Line(string(data[:min(len(data), 200)])))}
}

// masked takes the token out of the message of an error.
func (c *client) masked(e *Error) error {
	if c.cfg.Token != "" {
		e.Message = strings.ReplaceAll(e.Message, c.cfg.Token, "***")
	}
	return e
}

// watched ends a request from which nothing comes.
type watched struct {
	io.Reader
	silent *time.Timer
	most   time.Duration
}

func (w *watched) Read(b []byte) (int, error) {
	n, err := w.Reader.Read(b)
	if n > 0 {
		w.silent.Reset(w.most)
	}
	return n, err
}

// streams reports whether an answer is a stream of events. The content type does not say so reliably: JSON and HTML begin otherwise.
func streams(in *bufio.Reader) bool {
	for n := 1; n <= 512; n++ {
		start, err := in.Peek(n)
		if err != nil { // nothing came, which is no answer of either kind: reading on tells why
			return true
		}
		if c := start[n-1]; c != ' ' && c != '\n' && c != '\r' && c != '\t' {
			return c != '{' && c != '[' && c != '<'
		}
	}
	return true
}

// encode writes JSON, with the characters of HTML as they are: it is the text of programs.
func encode(v any) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}
