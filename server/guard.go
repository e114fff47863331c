package server

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
)

// guard lets a request in to an operation, or answers why not: is the server open, who asks, does the page that asks belong
// here, may they, has it happened before. It runs before a byte of the body is read.
func (s *Server) guard(op string) echo.MiddlewareFunc {
	r, known := policy[op]
	r.body = cmp.Or(r.body, maxJSON)
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) (err error) {
			if !known {
				return fault.New(fault.Internal, "internal", "This operation has no rule.")
			}
			call := rest.CallOf(c.Request().Context())
			call.Writer = c.Response()
			if word := auditWord(op, c.Request().Method); word != "" {
				ctx, rec := audit.Begin(c.Request().Context())
				c.SetRequest(c.Request().WithContext(ctx))
				call.Request = c.Request()
				defer func() {
					if p := recover(); p != nil {
						s.record(c, call, rec, op, word, broken(p))
						panic(p)
					}
					s.record(c, call, rec, op, word, err)
				}()
			}
			ctx := c.Request().Context()
			if err := s.enter(ctx, c, op, r, call); err != nil {
				return err
			}
			call.Op = op
			ctx = audit.By(scoped(ctx, r, call), s.sourceOf(call))
			if id := call.Actor.User.ID; id != "" {
				ctx = executors.By(ctx, id)
			}
			c.SetRequest(c.Request().WithContext(ctx))
			if err := s.masked(ctx, c, r, call); err != nil {
				return err
			}
			limitBody(c, r.body)
			call.Request = c.Request()
			if key := c.Request().Header.Get("Idempotency-Key"); key != "" && r.repeat {
				return s.once(c, call, key, next)
			}
			return next(c)
		}
	}
}

// scoped returns the context of an admitted call. It limits which rows the call can touch: those of its team; for calls about the actor,
// those of all the actor's teams; for operators' calls, those of every team. The call of somebody who is not signed in touches none until
// the service that checks their secret knows its team.
func scoped(ctx context.Context, r rule, call *rest.Call) context.Context {
	switch {
	case r.access == member:
		return tenant.In(ctx, call.Object.TeamID)
	case r.access == operators, r.access == scrapers:
		return tenant.All(ctx, "an operator's call")
	}
	return tenant.In(ctx, call.Actor.TeamIDs()...)
}

func (s *Server) enter(ctx context.Context, c echo.Context, op string, r rule, call *rest.Call) error {
	req := c.Request()
	if r.demo && s.cfg.Demo == nil {
		return rest.ErrNotFound
	}
	if !untilOpen[op] {
		if err := s.ready(); err != nil && !s.mayLook(op, c.Request().Method, r) {
			return err
		}
	}
	var cred rest.Credential
	var err error
	if !r.ownProof {
		if cred, err = s.credentialOf(req); err != nil {
			return err
		}
	}
	if r.ownProof && r.socket {
		if kept := s.watchTokens(req); len(kept) > 0 {
			cred.Cookie = kept[0] // sent by the browser of itself: no socket for a foreign page, nor without an Origin
		}
	}
	call.Cred = cred
	switch {
	case r.socket:
		err = s.checkSocket(req, cred)
	case r.anyOrigin:
	default:
		err = s.checkCrossOrigin(req, cred)
	}
	if err != nil {
		return err
	}
	if r.access != anyone && !(r.access == scrapers && s.scrapesLocally(req)) {
		if call.Actor, err = rest.Authenticate(ctx, s.cfg.SignIn, cred); err != nil {
			return err
		}
	}
	if s.phase.Load() == phaseLooking && !untilOpen[op] && !signIn[op] && !call.Actor.User.Operator {
		return s.ready()
	}
	if req.ContentLength > r.body {
		return rest.ErrTooLarge(nil)
	}
	ctx = tenant.In(ctx, call.Actor.TeamIDs()...) // what the path names is looked for among these alone
	return s.admit(ctx, c, r, call)
}

// untilOpen are the operations that are answered also while the server starts or stops: they ask no room behind the door.
var untilOpen = map[string]bool{"getHealth": true, "getSpec": true, "getDocs": true, "listRunnerDownloads": true, "getRunnerDownload": true}

// sealed is the second lock: an operation that no guard has let in does not run. It guards against a route that was registered
// without one.
func sealed(next api.StrictHandlerFunc, _ string) api.StrictHandlerFunc {
	return func(c echo.Context, request any) (any, error) {
		if rest.CallOf(c.Request().Context()).Op == "" {
			return nil, fault.New(fault.Internal, "internal", "This operation has no rule.")
		}
		return next(c, request)
	}
}

// bodyPatience is how long a client may send nothing while its body is read.
const bodyPatience = 60 * time.Second

// limitBody bounds a request's body in bytes, and each wait for more of it in time.
func limitBody(c echo.Context, most int64) {
	r := c.Request()
	if r.Body == nil || r.Body == http.NoBody {
		return
	}
	rc := http.NewResponseController(c.Response())
	r.Body = &patient{ReadCloser: http.MaxBytesReader(c.Response(), r.Body, most), deadline: rc.SetReadDeadline}
}

// patient reads a body with a deadline for each piece of it.
type patient struct {
	io.ReadCloser
	deadline func(time.Time) error
	err      error
}

func (p *patient) Read(b []byte) (int, error) {
	if p.err != nil {
		return 0, p.err
	}
	_ = p.deadline(time.Now().Add(bodyPatience)) // not every transport has deadlines
	n, err := p.ReadCloser.Read(b)
	// Taken back at once: it would else strike the wait for the client to leave, and end the request.
	_ = p.deadline(time.Time{})
	if err != nil && !errors.Is(err, io.EOF) {
		var timeout interface{ Timeout() bool }
		if errors.As(err, &timeout) && timeout.Timeout() {
			err = fault.Wrap(err, fault.Timeout, "body_timeout", "The request's body did not arrive in time. Send it again.")
		}
		p.err = err
	}
	return n, err
}
