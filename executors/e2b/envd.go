package e2b

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
)

const (
	envdPort = 49983
	// sandboxUser is whom everything runs as: every template has this user.
	sandboxUser = "user"
	// pingSeconds has envd say something on quiet streams, which proxies on the way cut after 10 minutes. 0 or less kills envd.
	pingSeconds = 50
	// maxMessage bounds one message of a stream.
	maxMessage = 8 << 20
)

// sharedDomains have one address for the envd of all sandboxes: a header names the sandbox.
var sharedDomains = []string{"e2b.app", "e2b.dev", "e2b.pro", "e2b-staging.dev"}

// envd is the daemon in one sandbox: it starts processes and moves files. It speaks Connect with JSON. Safe for concurrent use.
type envd struct {
	set     Settings // normal
	http    *http.Client
	id      string // of the sandbox, as E2B calls it
	base    string
	version string                 // of envd; "" = not reported
	token   atomic.Pointer[string] // of envd; it may change when the sandbox wakes
}

func newEnvd(set Settings, client *http.Client, a answer) *envd {
	d := &envd{set: set, http: client, id: a.SandboxID, base: set.envdURL(a), version: a.EnvdVersion}
	d.setToken(a.EnvdAccessToken)
	return d
}

func (d *envd) setToken(t string) {
	if t != "" {
		d.token.Store(&t)
	}
}

// envdURL is where a sandbox's envd is reached.
func (s Settings) envdURL(a answer) string {
	domain := cmp.Or(a.Domain, s.Domain)
	switch {
	case s.SandboxURL != "":
		return s.SandboxURL
	case s.Debug:
		return debugEnvd
	case slices.Contains(sharedDomains, domain):
		return "https://sandbox." + domain
	}
	return fmt.Sprintf("https://%d-%s.%s", envdPort, a.SandboxID, domain)
}

// envdError is a refusal of envd, or of the proxy before it.
type envdError struct {
	Status  int    // of HTTP; 0 = it came at the end of a stream
	Code    string // of Connect, such as not_found; "" = the proxy's
	Message string
}

func (e *envdError) Error() string { return "the sandbox's envd answered " + e.said() }

// said is the refusal as it was seen.
func (e *envdError) said() string {
	how := e.Code
	if e.Status != 0 {
		how = strings.TrimSpace(fmt.Sprintf("HTTP %d %s", e.Status, e.Code))
	}
	return cmp.Or(how, "a refusal") + ": " + e.Message
}

// absent reports whether err says that no sandbox runs there: it was ended, or is paused.
func absent(err error) bool {
	e, ok := errors.AsType[*envdError](err)
	return ok && e.Status == http.StatusBadGateway
}

// isCode reports whether err is envd's refusal with a code of Connect.
func isCode(err error, code string) bool {
	e, ok := errors.AsType[*envdError](err)
	return ok && e.Code == code
}

// request makes a request to the sandbox. user "" = nobody in particular.
func (d *envd) request(ctx context.Context, method, path, user string, body io.Reader) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, d.base+path, body)
	if err != nil {
		return nil, fmt.Errorf("asking envd: %w", err)
	}
	for k, v := range d.set.Headers {
		req.Header.Set(k, v)
	}
	req.Header.Set("User-Agent", userAgent)
	req.Header.Set("E2b-Sandbox-Id", d.id)
	req.Header.Set("E2b-Sandbox-Port", strconv.Itoa(envdPort))
	if t := d.token.Load(); t != nil {
		req.Header.Set("X-Access-Token", *t)
	}
	if user != "" {
		req.Header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(user+":")))
	}
	return req, nil
}

// call asks one question and takes one answer. Its time is bounded by Settings.RequestTimeout at most.
func (d *envd) call(ctx context.Context, method string, in, out any) error {
	b, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("asking envd: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, d.set.RequestTimeout, errSlow)
	defer cancel()
	req, err := d.request(ctx, http.MethodPost, "/"+method, sandboxUser, bytes.NewReader(b))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Connect-Protocol-Version", "1")
	resp, err := d.http.Do(req)
	if err != nil {
		return fmt.Errorf("asking envd (%s): %w", method, lost(ctx, err))
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxMessage+1))
	switch {
	case resp.StatusCode != http.StatusOK:
		return envdRefusal(resp.StatusCode, body)
	case err != nil:
		return fmt.Errorf("reading envd's answer (%s): %w", method, lost(ctx, err))
	case len(body) > maxMessage:
		return fmt.Errorf("envd's answer (%s) is too long", method)
	case out == nil:
		return nil
	}
	if err := json.Unmarshal(body, out); err != nil {
		return fmt.Errorf("envd's answer (%s) cannot be read: %w", method, err)
	}
	return nil
}

func envdRefusal(status int, body []byte) error {
	e := &envdError{Status: status}
	var said struct {
		Code    any    `json:"code"` // a word of Connect, or a number of the proxy's
		Message string `json:"message"`
	}
	if json.Unmarshal(body, &said) == nil {
		e.Message = line(said.Message, 300)
		if c, ok := said.Code.(string); ok {
			e.Code = line(c, 50)
		}
	}
	e.Message = cmp.Or(e.Message, http.StatusText(status))
	return e
}

// Frames of a stream: a byte of flags, the message's length, the message.
const (
	frameHeader = 5
	flagPacked  = 1
	flagEnd     = 2
)

func appendFrame(b []byte, flags byte, message []byte) []byte {
	b = append(b, flags)
	b = binary.BigEndian.AppendUint32(b, uint32(len(message)))
	return append(b, message...)
}

// errCut says that a stream ended without saying so.
var errCut = errors.New("the stream from envd was cut")

// stream is the answer to a question that has many.
type stream struct {
	body   io.ReadCloser
	cancel context.CancelFunc
	ctx    context.Context
	head   [frameHeader]byte
	buf    []byte
}

// open asks a question that is answered by a stream. The stream lives until close, or until ctx ends; the first answer is waited for
// by the caller.
func (d *envd) open(ctx context.Context, method string, in any) (*stream, error) {
	b, err := json.Marshal(in)
	if err != nil {
		return nil, fmt.Errorf("asking envd: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	req, err := d.request(ctx, http.MethodPost, "/"+method, sandboxUser, bytes.NewReader(appendFrame(nil, 0, b)))
	if err != nil {
		cancel()
		return nil, err
	}
	// No deadline goes along: envd would kill the process at its end.
	req.Header.Set("Content-Type", "application/connect+json")
	req.Header.Set("Connect-Protocol-Version", "1")
	req.Header.Set("Keepalive-Ping-Interval", strconv.Itoa(pingSeconds))
	resp, err := d.http.Do(req)
	if err != nil {
		defer cancel()
		return nil, fmt.Errorf("asking envd (%s): %w", method, lost(ctx, err))
	}
	if resp.StatusCode != http.StatusOK {
		defer cancel()
		defer resp.Body.Close()
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
		return nil, envdRefusal(resp.StatusCode, body)
	}
	return &stream{body: resp.Body, cancel: cancel, ctx: ctx}, nil
}

func (s *stream) close() {
	s.cancel()
	_ = s.body.Close()
}

// next reads one message, valid until the next call. io.EOF at a good end; a refusal at the end is an *envdError.
func (s *stream) next() ([]byte, error) {
	if _, err := io.ReadFull(s.body, s.head[:]); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF // a stream ends with a frame that says so
		}
		return nil, fmt.Errorf("%w: %w", errCut, lost(s.ctx, err))
	}
	n := binary.BigEndian.Uint32(s.head[1:])
	if n > maxMessage || s.head[0]&flagPacked != 0 {
		return nil, errors.New("envd sent a message that is too long, or packed")
	}
	if int(n) > cap(s.buf) {
		s.buf = make([]byte, max(int(n), 16<<10))
	}
	m := s.buf[:n]
	if _, err := io.ReadFull(s.body, m); err != nil {
		return nil, fmt.Errorf("%w: %w", errCut, lost(s.ctx, err))
	}
	if s.head[0]&flagEnd == 0 {
		return m, nil
	}
	var end struct {
		Error *struct{ Code, Message string }
	}
	if err := json.Unmarshal(m, &end); err != nil {
		return nil, fmt.Errorf("the end of envd's stream cannot be read: %w", err)
	}
	if end.Error != nil {
		return nil, &envdError{Code: line(end.Error.Code, 50), Message: line(end.Error.Message, 300)}
	}
	return nil, io.EOF
}

// usage is what the sandbox's machine says of itself.
type usage struct {
	CPUs    float64 `json:"cpu_count"`
	CPUPct  float64 `json:"cpu_used_pct"` // of all of them together
	MemUsed int64   `json:"mem_used"`
	MemAll  int64   `json:"mem_total"`
}

// metrics reads them.
func (d *envd) metrics(ctx context.Context) (usage, error) {
	var u usage
	req, err := d.request(ctx, http.MethodGet, "/metrics", "", nil)
	if err != nil {
		return u, err
	}
	req.Header.Set("Accept", "application/json")
	resp, err := d.http.Do(req)
	if err != nil {
		return u, fmt.Errorf("asking envd (metrics): %w", lost(ctx, err))
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if resp.StatusCode != http.StatusOK {
		return u, envdRefusal(resp.StatusCode, body)
	}
	if err == nil {
		err = json.Unmarshal(body, &u)
	}
	return u, err
}
