package kubernetes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/parawork/parawork/executors/serviceclock"
)

// maxAnswer bounds what is read of one answer.
const maxAnswer = 32 << 20

// cluster is one API server under some settings. Safe for concurrent use.
type cluster struct {
	set  Settings // normal
	cfg  *rest.Config
	http *http.Client
	base *url.URL
	now  func() time.Time

	*asked
}

// asked is what was learned of a cluster, which outlives settings that change no connection.
type asked struct {
	mu       sync.Mutex
	at       time.Time // when it was last asked whether it can be used
	refused  error
	policyAt time.Time // when the network policy was last seen
	leaks    string    // what a pod reached although no policy lets it; "" = nothing was seen
	tried    bool      // a pod was asked what it reaches
	clock    serviceclock.Clock
	uncalled string // why pods do not reach this server; "" = they do, or need not
	policyOf string // what pods of this instance were let reach then
	runtime  string // the handler of the runtime class, as last read
}

// apiError is an answer that refuses.
type apiError struct {
	Status     int
	Reason     string
	Message    string
	RetryAfter time.Duration
	Of         string // details.kind
}

func (e *apiError) Error() string {
	return fmt.Sprintf("HTTP %d %s: %s", e.Status, e.Reason, e.Message)
}

// lostError is a question that was not answered: no connection was made, or it was cut.
type lostError struct{ cause error }

func (e *lostError) Error() string { return e.cause.Error() }
func (e *lostError) Unwrap() error { return e.cause }

func isStatus(err error, code int) bool {
	e, ok := errors.AsType[*apiError](err)
	return ok && e.Status == code
}

// open makes the client for settings, which are normal.
func open(set Settings, now func() time.Time) (*cluster, error) {
	cfg, err := set.restConfig()
	if err != nil {
		return nil, err
	}
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, err
	}
	base, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return nil, err
	}
	return &cluster{set: set, cfg: cfg, http: client, base: base, now: now, asked: &asked{}}, nil
}

// cluster returns the client for the settings as they are now. Without a cluster it is an error with the reason no_key.
func (e *Executor) cluster(ctx context.Context) (*cluster, error) {
	set, err := e.cfg.Settings(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the settings of Kubernetes: %w", err)
	}
	if set, err = set.Normal(); err != nil {
		return nil, cannotUse(err)
	}
	if !set.on() {
		return nil, cannot(nil, NoKey)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch c := e.now; {
	case c == nil || c.set.connection() != set.connection():
		c, err := open(set, e.cfg.Now)
		if err != nil {
			return nil, cannotUse(err)
		}
		e.now = c
	case c.set.Namespace != set.Namespace || c.set.RuntimeClass != set.RuntimeClass:
		e.now = &cluster{set: set, cfg: c.cfg, http: c.http, base: c.base, now: c.now, asked: &asked{}}
	case c.set != set:
		e.now = &cluster{set: set, cfg: c.cfg, http: c.http, base: c.base, now: c.now, asked: c.asked}
	}
	return e.now, nil
}

// address names the cluster and namespace, for records.
func (c *cluster) address() string { return address(c.base.String(), c.set.Namespace) }

// Paths of the API.
func (c *cluster) core(kind, name string) string {
	return c.named("/api/v1/namespaces/"+url.PathEscape(c.set.Namespace)+"/"+kind, name)
}

func (c *cluster) named(path, name string) string {
	if name != "" {
		path += "/" + url.PathEscape(name)
	}
	return path
}

func (c *cluster) pods(name string) string   { return c.core("pods", name) }
func (c *cluster) claims(name string) string { return c.core("persistentvolumeclaims", name) }
func (c *cluster) policies(name string) string {
	return c.named("/apis/networking.k8s.io/v1/namespaces/"+url.PathEscape(c.set.Namespace)+"/networkpolicies", name)
}

// ask is one question.
type ask struct {
	method, path string
	query        url.Values
	in, out      any
	patch        bool // in is a merge patch
}

// tries is how often a question is asked that may be asked again.
const tries = 3

// do asks. What changes nothing, or ends something, is asked again when it was not answered; everything is, when the server says that it took
// nothing in.
func (c *cluster) do(ctx context.Context, a ask) error {
	again := a.method == http.MethodGet || a.method == http.MethodDelete
	var err error
	for try := range tries {
		if try > 0 && sleep(ctx, time.Duration(try*try)*250*time.Millisecond) != nil {
			return err
		}
		err = c.once(ctx, a)
		if err == nil || ctx.Err() != nil {
			return err
		}
		if _, lost := errors.AsType[*lostError](err); lost && again {
			continue
		}
		e, ok := errors.AsType[*apiError](err)
		busy := ok && (e.Status == http.StatusTooManyRequests && e.Reason == "TooManyRequests" || again && e.Status == http.StatusServiceUnavailable)
		if !busy {
			return err
		}
		if e.RetryAfter > 0 && sleep(ctx, min(e.RetryAfter, 5*time.Second)) != nil {
			return err
		}
	}
	return err
}

func (c *cluster) once(ctx context.Context, a ask) error {
	ctx, cancel := context.WithTimeout(ctx, c.set.RequestTimeout)
	defer cancel()
	resp, err := c.send(ctx, a)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return &lostError{plainURL(err)}
	}
	if a.out == nil {
		return nil
	}
	if err := json.Unmarshal(b, a.out); err != nil {
		return fmt.Errorf("the answer of the cluster's API server cannot be read: %w", err)
	}
	return nil
}

// send asks, and returns an answer that does not refuse. The caller closes its body.
func (c *cluster) send(ctx context.Context, a ask) (*http.Response, error) {
	var body io.Reader
	if a.in != nil {
		b, err := json.Marshal(a.in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(b)
	}
	u := c.base.JoinPath(a.path)
	u.RawQuery = a.query.Encode()
	req, err := http.NewRequestWithContext(ctx, a.method, u.String(), body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	if a.in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if a.patch {
		req.Header.Set("Content-Type", "application/merge-patch+json")
	}
	resp, err := c.clock.Do(c.http, req, c.now)
	if err != nil {
		if ctx.Err() != nil && errors.Is(context.Cause(ctx), context.Canceled) {
			return nil, context.Cause(ctx)
		}
		return nil, &lostError{plainURL(err)}
	}
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return nil, refusal(resp, b)
}

func refusal(resp *http.Response, body []byte) error {
	e := &apiError{Status: resp.StatusCode}
	var st status
	if json.Unmarshal(body, &st) == nil && st.Message != "" {
		e.Reason, e.Message, e.Of = st.Reason, st.Message, st.Details.Kind
		e.RetryAfter = time.Duration(st.Details.RetryAfter) * time.Second
	} else {
		e.Message = line(string(body), 300)
	}
	if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil {
		e.RetryAfter = time.Duration(s) * time.Second
	}
	if e.Status == http.StatusTooManyRequests && e.Reason == "" {
		e.Reason = "TooManyRequests"
	}
	return e
}

// plainURL leaves out the address, which may be long: the words around the error name the cluster.
func plainURL(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// line makes foreign text one short line.
func line(s string, most int) string {
	s = strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))), " ")
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

// watchEvent is one change of an object that is watched.
type watchEvent struct {
	Type   string          `json:"type"` // ADDED, MODIFIED, DELETED, BOOKMARK, ERROR
	Object json.RawMessage `json:"object"`
}

// watchFor is how long one watch lasts before another is asked for.
const watchFor = 5 * time.Minute

// watch tells changes of pods from a version on, until the server ends that, ctx does, or do returns true.
func (c *cluster) watch(ctx context.Context, query url.Values, from string, do func(typ string, p pod) (done bool)) error {
	q := url.Values{"watch": {"1"}, "resourceVersion": {from}, "allowWatchBookmarks": {"true"}, "timeoutSeconds": {strconv.Itoa(int(watchFor.Seconds()))}}
	for k, v := range query {
		q[k] = v
	}
	ctx, cancel := context.WithTimeout(ctx, watchFor+30*time.Second)
	defer cancel()
	resp, err := c.send(ctx, ask{method: http.MethodGet, path: c.pods(""), query: q})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	dec := json.NewDecoder(resp.Body)
	for {
		var w watchEvent
		if err := dec.Decode(&w); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return &lostError{err}
		}
		switch w.Type {
		case "ERROR":
			var st status
			_ = json.Unmarshal(w.Object, &st)
			return &apiError{Status: st.Code, Reason: st.Reason, Message: st.Message}
		case "BOOKMARK":
			continue
		}
		var p pod
		if err := json.Unmarshal(w.Object, &p); err != nil {
			return fmt.Errorf("the answer of the cluster's API server cannot be read: %w", err)
		}
		if do(w.Type, p) {
			return nil
		}
	}
}

// all lists objects by labels.
func all[T any](ctx context.Context, c *cluster, path string, labels string) ([]T, error) {
	var out []T
	next := ""
	for {
		q := url.Values{"labelSelector": {labels}, "limit": {"500"}}
		if next != "" {
			q.Set("continue", next)
		}
		var l list[T]
		if err := c.do(ctx, ask{method: http.MethodGet, path: path, query: q, out: &l}); err != nil {
			return nil, err
		}
		out = append(out, l.Items...)
		if next = l.Metadata.Continue; next == "" {
			return out, nil
		}
	}
}

// events are what the cluster says of a pod or claim, the newest last.
func (c *cluster) events(ctx context.Context, name string) []event {
	var l list[event]
	q := url.Values{"fieldSelector": {"involvedObject.name=" + name}, "limit": {"100"}}
	if err := c.do(ctx, ask{method: http.MethodGet, path: c.core("events", ""), query: q, out: &l}); err != nil {
		return nil // they only explain
	}
	return l.Items
}
