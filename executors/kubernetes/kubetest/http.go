package kubetest

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxBody is how much a request may say, as at the real one's etcd.
const maxBody = 3 << 20

// Request is one that the API server was sent.
type Request struct {
	At     time.Time
	Method string
	Path   string
	Query  string
	Body   string
	Agent  string
	Status int // 0 = it was cut before it was answered
}

// call is one request.
type call struct {
	*http.Request
	w     http.ResponseWriter
	body  []byte
	res   *resource
	ns    string
	name  string
	sub   string
	fault *Fault
}

// verb is what the request does, as authorization names it.
func (c *call) verb() string {
	q := c.URL.Query()
	watch := q.Get("watch") == "true" || q.Get("watch") == "1"
	switch {
	case c.Method == http.MethodPost || c.sub == "exec":
		return "create"
	case c.Method == http.MethodPut:
		return "update"
	case c.Method == http.MethodPatch:
		return "patch"
	case c.Method == http.MethodDelete && c.name == "":
		return "deletecollection"
	case c.Method == http.MethodDelete:
		return "delete"
	case c.name != "":
		return "get"
	case watch:
		return "watch"
	}
	return "list"
}

func (c *call) answer(code int, v any) error {
	c.w.Header().Set("Content-Type", "application/json")
	c.w.WriteHeader(code)
	return json.NewEncoder(c.w).Encode(v)
}

func (s *Server) handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
		seen := &watched{ResponseWriter: w}
		w.Header().Set("Date", time.Now().Add(s.cfg.Skew).UTC().Format(http.TimeFormat))
		c := &call{Request: r, w: seen, body: body}
		defer func() { s.record(c, seen.status) }()
		if err != nil {
			return
		}
		if err = s.struck(c); err == nil {
			if c.fault != nil && c.fault.Lose {
				c.w = lost{http.Header{}}
			}
			err = s.route(c)
		}
		if c.fault != nil && c.fault.Lose {
			seen.status = 0
			panic(http.ErrAbortHandler)
		}
		s.sayError(seen, err)
	})
}

// sayError answers what went wrong, unless something was answered.
func (s *Server) sayError(w *watched, err error) {
	if err == nil || w.status != 0 {
		return
	}
	st, ok := errors.AsType[*Status](err)
	if !ok {
		st = refuse(http.StatusInternalServerError, "Internal error occurred: %v", err)
	}
	if st.Retry > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(st.Retry))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(st.Code)
	_ = json.NewEncoder(w).Encode(st.object())
}

// route finds what a request is for, and whether its sender may.
func (s *Server) route(c *call) error {
	switch c.URL.Path { // nobody is asked who they are
	case "/readyz", "/livez", "/healthz":
		c.w.WriteHeader(http.StatusOK)
		_, err := io.WriteString(c.w, "ok")
		return err
	case "/version":
		v := cmp.Or(s.cfg.Version, "1.37")
		major, minor, _ := strings.Cut(v, ".")
		return c.answer(http.StatusOK, object{"major": major, "minor": minor, "gitVersion": "v" + v + ".0", "platform": "linux/amd64"})
	}
	if t, ok := strings.CutPrefix(c.Header.Get("Authorization"), "Bearer "); !ok || t != s.Token() {
		return refuse(http.StatusUnauthorized, "Unauthorized")
	}
	if len(c.body) > maxBody {
		st := refuse(http.StatusRequestEntityTooLarge, "limit is %d", maxBody)
		st.Reason = "RequestEntityTooLarge"
		return st
	}
	parts := strings.Split(strings.Trim(c.URL.Path, "/"), "/")
	var group, version string
	switch {
	case len(parts) == 1 && parts[0] == "api":
		return c.answer(http.StatusOK, object{"kind": "APIVersions", "versions": []string{"v1"}, "serverAddressByClientCIDRs": []any{}})
	case len(parts) == 1 && parts[0] == "apis":
		return c.answer(http.StatusOK, object{"kind": "APIGroupList", "apiVersion": "v1", "groups": groups()})
	case len(parts) >= 2 && parts[0] == "api":
		version, parts = parts[1], parts[2:]
	case len(parts) >= 3 && parts[0] == "apis":
		group, version, parts = parts[1], parts[2], parts[3:]
	default:
		return notFound()
	}
	if len(parts) == 0 {
		if d := discovery(group, version); d != nil {
			return c.answer(http.StatusOK, d)
		}
		return notFound()
	}
	if group == "authorization.k8s.io" && version == "v1" && len(parts) == 1 && parts[0] == "selfsubjectaccessreviews" {
		return s.review(c)
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		c.ns, parts = parts[1], parts[2:]
	}
	c.res = find(group, version, parts[0])
	if c.res == nil && discovery(group, version) == nil { // no API server is behind it, which would answer a Status
		http.NotFound(c.w, c.Request)
		return nil
	}
	if c.res == nil || len(parts) > 3 || c.ns != "" && !c.res.namespaced {
		return notFound()
	}
	if len(parts) > 1 {
		c.name = parts[1]
	}
	if len(parts) > 2 {
		c.sub = parts[2]
	}
	if err := s.allowed(c); err != nil {
		return err
	}
	if !slices.Contains([]string{"", "exec", "log", "eviction", "status"}, c.sub) || c.sub != "" && c.res.plural != "pods" && c.sub != "status" {
		return notFound()
	}
	switch c.sub {
	case "exec":
		return s.exec(c)
	case "log":
		return s.podLog(c)
	case "eviction":
		return s.evict(c)
	}
	verb := c.verb()
	if c.res.verbs != nil && !slices.Contains(c.res.verbs, verb) || c.res.namespaced && c.ns == "" && !slices.Contains(readOnly, verb) || c.sub == "status" && verb != "get" {
		st := refuse(http.StatusMethodNotAllowed, "the server does not allow this method on the requested resource")
		st.Reason = "MethodNotAllowed"
		return st
	}
	switch verb {
	case "create":
		return s.create(c)
	case "update", "patch":
		return s.update(c)
	case "delete":
		return s.delete(c)
	case "deletecollection":
		return s.deleteAll(c)
	case "get":
		return s.get(c)
	case "watch":
		return s.watch(c)
	}
	return s.list(c)
}

func notFound() *Status {
	return refuse(http.StatusNotFound, "the server could not find the requested resource")
}

// allowed refuses what Forbid forbids.
func (s *Server) allowed(c *call) error {
	what := c.res.plural
	if c.sub != "" {
		what += "/" + c.sub
	}
	s.mu.Lock()
	no := s.forbidden[c.verb()+" "+what] || s.forbidden["* "+what]
	s.mu.Unlock()
	if !no {
		return nil
	}
	name := c.res.full()
	if c.name != "" {
		name += ` "` + c.name + `"`
	}
	where := "at the cluster scope"
	if c.ns != "" {
		where = `in the namespace "` + c.ns + `"`
	}
	st := refuse(http.StatusForbidden, "%s is forbidden: User %q cannot %s resource %q in API group %q %s", name, s.cfg.User, c.verb(), what, c.res.group, where)
	st.Details = c.res.details(c.name)
	return st
}

// review answers whether its sender may do something.
func (s *Server) review(c *call) error {
	var in accessReview
	if err := c.decode("SelfSubjectAccessReview", "authorization.k8s.io/v1", &in); err != nil {
		return err
	}
	a := in.Spec.ResourceAttributes
	if a == nil {
		return c.answer(http.StatusCreated, object{"kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "status": object{"allowed": true}})
	}
	what := a.Resource
	if a.Subresource != "" {
		what += "/" + a.Subresource
	}
	s.mu.Lock()
	no := s.forbidden[a.Verb+" "+what] || s.forbidden["* "+what]
	s.mu.Unlock()
	return c.answer(http.StatusCreated, object{"kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "metadata": object{},
		"spec": in.Spec, "status": object{"allowed": !no}})
}

// decode reads the body as what it must be.
func (c *call) decode(kind, apiVersion string, v any) error {
	media, _, _ := mime.ParseMediaType(c.Header.Get("Content-Type"))
	if media != "" && media != "application/json" && c.Method != http.MethodPatch {
		st := refuse(http.StatusUnsupportedMediaType, "the body of the request was in an unknown format - accepted media types include: application/json")
		st.Reason = "UnsupportedMediaType"
		return st
	}
	var o object
	if err := json.Unmarshal(c.body, &o); err != nil {
		return refuse(http.StatusBadRequest, "couldn't get version/kind; json parse error: %v", err)
	}
	return decodeStrictly(o, kind, apiVersion, v)
}

// record keeps a request for those who look at them.
func (s *Server) record(c *call, status int) {
	one := Request{At: time.Now(), Method: c.Method, Path: c.URL.Path, Query: c.URL.RawQuery, Body: string(c.body[:min(len(c.body), 64<<10)]),
		Agent: c.UserAgent(), Status: status}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.requests) >= 20_000 {
		s.requests = append(s.requests[:0:0], s.requests[10_000:]...)
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

// Hijack lets a stream take over the connection.
func (w *watched) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return http.NewResponseController(w.ResponseWriter).Hijack()
}

func (w *watched) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// lost is an answer that never arrives.
type lost struct{ h http.Header }

func (l lost) Header() http.Header       { return l.h }
func (lost) Write(b []byte) (int, error) { return len(b), nil }
func (lost) WriteHeader(int)             {}
