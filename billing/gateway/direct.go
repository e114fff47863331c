package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/parawork/parawork/internal/tenant"
)

// Direct is how an agent that works in the server asks the model of its session's account.
type Direct struct {
	Client *http.Client // passes requests through the gateway, within the process: budgets, rules and counts are those of all agents
	API    string       // the API that the account's key is for: anthropic or openai
	Says   string       // the account says which it speaks: messages, responses or chat; "" = it does not say
	Own    bool         // the account has no address of its own: it is asked at the provider's
}

// BaseURL is the address at which Client takes requests, in the form that clients of the API expect.
func (d Direct) BaseURL() string {
	if d.API == string(openAIDialect) {
		return OpenAIBase
	}
	return AnthropicBase
}

// Addresses at which a Direct's Client takes requests of the two kinds of API.
const (
	AnthropicBase = "http://gateway/anthropic"
	OpenAIBase    = "http://gateway/openai/v1"
)

// RequestHeader is the header of Client's answers with the request's ID in the record of what models were asked: Request.ExternalID.
const RequestHeader = "Parawork-Request"

// Direct returns how the agent of a grant asks its model. The caller vouches for the grant: it is that of a session that runs.
func (s *Service) Direct(ctx context.Context, g Grant) (Direct, error) {
	a, err := s.cfg.Account(tenant.In(ctx, g.TeamID), g)
	if err != nil {
		return Direct{}, err
	}
	d := Direct{Client: &http.Client{Transport: direct{s, g}}, API: string(a.speaks()), Says: a.API, Own: a.BaseURL == ""}
	if d.API == string(anyDialect) { // an address of its own may speak both: the key tells what it was made for
		a.BaseURL = ""
		d.API = string(a.speaks())
	}
	return d, nil
}

// direct passes the requests of one session through the gateway.
type direct struct {
	s     *Service
	grant Grant
}

// RoundTrip answers once the answer begins; its body ends with the provider's.
func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	rt, err := routeOf(r)
	if err != nil {
		return nil, err
	}
	if r.Body == nil {
		r.Body = http.NoBody
	}
	from, to := io.Pipe()
	w := &piped{to: to, header: http.Header{}, begun: make(chan struct{})}
	leave := d.s.counts.begin()
	c := &call{s: d.s, w: w, r: r, began: time.Now(), grant: d.grant, route: rt}
	w.begins = func(h http.Header) { h.Set(RequestHeader, c.record.ExternalID) }
	go func() { // ends with the request: its context bounds it
		defer leave()
		defer r.Body.Close()
		err := io.EOF
		defer func() {
			switch p := recover(); p {
			case nil:
			case http.ErrAbortHandler: // how a cut answer is ended
				err = io.ErrUnexpectedEOF
			default:
				err = errors.New("the model gateway failed unexpectedly")
				d.s.cfg.Log.Error("a request of the server's own agent panicked", "session_id", d.grant.SessionID, "panic", p)
			}
			w.WriteHeader(http.StatusOK)
			_ = to.CloseWithError(err)
		}()
		c.serve()
		if cause := context.Cause(r.Context()); cause != nil {
			err = cause // it may have been cut
		}
	}()
	select {
	case <-w.begun:
	case <-r.Context().Done():
		_ = from.CloseWithError(context.Cause(r.Context()))
		return nil, context.Cause(r.Context())
	}
	return &http.Response{Status: http.StatusText(w.status), StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: w.header, Body: from, ContentLength: -1, Request: r}, nil
}

// piped is an answer that is read while it is written.
type piped struct {
	to     *io.PipeWriter
	header http.Header
	begins func(h http.Header) // adds to the headers when the answer begins
	once   sync.Once
	status int // read after begun is closed
	begun  chan struct{}
}

func (w *piped) Header() http.Header { return w.header }

func (w *piped) WriteHeader(status int) {
	w.once.Do(func() {
		w.status, w.header = status, w.header.Clone() // what is set later is not sent
		w.begins(w.header)
		close(w.begun)
	})
}

func (w *piped) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.to.Write(p)
}

func (w *piped) Flush() {}
