package e2b

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
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
	"sync/atomic"
	"time"

	"github.com/parawork/parawork/executors/serviceclock"
)

const (
	// maxAnswer bounds one answer of the control plane.
	maxAnswer = 8 << 20
	// maxRetryAfter is the longest a request waits because a response asked it to.
	maxRetryAfter = 30 * time.Second
	// userAgent is how we name ourselves.
	userAgent = "parawork"
)

// plane is the control plane: who makes, lists and ends sandboxes. Safe for concurrent use.
//
// Two versions of its calls are in use. The second, which the service's own client has since 2.51, is tried first; a server that does not
// know it is asked in the first from then on.
type plane struct {
	set   Settings // normal
	http  *http.Client
	wait  func(context.Context, time.Duration) error
	first atomic.Bool // it knows the first version only
	now   func() time.Time
	clock serviceclock.Clock
}

func newPlane(set Settings, client *http.Client) *plane {
	return &plane{set: set, http: client, wait: sleep, now: time.Now}
}

// newHTTP makes the client for both planes. It has no timeout of its own: streams last.
func newHTTP(set Settings) *http.Client {
	proxy, _ := set.proxy() // checked by Normal
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	return &http.Client{
		Transport: &http.Transport{
			Proxy: proxy, Protocols: protocols,
			DialContext:         (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
			TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: 90 * time.Second, MaxIdleConns: 200, MaxIdleConnsPerHost: 100,
			DisableCompression: true, MaxResponseHeaderBytes: 64 << 10, WriteBufferSize: 64 << 10, ReadBufferSize: 64 << 10,
			HTTP2: &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second, MaxReceiveBufferPerStream: 1 << 20},
		},
		// A key or a token goes nowhere but where it was meant for.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// account tells one key at one server from others, without telling the key.
func (s Settings) account() string {
	h := sha256.Sum256([]byte(s.APIURL + "\n" + s.APIKey))
	return hex.EncodeToString(h[:6])
}

// apiError is a refusal of the control plane.
type apiError struct {
	Status     int
	Code       string // error_code, "" for most
	Message    string
	RetryAfter time.Duration // -1 = it does not say
}

func (e *apiError) Error() string {
	code := ""
	if e.Code != "" {
		code = " " + e.Code
	}
	return fmt.Sprintf("E2B answered %d%s: %s", e.Status, code, e.Message)
}

// isStatus reports whether err is a refusal with one of the statuses.
func isStatus(err error, statuses ...int) bool {
	e, ok := errors.AsType[*apiError](err)
	if !ok {
		return false
	}
	for _, s := range statuses {
		if e.Status == s {
			return true
		}
	}
	return false
}

// ask is one question.
type ask struct {
	method string
	path   string
	query  url.Values
	in     any
	out    any
	again  bool          // it may be asked again when nobody knows whether it was heard
	within time.Duration // of each try; 0 = Settings.RequestTimeout
}

// do asks, again where that is right, and returns the status and the header of the answer.
func (p *plane) do(ctx context.Context, q ask) (int, http.Header, error) {
	var body []byte
	if q.in != nil {
		b, err := json.Marshal(q.in)
		if err != nil {
			return 0, nil, fmt.Errorf("asking E2B: %w", err)
		}
		body = b
	}
	for try := 0; ; try++ {
		status, header, err := p.once(ctx, q, body)
		if err == nil || ctx.Err() != nil || try >= p.set.Retries {
			return status, header, err
		}
		wait := time.Duration(0)
		switch e, refused := errors.AsType[*apiError](err); {
		case refused && e.Status == http.StatusTooManyRequests:
			if e.RetryAfter < 0 || e.RetryAfter > maxRetryAfter { // a limit of the plan: waiting does not help
				return status, header, err
			}
			wait = e.RetryAfter
		case refused && (e.Status < 500 || !q.again), !refused && !q.again:
			return status, header, err
		default:
			wait = 200 * time.Millisecond << try
		}
		wait += time.Duration(rand.Int64N(int64(wait/4 + 50*time.Millisecond))) // not all at once
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < wait {
			return status, header, err
		}
		if werr := p.wait(ctx, wait); werr != nil {
			return status, header, err
		}
	}
}

func (p *plane) once(ctx context.Context, q ask, body []byte) (int, http.Header, error) {
	within := q.within
	if within == 0 {
		within = p.set.RequestTimeout
	}
	ctx, cancel := context.WithTimeoutCause(ctx, within, errSlow)
	defer cancel()
	u := p.set.APIURL + q.path
	if len(q.query) > 0 {
		u += "?" + q.query.Encode()
	}
	var r io.Reader
	if body != nil {
		r = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, q.method, u, r)
	if err != nil {
		return 0, nil, fmt.Errorf("asking E2B: %w", err)
	}
	for k, v := range p.set.Headers {
		req.Header.Set(k, v)
	}
	req.Header.Set("User-Agent", userAgent)
	req.Header.Set("Accept", "application/json")
	if p.set.APIKey != "" {
		req.Header.Set("X-API-Key", p.set.APIKey)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := p.clock.Do(p.http, req, p.now)
	if err != nil {
		return 0, nil, fmt.Errorf("asking E2B (%s %s): %w", q.method, q.path, lost(ctx, err))
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case resp.StatusCode >= 300:
		return resp.StatusCode, resp.Header, refusal(resp, b)
	case err != nil:
		return resp.StatusCode, resp.Header, fmt.Errorf("reading E2B's answer (%s %s): %w", q.method, q.path, lost(ctx, err))
	case len(b) > maxAnswer:
		return resp.StatusCode, resp.Header, fmt.Errorf("E2B's answer (%s %s) has more than %d bytes", q.method, q.path, maxAnswer)
	}
	if q.out != nil {
		if err := json.Unmarshal(b, q.out); err != nil {
			return resp.StatusCode, resp.Header, fmt.Errorf("E2B's answer (%s %s) cannot be read: %w", q.method, q.path, err)
		}
	}
	return resp.StatusCode, resp.Header, nil
}

// errSlow says that a question took longer than it may.
var errSlow = errors.New("E2B did not answer in time")

// plain strips the address off an error of the HTTP client: it says nothing new, and may be long.
func plain(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// causeOf is why ctx ended, where it did and that has words of its own.
func causeOf(ctx context.Context, err error) error {
	if c := context.Cause(ctx); c != nil && ctx.Err() != nil {
		return c
	}
	return err
}

// refusal reads an answer that says no. What it says is foreign: bounded and on one line.
func refusal(resp *http.Response, body []byte) error {
	e := &apiError{Status: resp.StatusCode, RetryAfter: -1}
	var said struct {
		Message   string `json:"message"`
		ErrorCode string `json:"error_code"`
	}
	if json.Unmarshal(body, &said) == nil {
		e.Message, e.Code = line(said.Message, 500), line(said.ErrorCode, 100)
	}
	if e.Message == "" {
		e.Message = http.StatusText(resp.StatusCode)
	}
	if s, err := strconv.Atoi(strings.TrimSpace(resp.Header.Get("Retry-After"))); err == nil && s >= 0 {
		e.RetryAfter = time.Duration(s) * time.Second
	}
	return e
}

// line makes foreign words one bounded line.
func line(s string, n int) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	if len(s) > n {
		s = strings.ToValidUTF8(s[:n], "") + "..."
	}
	return s
}
