package gateway

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/parawork/parawork/billing/tokens"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/tenant"
)

// keepingTakes bounds how long it takes to store what was used, after who asked may have left.
const keepingTakes = 30 * time.Second

// Handler serves the gateway.
func (s *Service) Handler() http.Handler { return http.HandlerFunc(s.serve) }

// call is one request on its way.
type call struct {
	s       *Service
	w       http.ResponseWriter
	r       *http.Request
	began   time.Time
	route   route
	grant   Grant
	token   string
	account Account
	asked   asked
	body    []byte
	held    int64
	record  tokens.Request
	begun   chan error    // closed once it is stored that the request is under way; nil = it is not
	prompt  int64         // what may have gone in, tokens; written before begun is closed
	asking  time.Time     // when the provider was asked
	own     time.Duration // what the gateway itself took until the answer began
	stays   func() bool   // ends that the provider's answer ends with the agent
	onHold  bool          // something is held back of the team's budget
	counted int64         // what the budget counts for the question, nano-USD; once it is kept
	lost    bool          // what it cost could not be kept
}

func (s *Service) serve(w http.ResponseWriter, r *http.Request) {
	c := &call{s: s, w: w, r: r, began: time.Now()}
	if path := strings.TrimRight(r.URL.Path, "/"); r.Method == http.MethodHead || r.Method == http.MethodGet && (path == "" || path == "/anthropic" || path == "/openai") {
		w.WriteHeader(http.StatusOK) // Claude Code asks so whether anybody is there
		return
	}
	defer s.counts.begin()()
	var err error
	if c.route, err = routeOf(r); err != nil {
		c.refuse(err)
		return
	}
	if c.grant, c.token, err = s.grant(r); err != nil {
		c.refuse(err)
		return
	}
	c.serve()
}

// who is whose request it is, for what is counted by session: the server's own are their team's.
func (c *call) who() string { return cmp.Or(c.grant.SessionID, c.grant.TeamID) }

// serve answers a request whose route and grant are known.
func (c *call) serve() {
	leave, ok := c.s.capacity.enter(c.who())
	if !ok {
		c.refuse(fault.New(fault.RateLimited, "gateway_too_many_requests", "This session has %d requests under way, which is the most. Wait for some of them.", mostAtOnce))
		return
	}
	defer leave()
	defer c.release()
	defer c.settle()
	if err := c.prepare(); err != nil {
		c.refuse(err)
		return
	}
	c.send()
}

// prepare reads the request, and decides whether it goes on.
func (c *call) prepare() (err error) {
	if err := c.read(); err != nil {
		return err
	}
	at := c.s.cfg.Now().UnixMilli()
	g := c.grant
	c.record = tokens.Request{TeamID: g.TeamID, WorkspaceID: g.WorkspaceID, ProjectID: g.ProjectID, SessionID: g.SessionID, UserID: g.UserID, Agent: g.Agent,
		AccountID: g.AccountID, Source: tokens.FromGateway, ExternalID: id.New("gw"), API: string(c.route.api), Model: c.asked.model, Asked: c.asked.model, At: at}
	if c.route.model {
		if !modelOK(c.asked.model) {
			return fault.New(fault.Invalid, "gateway_bad_request", "The request must name a model.")
		}
		if c.asked.background {
			return fault.New(fault.Invalid, "gateway_background", "The model gateway takes no background responses: what they use could not be counted. Leave background out.")
		}
	}
	ctx := tenant.In(c.r.Context(), g.TeamID)
	if c.account, err = c.s.cfg.Account(ctx, g); err != nil {
		return err
	}
	c.record.Subscription = c.account.subscription() && c.route.dialect == anthropicDialect
	if c.route.api == other { // counting tokens and listing models cost nothing
		return nil
	}
	if err := c.s.rules.admit(ctx, g.TeamID, c.asked.model, c.asked.additional...); err != nil {
		return err
	}
	return c.hold(ctx) // last: who waits for a minute's bound holds back nothing
}

func modelOK(model string) bool {
	return model != "" && len(model) <= 200 && strings.IndexFunc(model, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
}

// read takes in the body.
func (c *call) read() error {
	if !c.route.model {
		return nil
	}
	if enc := c.r.Header.Get("Content-Encoding"); enc != "" && !strings.EqualFold(enc, "identity") {
		return fault.New(fault.Invalid, "gateway_bad_request", "The model gateway takes requests that are not compressed (Content-Encoding %.40q).", enc)
	}
	most := c.s.cfg.MaxBody
	tooLarge := fault.New(fault.TooLarge, "gateway_body_too_large", "The request is larger than %d MiB, which is the most the model gateway takes.", most>>20)
	n := c.r.ContentLength
	if n > most {
		return tooLarge
	}
	if n < 0 {
		n = most
	}
	if !c.s.capacity.hold(c.grant.TeamID, n) {
		return fault.New(fault.Unavailable, "gateway_busy", "The model gateway has as many large requests under way as it can hold. Try again.")
	}
	c.held = n
	rc := http.NewResponseController(c.w)
	_ = rc.SetReadDeadline(time.Now().Add(c.s.cfg.BodyTakes))
	body, err := io.ReadAll(http.MaxBytesReader(nil, c.r.Body, most))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return tooLarge
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fault.Wrap(err, fault.Timeout, "gateway_body_timeout", "The request did not come within %d s.", int(c.s.cfg.BodyTakes.Seconds()))
	}
	if err != nil {
		return fmt.Errorf("reading a request: %w", err)
	}
	_ = rc.SetReadDeadline(time.Time{})
	c.body = body
	if rest := n - int64(len(body)); rest > 0 {
		c.s.capacity.give(c.grant.TeamID, rest)
		c.held -= rest
	}
	if c.asked, err = look(body); err != nil {
		return fault.New(fault.Invalid, "gateway_bad_request", "The model gateway cannot read this request: %v.", err)
	}
	return nil
}

// release gives back the memory of the body, once it is no longer needed.
func (c *call) release() {
	if c.held > 0 {
		c.s.capacity.give(c.grant.TeamID, c.held)
	}
	c.held, c.body = 0, nil
}

// refuse answers in the words of the API.
func (c *call) refuse(err error) {
	if c.r.Context().Err() != nil && !errors.Is(err, os.ErrDeadlineExceeded) { // a request that does not come ends its context, too
		c.s.counts.ended(c.route.api, tokens.ErrClientGone)
		return
	}
	r := refuse(err)
	if r.outer == "" && r.code == "model_not_allowed" {
		r.outer = tokens.ErrModel
	}
	if r.code == "gateway_too_many_requests" {
		r.outer = ""
	}
	level := c.s.cfg.Log.Debug
	if r.status == http.StatusInternalServerError {
		level = c.s.cfg.Log.Error
	}
	level("a model was not asked", "session_id", c.grant.SessionID, "status", r.status, "code", r.code, "error", err)
	if r.outer != "" && c.route.api != other && c.s.refusalRows.again(c.who()+" "+r.outer+" "+c.asked.model, c.s.cfg.Now().UnixMilli()) {
		c.record.Error, c.record.Status, c.record.Tokens = r.outer, r.status, tokens.None()
		c.keep()
	}
	result := cmp.Or(r.outer, r.code)
	c.s.counts.ended(c.route.api, result)
	c.bound()
	r.write(c.w, c.route.dialect, c.route.api)
}

// bound says that what is written from here on must be read in time.
func (c *call) bound() {
	_ = http.NewResponseController(c.w).SetWriteDeadline(time.Now().Add(writeTakes))
}

// keep stores what came of the request. Who asked may have left by then.
func (c *call) keep() {
	if c.begun != nil {
		<-c.begun
	}
	ctx, cancel := context.WithTimeout(tenant.In(context.WithoutCancel(c.r.Context()), c.grant.TeamID), keepingTakes)
	defer cancel()
	c.record.DurationMs = time.Since(c.began).Milliseconds()
	var err error
	if c.counted, err = c.s.cfg.Meter.Settle(ctx, c.record); err != nil {
		c.lost = true
		c.s.cfg.Log.Error("request to a model not recorded", "session_id", c.grant.SessionID, "external_id", c.record.ExternalID, "error", err)
	}
}

// errFirstByte and errStall end requests whose provider says nothing, errLeft those nobody reads.
var (
	errFirstByte = errors.New("the answer did not begin in time")
	errStall     = errors.New("the answer stopped coming")
	errLeft      = errors.New("the agent has left")
)

// stallMost is how long an answer may send nothing. Providers send keep-alives far more often.
const stallMost = 15 * time.Minute

// send asks the provider and passes the answer on.
func (c *call) send() {
	target, err := c.account.upstream(c.route, c.r.URL.Query())
	if err != nil {
		c.refuse(err)
		return
	}
	if c.s.cfg.Check != nil {
		if err := c.s.cfg.Check(target.Scheme + "://" + target.Host); err != nil {
			c.refuse(err)
			return
		}
	}
	c.record.Upstream = target.Host
	body := c.body
	hide := c.route.api == chat && c.asked.stream && !c.asked.usage
	if hide {
		body = c.asked.withUsage(body)
	}
	header := onHeaders(c.r.Header, c.token)
	c.account.authorize(header, c.route.dialect)

	// Until the answer begins, an agent that leaves ends the question; after that, see pass.
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(c.r.Context()))
	defer cancel(nil)
	c.stays = context.AfterFunc(c.r.Context(), func() { cancel(context.Cause(c.r.Context())) })
	defer c.stays()
	timer := time.AfterFunc(c.s.cfg.FirstByte, func() { cancel(errFirstByte) })
	defer timer.Stop()

	defer c.renews()()
	if c.route.api != other {
		// While the provider thinks: storing takes as long as the disk does.
		c.begun = make(chan error, 1)
		begin, all := c.record, c.body
		go func() {
			c.prompt = guessPrompt(all)
			begin.Guess = tokens.Tokens{Input: new(c.prompt), Output: new(int64)}
			ctx, cancel := context.WithTimeout(tenant.In(context.WithoutCancel(c.r.Context()), c.grant.TeamID), keepingTakes)
			defer cancel()
			if err := c.s.cfg.Meter.Begin(ctx, begin); err != nil {
				c.s.cfg.Log.Error("request to a model not stored", "session_id", c.grant.SessionID, "error", err)
			}
			close(c.begun)
		}()
		defer func() { <-c.begun }()
	}
	c.asking = time.Now()
	c.own = c.asking.Sub(c.began)
	resp, err := c.ask(ctx, func(ctx context.Context) (*http.Request, error) {
		var reader io.Reader
		if c.route.model {
			reader = bytes.NewReader(body)
		}
		req, err := http.NewRequestWithContext(ctx, c.r.Method, target.String(), reader)
		if err == nil {
			req.Header = header.Clone()
		}
		return req, err
	})
	if err != nil {
		c.unanswered(ctx, err)
		return
	}
	defer resp.Body.Close()
	body = nil
	c.release() // nothing is sent again from here on
	c.pass(ctx, cancel, timer, resp, hide)
}

// ask sends the request, again where that is safe: where nobody took it, or who took it says that it did nothing, and nothing of an answer
// has been passed on.
func (c *call) ask(ctx context.Context, make func(context.Context) (*http.Request, error)) (*http.Response, error) {
	for n := 0; ; n++ {
		req, err := make(ctx)
		if err != nil {
			return nil, err
		}
		c.record.Attempts = n + 1
		resp, err := c.s.cfg.Client.Do(req)
		if n >= len(c.s.cfg.Backoff) || !safeAgain(resp, err) || ctx.Err() != nil {
			return resp, err
		}
		wait := c.s.cfg.Backoff[n]
		wait += time.Duration(rand.Int64N(int64(wait)/4 + 1))
		if resp != nil {
			if after, ok := retryAfter(resp.Header); ok {
				if after > mostRetryAfter {
					return resp, nil // the agent waits, and sees why
				}
				wait = max(wait, after)
			}
			_, _ = io.CopyN(io.Discard, resp.Body, 64<<10)
			resp.Body.Close()
		}
		c.s.counts.retried()
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, context.Cause(ctx)
		}
	}
}

// mostRetryAfter is the longest Retry-After of a provider that the gateway waits for; a longer one goes to the agent.
const mostRetryAfter = 2 * time.Second

// safeAgain reports whether a request may be sent again: the connection could not be made, or a gateway before the provider, or the
// provider itself, says that it is too busy to begin (502, 503, and Anthropic's 529).
func safeAgain(resp *http.Response, err error) bool {
	if err != nil {
		op, ok := errors.AsType[*net.OpError](err)
		return ok && op.Op == "dial" && !errors.Is(err, context.Canceled) && !refusedByRule(err)
	}
	switch resp.StatusCode {
	case http.StatusBadGateway, http.StatusServiceUnavailable, 529:
		return resp.Header.Get("X-Should-Retry") != "false"
	}
	return false
}

func retryAfter(h http.Header) (time.Duration, bool) {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms >= 0 {
		return time.Duration(ms * float64(time.Millisecond)), true
	}
	n, err := strconv.Atoi(h.Get("Retry-After"))
	return time.Duration(n) * time.Second, err == nil && n >= 0
}
