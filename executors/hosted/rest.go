package hosted

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gorilla/websocket"

	"github.com/parawork/parawork/executors/serviceclock"
)

const (
	// maxAnswer bounds one answer.
	maxAnswer = 8 << 20
	// maxRetryAfter is the longest a request waits because a response asked it to.
	maxRetryAfter = 20 * time.Second
	// usualWithin is how long a question may take.
	usualWithin = 60 * time.Second
	retries     = 3
)

// API asks a service that speaks JSON over HTTP and takes a bearer token. Safe for concurrent use.
type API struct {
	Service string // what people call it
	Base    string // without a slash at the end
	Token   string
	Query   url.Values // goes along with every request
	Again   int        // how often a question is asked again; 0 = 3, negative = never
	Now     func() time.Time
	Clock   *serviceclock.Clock // the service's, learned from its answers; NewAPI makes one

	http *http.Client
}

// NewAPI makes a client. It asks nobody.
func NewAPI(a API) *API {
	if a.Now == nil {
		a.Now = time.Now
	}
	a.Clock = &serviceclock.Clock{}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	a.http = &http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, Protocols: protocols, DialContext: (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
			TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: 90 * time.Second, MaxIdleConns: 100, MaxIdleConnsPerHost: 50, MaxResponseHeaderBytes: 64 << 10,
		},
		// A secret goes nowhere but where it was meant for.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return &a
}

// Close closes what is idle.
func (a *API) Close() { a.http.CloseIdleConnections() }

// Ask is one question.
type Ask struct {
	Method string
	Path   string // escaped
	Query  url.Values
	In     any       // sent as JSON
	Body   io.Reader // sent as it is, where In is nil; such a question is asked once
	Header http.Header
	Out    any           // read from JSON
	Repeat bool          // it may be asked again when nobody knows whether it was heard
	Within time.Duration // of each try; 0 = a minute
	Stream bool          // the answer is returned unread
}

// Do asks, again where that is right. Of a Stream it returns the answer, whose body the caller closes; else nil.
func (a *API) Do(ctx context.Context, q Ask) (*http.Response, error) {
	var body []byte
	if q.In != nil {
		b, err := json.Marshal(q.In)
		if err != nil {
			return nil, fmt.Errorf("asking %s: %w", a.Service, err)
		}
		body = b
	}
	most := a.Again
	if most == 0 {
		most = retries
	}
	for try := 0; ; try++ {
		resp, err := a.once(ctx, q, body)
		if err == nil || ctx.Err() != nil || try >= most || q.Body != nil {
			return resp, err
		}
		wait := 200 * time.Millisecond << try
		switch e, refused := errors.AsType[*APIError](err); {
		case refused && e.Status == http.StatusTooManyRequests:
			if e.RetryAfter < 0 || e.RetryAfter > maxRetryAfter { // a limit of the plan: waiting does not help
				return nil, err
			}
			wait = e.RetryAfter
		case refused && (e.Status < 500 || !q.Repeat), !refused && !q.Repeat:
			return nil, err
		}
		wait += time.Duration(rand.Int64N(int64(wait/4 + 50*time.Millisecond))) // not all at once
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < wait {
			return nil, err
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil, err
		}
	}
}

func (a *API) once(ctx context.Context, q Ask, body []byte) (*http.Response, error) {
	within := q.Within
	if within == 0 {
		within = usualWithin
	}
	ctx, cancel := context.WithTimeoutCause(ctx, within, errSlow)
	kept := false
	defer func() {
		if !kept {
			cancel()
		}
	}()
	r := q.Body
	if body != nil {
		r = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, q.Method, a.at(q.Path, q.Query), r)
	if err != nil {
		return nil, fmt.Errorf("asking %s: %w", a.Service, err)
	}
	for k, v := range q.Header {
		req.Header[k] = v
	}
	req.Header.Set("User-Agent", "parawork")
	if a.Token != "" {
		req.Header.Set("Authorization", "Bearer "+a.Token)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := a.Clock.Do(a.http, req, a.Now)
	if err != nil {
		return nil, fmt.Errorf("asking %s (%s %s): %w", a.Service, q.Method, q.Path, Lost(ctx, err))
	}
	if q.Stream && resp.StatusCode < 300 {
		kept = true
		resp.Body = &cancelling{resp.Body, cancel}
		return resp, nil
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case resp.StatusCode >= 300:
		return nil, a.Refusal(resp, b)
	case err != nil:
		return nil, fmt.Errorf("reading the answer of %s (%s %s): %w", a.Service, q.Method, q.Path, Lost(ctx, err))
	case len(b) > maxAnswer:
		return nil, fmt.Errorf("the answer of %s (%s %s) has more than %d bytes", a.Service, q.Method, q.Path, maxAnswer)
	}
	if q.Out != nil {
		if err := json.Unmarshal(b, q.Out); err != nil {
			return nil, fmt.Errorf("the answer of %s (%s %s) cannot be read: %w", a.Service, q.Method, q.Path, err)
		}
	}
	return nil, nil
}

// cancelling is a body whose end ends its request.
type cancelling struct {
	io.ReadCloser
	cancel context.CancelFunc
}

// Close ends the request.
func (c *cancelling) Close() error {
	c.cancel()
	return c.ReadCloser.Close()
}

func (a *API) at(path string, query url.Values) string {
	all := url.Values{}
	for _, q := range []url.Values{a.Query, query} {
		for k, v := range q {
			all[k] = v
		}
	}
	if len(all) == 0 {
		return a.Base + path
	}
	return a.Base + path + "?" + all.Encode()
}

// Refusal reads an answer that says no: {"error": {"message", "code"}} as all these services have it, or {"message", "code"}. What it says is
// foreign: bounded and on one line.
func (a *API) Refusal(resp *http.Response, body []byte) error {
	e := &APIError{Service: a.Service, Status: resp.StatusCode, RetryAfter: -1}
	type words struct {
		Message string `json:"message"`
		Code    string `json:"code"`
	}
	var said struct {
		words
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(body, &said) == nil {
		w := said.words
		if json.Unmarshal(said.Error, &w) != nil {
			_ = json.Unmarshal(said.Error, &w.Message) // a plain text
		}
		e.Message, e.Code = Line(w.Message, 500), Line(w.Code, 100)
	}
	if e.Message == "" {
		e.Message = http.StatusText(resp.StatusCode)
	}
	if s, err := strconv.Atoi(strings.TrimSpace(resp.Header.Get("Retry-After"))); err == nil && s >= 0 {
		e.RetryAfter = time.Duration(s) * time.Second
	}
	return e
}

// Socket opens a WebSocket at a path of the API.
func (a *API) Socket(ctx context.Context, path string, output func(int, []byte) ([]byte, error), then func()) (*Socket, error) {
	at := strings.Replace(a.at(path, nil), "http", "ws", 1)
	header := http.Header{"User-Agent": {"parawork"}}
	if a.Token != "" {
		header.Set("Authorization", "Bearer "+a.Token)
	}
	return a.SocketAt(ctx, at, header, output, then)
}

// SocketAt opens a WebSocket at an address of its own.
func (a *API) SocketAt(ctx context.Context, at string, header http.Header, output func(int, []byte) ([]byte, error), then func()) (*Socket, error) {
	d := &websocket.Dialer{Proxy: http.ProxyFromEnvironment, HandshakeTimeout: 15 * time.Second, ReadBufferSize: 32 << 10, WriteBufferSize: 32 << 10}
	s, resp, err := OpenSocket(ctx, d, at, header, output, then)
	if err == nil {
		return s, nil
	}
	if errors.Is(err, websocket.ErrBadHandshake) && resp != nil {
		b, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
		return nil, a.Refusal(resp, b)
	}
	return nil, fmt.Errorf("opening a pipe at %s: %w", a.Service, Lost(ctx, err))
}

// bare strips the address off an error of the HTTP client: it says nothing new, may be long, and may hold a secret.
func bare(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}
