package e2btest

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parawork/parawork/executors/e2b/e2btest/envd"
)

// diskMB is what sandboxes say their disk is.
const diskMB = 10 << 10

type listed struct {
	TemplateID   string            `json:"templateID"`
	Alias        string            `json:"alias,omitempty"`
	SandboxID    string            `json:"sandboxID"`
	ClientID     string            `json:"clientID"`
	StartedAt    time.Time         `json:"startedAt"`
	EndAt        time.Time         `json:"endAt"`
	CPUCount     int               `json:"cpuCount"`
	MemoryMB     int               `json:"memoryMB"`
	DiskSizeMB   int               `json:"diskSizeMB"`
	Metadata     map[string]string `json:"metadata,omitempty"`
	State        string            `json:"state"`
	EnvdVersion  string            `json:"envdVersion"`
	VolumeMounts []any             `json:"volumeMounts,omitempty"`
}

type lifecycle struct {
	AutoResume bool   `json:"autoResume"`
	OnTimeout  string `json:"onTimeout"`
}

type detail struct {
	listed
	Token    string    `json:"envdAccessToken,omitempty"`
	Internet *bool     `json:"allowInternetAccess"`
	Domain   *string   `json:"domain"`
	Network  *Network  `json:"network,omitempty"`
	Life     lifecycle `json:"lifecycle"`
}

// list describes a sandbox. The caller holds mu.
func (b *sandbox) list() listed {
	return listed{TemplateID: b.template.id, Alias: b.template.Name, SandboxID: b.id, ClientID: clientID, StartedAt: b.startedAt, EndAt: b.endAt,
		CPUCount: b.template.CPUs, MemoryMB: b.template.MemoryMB, DiskSizeMB: diskMB, Metadata: maps.Clone(b.metadata), State: b.state, EnvdVersion: envd.Version}
}

func (s *Server) getSandbox(c *call) error {
	b, err := s.find(c.args[0])
	if err != nil {
		return err
	}
	s.mu.Lock()
	d := detail{listed: b.list(), Token: b.token, Internet: b.internet, Network: b.network, Life: lifecycle{b.autoResume, "kill"}}
	gone := b.changing == "killed"
	s.mu.Unlock()
	if gone {
		return missing(b.id)
	}
	if b.autoPause {
		d.Life.OnTimeout = "pause"
	}
	if s.cfg.Domain != "" {
		d.Domain = &s.cfg.Domain
	}
	return c.answer(http.StatusOK, d)
}

// pick returns the sandboxes with a state and metadata, the newest first.
func (s *Server) pick(states []string, meta map[string]string) []listed {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := []listed{}
	for _, b := range s.boxes {
		if b.changing == "created" || b.changing == "killed" || !slices.Contains(states, b.state) {
			continue
		}
		fits := true
		for k, v := range meta {
			if got, ok := b.metadata[k]; !ok || got != v {
				fits = false
			}
		}
		if fits {
			out = append(out, b.list())
		}
	}
	slices.SortFunc(out, func(a, b listed) int {
		return cmp.Or(b.StartedAt.Compare(a.StartedAt), strings.Compare(b.SandboxID, a.SandboxID))
	})
	return out
}

// metadata reads a filter: a query string whose names and values are encoded once more.
func metadata(text string) (map[string]string, error) {
	out := map[string]string{}
	if text == "" {
		return out, nil
	}
	for pair := range strings.SplitSeq(text, "&") {
		k, v, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(k)
		if err != nil {
			return nil, refuse(http.StatusBadRequest, "error when unescaping metadata key: %v", err)
		}
		value, err := url.QueryUnescape(v)
		if err != nil {
			return nil, refuse(http.StatusBadRequest, "error when unescaping metadata value: %v", err)
		}
		out[name] = value
	}
	return out, nil
}

func (s *Server) listV1(c *call) error {
	meta, err := metadata(c.URL.Query().Get("metadata"))
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, s.pick([]string{running}, meta))
}

func (s *Server) listV2(c *call) error {
	q := c.URL.Query()
	for k := range q {
		if !slices.Contains([]string{"state", "metadata", "order", "startedAfter", "template", "limit", "nextToken"}, k) {
			return invalid("parameter %q in query is not known", k)
		}
	}
	states := []string{running, paused}
	if v := q.Get("state"); v != "" {
		states = strings.Split(v, ",")
		for _, one := range states {
			if one != running && one != paused {
				return invalid("parameter \"state\" in query has an error: value is not one of the allowed values")
			}
		}
	}
	meta, err := metadata(q.Get("metadata"))
	if err != nil {
		return err
	}
	limit := 100
	if v := q.Get("limit"); v != "" {
		if limit, err = strconv.Atoi(v); err != nil || limit < 1 || limit > 100 {
			return invalid("parameter \"limit\" in query has an error: number must be from 1 to 100")
		}
	}
	all := s.pick(states, meta)
	if v := q.Get("template"); v != "" {
		all = slices.DeleteFunc(all, func(l listed) bool { return l.TemplateID != v && l.Alias != v })
	}
	if v := q.Get("startedAfter"); v != "" {
		after, err := time.Parse(time.RFC3339, v)
		if err != nil {
			return invalid("parameter \"startedAfter\" in query has an error: %v", err)
		}
		all = slices.DeleteFunc(all, func(l listed) bool { return !l.StartedAt.After(after) })
	}
	switch q.Get("order") {
	case "", "desc":
	case "asc":
		slices.Reverse(all)
	default:
		return invalid("parameter \"order\" in query has an error: value is not one of the allowed values")
	}
	running := 0
	for _, l := range all {
		if l.State == "running" {
			running++
		}
	}
	if v := q.Get("nextToken"); v != "" {
		last, err := base64.URLEncoding.DecodeString(v)
		if err != nil {
			return refuse(http.StatusBadRequest, "Invalid next token")
		}
		i := slices.IndexFunc(all, func(l listed) bool { return l.SandboxID == string(last) })
		all = all[i+1:] // one that has ended meanwhile begins the list again, rather than hide one
	}
	if len(all) > limit {
		all = all[:limit]
		c.w.Header().Set("X-Next-Token", base64.URLEncoding.EncodeToString([]byte(all[limit-1].SandboxID)))
	}
	c.w.Header().Set("X-Total-Running", strconv.Itoa(running))
	return c.answer(http.StatusOK, all)
}

type metric struct {
	Timestamp     time.Time `json:"timestamp"`
	TimestampUnix int64     `json:"timestampUnix"`
	CPUCount      int       `json:"cpuCount"`
	CPUUsedPct    float64   `json:"cpuUsedPct"`
	MemUsed       int64     `json:"memUsed"`
	MemTotal      int64     `json:"memTotal"`
	MemCache      int64     `json:"memCache"`
	DiskUsed      int64     `json:"diskUsed"`
	DiskTotal     int64     `json:"diskTotal"`
}

// measure asks a sandbox's envd what it uses; ok is false when it does not run.
func (s *Server) measure(c *call, b *sandbox) (metric, bool) {
	var m envd.Metrics
	if !s.ask(c, b, "/metrics", &m) {
		return metric{}, false
	}
	now := s.now()
	return metric{now, now.Unix(), m.CPUCount, m.CPUUsedPct, m.MemUsed, m.MemTotal, m.MemCache, m.DiskUsed, m.DiskTotal}, true
}

// ask reads something of a running sandbox's envd.
func (s *Server) ask(c *call, b *sandbox, path string, into any) bool {
	s.mu.Lock()
	m, ok := b.machine, b.state == running && b.changing == ""
	s.mu.Unlock()
	if !ok {
		return false
	}
	req, err := http.NewRequestWithContext(c.Context(), http.MethodGet, "http://envd"+path, nil)
	if err != nil {
		return false
	}
	req.Header.Set("X-Access-Token", b.token)
	res, err := m.client.Do(req)
	if err != nil {
		return false
	}
	defer res.Body.Close()
	return json.NewDecoder(io.LimitReader(res.Body, 64<<20)).Decode(into) == nil
}

func (s *Server) sandboxMetrics(c *call) error {
	b, err := s.find(c.args[0])
	if err != nil {
		return err
	}
	for _, name := range []string{"start", "end"} {
		if v := c.URL.Query().Get(name); v != "" {
			if n, err := strconv.ParseInt(v, 10, 64); err != nil || n < 0 {
				return invalid("parameter %q in query has an error: value is not an integer", name)
			}
		}
	}
	out := []metric{}
	if m, ok := s.measure(c, b); ok {
		out = append(out, m)
	}
	return c.answer(http.StatusOK, out)
}

func (s *Server) manyMetrics(c *call) error {
	ids := strings.Split(c.URL.Query().Get("sandbox_ids"), ",")
	if c.URL.Query().Get("sandbox_ids") == "" || len(ids) > 100 {
		return invalid("parameter \"sandbox_ids\" in query has an error: 1 to 100 are wanted")
	}
	out := map[string]metric{}
	for _, id := range ids {
		if b, err := s.find(id); err == nil {
			if m, ok := s.measure(c, b); ok {
				out[id] = m
			}
		}
	}
	return c.answer(http.StatusOK, map[string]any{"sandboxes": out})
}

func (s *Server) logsV2(c *call) error {
	b, err := s.find(c.args[0])
	if err != nil {
		return err
	}
	out := []envd.LogEntry{}
	_ = s.ask(c, b, "/fake/log", &out)
	if v := c.URL.Query().Get("search"); v != "" {
		if len(v) > 256 {
			return invalid("parameter \"search\" in query has an error: maximum string length is 256")
		}
		out = slices.DeleteFunc(out, func(e envd.LogEntry) bool { return !strings.Contains(e.Message, v) })
	}
	if v := c.URL.Query().Get("limit"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 0 || n > 1000 {
			return invalid("parameter \"limit\" in query has an error: number must be at most 1000")
		}
		out = out[:min(n, len(out))]
	}
	return c.answer(http.StatusOK, map[string]any{"logs": out})
}

func (s *Server) logsV1(c *call) error {
	b, err := s.find(c.args[0])
	if err != nil {
		return err
	}
	entries := []envd.LogEntry{}
	_ = s.ask(c, b, "/fake/log", &entries)
	type line struct {
		Timestamp time.Time `json:"timestamp"`
		Line      string    `json:"line"`
	}
	lines := []line{}
	for _, e := range entries {
		text, err := json.Marshal(e)
		if err != nil {
			return err
		}
		lines = append(lines, line{e.Timestamp, string(text)})
	}
	return c.answer(http.StatusOK, map[string]any{"logs": lines, "logEntries": entries})
}

func (s *Server) teamMetrics(c *call) error {
	s.mu.Lock()
	n := 0
	for _, b := range s.boxes {
		if b.occupies() {
			n++
		}
	}
	now := s.nowLocked()
	s.mu.Unlock()
	return c.answer(http.StatusOK, []map[string]any{{"timestamp": now, "timestampUnix": now.Unix(), "concurrentSandboxes": n, "sandboxStartRate": 0}})
}
