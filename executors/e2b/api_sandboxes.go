package e2b

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/parawork/parawork/executors/sandboxdir"
)

// egress is what a sandbox may reach, as the control plane takes it.
type egress struct {
	AllowPublicTraffic *bool    `json:"allowPublicTraffic,omitempty"` // false: ports are reached with the sandbox's traffic token only
	AllowOut           []string `json:"allowOut,omitempty"`
	DenyOut            []string `json:"denyOut,omitempty"`
}

// newSandbox asks for a sandbox.
type newSandbox struct {
	TemplateID          string            `json:"templateID"`
	Timeout             int               `json:"timeout"` // s; always sent: the first version's default is 15
	AutoPause           bool              `json:"autoPause"`
	Secure              *bool             `json:"secure,omitempty"` // in the first version only, where it is off unless asked for
	AllowInternetAccess *bool             `json:"allow_internet_access,omitempty"`
	Network             *egress           `json:"network,omitempty"`
	Metadata            map[string]string `json:"metadata,omitempty"`
}

// answer is a sandbox as create and connect answer it.
type answer struct {
	SandboxID       string `json:"sandboxID"`
	TemplateID      string `json:"templateID"`
	EnvdVersion     string `json:"envdVersion"`
	EnvdAccessToken string `json:"envdAccessToken"`
	TrafficToken    string `json:"trafficAccessToken"`
	Domain          string `json:"domain"`
}

// detail is a sandbox as it stands.
type detail struct {
	answer
	State    string            `json:"state"` // running or paused
	Started  time.Time         `json:"startedAt"`
	Ends     time.Time         `json:"endAt"`
	CPUs     int               `json:"cpuCount"`
	MemoryMB int               `json:"memoryMB"`
	Metadata map[string]string `json:"metadata"`
}

const (
	stateRunning = "running"
	statePaused  = "paused"
)

// sandboxPath is the path of a sandbox: its id is foreign, too.
func sandboxPath(id, rest string) string { return "/sandboxes/" + url.PathEscape(id) + rest }

// unknownCall reports whether a server refused a call because it does not know it.
func unknownCall(err error) bool {
	e, ok := errors.AsType[*apiError](err)
	if !ok {
		return false
	}
	m := strings.ToLower(e.Message)
	return e.Status == http.StatusBadRequest && strings.Contains(m, "method not allowed") || e.Status == http.StatusMethodNotAllowed ||
		e.Status == http.StatusNotFound && (strings.Contains(m, "no matching operation") || m == "not found" || strings.Contains(m, "404 page"))
}

// create makes a sandbox. It is not idempotent: see Executor.begin.
func (p *plane) create(ctx context.Context, n newSandbox) (answer, error) {
	if p.set.Debug {
		return answer{SandboxID: debugSandbox, TemplateID: n.TemplateID}, nil
	}
	var a answer
	if !p.first.Load() {
		_, _, err := p.do(ctx, ask{method: http.MethodPost, path: "/v2/sandboxes", in: n, out: &a})
		if !unknownCall(err) {
			return p.checked(a, err)
		}
		p.first.Store(true)
	}
	secure := true
	n.Secure = &secure
	_, _, err := p.do(ctx, ask{method: http.MethodPost, path: "/sandboxes", in: n, out: &a})
	return p.checked(a, err)
}

// checked refuses an answer that cannot be right.
func (p *plane) checked(a answer, err error) (answer, error) {
	if err != nil {
		return answer{}, err
	}
	if !sandboxdir.Plain(a.SandboxID) {
		return answer{}, fmt.Errorf("E2B named the sandbox %q, which is no name of one", line(a.SandboxID, 80))
	}
	if a.Domain != "" && !plainHost(a.Domain) {
		return answer{}, fmt.Errorf("E2B named the domain %q, which is none", line(a.Domain, 80))
	}
	if a.EnvdAccessToken == "" && !p.set.Debug { // a sandbox whose envd is open to everybody is not used
		return a, errOpen
	}
	return a, nil
}

var errOpen = errors.New("E2B made a sandbox that is open to everybody who knows its name; such a one is not used")

func plainHost(s string) bool {
	return len(s) <= 253 && strings.IndexFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '.' || r == ':')
	}) < 0
}

// connect takes a sandbox up, waking it where it is paused: it then lives for d at least.
func (p *plane) connect(ctx context.Context, id string, d time.Duration) (answer, error) {
	if p.set.Debug {
		return answer{SandboxID: debugSandbox}, nil
	}
	in := struct {
		Timeout int `json:"timeout"`
	}{seconds(d)}
	var a answer
	if !p.first.Load() {
		_, _, err := p.do(ctx, ask{method: http.MethodPost, path: "/v2" + sandboxPath(id, "/connect"), in: in, out: &a, again: true})
		if !unknownCall(err) {
			return p.checked(a, err)
		}
		p.first.Store(true)
	}
	_, _, err := p.do(ctx, ask{method: http.MethodPost, path: sandboxPath(id, "/connect"), in: in, out: &a, again: true})
	return p.checked(a, err)
}

// get says how a sandbox stands. isStatus(err, 404): there is none.
func (p *plane) get(ctx context.Context, id string) (detail, error) {
	if p.set.Debug {
		return detail{answer: answer{SandboxID: debugSandbox}, State: stateRunning}, nil
	}
	var d detail
	_, _, err := p.do(ctx, ask{method: http.MethodGet, path: sandboxPath(id, ""), out: &d, again: true})
	if err == nil && d.SandboxID != id {
		err = fmt.Errorf("E2B returned the sandbox %q when asked for %q", line(d.SandboxID, 80), id)
	}
	return d, err
}

// kill ends a sandbox, running or paused. One that is not there is no error.
func (p *plane) kill(ctx context.Context, id string) error {
	if p.set.Debug {
		return nil
	}
	_, _, err := p.do(ctx, ask{method: http.MethodDelete, path: sandboxPath(id, ""), again: true})
	if isStatus(err, http.StatusNotFound) {
		return nil
	}
	return err
}

// live has a sandbox end, or be paused, d from now. It may shorten.
func (p *plane) live(ctx context.Context, id string, d time.Duration) error {
	if p.set.Debug {
		return nil
	}
	in := struct {
		Timeout int `json:"timeout"`
	}{seconds(d)}
	_, _, err := p.do(ctx, ask{method: http.MethodPost, path: sandboxPath(id, "/timeout"), in: in, again: true})
	return err
}

func seconds(d time.Duration) int { return max(1, int((d+time.Second-1)/time.Second)) }

// pause saves memory and disk of a sandbox and stops it. One that is paused is no error.
func (p *plane) pause(ctx context.Context, id string) error {
	if p.set.Debug {
		return errors.New("there is nothing that could pause in debug mode")
	}
	// About 4 s for each GiB of memory, says the service.
	_, _, err := p.do(ctx, ask{method: http.MethodPost, path: sandboxPath(id, "/pause"), in: struct{}{}, within: max(p.set.RequestTimeout, 2*time.Minute)})
	return err
}

// reach sets what a running sandbox may reach. All rules are replaced.
func (p *plane) reach(ctx context.Context, id string, e egress) error {
	if p.set.Debug {
		return nil
	}
	in := struct {
		AllowOut []string `json:"allowOut"`
		DenyOut  []string `json:"denyOut"`
	}{append([]string{}, e.AllowOut...), append([]string{}, e.DenyOut...)}
	_, _, err := p.do(ctx, ask{method: http.MethodPut, path: sandboxPath(id, "/network"), in: in, again: true})
	return err
}

// listPages bounds how many pages of sandboxes are read: 100 of them each.
const listPages = 100

// list returns the sandboxes, running and paused, whose metadata has all of want. Servers of the first version tell the running only.
func (p *plane) list(ctx context.Context, want map[string]string) ([]detail, error) {
	if p.set.Debug {
		return nil, nil
	}
	q := url.Values{}
	if len(want) > 0 {
		q.Set("metadata", encodeMetadata(want))
	}
	if p.first.Load() {
		return p.listFirst(ctx, q, want)
	}
	q.Set("state", stateRunning+","+statePaused)
	q.Set("limit", "100")
	var out []detail
	for range listPages {
		var page []detail
		_, h, err := p.do(ctx, ask{method: http.MethodGet, path: "/v2/sandboxes", query: q, out: &page, again: true})
		if unknownCall(err) {
			q.Del("state")
			q.Del("limit")
			return p.listFirst(ctx, q, want)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, matching(page, want)...)
		next := h.Get("X-Next-Token")
		if next == "" {
			return out, nil
		}
		q.Set("nextToken", next)
	}
	return nil, fmt.Errorf("E2B lists more than %d pages of sandboxes", listPages)
}

func (p *plane) listFirst(ctx context.Context, q url.Values, want map[string]string) ([]detail, error) {
	var all []detail
	_, _, err := p.do(ctx, ask{method: http.MethodGet, path: "/sandboxes", query: q, out: &all, again: true})
	for i := range all {
		all[i].State = cmp.Or(all[i].State, stateRunning)
	}
	return matching(all, want), err
}

// matching leaves out what was not asked for: what is listed is reaped.
func matching(all []detail, want map[string]string) []detail {
	var out []detail
next:
	for _, d := range all {
		for k, v := range want {
			if d.Metadata[k] != v {
				continue next
			}
		}
		if sandboxdir.Plain(d.SandboxID) {
			out = append(out, d)
		}
	}
	return out
}

// encodeMetadata is a query within a query, whose keys and values are escaped once more: so the server reads it.
func encodeMetadata(m map[string]string) string {
	q := url.Values{}
	for k, v := range m {
		q.Set(url.QueryEscape(k), url.QueryEscape(v))
	}
	return q.Encode()
}

// check asks whether the key is taken, and how many sandboxes run.
func (p *plane) check(ctx context.Context) (running int, err error) {
	if p.set.Debug {
		return 0, nil
	}
	var page []detail
	path, q := "/v2/sandboxes", url.Values{"limit": {"1"}}
	if p.first.Load() {
		path, q = "/sandboxes", nil
	}
	_, h, err := p.do(ctx, ask{method: http.MethodGet, path: path, query: q, out: &page, again: true})
	if unknownCall(err) && path != "/sandboxes" {
		_, _, err = p.do(ctx, ask{method: http.MethodGet, path: "/sandboxes", out: &page, again: true})
		return len(page), err
	}
	running, _ = strconv.Atoi(h.Get("X-Total-Running"))
	return running, err
}
