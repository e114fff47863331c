package server

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"

	"github.com/labstack/echo/v4"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/server/consent"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/tools/mcpserver"
	"github.com/parawork/parawork/tools/remote"
)

// mcpPath is where agents and programs elsewhere reach Parawork by the Model Context Protocol, with and without the API's base.
const mcpPath = "/mcp"

// Bounds of MCP.
const (
	maxMCP      = tools.MaxArguments + 64<<10 // bytes of one request
	callsAtOnce = 32                          // of one user
	maxLocal    = 8<<20 + 1                   // bytes of an answer of the API that a tool reads
)

// mcpCalls counts calls of tools under way. Safe for concurrent use.
type mcpCalls struct {
	mu     sync.Mutex
	byUser map[string]int
}

func (m *mcpCalls) enter(userID string) (leave func(), err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.byUser[userID] >= callsAtOnce {
		return nil, fault.New(fault.RateLimited, "rate_limited", "You have %d calls of tools under way, which is the limit. Wait until one has ended.", callsAtOnce)
	}
	m.byUser[userID]++
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.byUser[userID]--; m.byUser[userID] == 0 {
			delete(m.byUser, userID)
		}
	}, nil
}

// callMCP answers one request of an MCP client. The server keeps nothing between requests: each has a server of the SDK of its own, so
// that nothing of one caller can reach another, and any server of an instance answers any request.
func (s *Server) callMCP(c echo.Context) error {
	r := c.Request()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	introduced := clientOf(r)
	if name := introducedAs(body); name != "" {
		c.Response().Header().Set(mcpSession, newMCPSession(name))
	}
	call := rest.CallOf(r.Context())
	one := mcpserver.New(mcpserver.Config{Specs: remote.Specs(), Name: "parawork", Title: "Parawork", Version: s.cfg.Version, Instructions: remote.Instructions, Log: s.log,
		Call: func(ctx context.Context, client, name string, args json.RawMessage) (tools.Result, error) {
			leave, err := s.mcpCalls.enter(call.Actor.User.ID)
			if err != nil {
				return tools.Result{}, err
			}
			defer leave()
			if introduced != "" {
				client = introduced
			}
			at := remote.New(remote.Config{Doer: inProcess{s, r}, Server: s.Here(r), Client: client + byMCP, Now: s.cfg.Now})
			return at.Call(ctx, name, args)
		}})
	h := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return one }, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true,
		MaxRequestBodyBytes: maxMCP, PropagateRequestCancellation: true, Logger: slog.New(slog.DiscardHandler),
		DisableLocalhostProtection: true}) // checkHost knows publicUrl and proxies, and has looked
	h.ServeHTTP(c.Response(), r)
	return nil
}

// overMCP is around the guard of /mcp: a page's cookie counts for nothing there, nor does a page of another origin, and who shows no valid
// token learns how to get one.
func (s *Server) overMCP(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		r.Header.Del("Cookie")
		if origins := r.Header["Origin"]; len(origins) > 1 || len(origins) == 1 && !s.sameOrigin(r, origins[0]) {
			return fault.New(fault.Forbidden, "cross_origin", "Pages of another origin are not allowed to do this. Behind a proxy, set server.publicUrl to the address people use.")
		}
		err := next(c)
		if fault.Is(err, fault.Unauthorized) {
			c.Response().Header().Set("WWW-Authenticate", s.challenge(r, err))
		}
		return err
	}
}

// challenge says how to get a token for MCP: where what there is to know of it is read (RFC 9728).
func (s *Server) challenge(r *http.Request, err error) string {
	out := rest.Challenge
	if base, known := s.Issuer(r); known {
		out += fmt.Sprintf(", resource_metadata=%q", base+consent.MetadataPath+mcpPath)
		if fault.CodeOf(err) == "invalid_token" {
			out += `, error="invalid_token", error_description="The token is not valid: it was mistyped, has ended, or was revoked."`
		}
	}
	return out
}

// byMCP follows a client's name in the audit.
const byMCP = " (MCP)"

// mcpSession is the header of a session's id. Clients of the protocol before 2026-07-28 introduce themselves once and repeat the id with
// each request; so the id carries their name, and nothing else: it opens nothing.
const mcpSession = "Mcp-Session-Id"

func newMCPSession(client string) string {
	var unique [16]byte
	_, _ = rand.Read(unique[:]) // never fails
	return hex.EncodeToString(unique[:]) + "." + base64.RawURLEncoding.EncodeToString([]byte(client))
}

// clientOf is the name in a request's session id; "" where there is none.
func clientOf(r *http.Request) string {
	_, encoded, _ := strings.Cut(r.Header.Get(mcpSession), ".")
	name, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil || len(name) > 1024 {
		return ""
	}
	return remote.CleanClient(string(name))
}

// introducedAs is the name by which a client introduces itself in a request; "" where it does not.
func introducedAs(body []byte) string {
	var m struct {
		Method string
		Params struct {
			ClientInfo struct{ Name, Version string }
		}
	}
	if json.Unmarshal(body, &m) != nil || m.Method != "initialize" {
		return ""
	}
	return remote.CleanClient(m.Params.ClientInfo.Name + " " + m.Params.ClientInfo.Version)
}

// inProcess carries requests of tools to the server's own handler, with what says who asks and from where of the request they are part of: so
// they meet the same guard as if they had come by the network.
type inProcess struct {
	s    *Server
	from *http.Request
}

// Do implements remote.Doer.
func (l inProcess) Do(req *http.Request) (*http.Response, error) {
	w := &answerWriter{header: http.Header{}, most: maxLocal}
	if err := l.serve(w, req); err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: w.status, Header: w.header, Body: io.NopCloser(&w.body), Request: req}, nil
}

// serve has a request answered into w, and ends its context where w takes no more.
func (l inProcess) serve(w *answerWriter, req *http.Request) (err error) {
	ctx, cancel := context.WithCancelCause(l.s.life)
	defer cancel(nil)
	for _, outer := range []context.Context{req.Context(), l.from.Context()} {
		defer context.AfterFunc(outer, func() { cancel(context.Cause(outer)) })()
	}
	r := req.Clone(ctx)
	r.RequestURI, r.RemoteAddr, r.Host, r.TLS = r.URL.RequestURI(), l.from.RemoteAddr, l.from.Host, l.from.TLS
	if r.Body == nil {
		r.Body = http.NoBody
	}
	for _, name := range []string{"Authorization", "X-Forwarded-For", "X-Forwarded-Proto"} {
		if v := l.from.Header.Values(name); len(v) > 0 {
			r.Header[name] = v
		}
	}
	w.refused = cancel
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the request was broken off: %v", p)
		}
	}()
	l.s.echo.ServeHTTP(w, r)
	if w.status == 0 {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		w.status = http.StatusOK
	}
	return nil
}

// answerWriter holds the answer of a handler.
type answerWriter struct {
	header  http.Header
	status  int
	body    bytes.Buffer
	most    int         // bytes it takes: one more than the caller does, so that it notices
	json    bool        // it takes JSON alone
	refused func(error) // is called with why it takes no more
	err     error
}

var (
	errAnswerTooLong = errors.New("the answer is too long")
	errNoJSON        = errors.New("the answer is no JSON")
)

// Header implements http.ResponseWriter.
func (w *answerWriter) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *answerWriter) WriteHeader(status int) {
	if w.status != 0 {
		return
	}
	w.status = status
	if w.json && !strings.Contains(w.header.Get("Content-Type"), "json") { // not that of a stream, which may go on for long
		w.refuse(errNoJSON)
	}
}

func (w *answerWriter) refuse(why error) {
	w.err = why
	w.refused(why)
}

// Write implements http.ResponseWriter.
func (w *answerWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.err != nil {
		return 0, w.err
	}
	if room := w.most - w.body.Len(); len(p) > room {
		n, _ := w.body.Write(p[:room]) // a buffer takes everything
		w.refuse(errAnswerTooLong)
		return n, errAnswerTooLong
	}
	return w.body.Write(p)
}
