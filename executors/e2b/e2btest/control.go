package e2btest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/parawork/parawork/executors/e2b/e2btest/envd"
)

// Limits of the control plane, in bytes.
const (
	maxBody   = 16 << 20
	keptBody  = 64 << 10
	keptCalls = 20_000
)

// Request is one that a server was sent.
type Request struct {
	At      time.Time
	Plane   string // "api", "sandbox"
	Method  string
	Path    string
	Query   string
	Header  http.Header
	Body    string // of the control plane and of unary calls of envd, its beginning
	Sandbox string // that it was for
	Status  int    // 0 = it was cut before it was answered
}

// apiError is how the control plane refuses.
type apiError struct {
	Code      int    `json:"code"`
	Message   string `json:"message"`
	ErrorCode string `json:"error_code,omitempty"`
}

func (e *apiError) Error() string { return strconv.Itoa(e.Code) + " " + e.Message }

func refuse(code int, format string, args ...any) error {
	return &apiError{Code: code, Message: fmt.Sprintf(format, args...)}
}

func invalid(format string, args ...any) error {
	return refuse(http.StatusBadRequest, "validation error: "+format, args...)
}

// call is one request of the control plane.
type call struct {
	*http.Request
	w    http.ResponseWriter
	body []byte
	args []string // what the path names
}

// decode reads the body. optional = there may be none.
func (c *call) decode(v any, optional bool) error {
	if len(bytes.TrimSpace(c.body)) == 0 {
		if optional {
			return nil
		}
		return invalid("request body has an error: value is required but missing")
	}
	if kind, _, _ := mime.ParseMediaType(c.Header.Get("Content-Type")); kind != "application/json" {
		return invalid("request body has an error: header Content-Type has unexpected value %q", c.Header.Get("Content-Type"))
	}
	if err := envd.Strict(c.body, v); err != nil {
		return invalid("request body has an error: doesn't match schema: %v", err)
	}
	return nil
}

func (c *call) answer(status int, v any) error {
	if v == nil {
		c.w.WriteHeader(status)
		return nil
	}
	c.w.Header().Set("Content-Type", "application/json")
	c.w.WriteHeader(status)
	return json.NewEncoder(c.w).Encode(v)
}

// route is one operation of the control plane.
type route struct {
	method, path string // {} is one element that names something
	v1           bool   // an old server knows it
	fn           func(*call) error
}

func (s *Server) routes() []route {
	return []route{
		{"POST", "/v2/sandboxes", false, s.createV2},
		{"POST", "/sandboxes", true, s.createV1},
		{"GET", "/v2/sandboxes", true, s.listV2},
		{"GET", "/sandboxes", true, s.listV1},
		{"GET", "/sandboxes/metrics", true, s.manyMetrics},
		{"GET", "/sandboxes/{}", true, s.getSandbox},
		{"DELETE", "/sandboxes/{}", true, s.deleteSandbox},
		{"POST", "/sandboxes/{}/timeout", true, s.setTimeout},
		{"POST", "/sandboxes/{}/refreshes", true, s.refresh},
		{"POST", "/sandboxes/{}/pause", true, s.pauseSandbox},
		{"POST", "/v2/sandboxes/{}/connect", false, s.connectV2},
		{"POST", "/sandboxes/{}/connect", true, s.connectV1},
		{"POST", "/sandboxes/{}/resume", true, s.resumeSandbox},
		{"PUT", "/sandboxes/{}/network", true, s.putNetwork},
		{"GET", "/sandboxes/{}/metrics", true, s.sandboxMetrics},
		{"GET", "/v2/sandboxes/{}/logs", false, s.logsV2},
		{"GET", "/sandboxes/{}/logs", true, s.logsV1},
		{"GET", "/teams/{}/metrics", true, s.teamMetrics},
		{"POST", "/templates/tags", true, s.setTags},
		{"DELETE", "/templates/tags", true, s.dropTags},
		{"POST", "/v3/templates", true, s.createTemplate},
		{"GET", "/v2/templates", true, s.listTemplates},
		{"GET", "/templates", true, s.listTemplates},
		{"GET", "/templates/aliases/{}", true, s.getAlias},
		{"GET", "/templates/{}", true, s.getTemplate},
		{"DELETE", "/templates/{}", true, s.deleteTemplate},
		{"GET", "/templates/{}/files/{}", true, s.templateFile},
		{"POST", "/v2/templates/{}/builds/{}", true, s.startBuild},
		{"GET", "/templates/{}/builds/{}/status", true, s.buildStatus},
	}
}

// match tells what the elements of a path name.
func (r route) match(path string) ([]string, bool) {
	want, got := strings.Split(r.path, "/"), strings.Split(path, "/")
	if len(want) != len(got) {
		return nil, false
	}
	var args []string
	for i := range want {
		switch {
		case want[i] == "{}" && got[i] != "":
			args = append(args, got[i])
		case want[i] != got[i]:
			return nil, false
		}
	}
	return args, true
}

// control is the control plane.
func (s *Server) control() http.Handler {
	routes := s.routes()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/upload/") {
			s.takeUpload(w, r)
			return
		}
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(time.Minute))
		body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
		seen := &watched{ResponseWriter: w}
		w.Header().Set("Date", s.now().Format(http.TimeFormat))
		c := &call{Request: r, w: seen, body: body}
		defer func() { s.record("api", r, body, "", seen.status) }()
		if err != nil {
			return
		}
		fault, err := s.struck(r)
		for k, v := range fault.header() {
			seen.Header().Set(k, v)
		}
		if err == nil {
			err = s.operate(routes, c, fault)
		}
		if fault != nil && fault.Lose {
			seen.status = 0
			panic(http.ErrAbortHandler)
		}
		s.sayError(seen, err)
	})
}

// operate finds the sandbox and performs the request. With a fault that loses the response, it sends none.
func (s *Server) operate(routes []route, c *call, fault *Fault) error {
	if fault != nil && fault.Lose {
		c.w = &watched{ResponseWriter: lost{}}
	}
	if len(c.body) > maxBody {
		return refuse(http.StatusBadRequest, "request body has an error: http: request body too large")
	}
	if c.URL.Path == "/health" && c.Method == http.MethodGet {
		return c.answer(http.StatusNoContent, nil)
	}
	s.mu.Lock()
	old := s.old
	s.mu.Unlock()
	var found *route
	known := false
	for _, r := range routes {
		if old && !r.v1 {
			continue
		}
		args, ok := r.match(c.URL.Path)
		if !ok {
			continue
		}
		known = true
		if r.method == c.Method && found == nil {
			found, c.args = &r, args
		}
	}
	switch {
	case known && found == nil:
		return invalid("method not allowed")
	case found == nil:
		return refuse(http.StatusNotFound, "validation error: no matching operation was found")
	}
	if err := s.checkKey(c.Request); err != nil {
		return err
	}
	return found.fn(c)
}

// checkKey wants the team's key and no other way in.
func (s *Server) checkKey(r *http.Request) error {
	key := r.Header.Get("X-API-Key")
	switch {
	case key == "":
		return refuse(http.StatusUnauthorized, "authorization header is missing")
	case !strings.HasPrefix(key, "e2b_"):
		return refuse(http.StatusUnauthorized, "authorization header is malformed")
	case key != s.key:
		return refuse(http.StatusUnauthorized, "Invalid API key, please visit https://e2b.dev/docs/api-key for more information.")
	}
	return nil
}

func (s *Server) sayError(w http.ResponseWriter, err error) {
	if err == nil {
		return
	}
	var e *apiError
	if !errors.As(err, &e) {
		e = &apiError{Code: http.StatusInternalServerError, Message: err.Error(), ErrorCode: "internal_server_error"}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(e.Code)
	_ = json.NewEncoder(w).Encode(e)
}

// record keeps a request for those who look at them.
func (s *Server) record(plane string, r *http.Request, body []byte, sandbox string, status int) {
	one := Request{At: time.Now(), Plane: plane, Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery, Header: r.Header.Clone(),
		Body: string(body[:min(len(body), keptBody)]), Sandbox: sandbox, Status: status}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.requests) >= keptCalls {
		s.requests = append(s.requests[:0], s.requests[keptCalls/2:]...)
	}
	s.requests = append(s.requests, one)
}

// watched remembers what was answered.
type watched struct {
	http.ResponseWriter
	status int
}

func (w *watched) WriteHeader(status int) {
	w.status = cmp.Or(w.status, status)
	w.ResponseWriter.WriteHeader(status)
}

func (w *watched) Write(b []byte) (int, error) {
	w.status = cmp.Or(w.status, http.StatusOK)
	return w.ResponseWriter.Write(b)
}

func (w *watched) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// lost is an answer that never arrives.
type lost struct{}

func (lost) Header() http.Header         { return http.Header{} }
func (lost) Write(b []byte) (int, error) { return len(b), nil }
func (lost) WriteHeader(int)             {}
